"""Rules that the laws do not see: what no stream can show, and streams that tell one thing in one way only."""

from __future__ import annotations

import copy
import functools
import json
import math
import sys
from collections.abc import Iterator
from random import Random
from typing import Any

import attrs
import pytest

from friendli_stream import InvalidState, LimitExceeded, Limits, ServerError, StreamError, chat, messages
from tests.tell import (
    CHAT,
    MESSAGES,
    UNSAID,
    Event,
    Fields,
    Format,
    Path,
    both_formats,
    closed_by,
    mend,
    rare,
    same,
    with_piece,
)
from tests.test_laws import fold_outcome, has_choices, joined, path_of, spoil, spoil_value

SHADOWS = {"id": "shadow", "type": "shadow", "index": 9, "role": "shadow", "text": "shadow", "thinking": "shadow"}
EXTRA = {**SHADOWS, "input": "shadow", "content": "shadow", "function": "shadow", "choices": "shadow", "x": 1}
VALUES: list[Any] = [
    messages.Message(id="m", extra=EXTRA),
    messages.TextBlock(0, "a", extra=EXTRA),
    messages.ThinkingBlock(0, "a", extra=EXTRA),
    messages.ToolUseBlock(0, id="t", name="f", input_json="{}", extra=EXTRA),
    chat.Completion(id="c", extra=EXTRA),
    chat.Choice(0, extra=EXTRA),
    chat.ChatMessage(content="a", extra=EXTRA),
    chat.ToolCall(0, "t", name="f", arguments="{}", extra=EXTRA),
]


@pytest.mark.parametrize("value", VALUES, ids=lambda value: type(value).__name__)
def test_an_extra_never_shadows_a_named_field(value: Any) -> None:
    """M1, C13: in a value built by hand too, named fields come out as they are, and other extras beside them."""
    plain = attrs.evolve(value, extra={}).to_dict()
    assert value.to_dict() == {**value.extra, **plain}
    assert value.to_dict()["x"] == 1


@pytest.mark.parametrize("value", VALUES, ids=lambda value: type(value).__name__)
def test_a_value_built_by_hand_shares_nothing(value: Any) -> None:
    """B1, B3: what it is given is copied, what it gives out is fresh, and lone halves come out as U+FFFD."""
    given = {"x": [1, {"y": "\ud83d"}], "z": {"z": [2]}}
    built = attrs.evolve(value, extra=given)
    for thing in (given, built.extra, built.to_dict()):
        spoil(thing)
    assert built.extra == {"x": [1, {"y": "\ufffd"}], "z": {"z": [2]}}


def test_objects_given_by_hand_are_copied() -> None:
    """B3: nor of an object."""
    given: dict[str, Any] = {"type": "x", "content": [{"a": [1]}]}
    expected = copy.deepcopy(given)
    block, choice = messages.OpaqueBlock(0, "x", given), chat.Choice(logprobs=given)
    for thing in (given, block.raw, choice.logprobs):
        spoil(thing)
    assert block.raw == choice.logprobs == expected


HALVES: list[Any] = [
    messages.TextBlock(0, "a\ud83d", ["a\ud83d"]),
    messages.ThinkingBlock(0, "a\ud83d", "a\ud83d"),
    messages.ToolUseBlock(0, input_json='{"a": "a\ud83d'),
    chat.ChatMessage(content="a\ud83d", reasoning_content="a\ud83d", refusal="a\ud83d"),
    chat.FunctionCall("f", "a\ud83d"),
    chat.ToolCall(arguments="a\ud83d"),
]


@pytest.mark.parametrize("value", HALVES, ids=lambda value: type(value).__name__)
def test_texts_given_by_hand_come_out_whole(value: Any) -> None:
    """B1: in a value built by hand too, a lone half of a text is U+FFFD."""
    assert "a\ufffd" in json.dumps(value.to_dict(), ensure_ascii=False).encode().decode()


def test_a_list_given_by_hand_is_copied() -> None:
    """B3: of a list that a value is built with nothing is kept."""
    given: list[Any] = [[1], {"a": [2]}]
    block = messages.TextBlock(0, "a", given)
    for thing in (given, block.citations):
        spoil(thing)
    assert block.citations == [[1], {"a": [2]}]


