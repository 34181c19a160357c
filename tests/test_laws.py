"""The laws, one test each, for both formats by the same code; law 9, a matter of time, is measured in benchmarks/.

Quick in the suite; `pytest tests/test_laws.py --hypothesis-profile=long` looks much longer.
"""

from __future__ import annotations

import copy
import functools
import itertools
import json
import pickle
from collections.abc import Iterable
from random import Random
from typing import Any

from hypothesis import given, note

from friendli_stream import InvalidInput, ProtocolError, StreamError, sse
from tests.tell import DICE, Event, Format, both_formats, commuted, hostile, mend, rare, recut, same, spots, wild

# ------------------------------------------------------------------------------------------------ what is looked at


def steps(fmt: Format, events: list[Event]) -> list[Any]:
    """Every state of a stream, the empty one first; nobody has read them."""
    states = [fmt.module.State()]
    for event in events:
        states.append(fmt.module.step(states[-1], event))
    return states


def outcome(state: Any) -> str:
    """What `.result()` does, without event numbers."""
    try:
        state.result()
    except ProtocolError as error:
        assert error.diagnostic is not None
        return f"ProtocolError {error.diagnostic.code} {error.diagnostic.path}"
    except StreamError as error:
        return type(error).__name__
    return "returns"


def inputs(fmt: Format, value: Any) -> list[Any]:
    """All readings of all tool inputs of a value."""
    seen = []
    for place, tool in fmt.inputs(value):
        try:
            whole = tool.input
        except InvalidInput as error:
            whole = f"{error} {error.path} {error.state}"
        seen.append([place, tool.input_state, copy.deepcopy(tool.partial_input), whole])
    return seen


def seen(fmt: Format, state: Any) -> dict[str, Any]:
    """All that a state shows and that an event may change, but for what was noted."""
    value = state.snapshot
    return {
        "status": state.status,
        "outcome": outcome(state),
        "usage": state.usage.to_dict() if state.usage is not None else None,
        "value": None if value is None else value.to_dict(),
        "texts": None if value is None else list(fmt.texts(value)),
        "inputs": None if value is None else inputs(fmt, value),
    }


def notes(state: Any) -> list[Any]:
    """What was noted, in full."""
    return [*state.diagnostics, state.diagnostics_omitted]


def everything(fmt: Format, state: Any) -> tuple[Any, ...]:
    """All that a state shows, and what it is when saved and loaded."""
    return seen(fmt, state), notes(state), fmt.module.State.from_json(state.to_json())


def codes(state: Any, *but: str) -> set[tuple[str, str]]:
    """What was noted, without numbers."""
    return {(note.code, note.path) for note in state.diagnostics if note.code not in but}


def spoil(value: Any) -> None:
    """Change every container in a JSON value."""
    if isinstance(value, dict):
        for item in value.values():
            spoil(item)
        value.clear()
        value["spoilt"] = True
    elif isinstance(value, list):
        for item in value:
            spoil(item)
        value[:] = ["spoilt"]


def spoil_value(fmt: Format, value: Any) -> None:
    """Change every container that a value gives out as fresh (B3, J9)."""
    things = [value.to_dict(), value.extra, value.usage and value.usage.extra]
    parts = value.content if fmt.name == "messages" else value.choices
    for part in parts:
        things += [part.to_dict(), getattr(part, "extra", None), getattr(part, "citations", None)]
        things += [getattr(part, "raw", None), getattr(part, "unknown_deltas", None), getattr(part, "logprobs", None)]
        things += [part.message.extra] if fmt.name == "chat" else []
    for _, tool in fmt.inputs(value):
        things += [tool.extra, tool.input if tool.input_state == "complete" else None]
    for thing in things:
        spoil(thing)


class Told:
    """Events as they are printed when a law fails; some have numbers of more digits than Python prints."""

    def __init__(self, events: list[Event]) -> None:
        self.events = events

    def __repr__(self) -> str:
        return "\n".join(repr(event) if is_text(event) else "(a number of 5,000 digits)" for event in self.events)


def shown(events: list[Event]) -> list[Event]:
    """The events, printed when the law fails."""
    note(Told(events))
    return events


# ------------------------------------------------------------------------------------------------ the laws


