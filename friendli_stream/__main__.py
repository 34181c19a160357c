"""`python -m friendli_stream`: the command without its name on the path."""

import sys

from friendli_stream.cli import main

sys.exit(main())