def test_calls_come_out_as_they_appeared_where_one_has_no_index() -> None:
    """C6: by index when all calls have one, else by first appearance."""

    def called(*indexes: int | None) -> list[str | None]:
        calls = [{"index": at, "id": f"call {at}", "function": {"name": "f", "arguments": "{}"}} for at in indexes]
        chunks = [{"id": "c", "choices": [{"index": 0, "delta": {"tool_calls": [call]}}]} for call in calls]
        return [call.id for call in chat.fold([*chunks, "[DONE]"]).tool_calls]

    assert called(3, 1, 2) == ["call 1", "call 2", "call 3"]
    assert called(3, None, 1) == ["call 3", "call None", "call 1"]


def deltas(*said: dict[str, Any]) -> chat.ChatMessage:
    """The message of a completion whose deltas are these."""
    return (
        chat.fold([*({"id": "c", "choices": [{"index": 0, "delta": delta}]} for delta in said), "[DONE]"])
        .choices[0]
        .message
    )


def test_id_and_name_of_a_call_stand() -> None:
    """C7: a name is pieced together only by deltas without an id; neither is replaced by another."""

    def call(*said: dict[str, Any]) -> list[Any]:
        calls = deltas(*({"tool_calls": [{"index": 0, **delta}]} for delta in said)).tool_calls
        return [(call.id, call.name, call.arguments) for call in calls]

    head = {"id": "a", "function": {"name": "get"}}
    assert call(head, {"function": {"name": "_time"}}) == [("a", "get_time", "")]
    assert call(head, {"id": "a", "function": {"name": "_time"}}) == [("a", "get", "")]
    assert call(head, {"id": "b", "function": {"arguments": "{}"}}) == [("a", "get", "{}")]


def test_the_name_of_a_function_call_comes_once() -> None:
    """C8: name once, arguments append."""
    call = deltas(
        {"function_call": {"name": "f", "arguments": "{"}}, {"function_call": {"name": "g", "arguments": "}"}}
    )
    assert call.function_call == chat.FunctionCall("f", "{}")


def containers(value: Any) -> Iterator[Any]:
    """All containers in a JSON value."""
    if isinstance(value, dict | list):
        yield value
        for item in value.values() if isinstance(value, dict) else value:
            yield from containers(item)


@both_formats
def test_no_container_of_an_event_is_kept(fmt: Format) -> None:
    """Law 1, B3: after `step` nobody has more references to the event's containers than before."""
    for seed in range(40):
        state = fmt.module.State()
        for event in fmt.told(Random(seed), noisy=False):
            inside = list(containers(event))
            before = [sys.getrefcount(container) for container in inside]
            state = fmt.module.step(state, event)
            assert [sys.getrefcount(container) for container in inside] == before, event


@both_formats
def test_what_is_given_out_is_fresh(fmt: Format) -> None:
    """B3: whatever is done to what a value gave out, it gives out the same again."""
    for seed in range(40):
        value = fmt.module.fold(fmt.told(Random(seed)))
        before = copy.deepcopy(value.to_dict())
        spoil_value(fmt, value)
        assert before == value.to_dict()


# ------------------------------------------------------------------------------------------------ the next one


def row(rng: Random, fmt: Format) -> list[Event]:
    """Some messages behind each other, named at random; an end may be missing, an error in its place."""
    events: list[Event] = []
    for _ in range(3):
        told = fmt.tell(rng, fmt.final(rng), noisy=False)
        for _ in range(rng.randrange(3)):
            told.insert(rng.randrange(1, len(told) + 1), {"error": {"message": "no"}} if rare(rng, 3) else told.pop())
        for choice in told[0]["choices"] if has_choices(told[0]) and rare(rng, 3) else ():
            choice["finish_reason"] = "stop"
        name, other = rng.choice("abc"), rng.choice("abc")
        for event in told:
            if isinstance(event, dict) and event.get("id"):
                event["id"] = other if rare(rng, 30) else name
            elif isinstance(event, dict) and event.get("type") == "message_start":
                event["message"]["id"] = name
        events += told
    for choice in (choice for event in events if has_choices(event) for choice in event["choices"]):
        if rare(rng, 6):
            choice["finish_reason"] = rng.choice((None, "stop"))
    return events