@both_formats
@given(rng=DICE)
def test_law_1_pure(fmt: Format, rng: Random) -> None:
    """Law 1, B3: `step` changes neither state nor event and keeps none of the event's containers, nor lends its own."""
    events = [copy.deepcopy(event) for event in shown(wild(rng, fmt))]
    twins = steps(fmt, [copy.deepcopy(event) for event in events])
    states = [fmt.module.State()]
    for event in events:
        before = copy.deepcopy(event)
        read = rare(rng, 4)
        if read:
            seen(fmt, states[-1])
        after = fmt.module.step(states[-1], event)
        assert same(event, before), "step changed the event"
        spoil(event)
        if read and after.snapshot is not None:
            spoil_value(fmt, after.snapshot)
        states.append(after)
    for at in spots(rng, len(states), 6):
        assert everything(fmt, states[at]) == everything(fmt, twins[at])


@both_formats
@given(rng=DICE)
def test_law_2_persistent(fmt: Format, rng: Random) -> None:
    """Law 2: any number of steps from one state are independent of each other, whoever reads what, and when."""
    line, other = shown(wild(rng, fmt)), wild(rng, fmt)
    states = steps(fmt, line)
    branches = []
    for at in spots(rng, len(states), 3):
        if rare(rng, 2):
            everything(fmt, states[at])
        piece = other[rng.randint(0, len(other)) :][:4] + line[at:]
        branches.append((line[:at] + piece, functools.reduce(fmt.module.step, piece, states[at])))
    prefixes = [(line[:at], states[at]) for at in spots(rng, len(states), 3)]
    both = branches + prefixes
    rng.shuffle(both)
    snapshots = [(events, state, state.snapshot) for events, state in both]
    for events, state, snapshot in snapshots:
        alone = functools.reduce(fmt.module.step, events, fmt.module.State())
        assert everything(fmt, state) == everything(fmt, alone)
        assert state == alone
        assert snapshot == alone.snapshot


@both_formats
@given(rng=DICE)
def test_law_3_retold(fmt: Format, rng: Random) -> None:
    """Law 3: `fold(tell(m)) == m`, whatever the telling; and a non-streamed answer is that message (M15, C2)."""
    final = fmt.final(rng)
    noisy = rng.randrange(3) > 0
    state = steps(fmt, shown(fmt.tell(rng, final, noisy=noisy)))[-1]
    value = state.result()
    assert same(mend(final), value.to_dict())
    assert same(mend(final), json.loads(value.to_json()))
    assert noisy or not {"malformed_event", "unknown_event"} & {code for code, _ in codes(state)}
    whole = [value.to_dict(), "[DONE]"]
    assert same(mend(final), fmt.module.fold(whole).to_dict())


@both_formats
@given(rng=DICE)
def test_law_3_retold_in_a_row(fmt: Format, rng: Random) -> None:
    """Law 3, M11, C17: `fold_all(tell(a) + tell(b)) == [a, b]`, where it is seen that b begins."""
    first, second = fmt.final(rng), fmt.final(rng)
    events = named(fmt.tell(rng, second, noisy=False), second["id"])
    while not (has_choices(events[0]) or events[0].get("type") == "message_start"):
        events.pop(0)  # an empty chunk, or what comes before a late message_start
    alone = fmt.module.fold(events)
    both = list(fmt.module.fold_all(shown([*named(fmt.tell(rng, first, noisy=False), first["id"]), "[DONE]", *events])))
    assert same([mend(first), alone.to_dict()], [value.to_dict() for value in both])


@both_formats
@given(rng=DICE)
def test_law_4_cut(fmt: Format, rng: Random) -> None:
    """Law 4, B1: splitting and joining neighbouring fragments changes neither the message nor what is noted."""
    events = shown(fmt.told(rng))
    plain = steps(fmt, events)[-1]
    other = steps(fmt, recut(rng, fmt, events))[-1]
    assert other.result() == plain.result()
    assert seen(fmt, other) == seen(fmt, plain)
    assert codes(other) == codes(plain)


@both_formats
@given(rng=DICE)
def test_law_4_cut_bytes(fmt: Format, rng: Random) -> None:
    """Law 4, S1, S2: the bytes of a stream may be cut anywhere, between and within events and characters."""
    events = shown(fmt.told(rng))
    end = rng.choice(("\n", "\r\n", "\r"))
    body = "".join(f"data: {line(rng, event)}{end}{end}" for event in events).encode()
    edges = sorted(rng.randint(0, len(body)) for _ in range(rng.randint(0, 12)))
    chunks = [body[a:b] for a, b in itertools.pairwise((0, *edges, len(body)))]
    assert fmt.module.fold(sse.events(chunks)) == fmt.module.fold(events)


