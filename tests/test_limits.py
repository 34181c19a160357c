"""B4: each limit is met exactly, keeps what was folded, and never depends on who read what; memory stays bounded.

The endless streams run to 2 MB each here, 16 times the limit of their text, and those of bytes to 16 MB each, in a
process that may take 8 MB. To make the latter 1 GB each, in about ten minutes (`-k endless` for all, in hours):

    HOSTILE_MB=1000 pytest tests/test_limits.py -k endless_bytes
"""

from __future__ import annotations

import functools
import gc
import itertools
import json
import os
import subprocess
import sys
import tracemalloc
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from friendli_stream import LimitExceeded, Limits, sse
from tests.endless import BYTES
from tests.tell import CHAT, FORMATS, MESSAGES, Format

MB = 2**20
HOSTILE = int(os.environ.get("HOSTILE_MB", "2")) * MB
HOSTILE_BYTES = int(os.environ.get("HOSTILE_MB", "16")) * MB
ROOM = 8 * MB  # of address space, for a process that takes them
LIMIT = MB // 8
BOUND = 4 * MB  # encoding a text as JSON takes some 16 times its size for a moment


def start(content: Any = ()) -> dict[str, Any]:
    return {"type": "message_start", "message": {"id": "m", "content": list(content)}}


def block(index: int, kind: str = "text", **fields: Any) -> dict[str, Any]:
    return {"type": "content_block_start", "index": index, "content_block": {"type": kind, **fields}}


def delta(index: int, kind: str, **fields: Any) -> dict[str, Any]:
    return {"type": "content_block_delta", "index": index, "delta": {"type": kind, **fields}}


def message_delta(**fields: Any) -> dict[str, Any]:
    return {"type": "message_delta", "delta": fields}


def chunk(*choices: dict[str, Any], **fields: Any) -> dict[str, Any]:
    return {"id": "c", "choices": list(choices), **fields}


def says(_index: int = 0, **fields: Any) -> dict[str, Any]:
    return {"index": _index, "delta": fields}


def call(index: int, **fields: Any) -> dict[str, Any]:
    return {"index": index, "id": f"call_{index}", "function": {"name": "f", "arguments": ""}, **fields}


def fold(fmt: Format, events: Any, limits: Limits, *, read: bool = False) -> Any:
    """The state after the events; `read`: somebody reads every state in between."""
    state = fmt.module.State(limits=limits)
    for event in events:
        state = fmt.module.step(state, event)
        if read and state.snapshot is not None:
            state.snapshot.to_dict()
            [tool.partial_input for _, tool in fmt.inputs(state.snapshot)]
            state.to_json()
    return state


# ------------------------------------------------------------------------------------------------ counts


def keys(number: int) -> dict[str, int]:
    return {f"x_{i}": i for i in range(number)}


