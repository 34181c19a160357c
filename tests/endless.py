"""Streams without end, as bytes, and a process that folds one: `python -m tests.endless CASE BYTES ROOM`."""

import itertools
import json
import resource
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import NamedTuple

from friendli_stream import LimitExceeded, Limits, chat, messages, sse

LIMIT = 2**19


def lines(event: Callable[[int], str], *head: str) -> Iterator[bytes]:
    """The bytes of an endless stream, in chunks of about 64 KiB: the events `head`, then `event` of 0, 1, 2, ..."""
    yield b"".join(b"data: %b\n\n" % data.encode() for data in head)
    size = 65536 // (len(event(0)) + 8) + 1
    for first in itertools.count(0, size):
        yield "".join([f"data: {event(i)}\n\n" for i in range(first, first + size)]).encode()


START = '{"type":"message_start","message":{"id":"m"}}'
TEXT = '{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}'
TOOL = '{"type":"content_block_start","index":0,"content_block":{"type":"tool_use","id":"t","name":"n","input":{}}}'
LONG = "x" * 1000


class Endless(NamedTuple):
    """A stream of a format, its chunks, and the limit that it meets; None: what is too much of it is dropped."""

    format: ModuleType
    chunks: Callable[[], Iterator[bytes]]
    refused: str | None


BYTES: dict[str, Endless] = {
    "one line": Endless(messages, lambda: itertools.repeat(b"x" * 65536), "event"),
    "one data line": Endless(chat, lambda: itertools.chain([b"data: "], itertools.repeat(b"x" * 65536)), "event"),
    "one event": Endless(chat, lambda: itertools.repeat((b"data: " + b"x" * 57 + b"\n") * 1024), "event"),
    "tiny blocks": Endless(
        messages,
        lambda: lines(lambda i: f'{{"type":"content_block_start","index":{i},"content_block":{{"type":"x"}}}}', START),
        "content_blocks",
    ),
    "tiny choices": Endless(
        chat,
        lambda: lines(lambda i: f'{{"choices":[{{"index":{i},"delta":{{"content":"a"}}}}]}}'),
        "choices",
    ),
    "unknown fields": Endless(
        messages,
        lambda: lines(lambda i: f'{{"type":"message_delta","delta":{{"x_{i}":1}}}}', START),
        "extra_keys",
    ),
    "unknown fields of chat": Endless(
        chat,
        lambda: lines(lambda i: f'{{"choices":[{{"index":0,"delta":{{"x_{i}":"{LONG}"}}}}]}}'),
        "text",
    ),
    "a field said again": Endless(
        chat,
        lambda: lines(lambda i: f'{{"choices":[{{"index":0,"delta":{{}}}}],"x":"{i}{LONG}","id":"{i}{LONG}"}}'),
        None,
    ),
    "diagnostics": Endless(messages, lambda: lines(lambda i: f'{{"type":"x_{i}{LONG}"}}', START), None),
    "diagnostics of chat": Endless(chat, lambda: lines(lambda i: f'{{"x_{i}":"{LONG}"}}'), None),
    "lists": Endless(
        messages,
        lambda: lines(
            lambda i: (
                f'{{"type":"content_block_delta","index":0,"delta":{{"type":"citations_delta","citation":[{i},"{LONG[:99]}"]}}}}'
            ),
            START,
            TEXT,
        ),
        "text",
    ),
    "lists of chat": Endless(
        chat,
        lambda: lines(
            lambda i: (
                f'{{"choices":[{{"index":0,"delta":{{"content":"a"}},"logprobs":{{"content":[{i},"{LONG[:99]}"]}}}}]}}'
            )
        ),
        "text",
    ),
    "lists in a tool input": Endless(
        messages,
        lambda: lines(
            lambda _: (
                '{"type":"content_block_delta","index":0,"delta":{"type":"input_json_delta","partial_json":"%s"}}'
                % ("[[1]," * 20)
            ),
            START,
            TOOL,
        ),
        "text",
    ),
}


def take(case: str, size: int, room: int) -> tuple[str | None, int]:
    """Fold the first bytes of a stream in `room` more bytes of address space: which limit it met, what was taken.

    Whoever does so goes on behind every refusal, and reads what there is at the end.
    """
    form, chunks, _ = BYTES[case]
    decoder = sse.EventDecoder(limit=LIMIT)
    state = form.State(limits=Limits(text=LIMIT))
    refused = None
    fed = 0
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + room,) * 2)
    for chunk in chunks():
        piece = chunk[: size - fed]
        try:
            events = decoder.feed(piece)
        except LimitExceeded as error:
            refused = error.limit
            events = []
        for event in events:
            state = form.step(state, event)
        fed += len(piece)
        if fed == size:
            break
    if state.snapshot is not None:
        tools = state.snapshot.tool_uses if form is messages else state.snapshot.tool_calls
        [tool.partial_input for tool in tools]
    if isinstance(state.error, LimitExceeded):
        refused = state.error.limit
    assert len(state.diagnostics) <= Limits().diagnostics
    return refused, fed


if __name__ == "__main__":
    print(json.dumps(take(sys.argv[1], *map(int, sys.argv[2:]))))