@both_formats
@given(rng=DICE)
def test_law_5_interleaved(fmt: Format, rng: Random) -> None:
    """Law 5: deltas of different blocks, choices, or tool calls with an index of their own commute."""
    events = shown(fmt.told(rng, noisy=False))
    plain = steps(fmt, events)[-1]
    other = steps(fmt, commuted(rng, fmt, events))[-1]
    assert other.result() == plain.result()
    assert codes(other) == codes(plain)


@both_formats
@given(rng=DICE)
def test_law_6_growing(fmt: Format, rng: Random) -> None:
    """Law 6, J5: texts grow by their ends; a partial input never shows what later changes; `changes` are the growth."""
    texts: dict[Any, str] = {}
    partial: dict[Any, Any] = {}
    added: list[Any] = []
    older = fmt.module.State()
    for newer in steps(fmt, shown(fmt.told(rng)))[1:]:
        if rare(rng, 3) or newer.status == "complete":
            added += fmt.module.changes(older, newer)
            older = newer
        if (value := newer.snapshot) is None:
            continue
        now = dict(fmt.texts(value))
        for place, text in texts.items():
            assert now[place].startswith(text) or not text.strip(), place  # white space is no input (M4)
        certain = {place: tool.partial_input for place, tool in fmt.inputs(value)}
        for place, before in partial.items():
            assert grows(before, certain[place]) or not texts[place].strip()  # no input is {} (J11)
        texts, partial = now, certain
    opened = [path for path, kind, _ in added if kind == "open" and INPUT not in path]
    assert len(opened) == len(set(opened)), "opened twice"
    said = {path: text for path, text in joined(added).items() if INPUT not in path}
    assert said == {path_of(fmt, place): text for place, text in texts.items() if text and place not in partial}
    rebuilt = [rebuild(entries) for entries in of_inputs(added)]
    certain_now = [item for place, item in partial.items() if item is not None and texts[place].strip()]
    assert sorted(map(repr, rebuilt)) == sorted(map(repr, certain_now))


@both_formats
@given(rng=DICE)
def test_law_7_open(fmt: Format, rng: Random) -> None:
    """Law 7, M10, C16: an unknown event is noted and changes nothing else, whatever the state."""
    plain = other = fmt.module.State()
    for event in [*shown(wild(rng, fmt)), None]:
        while rare(rng, 2):
            other = fmt.module.step(other, fmt.unknown(rng))
            if other.status != "failed":
                assert {code for code, _ in codes(other)} & {"unknown_event", "after_end"}
            assert (other.status, outcome(other), other.snapshot) == (plain.status, outcome(plain), plain.snapshot)
        plain, other = fmt.module.step(plain, event), fmt.module.step(other, event)
    assert seen(fmt, other) == seen(fmt, plain)
    assert codes(other, "unknown_event", "after_end") == codes(plain, "unknown_event", "after_end")


@both_formats
@given(rng=DICE)
def test_law_8_total(fmt: Format, rng: Random) -> None:
    """Law 8: no JSON makes `step` raise, and a failed state keeps all it had and takes nothing more."""
    state = fmt.module.State(strict=rare(rng, 4))
    for event in [*shown(wild(rng, fmt)), hostile(rng)]:
        after = fmt.module.step(state, event)
        if state.status == "failed":
            assert seen(fmt, after) == seen(fmt, state)
        elif after.status == "failed" and state.snapshot is not None:
            assert after.snapshot is not None
            now = dict(fmt.texts(after.snapshot))
            assert all(now[place].startswith(text) for place, text in fmt.texts(state.snapshot))
        state = after
    json.dumps(seen(fmt, state)["value"], ensure_ascii=False, allow_nan=False).encode()