COUNTED: dict[str, tuple[Format, str, Callable[[int], list[Any]]]] = {
    "blocks": (MESSAGES, "content_blocks", lambda n: [start(), *map(block, range(n))]),
    "blocks with gaps": (MESSAGES, "content_blocks", lambda n: [start(), *(block(i * 10**6) for i in range(n))]),
    "implicit blocks": (
        MESSAGES,
        "content_blocks",
        lambda n: [start(), *(delta(i, "text_delta", text="a") for i in range(n))],
    ),
    "blocks given": (MESSAGES, "content_blocks", lambda n: [start([{"type": "text", "text": "a"}] * n)]),
    "message extras": (
        MESSAGES,
        "extra_keys",
        lambda n: [start(), *(message_delta(**{f"x_{i}": 1}) for i in range(n))],
    ),
    "message extras at once": (MESSAGES, "extra_keys", lambda n: [start(), message_delta(**keys(n))]),
    "extras of message_delta itself": (
        MESSAGES,
        "extra_keys",
        lambda n: [start(), *({"type": "message_delta", "delta": {}, f"x_{i}": 1} for i in range(n))],
    ),
    "block extras": (MESSAGES, "extra_keys", lambda n: [start(), block(0, **keys(n))]),
    "delta extras": (
        MESSAGES,
        "extra_keys",
        lambda n: [start(), block(0), *(delta(0, "text_delta", text="a", **{f"x_{i}": 1}) for i in range(n))],
    ),
    "choices": (CHAT, "choices", lambda n: [chunk(says(i, content="a")) for i in range(n)]),
    "choices at once": (CHAT, "choices", lambda n: [chunk(*(says(i, content="a") for i in range(n)))]),
    "tool calls": (CHAT, "tool_calls", lambda n: [chunk(says(tool_calls=[call(i)])) for i in range(n)]),
    "tool calls at once": (CHAT, "tool_calls", lambda n: [chunk(says(tool_calls=[call(i) for i in range(n)]))]),
    "tool calls without index": (
        CHAT,
        "tool_calls",
        lambda n: [chunk(says(tool_calls=[{"id": f"call_{i}", "function": {"name": "f"}}])) for i in range(n)],
    ),
    "chunk extras": (CHAT, "extra_keys", lambda n: [chunk(**{f"x_{i}": 1}) for i in range(n)]),
    "choice extras": (CHAT, "extra_keys", lambda n: [chunk({"index": 0, "delta": {}, f"x_{i}": 1}) for i in range(n)]),
    "chat delta extras": (CHAT, "extra_keys", lambda n: [chunk(says(**{f"x_{i}": 1})) for i in range(n)]),
    "call extras": (
        CHAT,
        "extra_keys",
        lambda n: [
            chunk(says(tool_calls=[call(0)])),
            *(chunk(says(tool_calls=[{"index": 0, f"x_{i}": 1}])) for i in range(n)),
        ],
    ),
}


@pytest.mark.parametrize("read", [False, True], ids=["unread", "read"])
@pytest.mark.parametrize("case", COUNTED)
def test_counts(case: str, read: bool) -> None:
    """B4: as many as the limit is are kept; one more fails the state, nothing of that event folded, the rest kept."""
    fmt, name, events = COUNTED[case]
    limits = Limits(**{name: 5})
    state = fold(fmt, events(5), limits, read=read)
    assert state.status != "failed", state.error
    beyond = fold(fmt, events(6), limits, read=read)
    assert beyond.status == "failed"
    before = fold(fmt, events(6)[:-1], limits)
    assert (before.snapshot and before.snapshot.to_dict()) == (beyond.snapshot and beyond.snapshot.to_dict())
    with pytest.raises(LimitExceeded) as caught:
        beyond.result()
    assert (caught.value.limit, caught.value.allowed) == (name, 5)
    assert caught.value.state is beyond
    more = functools.reduce(fmt.module.step, events(5), beyond)
    assert more.snapshot == beyond.snapshot
    assert fold(fmt, events(6), Limits()).status != "failed"


# ------------------------------------------------------------------------------------------------ weights


WEIGHED: dict[str, tuple[Format, list[Any], Callable[[str], Any]]] = {
    "text": (MESSAGES, [start(), block(0)], lambda s: delta(0, "text_delta", text=s)),
    "thinking": (MESSAGES, [start(), block(0, "thinking")], lambda s: delta(0, "thinking_delta", thinking=s)),
    "signature": (MESSAGES, [start(), block(0, "thinking")], lambda s: delta(0, "signature_delta", signature=s)),
    "input": (MESSAGES, [start(), block(0, "tool_use")], lambda s: delta(0, "input_json_delta", partial_json=s)),
    "compaction": (MESSAGES, [start(), block(0, "compaction")], lambda s: delta(0, "compaction_delta", content=s)),
    "content": (CHAT, [chunk(says(content="a"))], lambda s: chunk(says(content=s))),
    "reasoning": (
        CHAT,
        [chunk(says(reasoning="a", reasoning_content="a"))],
        lambda s: chunk(says(reasoning_content=s)),
    ),
    "refusal": (CHAT, [chunk(says(refusal="a"))], lambda s: chunk(says(refusal=s))),
    "arguments": (
        CHAT,
        [chunk(says(tool_calls=[call(0)]))],
        lambda s: chunk(says(tool_calls=[{"index": 0, "function": {"arguments": s}}])),
    ),
}
ENTRIES: dict[str, tuple[Format, list[Any], Callable[[Any], Any]]] = {
    "citations": (MESSAGES, [start(), block(0)], lambda item: delta(0, "citations_delta", citation=item)),
    "logprobs": (
        CHAT,
        [chunk(says(content="a"))],
        lambda item: chunk({"index": 0, "delta": {}, "logprobs": {"content": [item]}}),
    ),
    "annotations": (CHAT, [chunk(says(content="a"))], lambda item: chunk(says(annotations=[item]))),
    "unknown deltas": (MESSAGES, [start(), block(0)], lambda item: delta(0, "x_delta", **item)),
}