def begins(part: list[Event], state: Any, event: Event) -> bool:
    """M11, C17: whether the event is the first of the next message, after those of `part`."""
    if not isinstance(event, dict):
        return False
    if not has_choices(event):
        return event.get("type") == "message_start" and state.status in {"complete", "failed"}
    if "[DONE]" in part or state.status == "failed":
        return True
    ids = {chunk["id"] for chunk in part if isinstance(chunk, dict) and chunk.get("id")}
    going = any(choice.get("finish_reason") in UNSAID for choice in event["choices"])
    return state.status == "complete" and len(ids) == 1 and bool(event.get("id")) and event["id"] not in ids and going


@both_formats
def test_where_the_next_one_begins(fmt: Format) -> None:
    """M11, C17: `states` parts a row where the rules say, each part folded from the state that was given."""
    given = fmt.module.State(limits=Limits(diagnostics=5))
    several = 0
    for seed in range(40):
        events = row(Random(seed), fmt)
        parts: list[list[Event]] = [[]]
        state = given
        for event in events:
            if begins(parts[-1], state, event):
                parts.append([])
                state = given
            before, state = state.status, fmt.module.step(state, event)
            parts[-1].append(event)
            if isinstance(event, dict) and event.get("type") == "message_start" and before == "open" != state.status:
                parts.append([event])  # it failed what was open, and begins its own
                state = fmt.module.step(given, event)
        expected = [functools.reduce(fmt.module.step, part, given) for part in parts]
        assert list(fmt.module.states(events, given)) == expected
        results = fmt.module.fold_all(events)
        for state in fmt.module.states(events):
            if state.status != "complete":
                with pytest.raises(StreamError):
                    next(results)
                break
            assert next(results) == state.snapshot
        end = functools.reduce(fmt.module.step, events, given)  # `fold` is of one message, and parts nothing
        folded = fold_outcome(fmt.module, events, given)
        assert folded == end.snapshot if end.status == "complete" else folded[-1] == end
        several += len(parts) > 1
    assert several > 15


# ------------------------------------------------------------------------------------------------ errors, halves


def texts(fmt: Format, state: Any) -> dict[Any, str]:
    """All texts that a state shows."""
    return dict(fmt.texts(state.snapshot)) if state.snapshot is not None else {}


def noted(state: Any) -> set[str]:
    """The codes of what was noted."""
    return {note.code for note in state.diagnostics}


def error_of(rng: Random, fmt: Format) -> tuple[Fields, Fields]:
    """An error as a server tells it, and what it says; half a character may be in it."""
    said = {"message": rng.choice(("no", "n\ud83d")), "type": "x_error", "code": rng.choice((7, "c\ude00", None))}
    request = {"request_id": rng.choice(("req", "r\ud83d"))}
    nothing = {"type": None, "code": None}
    ways: list[tuple[Fields, Fields]] = [
        ({"error": said, **request}, said | request),
        ({"type": "error", "error": said, **request}, said | request),
        ({"type": "error", "error": said["message"]}, said | nothing),
        ({"error": said["message"]}, said | nothing),
    ]
    if fmt is CHAT:
        ways += [({"object": "error", **said}, said), ({**said, "type": "error"}, said | {"type": None})]
        ways += [({"error_message": said["message"], "error_type": said["type"]}, said | {"code": None})]
        ways += [({"error_message": said["message"]}, said | nothing)]
        ways += [({"error_type": said["type"]}, {"type": said["type"]})]
    return rng.choice(ways)


def cut_short(rng: Random, fmt: Format) -> tuple[list[Event], Event, Any]:
    """The beginning of a stream, the event that comes next, and the state in between."""
    events = fmt.told(rng, noisy=False)
    at = rng.randrange(events.index("[DONE]") if "[DONE]" in events else len(events))
    return events[:at], events[at], functools.reduce(fmt.module.step, events[:at], fmt.module.State())


@both_formats
def test_an_error_says_what_the_server_said(fmt: Format) -> None:
    """M13, C14, B1: however it is told, at whatever event: the state fails with it and keeps what it had."""
    for seed in range(80):
        rng = Random(seed)
        _, following, state = cut_short(rng, fmt)
        event, said = error_of(rng, fmt)
        failed = fmt.module.step(state, event)
        error = failed.error
        assert isinstance(error, ServerError), event
        for name, item in ({"request_id": None} | said).items():
            assert getattr(error, name) == mend(item), event
        assert same(error.raw, mend(event))
        assert (failed.snapshot is None) == (state.snapshot is None)
        assert texts(fmt, failed).keys() == texts(fmt, state).keys()
        assert all(text.startswith(texts(fmt, state)[place]) for place, text in texts(fmt, failed).items())
        assert fmt.module.step(failed, following) == failed


