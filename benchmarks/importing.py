"""Table 6: what importing costs."""

from __future__ import annotations

import compileall
import json
import resource
import shutil
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import friendli_stream
from benchmarks.measure import Cell, Table, Values

FLOOR = "import attrs, orjson"
OURS = "import friendli_stream"


def installed(folder: str) -> None:
    """The package copied, and compiled, as an installer leaves it."""
    source = Path(friendli_stream.__file__).parent
    shutil.copytree(source, Path(folder, "friendli_stream"), ignore=shutil.ignore_patterns("__pycache__"))
    compileall.compile_dir(folder, quiet=1)


def run(folder: str, statement: str) -> str:
    code = f"import sys; sys.path.insert(0, {folder!r}); {statement}"
    return subprocess.run([sys.executable, "-I", "-c", code], check=True, capture_output=True, text=True).stdout


def cpu(folder: str, statement: str) -> float:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    run(folder, statement)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def importing() -> Table:
    more: list[str] = []

    def ratio() -> Values:
        with TemporaryDirectory() as folder:
            installed(folder)
            return [cpu(folder, OURS) / cpu(folder, FLOOR) for _ in range(21)]

    with TemporaryDirectory() as folder:
        installed(folder)
        then = "; import json; print(json.dumps(sorted(sys.modules)))"
        floor = json.loads(run(folder, FLOOR + then))
        more = [name for name in json.loads(run(folder, OURS + then)) if name not in floor]
    own = [name for name in more if name.startswith("friendli_stream")]
    other = sorted({name.partition(".")[0] for name in more} - {"friendli_stream"})
    note = (
        f"Times `{FLOOR}`: whole processes, interpreter start included, bytecode compiled.\n"
        f"It loads {len(own)} modules of its own, and of others: {', '.join(other) or 'none'}."
    )
    return Table("6. Import", note, {OURS: {"": Cell(ratio, 1.5)}})