def lowest(fmt: Format, events: list[Any], guess: int) -> int:
    """The lowest limit of text that the events stay within."""
    low, high = 0, guess
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fold(fmt, events, Limits(text=middle)).status == "failed" else (low, middle)
    return high


@pytest.mark.parametrize("case", WEIGHED)
def test_text_is_counted_by_the_character(case: str) -> None:
    """B4: each character of each text counts as one, however it is cut and whoever reads; nothing is lost at the bound."""
    fmt, head, piece = WEIGHED[case]
    bound = lowest(fmt, [*head, piece("é" * 10)], 10_000)
    assert lowest(fmt, [*head, *[piece("😀")] * 25], 10_000) == bound + 15
    for read in (False, True):
        full = fold(fmt, [*head, piece("aaaa"), *[piece("a")] * 6], Limits(text=bound), read=read)
        assert full.status != "failed"
        over = fold(fmt, [*head, piece("aaaa"), *[piece("a")] * 7], Limits(text=bound), read=read)
        with pytest.raises(LimitExceeded) as caught:
            over.result()
        assert (caught.value.limit, caught.value.allowed) == ("text", bound)
        assert list(fmt.texts(over.snapshot)) == list(fmt.texts(full.snapshot))


@pytest.mark.parametrize("case", ENTRIES)
def test_entries_weigh_their_json_and_32(case: str) -> None:
    """B4, Limits: an entry of a list weighs the length of its JSON and 32."""
    fmt, head, entry = ENTRIES[case]
    item = {"token": "x" * 40, "n": [1, 2]}
    one, two = (lowest(fmt, [*head, *[entry(item)] * n], 10_000) for n in (1, 2))
    kept = {"type": "x_delta", **item} if case == "unknown deltas" else item
    length = len(json.dumps(kept, separators=(",", ":")))
    assert length + 32 <= two - one <= length + 34


@pytest.mark.parametrize("fmt", FORMATS, ids=lambda fmt: fmt.name)
def test_replaced_values_weigh_once(fmt: Format) -> None:
    """B4: what replaces something weighs instead of it, so that a long stream of fields said again meets no limit."""
    if fmt is MESSAGES:
        events = [start(), *[message_delta(x="y" * 100, stop_reason="s")] * 500]
        usage = [{"type": "message_delta", "delta": {}, "usage": {"x": "y" * 100}}] * 500
    else:
        events = [chunk(says(x="y" * 100), x="y" * 100, service_tier="s")] * 500
        usage = [chunk(usage={"x": "y" * 100})] * 500
    assert fold(fmt, events + usage, Limits(text=3000)).status != "failed"


# ------------------------------------------------------------------------------------------------ dropped and counted


def deep(levels: int) -> Any:
    return functools.reduce(lambda inner, _: [inner], range(levels), 0)


@pytest.mark.parametrize("limit", [3, 200, 250])
def test_depth(limit: int) -> None:
    """B4, M15, C2: what is nested deeper than the limit is noted, of a chunk only that part; the state goes on."""
    limits = Limits(depth=limit)
    head = [start(), message_delta(stop_reason="end_turn")]
    inside = {"type": "message_delta", "x": deep(limit - 1)}
    fits = fold(MESSAGES, [*head, inside], limits)
    assert fits.snapshot.extra == {"x": deep(limit - 1)}
    too_deep = fold(MESSAGES, [*head, {**inside, "x": deep(limit), "delta": {"stop_reason": "other"}}], limits)
    assert too_deep.status == "open"
    assert [note.code for note in too_deep.diagnostics] == ["malformed_event"]
    assert too_deep.snapshot == fold(MESSAGES, head, limits).snapshot
    levels = limit
    while levels and "x" not in fold(CHAT, [chunk(says(content="a"), x=deep(levels))], limits).snapshot.extra:
        levels -= 1
    assert limit - 1 <= levels <= limit
    state = fold(CHAT, [chunk(says(content="a"), x=deep(levels + 1))], limits)
    assert (state.status, state.snapshot.choices[0].message.content) == ("open", "a")
    assert [note.code for note in state.diagnostics] == ["malformed_event"]