def test_an_error_beside_something() -> None:
    """C14: what a chunk carries beside its error is folded first; what only looks like an error is none."""
    step, several = chat.step, 0
    for seed in range(80):
        rng = Random(seed)
        _, following, state = cut_short(rng, CHAT)
        said = rng.choice((rng.choice(("no", 5, True)), {"message": "no"}, ["no"]))
        usage = {"prompt_tokens": seed}
        assert step(state, {"error": said, "usage": usage}).usage == step(state, {"usage": usage}).usage
        if not has_choices(following):
            continue
        several += 1
        beside, after = step(state, following | {"error": said}), step(step(state, following), {"error": said})
        assert beside.status == after.status == "failed"
        assert beside.snapshot == after.snapshot
        for nothing in ({"error": None}, {"error": ""}, {"error": False}):
            assert step(state, following | nothing).snapshot == step(state, following).snapshot
            assert step(state, following | nothing).status == step(state, following).status
        assert step(state, following | {"error_message": "no", "error_type": "x"}).status != "failed"
        choices = [
            choice | {"finish_reason": "error", "error": {"message": "inner"}} for choice in following["choices"]
        ]
        inner = step(state, following | {"choices": choices})
        assert isinstance(inner.error, ServerError)
        assert inner.error.message == "inner"
        assert texts(CHAT, inner) == texts(CHAT, after)
    assert several > 20


def test_after_done() -> None:
    """C15: after [DONE] usage is taken, and nothing else; whatever is no usage alone is noted."""
    step, several = chat.step, 0
    for seed in range(80):
        rng = Random(seed)
        _, following, state = cut_short(rng, CHAT)
        done = step(state, "[DONE]")
        usage = {"usage": {"prompt_tokens": seed}}
        more: Fields = rng.choice(({}, {"error": "no"}, {"choices": []}))
        event: Any = rng.choice(("[DONE]", {"error": "no"}, {"x": 1}, following, following | usage, usage | more))
        counted = isinstance(event, dict) and "usage" in event and event["usage"] is not None
        after = step(done, event)
        if "choices" in event and event["choices"] and any("usage" in choice for choice in event["choices"]):
            continue
        several += 1
        assert after.status == ("open" if counted and done.status == "empty" else done.status)
        if done.snapshot is None or after.snapshot is None:
            assert (after.snapshot is None) == (done.snapshot is None and not counted)
        else:
            assert attrs.evolve(after.snapshot, usage=None) == attrs.evolve(done.snapshot, usage=None)
        assert not counted or (
            after.usage is not None and after.usage.prompt_tokens == event["usage"].get("prompt_tokens")
        )
        alone = counted and not has_choices(event) and not event.get("error")
        assert ("after_end" in noted(after)) == (not alone)
    assert several > 20


def closing(fmt: Format, event: Event) -> Event:
    """What closes the block or choice that a fragment is for."""
    (index, _), _ = fmt.place(event)
    if fmt is MESSAGES:
        return {"type": "content_block_stop", "index": index}
    return {"choices": [{"index": index, "delta": {}, "finish_reason": "stop"}]}


# What has its text in a place of its own, and no law cuts: the delta, and where the text is.
ELSEWHERE: list[tuple[Fields, tuple[Any, ...]]] = [
    ({"function_call": {"arguments": ""}}, ("function_call", "arguments")),
    ({"audio": {"data": ""}}, ("audio", "data")),
    ({"audio": {"transcript": ""}}, ("audio", "transcript")),
    ({"reasoning_details": [{"type": "x", "index": 9, "text": ""}]}, ("reasoning_details", 0, "text")),
]


def fragment(rng: Random, fmt: Format) -> tuple[Any, Event, list[Path]] | None:
    """A state in which a text may go on, an event that is a fragment of it, and where its piece is."""
    events, event, state = cut_short(rng, fmt)
    place, paths = fmt.place(event)
    if not paths or state.snapshot is None or any(place[0] in closed_by(before) for before in events):
        return None
    if fmt is CHAT and rare(rng, 3):
        delta, path = rng.choice(ELSEWHERE)
        return state, {"choices": [{"index": place[0], "delta": delta}]}, [("choices", 0, "delta", *path)]
    return state, event, paths


