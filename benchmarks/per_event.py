"""Tables 1, 2 and 7: what an event costs, that it stays so, and what a gateway pays."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any

import orjson

from benchmarks.measure import Cell, Table, Work, paired, repeated, seconds
from benchmarks.streams import KINDS, Events, bounded, chat_input, long_string, message_input, wide
from friendli_stream import chat, messages

LENGTHS = {"short 50": 50, "usual 500": 500, "long 20,000": 20_000}
# What holds now, by length: head and end of a stream take the general way, about 100 µs in all.
LOOSER = {500: 4.5, 20_000: 3.6}
GROWTH = 12.0  # the most that ten times the events may cost


def decoded(events: Events) -> Work:
    """The floor."""

    def work() -> None:
        loads = orjson.loads
        for event in events:
            loads(event)

    return work


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


def per_event() -> Table:
    rows: dict[str, dict[str, Cell]] = {}
    for name, kind in KINDS.items():
        cells = rows[name] = {}
        usual = kind.tell(500)

        def floor(events: Events = usual) -> list[float]:
            return [seconds(decoded(events)) / len(events) * 1e6 for _ in range(15)]

        cells["orjson.loads"] = Cell(floor, unit="µs")
        for column, length in LENGTHS.items():
            events = kind.tell(length)
            times, rounds = max(1, 1_000 // length), 5 if length > 10_000 else 25
            work = repeated(stepped(kind.format, events), times)
            run = paired(work, repeated(decoded(events), times), rounds=rounds)
            cells[f"step, {column}"] = Cell(run)
            if kind.wanted is not None and length > 50:
                cells[f"step, {column}"].budget = max(kind.wanted, LOOSER[length])
                cells[f"step, {column}"].wanted = kind.wanted
        work = repeated(fed(kind.format, usual), 2)
        cells["feed, usual 500"] = Cell(paired(work, repeated(decoded(usual), 2), rounds=25))
    note = "orjson.loads alone (µs an event), and how many times that decode + step, decode + feed take; whole streams."
    return Table("1. Per event", note, rows)


# ------------------------------------------------------------------------------------------------ growth


def finished(form: ModuleType, events: Events) -> Work:
    """Everything of the final message read once."""

    def work() -> None:
        state = form.State()
        for event in events:
            state = form.step(state, orjson.loads(event))
        state.result().to_json()

    return work


def told(form: ModuleType, events: Events) -> Work:
    """What was added, asked after every event."""

    def work() -> None:
        older = form.State()
        for event in events:
            newer = form.step(older, orjson.loads(event))
            form.changes(older, newer)
            older = newer

    return work


def watched(form: ModuleType, events: Events) -> Work:
    """The snapshot made after every event, and what is certain of a tool input read."""

    def work() -> None:
        state = form.State()
        for event in events:
            state = form.step(state, orjson.loads(event))
            snapshot = state.snapshot
            if snapshot is not None:
                for call in snapshot.tool_uses if form is messages else snapshot.tool_calls:
                    call.partial_input  # noqa: B018  it scans

    return work


READINGS = {"read at the end": finished, "changes after each": told, "snapshot after each": watched}


def growth(*, full: bool) -> Table:
    """`full`: all kinds; else those whose ways through the code differ, and to 10,000 events only."""
    kinds: dict[str, tuple[ModuleType, Callable[[int], Events]]] = {
        name: (kind.format, kind.tell) for name, kind in KINDS.items() if "tool" not in name
    }
    if not full:
        kinds = {name: kinds[name] for name in ("Messages text", "chat text", "chat usage in each", "chat logprobs")}
    for name, text in {"one string": long_string, "bounded objects": bounded, "wide open array": wide}.items():
        kinds[f"Messages input, {name}"] = (messages, message_input(text))
        if full:
            kinds[f"chat input, {name}"] = (chat, chat_input(text))
    rows = {}
    for name, (form, tell) in kinds.items():
        cells = rows[name] = dict[str, Cell]()
        for reading, make in READINGS.items():
            for small in (1_000, 10_000):
                unbounded = "wide" in name and reading == "snapshot after each"
                if small > 1_000 and not full:
                    continue
                less, more = make(form, tell(small)), make(form, tell(10 * small))
                run = paired(more, repeated(less, 10), rounds=3 if small < 10_000 and full else 1, scale=10, warm=less)
                label = f"{reading}, {small // 1000}k→{small // 100}k"
                cells[label] = Cell(run, None if unbounded else GROWTH)
    note = "time(10 n) / time(n): 10 is linear. The array that stays open is shown without a budget for snapshots."
    return Table("2. Growth", note, rows)


# ------------------------------------------------------------------------------------------------ a gateway


def gateway() -> Table:
    """10,000 streams of both formats, one event of each in turn."""
    told = [
        KINDS[name].tell(30)
        for name in ("Messages text", "chat text", "Messages tool input", "chat reasoning, mirrored")
    ]
    forms = [messages, chat, messages, chat]
    count = 10_000
    turns = max(len(events) for events in told)

    def floor() -> None:
        loads = orjson.loads
        for turn in range(turns):
            for stream in range(count):
                events = told[stream & 3]
                if turn < len(events):
                    loads(events[turn])

    def work() -> None:
        loads = orjson.loads
        open_streams = [forms[stream & 3].Accumulator() for stream in range(count)]
        for turn in range(turns):
            for stream in range(count):
                events = told[stream & 3]
                if turn < len(events):
                    open_streams[stream].feed(loads(events[turn]))
        for accumulator in open_streams:
            accumulator.result()

    total = sum(len(told[stream & 3]) for stream in range(count))
    rates: list[float] = []

    def ratio() -> list[float]:
        rates.clear()
        values = []
        for _ in range(3):
            took = seconds(work)
            rates.append(total / took)
            values.append(took / seconds(floor))
        return values

    cells = {
        "against decode alone": Cell(ratio),
        "events a second": Cell(lambda: list(rates), unit=""),
        "of a core at 100,000 a second": Cell(lambda: [100_000 / rate * 100 for rate in rates], unit="%"),
    }
    note = f"{count:,} interleaved streams of 30 events, decoded, folded, and their results taken, in one process."
    return Table("7. A gateway's day", note, {"4 kinds, both formats": cells})
