"""Table 7: a gateway's day."""

from __future__ import annotations

import gc

import orjson

from benchmarks.measure import Cell, Table, Values, seconds
from benchmarks.streams import KINDS

NAMES = ("Messages text", "chat text", "Messages tool input", "chat reasoning, mirrored")
STREAMS, EVENTS = 10_000, 100
RARELY = (100_000, 50, 100)  # what many open streams hold is walked over and over else, and is no garbage


def day(thresholds: tuple[int, int, int]) -> tuple[float, float]:
    """Events a second, one of each stream in turn, and how many times decoding alone that takes."""
    kinds = [KINDS[NAMES[stream % len(NAMES)]] for stream in range(STREAMS)]
    told = [kind.tell(EVENTS) for kind in kinds[: len(NAMES)]]
    turns = min(map(len, told))
    loads = orjson.loads
    streams = [kind.format.Accumulator() for kind in kinds]

    def floor() -> None:
        for turn in range(turns):
            for stream in range(STREAMS):
                loads(told[stream % len(NAMES)][turn])

    def work() -> None:
        for turn in range(turns):
            for stream, accumulator in enumerate(streams):
                accumulator.feed(loads(told[stream % len(NAMES)][turn]))
        for accumulator in streams:
            accumulator.snapshot.to_json()

    decode = seconds(floor)
    usual = gc.get_threshold()
    gc.set_threshold(*thresholds)
    took = seconds(work)
    gc.set_threshold(*usual)
    return STREAMS * turns / took, took / decode


def gateway() -> Table:
    note = f"{STREAMS:,} interleaved streams of {EVENTS} events, decoded, folded, and their messages as JSON taken."
    table = Table("7. A gateway's day", note)
    for row, thresholds in {
        "4 kinds, both formats": gc.get_threshold(),
        f"the same, gc.set_threshold{RARELY}": RARELY,
    }.items():
        rounds: list[tuple[float, float]] = []

        def rates(rounds: list[tuple[float, float]] = rounds, thresholds: tuple[int, int, int] = thresholds) -> Values:
            rounds[:] = [day(thresholds) for _ in range(2)]
            return [rate for rate, _ in rounds]

        def share(rounds: list[tuple[float, float]] = rounds) -> Values:
            return [100_000 / rate * 100 for rate, _ in rounds]

        def ratio(rounds: list[tuple[float, float]] = rounds) -> Values:
            return [times for _, times in rounds]

        table.rows[row] = {
            "events a second": Cell(rates),
            "of a core at 100,000 a second": Cell(share, unit=" %"),
            "× orjson.loads": Cell(ratio),
        }
    return table