@both_formats
def test_a_pair_that_is_cut(fmt: Format) -> None:
    """B1, law 6: a first half is withheld while its text may go on, then U+FFFD, and what was shown so stays."""
    step, seen = fmt.module.step, set()
    for seed in range(250):
        found = fragment(Random(seed), fmt)
        if found is None:
            continue
        state, event, paths = found
        seen.add(paths[0][-1])
        first, second, both, lone, lone_more = (
            with_piece(event, paths, piece) for piece in ("a\ud83d", "\ude00b", "a😀b", "a\ufffd", "a\ufffdb")
        )
        half = step(state, first)
        assert half.snapshot == step(state, with_piece(event, paths, "a")).snapshot
        assert step(half, second).snapshot == step(state, both).snapshot
        assert step(half, with_piece(event, paths, "b")).snapshot == step(state, lone_more).snapshot
        for close in (closing(fmt, event), {"error": {"message": "no"}}):
            closed = step(half, close)
            assert closed.snapshot == step(step(state, lone), close).snapshot
            after = step(step(step(state, lone), close), with_piece(event, paths, "\ufffdb"))
            assert step(closed, second).snapshot == after.snapshot
            said = joined(fmt.module.changes(half, closed))
            inputs = {place for place, _ in fmt.inputs(closed.snapshot)}
            for place, text in texts(fmt, closed).items():
                more = text.removeprefix(texts(fmt, half)[place])
                assert place in inputs or said.get(path_of(fmt, place), "") == more
    assert len(seen) >= 4, seen


def with_halves(item: Any, half: str, name: str = "", *, strings: bool = True) -> Any:
    """A JSON value in which each key that nobody knows, and each string that may be any, ends with half a pair."""
    if isinstance(item, dict):
        return {
            key + half * key.startswith("x"): with_halves(inner, half, key, strings=strings)
            for key, inner in item.items()
        }
    if isinstance(item, list):
        return [with_halves(inner, half, name, strings=strings) for inner in item]
    free = (
        strings
        and isinstance(item, str)
        and item not in UNSAID
        and (name not in {"type", "object"} or item.startswith("x"))
    )
    return item + half if free else item


CHANGED = {"id_changed", "model_changed"}  # an id with a half in it is the same id when it comes again


@both_formats
def test_all_that_comes_out_is_whole(fmt: Format) -> None:
    """B1: half a pair in any string or key that comes: all that comes out encodes, and is saved as it is."""

    def fold(events: Any) -> Any:
        return functools.reduce(fmt.module.step, events, fmt.module.State())

    for seed in range(60):
        told = fmt.told(Random(seed))
        state = fold(with_halves(told, "\ud83d"))
        if state.snapshot is not None:
            json.dumps(state.snapshot.to_dict(), ensure_ascii=False).encode()
        json.dumps([attrs.asdict(note) for note in state.diagnostics], ensure_ascii=False).encode()
        assert fmt.module.State.from_json(state.to_json()) == state
        assert CHANGED & noted(state) == CHANGED & noted(fold(told))
        one, other = (fold(with_halves(told, half, strings=False)).snapshot for half in ("\ud83d", "\ufffd"))
        assert one == other
        saved = json.loads(fold(told).to_json())
        for name in [name for name, item in saved["outline"].items() if isinstance(item, str)]:
            lie = saved | {"outline": saved["outline"] | {name: saved["outline"][name] + "\ud83d"}}
            with pytest.raises(InvalidState):
                fmt.module.State.from_json(json.dumps(lie))


@both_formats
def test_numbers_that_no_json_has(fmt: Format) -> None:
    """B2: an infinity or NaN in a line is no JSON: it is noted, and nothing of the line is folded."""
    for seed in range(10):
        _, event, state = cut_short(Random(seed), fmt)
        for word in ("1e400", "-1e999", "NaN", "Infinity", "-Infinity"):
            after = fmt.module.step_json(state, json.dumps({**event, "x": "?"}).replace('"?"', word))
            assert noted(after) == noted(state) | {"malformed_event"}
            assert after.snapshot == state.snapshot


@both_formats
def test_numbers_that_json_cannot_write(fmt: Format) -> None:
    """B2: NaN and infinities that a caller decoded are null beside integers of any size; what has no digits is refused."""
    event: Any = {"type": "message_delta"} if fmt is MESSAGES else {"id": "c"}
    state = fmt.module.step(fmt.module.State(), {**event, "x": [math.nan, -math.inf, 2**80]})
    assert state.snapshot.extra == {"x": [None, None, 2**80]}
    for name in ("x", "created", "usage"):
        number = {"x_tokens": 10**5000} if name == "usage" else 10**5000
        after = fmt.module.step(state, {**event, name: number})
        assert noted(after) >= {"malformed_event"} or name == "created"
        json.dumps(after.snapshot.to_dict())
        assert fmt.module.State.from_json(after.to_json()) == after