@pytest.mark.parametrize("fmt", FORMATS, ids=lambda fmt: fmt.name)
def test_depth_of_a_tool_input(fmt: Format) -> None:
    """B4, J7: a tool input nested deeper than the limit is "invalid"; the state does not fail."""
    for levels, expected in ((7, "complete"), (8, "invalid")):
        text = '{"a":' + "[" * (levels - 1) + "]" * (levels - 1) + "}"
        if fmt is MESSAGES:
            events = [start(), block(0, "tool_use"), delta(0, "input_json_delta", partial_json=text)]
        else:
            events = [chunk(says(tool_calls=[call(0, function={"name": "f", "arguments": text})]))]
        state = fold(fmt, events, Limits(depth=7))
        ((_, tool),) = fmt.inputs(state.snapshot)
        assert tool.input_state == expected
        assert state.status == "open"


@pytest.mark.parametrize("fmt", FORMATS, ids=lambda fmt: fmt.name)
def test_diagnostics(fmt: Format) -> None:
    """B4: notes beyond the limit are dropped and counted; those that are kept count on."""
    unknown = [{"type": f"x_{i}"} for i in range(5)]
    state = fold(fmt, unknown + unknown, Limits(diagnostics=3))
    assert [(note.count, note.event_number) for note in state.diagnostics] == [(2, 1), (2, 2), (2, 3)]
    assert state.diagnostics_omitted == 4
    assert state.status != "failed"


def test_unknown_deltas() -> None:
    """B4, M5: unknown deltas beyond the limit of a block are dropped and counted; each block has its own."""
    deltas = [delta(i, kind, n=n) for n in range(4) for i in (0, 1) for kind in ("x_delta",)]
    state = fold(MESSAGES, [start(), block(0), block(1), *deltas], Limits(unknown_deltas=3))
    assert state.status == "open"
    for one in state.snapshot.content:
        assert [kept["n"] for kept in one.unknown_deltas] == [0, 1, 2]
    assert sum(note.count for note in state.diagnostics) == len(deltas)


# ------------------------------------------------------------------------------------------------ memory


def peak(work: Callable[[], Any]) -> int:
    """The most bytes that are allocated at once while it works."""
    gc.collect()
    tracemalloc.start()
    try:
        work()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


