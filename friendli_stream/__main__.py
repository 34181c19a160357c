"""`python -m friendli_stream`: the command without its name on the path."""

import sys

from friendli_stream.cli import main

if __name__ == "__main__":
    sys.exit(main())