# ------------------------------------------------------------------------------------------------ limits


def used(state: Any) -> int:
    """What a state without a limit of its own has taken of Limits.text."""
    return Limits().text - int(json.loads(state.to_json())["room"])


def long_strings(item: Any) -> int:
    """The characters of all strings and keys of a result, but for the first 1,024 of each."""
    if isinstance(item, dict):
        left_out = {"input"} if "partial_json" in item else set()  # what is certain of it is in its text too
        items = [inner for key, inner in item.items() if key not in left_out]
        return sum(map(long_strings, [*item, *items]))
    if isinstance(item, list):
        return sum(map(long_strings, item))
    return max(len(item) - 1024, 0) if isinstance(item, str) else 0


@both_formats
def test_all_that_is_kept_weighs(fmt: Format) -> None:
    """B4: whatever string of an event is long, all that comes out has been weighed; one character less is refused."""
    for seed in range(40):
        told = with_halves(fmt.told(Random(seed)), "y" * 20_000)
        state = functools.reduce(fmt.module.step, told, fmt.module.State())
        if state.snapshot is None:
            continue
        assert long_strings(state.snapshot.to_dict()) <= used(state)
        refused = functools.reduce(fmt.module.step, told, fmt.module.State(limits=Limits(text=used(state) - 1)))
        assert isinstance(refused.error, LimitExceeded)


def test_the_type_of_a_tool_weighs() -> None:
    """B4: a block's type is kept, so it weighs where it is no short one."""
    head = {"type": "x" * 5000, "input": {}}
    state = messages.step(messages.State(), {"type": "content_block_start", "index": 0, "content_block": head})
    assert used(state) == 5000 - 1024


SAID: dict[str, tuple[Format, Any]] = {
    "message": (MESSAGES, lambda fields: {"type": "message_delta", "delta": fields}),
    "completion": (CHAT, lambda fields: {"id": "c"} | fields),
    "choice": (CHAT, lambda fields: {"choices": [{"index": 0} | fields]}),
    "chat message": (CHAT, lambda fields: {"choices": [{"index": 0, "delta": fields}]}),
}


@pytest.mark.parametrize("place", SAID)
def test_an_extra_weighs_what_it_is(place: str) -> None:
    """B4: an unknown field weighs its key, its JSON and 32; said again what it is then; what has a name little."""
    fmt, event = SAID[place]
    step = fmt.module.step
    state = step(fmt.module.State(), event({}))
    first = step(state, event({"x_new": "a" * 10}))
    assert used(first) - used(state) == len("x_new") + len('"aaaaaaaaaa"') + 32
    assert used(step(first, event({"x_new": "b" * 15}))) - used(first) == 5
    assert used(step(first, event({"x_new": "b" * 5}))) - used(first) == -5
    for name in ("stop_reason", "system_fingerprint"):
        once = step(state, event({name: "y" * 2000}))
        assert used(step(step(once, event({name: "z" * 2000})), event({name: "y" * 2000}))) == used(once)


def several(n: int, by: Any) -> Fields:
    """So many unknown fields."""
    return {f"x_{i}": by(i) for i in range(n)}


MIXED: dict[str, tuple[Format, str, Any]] = {
    "calls of two choices": (
        CHAT,
        "tool_calls",
        lambda n: [
            {"choices": [{"index": i % 2, "delta": {"tool_calls": [{"index": i, "function": {"name": "f"}}]}}]}
            for i in range(n)
        ],
    ),
    "lists": (CHAT, "extra_keys", lambda n: [SAID["chat message"][1](several(n, lambda i: [i]))]),
    "fields, then lists": (
        CHAT,
        "extra_keys",
        lambda n: [SAID["chat message"][1](several(n, lambda i: [i] if i > 2 else i))],
    ),
    "lists, then fields": (
        CHAT,
        "extra_keys",
        lambda n: [SAID["chat message"][1](several(n, lambda i: [i] if i < 3 else i))],
    ),
    "counts": (
        CHAT,
        "extra_keys",
        lambda n: [{"id": "c", "usage": several(n, int) | dict.fromkeys(chat.USAGE_FIELDS, 1)}],
    ),
    "counts of a message": (
        MESSAGES,
        "extra_keys",
        lambda n: [{"type": "message_delta", "usage": several(n, int) | dict.fromkeys(messages.USAGE_FIELDS, 1)}],
    ),
    "the length of counts": (
        MESSAGES,
        "extra_keys",
        lambda n: [{"type": "message_delta", "usage": {"x": "y" * 250 * n}}],
    ),
}


