"""Table 3: reading a JSON text that is still arriving, after every fragment."""

from __future__ import annotations

import json
from math import log10
from time import process_time
from typing import Any

import orjson

from benchmarks.measure import Cell, Table, Values, Work, module, paired, parts, repeated, seconds
from benchmarks.streams import long_string
from friendli_stream import PartialJSON

SIZES = {"200 B": 200, "2 KB": 2_000, "20 KB": 20_000, "200 KB": 200_000}
# At least so many times as fast as jiter: what is wanted, and what holds now (the strings, the others).
JITER = {200: 0.15, 2_000: 0.7, 20_000: 4.0, 200_000: 50.0}
JITER_NOW = {200: (0.15, 0.15), 2_000: (0.28, 0.6), 20_000: (1.2, 4.0), 200_000: (12.0, 50.0)}
FLOOR, FLOOR_NOW = 18.0, 42.0
AT_END, AT_END_NOW = 2.3, (6.5, 4.0)
SAMPLES = 60  # of the reparses of a peer; all of them would take minutes


def records(size: int) -> str:
    record = {f"field_{number}": f"value {number}" if number % 2 else number * 1.5 for number in range(20)}
    return json.dumps([record] * max(1, round(size / (len(json.dumps(record)) + 2))))


def nested(size: int) -> str:
    leaf: Any = {"name": "a leaf", "tags": ["x", "y"], "at": [1, 2.5, None, True]}
    depth = [leaf]
    for _ in range(2):
        depth = [{"inside": depth[0], "more": [leaf]}]
    count = max(1, round(size / (len(json.dumps(depth[0])) + 2)))
    return json.dumps({"all": [depth[0]] * count})


def escaped(size: int) -> str:
    return long_string(size, 'print("one line")\n    # "of" a file\n')


DOCUMENTS = {"a string": long_string, "a escaped": escaped, "b records": records, "c nested": nested}


def read(pieces: list[str]) -> Work:
    def work() -> None:
        text = PartialJSON()
        for piece in pieces:
            text.feed(piece)
            text.value  # noqa: B018  it scans

    return work


def told(pieces: list[str]) -> Work:
    def work() -> None:
        text = PartialJSON()
        for piece in pieces:
            text.feed(piece)
            text.changes()

    return work


def at_end(pieces: list[str]) -> Work:
    def work() -> None:
        text = PartialJSON()
        for piece in pieces:
            text.feed(piece)
        text.finish()

    return work


def floor(pieces: list[str]) -> Work:
    whole = "".join(pieces).encode()

    def empty(_: str) -> None:
        pass

    def work() -> None:
        for piece in pieces:
            empty(piece)
        orjson.loads(whole)

    return work


def joined(pieces: list[str]) -> Work:
    def work() -> None:
        held = []
        for piece in pieces:
            held.append(piece)  # noqa: PERF402  as they arrive
        orjson.loads("".join(held))

    return work


def jiter_time(jiter: Any, pieces: list[str]) -> float:
    """Seconds of a parse of all so far at each fragment, scaled up from SAMPLES of them."""
    whole = "".join(pieces).encode()
    size = len(pieces[0])
    count = len(pieces)
    chosen = range(1, count + 1) if count <= SAMPLES else [round((i + 0.5) * count / SAMPLES) for i in range(SAMPLES)]
    start = process_time()
    for at in chosen:
        jiter.from_json(whole[: at * size], partial_mode="trailing-strings")
    return (process_time() - start) * count / len(chosen)


def against_jiter(jiter: Any, pieces: list[str]) -> Cell:
    times = max(1, 1_000 // len(pieces))
    work = repeated(read(pieces), times)

    def run() -> Values:
        values = []
        for _ in range(3):
            other = sum(jiter_time(jiter, pieces) for _ in range(times))
            values.append(other / seconds(work))
        return values

    return Cell(run, sampled=len(pieces) > SAMPLES)


def scanner() -> list[Table]:
    jiter = module("jiter")
    faster: dict[str, dict[str, Cell]] = {}
    floors: dict[str, dict[str, Cell]] = {}
    for label, size in SIZES.items():
        for width in (4, 12, 64):
            name = f"{label}, fragments of {width}"
            faster[name], floors[name] = {}, {}
            for document, make in DOCUMENTS.items():
                pieces = list(parts(make(size), width))
                cell = against_jiter(jiter, pieces) if jiter is not None else Cell(None)
                cell.least = True
                if jiter is not None:
                    cell.budget, cell.wanted = JITER_NOW[size][document[0] != "a"], JITER[size]
                faster[name][document] = cell
                times = max(1, 2_000 // len(pieces))
                run = paired(repeated(read(pieces), times), repeated(floor(pieces), times), rounds=5)
                floors[name][document] = Cell(run, FLOOR_NOW, FLOOR)
    other: dict[str, dict[str, Cell]] = {
        "exponent 20 KB→200 KB": {},
        "read at the end / (join + orjson), 2 KB": {},
        "read at the end / (join + orjson), 200 KB": {},
        "changes / value, 20 KB": {},
    }
    for document, make in DOCUMENTS.items():
        less, more = (list(parts(make(size), 12)) for size in (20_000, 200_000))
        small = list(parts(make(2_000), 12))
        growth = paired(read(more), repeated(read(less), 10), rounds=5, scale=10 * len(less) * 10 / len(more))
        other["exponent 20 KB→200 KB"][document] = Cell(exponent(growth), 1.15, unit="")
        for label, pieces in (("2 KB", small), ("200 KB", more)):
            times = max(1, 5_000 // len(pieces))
            run = paired(repeated(at_end(pieces), times), repeated(joined(pieces), times))
            other[f"read at the end / (join + orjson), {label}"][document] = Cell(
                run, AT_END_NOW[document[0] != "a"], AT_END
            )
        run = paired(repeated(told(less), 5), repeated(read(less), 5))
        other["changes / value, 20 KB"][document] = Cell(run, 1.5)
    huge, usual = (list(parts(long_string(size), 64)) for size in (20_000_000, 200_000))
    run = paired(read(huge), repeated(read(usual), 100), rounds=2)
    other["20 MB / 200 KB, a fragment"] = {"a string": Cell(run, 1.5)}
    return [
        Table(
            "3a. PartialJSON: times faster than jiter",
            'The value read after every fragment; jiter\'s partial_mode="trailing-strings". ~: sampled.',
            faster,
        ),
        Table(
            "3b. PartialJSON: against its floor", "The floor: orjson.loads once, and an empty call a fragment.", floors
        ),
        Table("3c. PartialJSON: linear", "Fragments of 12, the long strings of 64.", other),
    ]


def exponent(growth: Any) -> Any:
    def run() -> Values:
        return [log10(value) for value in growth()]

    return run
