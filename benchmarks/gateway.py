"""Table 7: a gateway's day."""

from __future__ import annotations

import orjson

from benchmarks.measure import Cell, Table, Values, seconds
from benchmarks.streams import KINDS

NAMES = ("Messages text", "chat text", "Messages tool input", "chat reasoning, mirrored")
STREAMS, EVENTS = 10_000, 30


def gateway() -> Table:
    """One event of each stream in turn."""
    kinds = [KINDS[NAMES[stream % len(NAMES)]] for stream in range(STREAMS)]
    told = [kind.tell(EVENTS) for kind in kinds[: len(NAMES)]]

    def floor() -> None:
        loads = orjson.loads
        for turn in range(EVENTS):
            for stream in range(STREAMS):
                loads(told[stream % len(NAMES)][turn])

    def work() -> None:
        loads = orjson.loads
        open_streams = [kind.format.Accumulator() for kind in kinds]
        for turn in range(EVENTS):
            for stream, accumulator in enumerate(open_streams):
                accumulator.feed(loads(told[stream % len(NAMES)][turn]))
        for accumulator in open_streams:
            accumulator.result()

    rates: Values = []

    def ratio() -> Values:
        rates.clear()
        values = []
        for _ in range(3):
            took = seconds(work)
            rates.append(STREAMS * EVENTS / took)
            values.append(took / seconds(floor))
        return values

    cells = {
        "× orjson.loads": Cell(ratio),
        "events a second": Cell(lambda: list(rates)),
        "of a core at 100,000 a second": Cell(lambda: [100_000 / rate * 100 for rate in rates], unit=" %"),
    }
    note = f"{STREAMS:,} interleaved streams of {EVENTS} events, decoded, folded, and their results taken."
    return Table("7. A gateway's day", note, {"4 kinds, both formats": cells})
