"""Rules that the laws do not see: what no stream can show, and streams that tell one thing in one way only."""

from __future__ import annotations

import copy
import sys
from collections.abc import Iterator
from random import Random
from typing import Any

import attrs
import pytest

from friendli_stream import chat, messages
from tests.tell import Format, both_formats
from tests.test_laws import spoil_value

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


def test_where_the_next_completion_does_not_begin() -> None:
    """C17: not with another id if ids changed already, nor where every choice of the chunk has a finish_reason."""

    def chunk(name: str, finish: str | None = None) -> dict[str, Any]:
        return {"id": name, "choices": [{"index": 0, "delta": {"content": "x"}, "finish_reason": finish}]}

    assert len(list(chat.states([chunk("a", "stop"), chunk("b"), chunk("b", "stop")]))) == 2
    assert len(list(chat.states([chunk("a"), chunk("b", "stop"), chunk("c"), chunk("c", "stop")]))) == 1
    assert len(list(chat.states([chunk("a", "stop"), chunk("b", "stop")]))) == 1
