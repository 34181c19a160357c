"""Streams of n events, each event the bytes of its JSON, as servers send them."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from itertools import cycle, islice
from types import ModuleType
from typing import Any, NamedTuple

import orjson

from benchmarks.measure import Work, parts
from friendli_stream import chat, messages

WORDS = (" the", " stream", " of", " tokens", " arrives", ",", " piece", " by", " piece", " and", " folds", ".\n")
CJK = ("흐름", "은 ", "조각", "으로 ", "온다", "。", "流", "れは", "断片", "で来る")
ALPHABET = "aB3xYz9Qr7LmN0pW"

Events = list[bytes]
Tell = Callable[..., Events]


class Kind(NamedTuple):
    """A kind of stream: its format, the events of one of n, and what decode + step should cost at most.

    `tell(n, first)`: the first pieces of the text come as one, so that the next one is already far behind the head.
    """

    format: ModuleType
    tell: Tell
    wanted: float | None = None


def decoded(events: Events) -> Work:
    """Decoding each event: the floor of the others."""

    def work() -> None:
        loads = orjson.loads
        for event in events:
            loads(event)

    return work


def told(pieces: Iterable[str], first: int) -> Iterator[str]:
    rest = iter(pieces)
    yield "".join(islice(rest, first))
    yield from rest


def words(count: int, first: int, source: tuple[str, ...] = WORDS) -> Iterator[str]:
    return told(islice(cycle(source), count), first)


def long_string(size: int, line: str = "one line of a file that is written whole. ") -> str:
    """A JSON object whose one value is a string."""
    return json.dumps({"content": (line * (size // len(line) + 1))[: max(size - 14, 1)]})


def bounded(size: int) -> str:
    """A JSON object of 64 keys at most on each level, as deep as it takes for the size."""
    record = {f"field_{number}": f"value {number}" if number % 2 else number * 1.5 for number in range(20)}
    items: list[Any] = [record]
    width = len(json.dumps(record)) + 10
    count = max(1, size // width)
    items = [record] * count
    while len(items) > 64:
        items = [{f"part_{at}": item for at, item in enumerate(items[i : i + 64])} for i in range(0, len(items), 64)]
    return json.dumps({f"part_{at}": item for at, item in enumerate(items)})


def wide(size: int) -> str:
    """A JSON array of numbers, open to the end."""
    return json.dumps({"numbers": [number * 7 for number in range(max(1, size // 8))]})


# ------------------------------------------------------------------------------------------------ Messages


def message(block: dict[str, Any], deltas: Iterator[dict[str, Any]]) -> Events:
    head: list[dict[str, Any]] = [
        {
            "type": "message_start",
            "message": {
                "id": "msg_01",
                "type": "message",
                "role": "assistant",
                "model": "a-model",
                "content": [],
                "stop_reason": None,
                "stop_sequence": None,
                "usage": {"input_tokens": 25, "output_tokens": 1},
            },
        },
        {"type": "content_block_start", "index": 0, "content_block": block},
    ]
    tail: list[dict[str, Any]] = [
        {"type": "content_block_stop", "index": 0},
        {
            "type": "message_delta",
            "delta": {"stop_reason": "end_turn", "stop_sequence": None},
            "usage": {"output_tokens": 15},
        },
        {"type": "message_stop"},
    ]
    middle = ({"type": "content_block_delta", "index": 0, "delta": delta} for delta in deltas)
    return [orjson.dumps(event) for event in (*head, *middle, *tail)]


def message_text(n: int, first: int = 1) -> Events:
    return message({"type": "text", "text": ""}, ({"type": "text_delta", "text": word} for word in words(n - 5, first)))


def message_thinking(n: int, first: int = 1) -> Events:
    block = {"type": "thinking", "thinking": "", "signature": ""}
    return message(block, ({"type": "thinking_delta", "thinking": word} for word in words(n - 5, first)))


def message_input(text: Callable[[int], str]) -> Tell:
    """A tool call whose input comes in fragments of about 8 characters."""

    def tell(n: int, first: int = 1) -> Events:
        block = {"type": "tool_use", "id": "toolu_01", "name": "write", "input": {}}
        whole = text((n - 5) * 8)
        pieces = told(parts(whole, max(1, -(-len(whole) // (n - 5)))), first)
        return message(block, ({"type": "input_json_delta", "partial_json": piece} for piece in pieces))

    return tell


# ------------------------------------------------------------------------------------------------ chat.completion.chunk


Fields = Callable[[int], dict[str, Any]]


def nothing(_: int) -> dict[str, Any]:
    return {}


def chunks(deltas: Iterable[dict[str, Any]], each: Fields = nothing, choice: Fields = nothing) -> Events:
    """A role, the deltas, the end. `each`, `choice`: what the chunk at an index, and its choice, have besides."""
    envelope = {"id": "chatcmpl-01", "object": "chat.completion.chunk", "created": 1720000000, "model": "a-model"}
    all_of = [{"role": "assistant", "content": ""}, *deltas, {}]
    events = []
    for at, delta in enumerate(all_of):
        reason = None if delta else "stop"
        one = {"index": 0, "delta": delta, "finish_reason": reason, "logprobs": None, **choice(at)}
        events.append(orjson.dumps({**envelope, "choices": [one], **each(at)}))
    return [*events, b'"[DONE]"']


def chat_text(n: int, first: int = 1) -> Events:
    return chunks({"content": word} for word in words(n - 3, first))


def chat_reasoning(n: int, first: int = 1) -> Events:
    deltas = ({"reasoning_content": word, "reasoning": word} for word in words(n - 3, first))
    return chunks(deltas, lambda _: {"usage": None})


def chat_role(n: int, first: int = 1) -> Events:
    return chunks({"role": "assistant", "content": word} for word in words(n - 3, first))


def chat_usage(n: int, first: int = 1) -> Events:
    return chunks(
        ({"content": word} for word in words(n - 3, first)),
        lambda at: {"usage": {"prompt_tokens": 27, "completion_tokens": at, "total_tokens": 27 + at}},
    )


def chat_obfuscation(n: int, first: int = 1) -> Events:
    return chunks(
        ({"content": word} for word in words(n - 3, first)),
        lambda at: {"usage": None, "obfuscation": ALPHABET[: 4 + at % 10]},
    )


def chat_cjk(n: int, first: int = 1) -> Events:
    return chunks({"content": word} for word in words(n - 3, first, CJK))


def chat_input(text: Callable[[int], str]) -> Tell:
    def tell(n: int, first: int = 1) -> Events:
        whole = text((n - 4) * 8)
        head = {"index": 0, "id": "call_01", "type": "function", "function": {"name": "write", "arguments": ""}}
        pieces = told(parts(whole, max(1, -(-len(whole) // (n - 4)))), first)
        calls = [head, *({"index": 0, "function": {"arguments": piece}} for piece in pieces)]
        return chunks({"tool_calls": [call]} for call in calls)

    return tell


def chat_logprobs(n: int, first: int = 1) -> Events:
    entry = {"token": " the", "logprob": -0.25, "bytes": [32, 116, 104, 101], "top_logprobs": []}

    def choice(at: int) -> dict[str, Any]:
        return {"logprobs": {"content": [entry] * (first if at == 1 else 1), "refusal": None}}

    return chunks(({"content": word} for word in words(n - 3, first)), choice=choice)


KINDS = {
    "Messages text": Kind(messages, message_text, 2.8),
    "Messages thinking": Kind(messages, message_thinking, 2.8),
    "Messages tool input": Kind(messages, message_input(bounded), 2.8),
    "chat text": Kind(chat, chat_text, 3.0),
    "chat reasoning, mirrored": Kind(chat, chat_reasoning, 3.0),
    "chat role in each": Kind(chat, chat_role, 3.0),
    "chat usage in each": Kind(chat, chat_usage, 4.5),
    "chat obfuscation": Kind(chat, chat_obfuscation, 3.0),
    "chat CJK text": Kind(chat, chat_cjk, 3.0),
    "chat tool input": Kind(chat, chat_input(bounded), 3.0),
    "chat logprobs": Kind(chat, chat_logprobs),
}
