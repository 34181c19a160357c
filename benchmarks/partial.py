"""Table 3: reading a JSON text that is still arriving, after every fragment."""

from __future__ import annotations

import json
from collections.abc import Callable
from importlib.metadata import version
from math import log10
from typing import Any

import orjson

from benchmarks.measure import Cell, Table, Values, Work, module, parts, ratios, repeated, seconds
from benchmarks.streams import long_string
from friendli_stream import PartialJSON

SIZES = {"200 B": 200, "2 KB": 2_000, "20 KB": 20_000, "200 KB": 200_000}
# At least so many times as fast as jiter, by the size of the text. It was set against jiter 0.13, which takes 5.5 µs
# for 10 KB of a string without escapes. Newer ones take down to 1.4 µs; what holds of such a string then is the second.
JITER = {200: 0.15, 2_000: 0.7, 20_000: 4.0, 200_000: 50.0}
JITER_PLAIN = {200: 0.15, 2_000: 0.5, 20_000: 2.0, 200_000: 25.0}
QUICK_STRINGS = (0, 17)  # the first jiter that is so quick
FLOOR, FLOOR_NOW = 18.0, 22.0  # the plain string keeps the first
AT_END = 2.3
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


DOCUMENTS = {"string": long_string, "escaped string": escaped, "records": records, "nested": nested}


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


# ------------------------------------------------------------------------------------------------ peers


def reparsed(parse: Callable[[bytes], Any], pieces: list[str]) -> float:
    """Seconds of a parse of all so far at each fragment, scaled up from SAMPLES of them.

    As accumulators do it: the fragment is put behind the bytes so far, and the value is kept until the next one.
    """
    whole = "".join(pieces).encode()
    size, count = len(pieces[0]), len(pieces)
    chosen = range(count) if count <= SAMPLES else [round((i + 0.5) * count / SAMPLES) for i in range(SAMPLES)]
    heads = [(whole[: at * size], pieces[at]) for at in chosen]

    def work() -> Any:
        value = None
        for before, piece in heads:
            value = parse(before + piece.encode())
        return value

    return seconds(work) * count / len(chosen)


def jiter() -> Callable[[bytes], Any] | None:
    found = module("jiter")
    return found and (lambda data: found.from_json(data, partial_mode="trailing-strings"))


def jiter_budgets(document: str) -> dict[int, float]:
    if document != "string" or jiter() is None:
        return JITER
    release = tuple(map(int, version("jiter").split(".")[:2]))
    return JITER_PLAIN if release >= QUICK_STRINGS else JITER


def partial_json_parser() -> Callable[[bytes], Any] | None:
    found = module("partial_json_parser")
    return found and (lambda data: found.loads(data.decode()))


def faster(peer: Callable[[], Callable[[bytes], Any] | None], pieces: list[str]) -> Values:
    """How many times as fast as a peer that parses anew; the first fragments that no peer takes are left out."""
    parse = peer()
    if parse is None:
        return []
    times = max(1, 1_000 // len(pieces))
    work = repeated(read(pieces), times)
    work()
    return [sum(reparsed(parse, pieces) for _ in range(times)) / seconds(work) for _ in range(3)]


def against_ijson(pieces: list[str]) -> Values:
    """Ijson goes on where it was, too; its value so far has no open strings."""
    ijson = module("ijson")
    if ijson is None:
        return []

    def work() -> None:
        events = ijson.sendable_list()
        scanner, builder = ijson.basic_parse_coro(events), ijson.ObjectBuilder()
        for piece in pieces:
            scanner.send(piece.encode())
            for event in events:
                builder.event(*event)
            events.clear()

    return ratios(work, read(pieces), rounds=5)


# ------------------------------------------------------------------------------------------------ tables


def targets() -> Table:
    """What else partial-json.md wants."""
    table = Table("3c. PartialJSON: linear", "Fragments of 12, the longest string in fragments of 64.")
    for document, make in DOCUMENTS.items():
        small, less, more = (list(parts(make(size), 12)) for size in (2_000, 20_000, 200_000))

        def exponent(less: list[str] = less, more: list[str] = more) -> Values:
            scale = 10 * len(less) * 10 / len(more)
            return [log10(ratio) for ratio in ratios(read(more), repeated(read(less), 10), rounds=5, scale=scale)]

        def ended(pieces: list[str]) -> Callable[[], Values]:
            times = max(1, 5_000 // len(pieces))
            return lambda: ratios(repeated(at_end(pieces), times), repeated(joined(pieces), times), rounds=15)

        def told_or_read(pieces: list[str] = less) -> Values:
            return ratios(told(pieces), read(pieces), rounds=25)

        cells = {
            "exponent, 20 KB → 200 KB": Cell(exponent, 1.15),
            "read once at the end × (join + orjson), 2 KB": Cell(ended(small), AT_END),
            "read once at the end × (join + orjson), 200 KB": Cell(ended(more), AT_END),
            "changes() each × value each, 20 KB": Cell(told_or_read, 1.5),
        }
        for row, cell in cells.items():
            table.rows.setdefault(row, {})[document] = cell

    def fragment() -> Values:
        huge, usual = (list(parts(long_string(size), 64)) for size in (20_000_000, 200_000))
        return ratios(read(huge), repeated(read(usual), 100), rounds=3)

    table.rows["a fragment of 20 MB × one of 200 KB"] = {"string": Cell(fragment, 1.5)}
    return table


def others() -> Table:
    """Peers besides jiter."""
    note = "The value read after every fragment of 12. ijson goes on where it was, but shows no open strings."
    table = Table("3d. PartialJSON: times faster than", note)
    for label in ("2 KB", "20 KB"):
        for document in ("string", "records"):
            pieces = list(parts(DOCUMENTS[document](SIZES[label]), 12))
            table.rows[f"{label}, {document}"] = {
                "jiter": Cell(lambda pieces=pieces: faster(jiter, pieces), sampled=True),
                "partial-json-parser": Cell(lambda pieces=pieces: faster(partial_json_parser, pieces), sampled=True),
                "ijson": Cell(lambda pieces=pieces: against_ijson(pieces)),
            }
    return table


def scanner() -> list[Table]:
    note = (
        "The value read after every fragment; jiter parsing all so far, the fragment put behind it first, "
        'partial_mode="trailing-strings". ~: sampled.'
    )
    against = Table("3a. PartialJSON: times faster than jiter", note)
    floors = Table("3b. PartialJSON: times its floor", "The floor: orjson.loads once, and an empty call a fragment.")
    for label, size in SIZES.items():
        for width in (4, 12, 64):
            name = f"{label}, fragments of {width}"
            against.rows[name], floors.rows[name] = {}, {}
            for document, make in DOCUMENTS.items():
                pieces = list(parts(make(size), width))
                against.rows[name][document] = Cell(
                    lambda pieces=pieces: faster(jiter, pieces),
                    jiter_budgets(document)[size],
                    JITER[size],
                    least=True,
                    sampled=len(pieces) > SAMPLES,
                )

                def above(pieces: list[str] = pieces) -> Values:
                    times = max(1, 2_000 // len(pieces))
                    return ratios(repeated(read(pieces), times), repeated(floor(pieces), times), rounds=7)

                floors.rows[name][document] = Cell(above, FLOOR if document == "string" else FLOOR_NOW, FLOOR)
    return [against, floors, targets(), others()]