@pytest.mark.parametrize("case", MIXED)
def test_what_is_counted_together(case: str) -> None:
    """B4: five are kept, however they are mixed, and may be said again; one more fails the state."""
    fmt, name, events = MIXED[case]
    state = fmt.module.State(limits=Limits(**{name: 5}))
    assert functools.reduce(fmt.module.step, events(5) * 2, state).status != "failed"
    beyond = functools.reduce(fmt.module.step, events(6), state)
    assert isinstance(beyond.error, LimitExceeded)
    assert beyond.error.limit == name


def beside(**fields: Any) -> Event:
    """A chunk with a text, and something beside it in the delta."""
    return {"id": "c", "choices": [{"index": 0, "delta": {"content": "a"} | fields}]}


DEEP: dict[str, tuple[Format, Any]] = {
    "message": (MESSAGES, lambda value: {"type": "message_delta", "x": value}),
    "usage of a message": (MESSAGES, lambda value: {"type": "message_delta", "usage": {"x": value}}),
    "chunk": (CHAT, lambda value: beside() | {"x": value}),
    "usage": (CHAT, lambda value: beside() | {"usage": {"x": value}}),
    "choice": (CHAT, lambda value: {"choices": [beside()["choices"][0] | {"x": value}]}),
    "delta": (CHAT, lambda value: beside(x=value)),
    "list": (CHAT, lambda value: beside(x=["b", value])),
    "part": (CHAT, lambda value: beside(content=["a", {"type": "x", "x": value}])),
    "audio": (CHAT, lambda value: beside(audio={"x": value})),
    "logprobs": (CHAT, lambda value: {"choices": [beside()["choices"][0] | {"logprobs": {"content": [value]}}]}),
    "a field of logprobs": (
        CHAT,
        lambda value: {"choices": [beside()["choices"][0] | {"logprobs": {"x": {"x": value}}}]},
    ),
    "call": (CHAT, lambda value: beside(tool_calls=[{"index": 0, "x": value}])),
    "function": (CHAT, lambda value: beside(tool_calls=[{"index": 0, "function": {"x": value}}])),
    "arguments": (CHAT, lambda value: beside(tool_calls=[{"index": 0, "function": {"arguments": {"x": value}}}])),
}


def test_how_deep_an_error_may_be() -> None:
    """B4, C14: the raw event of an error is kept, wide or not, unless it is nested deeper than the limit."""
    for value, kept in (([[]] * 300, True), ([[[[]]]], False)):
        event = {"error": "no", "x": value}
        error = chat.step(chat.State(limits=Limits(depth=4)), event).error
        assert isinstance(error, ServerError)
        assert error.raw == (event if kept else None)


@pytest.mark.parametrize("limit", [8, 200])
@pytest.mark.parametrize("place", DEEP)
def test_how_deep_a_kept_value_may_be(place: str, limit: int) -> None:
    """B4, M15, C2: up to about the limit, wide or not; what is deeper is noted, and of a chunk the rest is folded."""
    fmt, event = DEEP[place]

    def folded(levels: int, width: int) -> tuple[bool, Any]:
        inner: Any = "core"
        for _ in range(levels):
            inner = [inner]
        state = fmt.module.step(fmt.module.State(limits=Limits(depth=limit)), event(["b"]))
        state = fmt.module.step(state, event([inner, *[[]] * width]))
        return state.snapshot is not None and b"core" in state.snapshot.to_json(), state

    deepest = {max(n for n in range(limit - 5, limit + 5) if folded(n, width)[0]) for width in (0, 300)}
    assert len(deepest) == 1
    assert limit - 4 <= deepest.pop() < limit
    kept, state = folded(limit, 0)
    assert not kept
    assert state.status != "failed"
    assert "malformed_event" in noted(state)
    assert fmt is MESSAGES or state.snapshot.text in {"aa", "aaaa"}