BIG = "x" * 4000
ENDLESS: dict[str, tuple[Format, list[Any], Callable[[int], Any]]] = {
    "text": (MESSAGES, [start(), block(0)], lambda i: delta(0, "text_delta", text=BIG + str(i))),
    "tiny blocks": (MESSAGES, [start()], block),
    "unknown fields": (MESSAGES, [start()], lambda i: message_delta(**{f"{BIG}{i}": 1})),
    "a field said again": (MESSAGES, [start()], lambda i: message_delta(x=BIG + str(i), stop_reason=f"{BIG}{i}")),
    "counts": (MESSAGES, [start()], lambda i: {"type": "message_delta", "usage": {BIG + str(i): i}}),
    "diagnostics": (MESSAGES, [start()], lambda i: {"type": f"{BIG}{i}"}),
    "malformed": (MESSAGES, [start()], lambda i: [BIG + str(i)]),
    "citations": (MESSAGES, [start(), block(0)], lambda i: delta(0, "citations_delta", citation={"a": BIG + str(i)})),
    "tiny citations": (MESSAGES, [start(), block(0)], lambda i: delta(0, "citations_delta", citation=i)),
    "unknown deltas": (MESSAGES, [start(), block(0)], lambda i: delta(0, f"x_{i}", text=BIG)),
    "misplaced deltas": (MESSAGES, [start(), block(0)], lambda i: delta(0, "thinking_delta", thinking=BIG + str(i))),
    "open arrays": (
        MESSAGES,
        [start(), block(0, "tool_use")],
        lambda _: delta(0, "input_json_delta", partial_json="[" * 4000),
    ),
    "pings": (MESSAGES, [start()], lambda _: {"type": "ping", "x": BIG}),
    "after the end": (MESSAGES, [start(), {"type": "message_stop"}], lambda i: delta(i, "text_delta", text=BIG)),
    "content": (CHAT, [], lambda i: chunk(says(content=BIG + str(i)))),
    "choices": (CHAT, [], lambda i: chunk(says(i, content="a"))),
    "calls": (CHAT, [], lambda i: chunk(says(tool_calls=[call(i)]))),
    "names": (CHAT, [], lambda i: chunk(says(tool_calls=[{"index": 0, "function": {"name": BIG + str(i)}}]))),
    "ids": (CHAT, [], lambda i: chunk(says(content="a"), id=BIG + str(i), model=BIG + str(i))),
    "chat fields": (CHAT, [], lambda i: chunk(says(content="a"), **{f"{BIG}{i}": 1})),
    "chat fields said again": (CHAT, [], lambda i: chunk(says(x=BIG + str(i)), x=BIG + str(i), service_tier=BIG)),
    "chat counts": (CHAT, [], lambda i: chunk(says(content="a"), usage={BIG + str(i): i})),
    "chat diagnostics": (CHAT, [], lambda i: {"x": BIG + str(i)}),
    "logprobs": (CHAT, [], lambda i: chunk({"index": 0, "delta": {}, "logprobs": {"content": [BIG + str(i)]}})),
    "tiny logprobs": (CHAT, [], lambda i: chunk({"index": 0, "delta": {}, "logprobs": {"content": [i]}})),
    "log lists": (CHAT, [], lambda i: chunk({"index": 0, "delta": {}, "logprobs": {f"x_{i}": [BIG]}})),
    "details": (CHAT, [], lambda i: chunk(says(reasoning_details=[{"type": "t", "index": i, "text": BIG}]))),
    "parts": (CHAT, [], lambda i: chunk(says(content=[{"type": "x", "x": BIG + str(i)}]))),
    "lists": (CHAT, [], lambda i: chunk(says(x=[i, BIG]))),
    "audio": (CHAT, [], lambda i: chunk(says(audio={"data": BIG, f"x_{i}": i}))),
    "differing reasoning": (CHAT, [], lambda i: chunk(says(reasoning=BIG, reasoning_content=str(i)))),
    "after done": (CHAT, [chunk(says(content="a")), "[DONE]"], lambda i: chunk(says(content=BIG + str(i)))),
}


@pytest.mark.parametrize("case", ENDLESS)
def test_endless_streams(case: str) -> None:
    """B4: a stream without end is refused or takes no more memory; here 128 K characters of text keep it under 4 MB."""
    fmt, head, event = ENDLESS[case]

    def feed() -> None:
        state = fold(fmt, head, Limits(text=LIMIT))
        fed = 0
        for i in itertools.count():
            state = fmt.module.step(state, event(i))
            fed += 4000
            if state.status == "failed" or fed > HOSTILE:
                break
        assert len(state.diagnostics) <= 64
        if state.status == "failed":
            assert isinstance(state.error, LimitExceeded)
        state.to_json()

    assert peak(feed) < BOUND


LINES: dict[str, Callable[[], Iterator[bytes]]] = {
    "one line": lambda: itertools.repeat(b"x" * 65536),
    "one data line": lambda: itertools.chain([b"data: "], itertools.repeat(b"x" * 65536)),
    "one comment": lambda: itertools.chain([b":"], itertools.repeat(b"x" * 65536)),
    "one event of many lines": lambda: itertools.repeat(b"data: x\n" * 8192),
    "many empty data lines": lambda: itertools.repeat(b"data\n" * 8192),
    "an object without end": lambda: itertools.chain([b'{"a": [\n'], itertools.repeat(b"1,\n" * 8192)),
    "empty lines": lambda: itertools.repeat(b"\n" * 65536),
    "ids": lambda: itertools.repeat(b"id: " + b"x" * 65000 + b"\n"),
}


SILENT = {
    sse.Decoder: {"one comment", "empty lines", "ids", "an object without end"},
    sse.EventDecoder: {"one comment", "empty lines", "ids"},
}


