"""Tables 5 and 6: memory, and what importing costs."""

from __future__ import annotations

import compileall
import gc
import json
import resource
import shutil
import subprocess
import sys
import tracemalloc
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import orjson

import friendli_stream
from benchmarks.measure import Cell, Table, Values
from benchmarks.streams import KINDS
from friendli_stream import messages

MIB = 1024 * 1024


def peak_of_text(megabytes: int) -> Values:
    """Peak of folding text in 4-character deltas and reading it, as a part of what it may be; old states kept."""
    start, block, delta, *_ = KINDS["Messages text"].tell(6)
    delta = orjson.dumps({"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "word"}})
    state = messages.State()
    for event in (start, block):
        state = messages.step(state, orjson.loads(event))
    gc.collect()
    tracemalloc.start()
    count = megabytes * MIB // 4
    kept = []
    for at in range(count):
        state = messages.step(state, orjson.loads(delta))
        if at in (count // 3, 2 * count // 3):
            kept.append(state)
    snapshot = state.snapshot
    length = len(snapshot.text) if snapshot is not None else 0
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return [peak / length]


def per_stream() -> Values:
    """KiB of each of 400 open streams beyond its text."""
    kinds = [KINDS[name] for name in ("Messages text", "chat text")]
    told = [kind.tell(150)[:-3] for kind in kinds]
    gc.collect()
    tracemalloc.start()
    count = 400
    states = []
    for number in range(count):
        form, events = kinds[number & 1].format, told[number & 1]
        state = form.State()
        for event in events:
            state = form.step(state, orjson.loads(event))
        states.append(state)
    used = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    length = sum(len(state.snapshot.text) for state in states)
    return [(used - length) / count / 1024]


def per_state() -> Values:
    """Bytes of each state where all states of a stream are kept, its fragment of text included."""
    events = KINDS["Messages text"].tell(20_000)[:-3]
    gc.collect()
    tracemalloc.start()
    states = [messages.State()]
    for event in events:
        states.append(messages.step(states[-1], orjson.loads(event)))
    used = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    return [used / len(states)]


def memory(*, full: bool) -> Table:
    size = 4 if full else 1
    rows = {
        f"{size} MiB of text in 4-character deltas, read: peak / text": {"": Cell(lambda: peak_of_text(size), 2.5)},
        "an open stream beyond its text": {"": Cell(per_stream, 8.0, unit="KiB")},
        "each state with its fragment, where all are kept": {"": Cell(per_state, 320.0, 250.0, unit="B")},
    }
    return Table("5. Memory", "What Python allocates, by tracemalloc.", rows)


# ------------------------------------------------------------------------------------------------ import


def importing() -> Table:
    """Whole processes, the package copied and compiled as an installer leaves it."""
    source = Path(friendli_stream.__file__).parent

    def cpu(folder: str, statement: str) -> float:
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        run_in(folder, statement)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime

    def run_in(folder: str, statement: str, then: str = "") -> Any:
        code = f"import sys; sys.path.insert(0, {folder!r}); {statement}; {then}"
        return subprocess.run([sys.executable, "-I", "-c", code], check=True, capture_output=True, text=True)

    def installed(folder: str) -> None:
        ignored = shutil.ignore_patterns("__pycache__")
        shutil.copytree(source, Path(folder, "friendli_stream"), ignore=ignored)
        compileall.compile_dir(folder, quiet=1)

    def ratio() -> Values:
        values = []
        with TemporaryDirectory() as folder:
            installed(folder)
            for _ in range(15):
                floor = cpu(folder, "import attrs, orjson")
                values.append(cpu(folder, "import friendli_stream") / floor)
        return values

    def modules() -> Values:
        with TemporaryDirectory() as folder:
            installed(folder)
            then = "import json; print(json.dumps(sorted(sys.modules)))"
            floor = set(json.loads(run_in(folder, "import attrs, orjson", then).stdout))
            ours = set(json.loads(run_in(folder, "import friendli_stream", then).stdout))
        more = ours - floor
        extra = sorted({name.partition(".")[0] for name in more} - {"friendli_stream"})
        pulled.clear()
        pulled.extend(extra)
        return [float(len(more))]

    pulled: list[str] = []
    cells = {"time": Cell(ratio, 2.2, 1.5), "modules more": Cell(modules, unit="")}
    table = Table("6. Import", "", {"import friendli_stream / import attrs, orjson": cells})
    modules()
    table.note = f"Whole processes, interpreter start included. It pulls in besides: {', '.join(pulled) or '-'}."
    return table
