"""Table 1: what an event costs, and how much of that is ours."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any

import orjson

from benchmarks import peers
from benchmarks.measure import Cell, Table, Values, Work, ratios, repeated, seconds
from benchmarks.streams import KINDS, Events, Kind, decoded
from friendli_stream import chat, messages

LENGTHS = {
    "1a. Per event, short streams": 50,
    "1b. Per event, usual streams": 500,
    "1c. Per event, long streams": 20_000,
}
BUDGETED = (500, 20_000)  # events; of a short stream head and end are most, which take the general way


def stepped(form: ModuleType, events: Events) -> Work:
    def work() -> Any:
        loads, step, state = orjson.loads, form.step, form.State()
        for event in events:
            state = step(state, loads(event))
        return state

    return work


def fed(form: ModuleType, events: Events) -> Work:
    def work() -> Any:
        loads, accumulator = orjson.loads, form.Accumulator()
        for event in events:
            accumulator.feed(loads(event))
        return accumulator

    return work


def floor_of(kind: Kind, length: int) -> Callable[[], Values]:
    def run() -> Values:
        events = kind.tell(length)
        return [seconds(decoded(events)) / length * 1e6 for _ in range(9)]

    return run


def ours(kind: Kind, length: int, how: Callable[[ModuleType, Events], Work]) -> Callable[[], Values]:
    def run() -> Values:
        events = kind.tell(length)
        times, rounds = max(1, 1_000 // length), 7 if length > 10_000 else 25
        work, floor = (repeated(one, times) for one in (how(kind.format, events), decoded(events)))
        return ratios(work, floor, rounds=rounds)

    return run


def per_event() -> list[Table]:
    tables = []
    for title, length in LENGTHS.items():
        table = Table(f"{title} of {length:,} events", "Times orjson.loads of each event, which is in all of them.")
        if length > 1_000:
            table.note += f" ~: {peers.SAMPLE} events in the middle, {peers.SAMPLES} times."
        for name, kind in KINDS.items():
            cells = table.rows[name] = {
                "orjson.loads": Cell(floor_of(kind, length), unit=" µs"),
                "step": Cell(ours(kind, length, stepped), kind.wanted if length in BUDGETED else None),
                "feed": Cell(ours(kind, length, fed)),
            }
            for peer, make in peers.PEERS[kind.format].items():
                run = lambda make=make, kind=kind, length=length: peers.against(make, kind.tell, length)  # noqa: E731
                cells[peer] = Cell(run, sampled=peers.sampled(make, length))
        tables.append(table)
    return [*tables, objects()]


# ------------------------------------------------------------------------------------------------ SDK objects

SDKS: dict[str, tuple[str, Callable[[], Callable[[Any], Any]]]] = {
    "anthropic": ("Messages text", peers.build_anthropic),
    "openai": ("chat text", peers.build_openai),
    "friendli, Messages": ("Messages text", lambda: peers.build_friendli(messages)),
    "friendli, chat": ("chat text", lambda: peers.build_friendli(chat)),
}


def objects() -> Table:
    """Feeding an SDK's own objects, against the time in which the SDK makes them."""
    table = Table("1d. SDK objects", "Times orjson.loads: the SDK building its object from the dict, our feed of that.")
    for sdk, (name, make) in SDKS.items():
        kind = KINDS[name]

        def rounds(make: Any = make, kind: Kind = kind) -> list[tuple[float, float, float]]:
            build = peers.installed(make)
            events = kind.tell(100)[:99]  # without "[DONE]", which no SDK passes on
            return [] if build is None else [round_of(build, kind.format, events) for _ in range(9)]

        table.rows[sdk] = {
            "SDK": Cell(lambda rounds=rounds: [built / floor for floor, built, _ in rounds()]),
            "feed": Cell(lambda rounds=rounds: [feed / floor for floor, _, feed in rounds()]),
            "feed / SDK": Cell(lambda rounds=rounds: [feed / built for _, built, feed in rounds()]),
        }
    return table


def round_of(build: Callable[[Any], Any], form: ModuleType, events: Events) -> tuple[float, float, float]:
    """Seconds of decoding the events, of making the SDK's objects of them, and of feeding these."""
    values = [orjson.loads(event) for event in events]
    made: list[Any] = []
    accumulator = form.Accumulator()

    def feed() -> None:
        for event in made:
            accumulator.feed(event)

    times = seconds(repeated(decoded(events), 5)) / 5, seconds(lambda: made.extend(map(build, values))), seconds(feed)
    assert not accumulator.state.diagnostics
    return times