@pytest.mark.parametrize("decoder", [sse.Decoder, sse.EventDecoder])
@pytest.mark.parametrize("case", LINES)
def test_endless_lines(case: str, decoder: Callable[..., Any]) -> None:
    """S5: bytes without end raise LimitExceeded or say nothing and are dropped; memory stays in proportion to the limit."""

    def feed() -> None:
        one = decoder(limit=LIMIT // 4)
        fed = 0
        try:
            for data in LINES[case]():
                one.feed(data)
                fed += len(data)
                if fed > HOSTILE // 8:
                    break
        except LimitExceeded as error:
            assert error.limit is not None
            assert error.allowed == LIMIT // 4
        else:
            assert case in SILENT[decoder], "went on"

    assert peak(feed) < BOUND // 4


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="only Linux holds a process to its address space")
@pytest.mark.parametrize("case", BYTES)
def test_endless_bytes(case: str) -> None:
    """B4, S5: endless bytes, read on behind every refusal, are folded to the last by a process that may take 8 MB."""
    command = [sys.executable, "-m", "tests.endless", case, str(HOSTILE_BYTES), str(ROOM)]
    done = subprocess.run(command, check=False, capture_output=True, text=True, cwd=Path(__file__).parents[1])
    assert done.returncode == 0, done.stderr[-2000:]
    assert json.loads(done.stdout) == [BYTES[case].refused, HOSTILE_BYTES]


HOT: dict[str, tuple[list[Any], Callable[[str], Any]]] = {
    "messages": ([start(), block(0)], lambda piece: delta(0, "text_delta", text=piece)),
    "chat": ([chunk(says(role="assistant", content=""))], lambda piece: chunk(says(content=piece))),
}


@pytest.mark.parametrize("fmt", FORMATS, ids=lambda fmt: fmt.name)
def test_memory_of_a_long_text(fmt: Format) -> None:
    """Memory: text in 4-character deltas peaks under twice the text and 1/2 MB; old states read true after it."""
    head, event = HOT[fmt.name]
    count = 50_000

    def feed() -> None:
        state = fold(fmt, head, Limits())
        old = []
        for i in range(count):
            state = fmt.module.step(state, event(f"{i % 10000:04}"))
            if i == count // 3:
                old.append(state)
        (length,) = {len(text) for _, text in fmt.texts(state.snapshot) if text}
        assert length == 4 * count
        (early,) = (text for _, text in fmt.texts(old[0].snapshot) if text)
        assert (len(early), early[-4:]) == (4 * (count // 3 + 1), f"{count // 3 % 10000:04}")

    assert peak(feed) < 2 * 4 * count + MB // 2


@pytest.mark.parametrize("fmt", FORMATS, ids=lambda fmt: fmt.name)
def test_memory_of_many_streams(fmt: Format) -> None:
    """Memory: many streams open at once, each at another event, cost at most 8 KB each beyond their text."""
    head, event = HOT[fmt.name]
    streams = 128

    def feed() -> None:
        states = [fold(fmt, head, Limits()) for _ in range(streams)]
        text = 0
        for first in range(streams):
            for i in range(64 + first % 64):  # fragments are joined every so many events
                states[first] = fmt.module.step(states[first], event(f"{i:04}"))
                text += 4
        gc.collect()
        used = tracemalloc.get_traced_memory()[0]
        assert (used - text) / streams < 8192

    peak(feed)


@pytest.mark.parametrize("fmt", FORMATS, ids=lambda fmt: fmt.name)
def test_memory_of_all_states(fmt: Format) -> None:
    """Memory: keeping every state of a stream costs at most about 250 bytes a state beside its fragments."""
    head, event = HOT[fmt.name]
    count = 10_000
    pieces = [f"{i:04}" for i in range(count)]

    def feed() -> None:
        states = [fold(fmt, head, Limits())]
        for piece in pieces:
            states.append(fmt.module.step(states[-1], event(piece)))
        gc.collect()
        used = tracemalloc.get_traced_memory()[0]
        assert used / count < 260
        (text,) = (text for _, text in fmt.texts(states[count // 2].snapshot) if text)
        assert len(text) == 4 * (count // 2)

    peak(feed)
