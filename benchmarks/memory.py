"""Table 5: memory, each figure from a process of its own: `python -m benchmarks.memory CASE COUNT`."""

from __future__ import annotations

import gc
import re
import resource
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Any

import orjson

from benchmarks.measure import Cell, Table, Values
from benchmarks.streams import KINDS
from friendli_stream import messages

MIB = 1024 * 1024
KIB = 1024


def peak() -> int:
    """The most bytes that this process has had resident."""
    status = Path("/proc/self/status")
    if status.exists():  # what getrusage says is not less than the parent had
        return int(re.search(r"VmHWM:\s*(\d+)", status.read_text())[1]) * KIB  # type: ignore[index]
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return most if sys.platform == "darwin" else most * KIB


def text(megabytes: int) -> Values:
    """Peaks, as parts of the text, of folding it in 4-character deltas, and of reading it; two old states are kept."""
    head = KINDS["Messages text"].tell(6)[:2]
    delta = b'{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"word"}}'
    state, step, loads = messages.State(), messages.step, orjson.loads
    for event in head:
        state = step(state, loads(event))
    before = peak()
    count = megabytes * MIB // 4
    kept: list[Any] = []
    for at in range(count):
        state = step(state, loads(delta))
        if at in (count // 3, 2 * count // 3):
            kept.append(state)
    folded = peak()
    length = len(state.snapshot.text)  # type: ignore[union-attr]
    read = peak()
    assert [len(old.snapshot.text) for old in kept] == [4 * (count // 3 + 1), 4 * (2 * count // 3 + 1)]
    return [(folded - before) / length, (read - before) / length, (peak() - before) / length]


def streams(count: int) -> Values:
    """KiB of each of so many streams of both formats beyond its text, all open at once, each at another event."""
    kinds = [KINDS[name] for name in ("Messages text", "chat text")]
    told = [kind.tell(200)[:-3] for kind in kinds]
    before = peak()
    states: list[Any] = [kinds[i & 1].format.State() for i in range(count)]
    for turn in range(200):
        for i, state in enumerate(states):
            at = turn - (i >> 1) % 64  # fragments are joined every so many events: else all would be at that event
            if 0 <= at < len(told[i & 1]):
                states[i] = kinds[i & 1].format.step(state, orjson.loads(told[i & 1][at]))
    used = peak() - before
    return [(used - sum(len(state.snapshot.text) for state in states)) / count / KIB]


def states(count: int) -> Values:
    """Bytes of each state where all states of a stream are kept, in both formats; then beyond the fragment of text."""
    used, beyond, both = [], [], []
    for name in ("Messages text", "chat text"):
        kind = KINDS[name]
        events = kind.tell(1_000)[:-3]
        gc.collect()
        before = peak()
        kept = [kind.format.State()]
        both.append(kept)  # else the second would take the room of the first
        for at in range(count):
            kept.append(kind.format.step(kept[-1], orjson.loads(events[at if at < 3 else at % 900 + 3])))
        used.append((peak() - before) / count)
        told = kept[-1].snapshot.text
        fragment = sys.getsizeof(told[: len(told) // count])
        beyond.append(used[-1] - (fragment + 15) // 16 * 16)  # as the allocator rounds
    return used + beyond


def measured(case: str, count: int) -> Values:
    command = [sys.executable, "-m", "benchmarks.memory", case, str(count)]
    return [
        float(value) for value in subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()
    ]


def memory(*, full: bool) -> Table:
    megabytes, many, length = (64, 10_000, 100_000) if full else (16, 2_000, 20_000)
    once: dict[str, Values] = {}

    def peaks(at: int) -> Values:
        if at == 0 or "text" not in once:
            once["text"] = measured("text", megabytes)
        return [once["text"][at]]

    def kept() -> Values:
        return measured("states", length)

    title = f"{megabytes} MiB of text in 4-character deltas"
    exact = partial(Cell, margin=1.05)
    table = Table("5. Memory", "What is resident, beside what was before.")
    for row, cell in {
        f"{title}: folded, / text": exact(lambda: peaks(0), 1.2, 2.0),
        f"{title}: read too": exact(lambda: peaks(1), 2.1),
        f"{title}: two old states read too": Cell(lambda: peaks(2)),
        f"{many:,} open streams, each beyond its text": exact(lambda: measured("streams", many), 8.0, unit=" KiB"),
        f"{length:,} states of a stream, each": Cell(lambda: kept()[:2], unit=" B"),
        f"{length:,} states of a stream, each beyond its fragment of text": exact(lambda: kept()[2:], 250.0, unit=" B"),
    }.items():
        table.rows[row] = {"": cell}
    return table


if __name__ == "__main__":
    print(*{"text": text, "streams": streams, "states": states}[sys.argv[1]](int(sys.argv[2])))
