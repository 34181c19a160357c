"""Table 2: ten times the events take ten times the time."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType

import orjson

from benchmarks import peers
from benchmarks.measure import Cell, Table, Values, Work, ratios, repeated
from benchmarks.streams import KINDS, Events, Kind, bounded, chat_input, long_string, message_input, wide
from friendli_stream import chat, messages

GROWTH = 12.0
LITELLM = 5  # folds so many times fewer events, for the same ratio
# For --check: those whose ways through the code differ.
CHECKED = {
    "Messages text",
    "chat text",
    "chat usage in each",
    "chat logprobs",
    "Messages tool input, one string",
    "chat tool input, bounded objects",
}


def at_the_end(form: ModuleType, events: Events) -> Work:
    """Everything of the final message read once."""

    def work() -> None:
        state = form.State()
        for event in events:
            state = form.step(state, orjson.loads(event))
        state.result().to_json()

    return work


def changes(form: ModuleType, events: Events) -> Work:
    """What was added, asked after every event."""

    def work() -> None:
        older = form.State()
        for event in events:
            newer = form.step(older, orjson.loads(event))
            form.changes(older, newer)
            older = newer

    return work


def snapshot(form: ModuleType, events: Events) -> Work:
    """The snapshot made after every event, and what is certain of a tool input read."""

    def work() -> None:
        state = form.State()
        for event in events:
            state = form.step(state, orjson.loads(event))
            made = state.snapshot
            if made is not None:
                for call in made.tool_uses if form is messages else made.tool_calls:
                    call.partial_input  # noqa: B018  it scans

    return work


def kinds() -> dict[str, Kind]:
    all_of = {name: kind for name, kind in KINDS.items() if "tool" not in name}
    for name, text in {"one string": long_string, "bounded objects": bounded, "wide open array": wide}.items():
        all_of[f"Messages tool input, {name}"] = Kind(messages, message_input(text))
        all_of[f"chat tool input, {name}"] = Kind(chat, chat_input(text))
    return all_of


def ours(kind: Kind, small: int, reading: Callable[[ModuleType, Events], Work]) -> Callable[[], Values]:
    def run() -> Values:
        less, more = (reading(kind.format, kind.tell(n)) for n in (small, 10 * small))
        return ratios(more, repeated(less, 10), rounds=5 if small < 10_000 else 2, scale=10, warm=less)

    return run


def theirs(kind: Kind, small: int, make: Callable[[], peers.Start]) -> Callable[[], Values]:
    def run() -> Values:
        start = peers.installed(make)
        if start is None:
            return []
        if make is peers.litellm:
            less, more = (peers.folded(start, kind.tell(n // LITELLM)) for n in (small, 10 * small))
            return ratios(more, repeated(less, 10), rounds=1, scale=10, warm=less)
        less_each, more_each = (peers.halfway(start, kind.tell, n) for n in (small, 10 * small))
        return [10 * more[0] / less[0] for less, more in zip(less_each, more_each, strict=True)]

    return run


def growth(*, full: bool) -> list[Table]:
    note = "time(10 n) / time(n): 10 is linear. Ours decoded, folded, and read; the peers folded only. ~: sampled."
    less = Table("2a. Growth, 1,000 → 10,000 events", note)
    more = Table("2b. Growth, 10,000 → 100,000 events", note)
    for table, small in ((less, 1_000), (more, 10_000)):
        for name, kind in kinds().items():
            if not full and (table is less or name not in CHECKED):
                continue
            cells = table.rows[name] = {
                "read at the end": Cell(ours(kind, small, at_the_end), GROWTH),
                "changes each": Cell(ours(kind, small, changes), GROWTH),
                # An open array may be copied for each: partial-json.md.
                "snapshot each": Cell(ours(kind, small, snapshot), None if "wide" in name else GROWTH),
            }
            for peer, make in peers.PEERS[kind.format].items():
                if peer != "from dicts":
                    cells[peer] = Cell(theirs(kind, small, make), sampled=True)
    return [less, more]
