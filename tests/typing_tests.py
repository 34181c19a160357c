"""What type checkers see: read by mypy and pyright, never run."""

from collections.abc import AsyncIterator, Iterator
from typing import Any, Literal, TypedDict, assert_type

import attrs

from friendli_stream import Diagnostic, PartialJSON, StreamError, chat, messages, sse
from friendli_stream._accumulator import AsyncTap


@attrs.define
class Weather:
    """The input of a tool."""

    city: str


class Place(TypedDict):
    """The input of another tool."""

    city: str


def messages_surface(events: list[dict[str, Any]]) -> None:
    """The Messages surface."""
    state = messages.State(strict=True)
    state = messages.step(state, events[0])
    assert_type(messages.step_json(state, b"{}"), messages.State)
    assert_type(state.status, Literal["empty", "open", "complete", "failed"])
    assert_type(state.snapshot, messages.Message | None)
    assert_type(state.message, messages.Message | None)
    assert_type(state.usage, messages.Usage | None)
    assert_type(state.diagnostics, tuple[Diagnostic, ...])
    assert_type(state.error, StreamError | None)
    assert_type(state.result(), messages.Message)
    assert_type(state.to_json(), bytes)
    assert_type(messages.State.from_json(b""), messages.State)
    assert_type(messages.fold(events), messages.Message)
    assert_type(messages.fold_all(events), Iterator[messages.Message])
    assert_type(messages.states(events), Iterator[messages.State])
    for path, kind, value in messages.changes(messages.State(), state):
        assert_type(path, tuple[Any, ...])
        assert_type(kind, str)
        assert_type(value, Any)


def messages_values(message: messages.Message) -> None:
    """A final message."""
    assert_type(message.text, str)
    assert_type(message.thinking, str)
    assert_type(message.tool_uses, tuple[messages.ToolUseBlock, ...])
    assert_type(message.to_dict(), dict[str, Any])
    assert_type(message.to_json(), bytes)
    assert_type(message.to_request(), dict[str, Any])
    for block in message.content:
        if isinstance(block, messages.TextBlock):
            assert_type(block.text, str)
        elif isinstance(block, messages.ThinkingBlock):
            assert_type(block.signature, str | None)
        elif isinstance(block, messages.ToolUseBlock):
            assert_type(block.input_state, Literal["complete", "incomplete", "invalid"])
            assert_type(block.input, dict[str, Any])
            assert_type(block.input_as(Weather), Weather)
            assert_type(block.input_as(Place), Place)
        else:
            assert_type(block, messages.OpaqueBlock)


def chat_surface(events: list[dict[str, Any]]) -> None:
    """The same surface for the second format."""
    state = chat.step(chat.State(), events[0])
    assert_type(state, chat.State)
    assert_type(state.snapshot, chat.Completion | None)
    assert_type(state.completion, chat.Completion | None)
    assert_type(chat.fold(events), chat.Completion)
    completion = state.result()
    assert_type(completion, chat.Completion)
    assert_type(completion.choices, tuple[chat.Choice, ...])
    assert_type(completion.tool_calls[0].input_as(Weather), Weather)
    assert_type(completion.choices[0].message, chat.ChatMessage)


def accumulators(events: list[dict[str, Any]], async_events: AsyncIterator[int]) -> None:
    """A tap passes events on with the type they have."""
    accumulator = messages.Accumulator()
    assert_type(accumulator.state, messages.State)
    assert_type(accumulator.snapshot, messages.Message | None)
    assert_type(accumulator.result(), messages.Message)
    assert_type(next(accumulator.tap(events)), dict[str, Any])
    assert_type(aiter(chat.Accumulator().atap(async_events)), AsyncTap[int])
    assert_type(chat.Accumulator().result(), chat.Completion)


def the_rest(chunks: list[bytes]) -> None:
    """Server-sent events and JSON that is still arriving."""
    assert_type(sse.events(chunks), Iterator[Any])
    assert_type(sse.Decoder().feed(b""), list[sse.ServerSentEvent])
    assert_type(sse.EventDecoder().feed(b""), list[Any])
    assert_type(PartialJSON().state, Literal["incomplete", "complete", "invalid"])