@both_formats
@given(rng=DICE)
def test_law_10_same(fmt: Format, rng: Random) -> None:
    """Law 10: step, reduce, fold, Accumulator, tap, and a state saved, pickled or copied anywhere give one result."""
    module = fmt.module
    events = shown(wild(rng, fmt))
    plain = functools.reduce(module.step, events, module.State())
    expected = everything(fmt, plain)
    state, accumulator, tapped = module.State(), module.Accumulator(), module.Accumulator()
    assert len(list(tapped.tap(events))) == len(events)
    for event in events:
        way = rng.randrange(6)
        if way == 0:
            state = module.State.from_json(state.to_json())
        elif way == 1:
            state = pickle.loads(pickle.dumps(state))
        elif way == 2:
            state = copy.copy(copy.deepcopy(state))
        before = state
        state = module.step(state, event)
        if way == 3 and is_text(event):
            state = module.step_json(before, json.dumps(event))
        accumulator.feed(event)
    for one in (state, accumulator.state, tapped.state):
        assert one == plain
        assert everything(fmt, one) == expected
    at = rng.randint(0, len(events))
    middle = functools.reduce(module.step, events[:at], module.State())
    folded = fold_outcome(module, events[at:], middle)
    assert folded == fold_outcome(module, events, module.State())


def line(rng: Random, event: Event) -> str:
    """The data line of an event, its characters escaped or not (half a character has no UTF-8)."""
    text = json.dumps(event, ensure_ascii=False)
    if rare(rng, 2) or any("\ud800" <= char <= "\udfff" for char in text):
        text = json.dumps(event)
    return "[DONE]" if event == "[DONE]" else text


def has_choices(event: Event) -> bool:
    """Whether an event is a chunk that says something of a choice."""
    return isinstance(event, dict) and bool(event.get("choices"))


def named(events: list[Event], name: str) -> list[Event]:
    """The chunks all with one id: a new one may begin the next completion (C17)."""
    return [event | {"id": name} if has_choices(event) else event for event in events]


def fold_outcome(module: Any, events: list[Event], state: Any) -> Any:
    """The message that `fold` returns, or its error and the state that it hands back."""
    try:
        return module.fold(events, state)
    except StreamError as error:
        return type(error), str(error), error.state


def is_text(event: Event) -> bool:
    """Whether the JSON text of an event says all of it (a number of 5,000 digits has none)."""
    try:
        return len(json.dumps(event)) > 0
    except ValueError:
        return False


# ------------------------------------------------------------------------------------------------ partial inputs


INPUT = "input"


def path_of(fmt: Format, place: Any) -> Any:
    """The path in `changes` of a text that is no tool input."""
    return ("content", *place) if fmt.name == "messages" else ("choices", place[0], "message", place[1])


def joined(added: list[Any]) -> dict[Any, str]:
    """The texts of `changes`, by path."""
    texts: dict[Any, str] = {}
    for path, kind, text in added:
        if kind == "text":
            texts[path] = texts.get(path, "") + text
    return texts


def of_inputs(added: list[Any]) -> Iterable[list[Any]]:
    """The entries of `changes` below each tool input, their paths from its root."""
    inputs: dict[Any, list[Any]] = {}
    for path, kind, item in added:
        if INPUT in path:
            at = path.index(INPUT)
            inputs.setdefault(path[:at], []).append((path[at + 1 :], kind, item))
    return inputs.values()


def rebuild(entries: list[Any]) -> Any:
    """The value that the entries of PartialJSON.changes say (J10)."""
    root: list[Any] = []
    opened = set()
    for path, kind, item in entries:
        parent: Any = root
        for key in (0, *path)[:-1]:
            parent = parent[key]
        last = (0, *path)[-1]
        if kind == "open":
            opened.add(path)
        elif kind == "done" and path in opened:
            continue
        value = {"object": dict, "array": list, "string": str}[item]() if kind == "open" else item
        if kind == "text":
            parent[last] += item
        elif isinstance(parent, list) and last == len(parent):
            parent.append(value)
        else:
            parent[last] = value
    return root[0]


def grows(before: Any, after: Any, *, last: bool = True) -> bool:
    """Whether `after` may follow `before` (J5): only the last item changes, strings by their ends."""
    if before is None:  # nothing was certain, or null
        return True
    if isinstance(before, dict) and isinstance(after, dict):
        keys = list(before)
        if list(after)[: len(keys)] != keys:
            return False
        return all(grows(before[key], after[key], last=last and key == keys[-1]) for key in keys)
    if isinstance(before, list) and isinstance(after, list):
        length = len(before)
        return len(after) >= length and all(
            grows(old, new, last=last and i == length - 1)
            for i, (old, new) in enumerate(zip(before, after, strict=False))
        )
    if last and isinstance(before, str) and isinstance(after, str):
        return after.startswith(before)
    return same(before, after)
