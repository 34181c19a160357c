"""Rules S1 to S5: bytes of an event stream -> server-sent events -> decoded events."""

from __future__ import annotations

import asyncio
import json
import tracemalloc
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from friendli_stream import errors, sse

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterable, Iterator

    Cut = Callable[[bytes], Iterable[bytes]]


def in_ones(body: bytes) -> list[bytes]:
    """The body, a byte a chunk."""
    return [body[i : i + 1] for i in range(len(body))]


def cuts(body: bytes) -> Iterator[list[bytes]]:
    """Every way to cut a body in two, the body whole, and a byte a chunk."""
    yield [body]
    yield in_ones(body)
    for i in range(1, len(body)):
        yield [body[:i], body[i:]]


def decoded(chunks: Iterable[bytes], **options: int) -> list[sse.ServerSentEvent]:
    """What a Decoder makes of the chunks."""
    decoder = sse.Decoder(**options)
    return [event for chunk in chunks for event in decoder.feed(chunk)] + decoder.close()


def pairs(body: bytes) -> list[tuple[str, str]]:
    """(event, data) of each event, after a check that no cut changes any."""
    whole = decoded([body])
    for chunks in cuts(body):
        assert whole == decoded(chunks)
    return [(event.event, event.data) for event in whole]


def events(body: bytes) -> list[Any]:
    """The decoded events, after a check that no cut changes any."""
    whole = list(sse.events([body]))
    for chunks in cuts(body):
        assert json.dumps(whole) == json.dumps(list(sse.events(chunks)))
    return whole


# ------------------------------------------------------------------------------------------------ S1, S2, S3


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        pytest.param(b"data: a\n\n", [("message", "a")], id="lf"),
        pytest.param(b"data: a\r\n\r\n", [("message", "a")], id="crlf"),
        pytest.param(b"data: a\r\r", [("message", "a")], id="cr"),
        pytest.param(b"data: a\rdata: b\r\ndata: c\n\r\n", [("message", "a\nb\nc")], id="mixed line ends"),
        pytest.param(b"data: a\r\n\rdata: b\n\r", [("message", "a"), ("message", "b")], id="cr lf cr, lf cr"),
        pytest.param(b"\xef\xbb\xbfdata: a\n\n", [("message", "a")], id="bom"),
        pytest.param(b"\xef\xbb\xbf\xef\xbb\xbfdata: a\n\n", [], id="only one bom is dropped"),
        pytest.param(b"data: a\n\n\xef\xbb\xbfdata: b\n\n", [("message", "a")], id="a bom later is part of a name"),
        pytest.param(b": a comment\n\n:\n:data: x\n\ndata: a\n: inside\n\n", [("message", "a")], id="comments"),
        pytest.param(b"data: a\ndata:b\ndata\ndata: \n\n", [("message", "a\nb\n\n")], id="lines are joined by lf"),
        pytest.param(b"data\n\n", [("message", "")], id="data without a colon"),
        pytest.param(b"data:\n\n", [("message", "")], id="empty data"),
        pytest.param(b"data\ndata\n\n", [("message", "\n")], id="twice empty data"),
        pytest.param(b"data:  a \n\n", [("message", " a ")], id="one space is dropped"),
        pytest.param(b"data:\ta\n\n", [("message", "\ta")], id="a tab is no space"),
        pytest.param(b"data:a:b\n\n", [("message", "a:b")], id="the first colon counts"),
        pytest.param(b" data: a\ndata : b\nDATA: c\ndatax: d\ndat\n\n", [], id="unknown fields"),
        pytest.param(b"event: n\ndata: a\n\ndata: b\n\n", [("n", "a"), ("message", "b")], id="a name is for one event"),
        pytest.param(b"event: n\n\ndata: b\n\n", [("message", "b")], id="a name without data names nothing"),
        pytest.param(b"data: a\nevent:m\nevent:n\n\n", [("n", "a")], id="the last name counts"),
        pytest.param(b"event: n\nevent\ndata: a\n\n", [("message", "a")], id="a name without a colon is empty"),
        pytest.param(b"event: n\nevent:\ndata: a\n\n", [("message", "a")], id="an empty name is the default"),
        pytest.param(b"\n\n\ndata: a\n\n\n\ndata: b\n\n", [("message", "a"), ("message", "b")], id="more blank lines"),
        pytest.param(
            "data: a\u2028b\u2029c\u0085d\x0ce\x0bf\x1cg\n\n".encode(),
            [("message", "a\u2028b\u2029c\u0085d\x0ce\x0bf\x1cg")],
            id="only cr and lf end lines",
        ),
        pytest.param("event: ñ\ndata: 終🌊\n\n".encode(), [("ñ", "終🌊")], id="utf-8 of every width"),
        pytest.param(
            b"data: \xffa\xe6\xbd\ndata: \xf0\x9f\x8c\n\n", [("message", "\ufffda\ufffd\n\ufffd")], id="bad bytes"
        ),
        pytest.param(b"", [], id="nothing"),
        pytest.param(b"\xef\xbb", [], id="half a bom"),
    ],
)
def test_whatwg(body: bytes, expected: list[tuple[str, str]]) -> None:
    """S1, S2: the rules of event streams hold for every cut of the bytes."""
    assert expected == pairs(body)


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        pytest.param(b"data: a", [("message", "a")], id="line not ended"),
        pytest.param(b"data: a\n", [("message", "a")], id="event not ended"),
        pytest.param(b"data: a\ndata: \xe6\xbd", [("message", "a\n\ufffd")], id="character not ended"),
        pytest.param(b"event: n\ndata: a\r", [("n", "a")], id="cr"),
        pytest.param(b"data: a\nevent: n", [("n", "a")], id="last line is a name"),
        pytest.param(b"data", [("message", "")], id="data without a colon"),
        pytest.param(b"event: n\n", [], id="no data"),
        pytest.param(b"data: a\n\ndat", [("message", "a")], id="field not ended"),
    ],
)
def test_unfinished_last_event(body: bytes, expected: list[tuple[str, str]]) -> None:
    """S3: close() dispatches an unfinished last event if it has data."""
    assert expected == pairs(body)


def test_id_and_retry_stand_until_set_anew() -> None:
    """S1: id and retry are of the stream; NUL in an id, what is no number in retry, are ignored."""
    body = (
        b"data: 0\n\nid: one\nretry: 300\n\ndata: 1\n\nid: a\0b\nretry: 5x\ndata: 2\n\n"
        b"id\nretry\nretry: -1\nretry: " + b"9" * 5000 + b"\ndata: 3\n\nid: \xff\nretry:7\ndata: 4\n\n"
    )
    expected = [("0", "", None), ("1", "one", 300), ("2", "one", 300), ("3", "", 300), ("4", "\ufffd", 7)]
    for chunks in ([body], in_ones(body)):
        assert expected == [(event.data, event.id, event.retry) for event in decoded(chunks)]


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
def test_kinds_of_chunks(kind: Callable[[bytes], bytes]) -> None:
    """A chunk may be bytes, bytearray or memoryview, and is not kept."""
    chunk = bytearray(b"data: 1\n\ndata: 2")
    decoder = sse.Decoder()
    found = decoder.feed(kind(chunk))  # type: ignore[arg-type]
    chunk[:] = b"x" * len(chunk)
    assert ["1", "2"] == [event.data for event in [*found, *decoder.close()]]


@pytest.mark.parametrize("chunk", ["data: 1\n\n", 7, None, ["data"]])
@pytest.mark.parametrize("decoder", [sse.Decoder, sse.EventDecoder])
def test_other_chunks(decoder: Callable[[], Any], chunk: Any) -> None:
    """What is no bytes is a mistake of the caller: TypeError, and text says what to do."""
    with pytest.raises(TypeError, match="raw bytes" if isinstance(chunk, str) else "not (int|NoneType|list)"):
        decoder().feed(chunk)


def test_events_are_values() -> None:
    """A ServerSentEvent is frozen and equal by value; its defaults are those of S1."""
    event = sse.ServerSentEvent(data="a")
    assert sse.ServerSentEvent("message", "a", "", None) == event
    with pytest.raises(AttributeError):
        event.data = "b"  # type: ignore[misc]


# ------------------------------------------------------------------------------------------------ S4


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        pytest.param(b'data: {"type":"ping"}\n\n', [{"type": "ping"}], id="an object"),
        pytest.param(b'data: {"a":\ndata: [1,\ndata: 2]}\n\n', [{"a": [1, 2]}], id="on several lines"),
        pytest.param(b'data:\n\nevent: n\n\ndata:   \n\ndata: {"id":"x"}\n\n', [{"id": "x"}], id="without data"),
        pytest.param(b'event: n\ndata: {"a":1}\n\n', [{"type": "n", "a": 1}], id="a name fills in type"),
        pytest.param(
            b'event: n\ndata: {"a":1}\n\nevent: m\ndata: {"type":null}\n\n',
            [{"type": "n", "a": 1}, {"type": None}],
            id="a name fills in type in one of many",
        ),
        *[
            pytest.param(b'event: n\ndata: {"%s":"x"}\n\n' % key, [{key.decode(): "x"}], id=f"{key.decode()} stands")
            for key in (b"type", b"object", b"choices", b"error")
        ],
        pytest.param(b'event: message\ndata: {"a":1}\n\n', [{"a": 1}], id="message is no name"),
        pytest.param(b'event: \xff\ndata: {"a":1}\n\n', [{"type": "\ufffd", "a": 1}], id="bad bytes in a name"),
        pytest.param(b"event: n\ndata: [1]\n\n", [[1]], id="a name of no object"),
        pytest.param(b"data: [DONE]\n\n", ["[DONE]"], id="done"),
        pytest.param(b"event: done\ndata:  [DONE] \t\n\n", ["[DONE]"], id="done with spaces"),
        pytest.param(b"event: error\ndata: [DONE]\n\n", ["[DONE]"], id="done is no error"),
        pytest.param(b'data: {"a": 1\n\n', ['{"a": 1'], id="no JSON"),
        pytest.param(b"data: NaN\n\ndata: 1e400\n\n", ["NaN", "1e400"], id="JSON is strict"),
        pytest.param(b'data: null\n\ndata: 7\n\ndata: "x"\n\n', [None, 7, "x"], id="any JSON"),
        pytest.param(
            b"event: error\ndata: busy\n\n", [{"type": "error", "error": {"message": "busy"}}], id="error text"
        ),
        pytest.param(b'event: error\ndata: "b"\n\n', [{"type": "error", "error": {"message": "b"}}], id="error string"),
        pytest.param(b"event: error\ndata: [1]\n\n", [{"type": "error", "error": {"message": "[1]"}}], id="error list"),
        pytest.param(b'event: error\ndata: {"m":1}\n\n', [{"type": "error", "m": 1}], id="error object"),
        pytest.param(b'data: {"a":"\xff"}\n\n', [{"a": "\ufffd"}], id="bad bytes in JSON"),
        pytest.param(b'data: {"a":1}\rdata: {"b":2}\n\n', ['{"a":1}\n{"b":2}'], id="cr is no white space of JSON"),
        pytest.param(b'data: {"a":1}\n\ndata: {"b"', [{"a": 1}, '{"b"'], id="last event cut"),
        pytest.param(b'data: {"a":1}\ndata: {"b":2}\n\n\n', ['{"a":1}\n{"b":2}'], id="two lines are one event"),
        pytest.param(b'data: {"a":1,\r"b":2}\n\n', ['{"a":1,'], id="cr inside of JSON ends the line"),
        pytest.param(b'data: {"a":1}\nid: 1\ndata: {"b":2}\n\n', ['{"a":1}\n{"b":2}'], id="an id between lines"),
        pytest.param(b'data: {"a":1}\n\nid: 7\n\n', [{"a": 1}], id="no event behind"),
        pytest.param(
            b'event: n\ndata: {"type":"a"}\n\ndata: {"type":"b"}\nevent: m\n\n',
            [{"type": "a"}, {"type": "b"}],
            id="a name behind",
        ),
        pytest.param(
            b'event: n\ndata: {"type":"a"}\n\nevil: n\ndata: {"b":1}\n\n', [{"type": "a"}, {"b": 1}], id="no name"
        ),
        pytest.param(b'event: n\n\ndata: {"a":1}\n\n', [{"a": 1}], id="a name of nothing"),
        pytest.param(b'event: n\ndata: {"type":"a"}\n\n\n\n\n', [{"type": "a"}], id="blank lines behind"),
        pytest.param(b'event: n\ndata: {"type":"a"}\n\nevent: m\ndata: 1\n\n', [{"type": "a"}, 1], id="no object"),
    ],
)
def test_decoded_events(body: bytes, expected: list[Any]) -> None:
    """S4: what each event means, for every cut of the bytes."""
    assert expected == events(body)
    tail = b'data: {"type":"tail"}\n\n'
    if body.endswith(b"\n\n"):
        assert [*expected, {"type": "tail"}] == events(body + tail)
        assert [{"type": "tail"}, *expected] == events(tail + body)


@pytest.mark.parametrize("number", [2**64 - 1, 2**64, -(2**63) - 1, 10**400, 0.1234567890123456789012, 1e300])
@pytest.mark.parametrize(
    "shape", [b'data: {"n":%s}\n\n', b'event: e\ndata: {"type":"e","n":%s}\n\n', b"data: [%s]\n\n"]
)
def test_numbers_are_exact(number: float, shape: bytes) -> None:
    """B2: integers of any size survive, by each road and for every cut."""
    value = events(shape % str(number).encode())[0]
    found = value["n"] if isinstance(value, dict) else value[0]
    assert (type(number), number) == (type(found), found)


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        pytest.param(b'{"error":{"message":"no"}}', [{"error": {"message": "no"}}], id="an error body"),
        pytest.param(
            b'\xef\xbb\xbf \n\r\n{\n  "id": "x",\n\n  "data": [\n    1\n:\n  ]\n}\n'.replace(b"\n:\n", b"\n"),
            [{"id": "x", "data": [1]}],
            id="an object on several lines",
        ),
        pytest.param(b'{"a"\n:1,"b": 123456789012345678901234}\n', [{"a": 1, "b": 123456789012345678901234}], id="odd"),
        pytest.param(b'{"a": 1} x', ['{"a": 1} x'], id="an object and more"),
        pytest.param(b"[1, 2]", ["[1, 2]"], id="no object"),
        pytest.param(b"<html>\n\n<b>502: gone</b>\n</html>\n", ["<html>\n<b>502: gone</b>\n</html>"], id="html"),
        pytest.param("Überlastet 🌊".encode(), ["Überlastet 🌊"], id="text"),
        pytest.param(b"no\xff\xe6\xbd", ["no\ufffd\ufffd"], id="bad bytes"),
        pytest.param(b"", [], id="nothing"),
        pytest.param(b" \r\n\t", [], id="white space"),
        pytest.param(b": waiting\n\nid: 1\nretry: 5\n\nevent: n\n\n", [], id="an event stream without events"),
        pytest.param(b"data:\n\nhello\n", [], id="an event stream whose events are empty"),
        pytest.param(b'hello\n{"a":1}\ndata: {"b":2}\n\n{"c":3}\n', [{"b": 2}], id="an event stream with more in it"),
    ],
)
def test_body_that_is_no_stream(body: bytes, expected: list[Any]) -> None:
    """S4: a body without an event is one event, the JSON object it is or the beginning of its text."""
    assert expected == events(body)


@pytest.mark.parametrize("unit", ["x", "é", "終", "🌊", "a line\n"])
def test_beginning_of_a_long_body(unit: str) -> None:
    """S4: a foreign body of any length is shown by 500 characters, whatever its cut, and only they are kept."""
    body = (unit * 5000).encode()
    for width in (1, 7, 4096, len(body)):
        chunks = [body[i : i + width] for i in range(0, len(body), width)]
        assert [(unit * 5000)[:500]] == list(sse.events(chunks))


def test_lines_of_a_foreign_body_are_not_kept() -> None:
    """S5: of a foreign body of 2 MB little more than its beginning is in memory."""
    line = b"<p>nothing to see here, and much of it</p>\n" * 100
    decoder = sse.EventDecoder(limit=100_000)
    tracemalloc.start()
    try:
        for _ in range(500):
            decoder.feed(line)
        assert tracemalloc.get_traced_memory()[1] < 300_000
    finally:
        tracemalloc.stop()
    assert decoder.close()[0].startswith("<p>nothing")


# ------------------------------------------------------------------------------------------------ S5


LIMIT = 1000
TOO_LARGE = {
    "data line": (b"data: ", b"x"),
    "data lines": (b"", b"data: x\n"),
    "empty data lines": (b"", b"data\n"),
    "comment line": (b":", b"x"),
    "field name": (b"", b"x"),
    "event name": (b"event: ", b"x"),
    "id": (b"id: ", b"x"),
    "id beside data": (b"id: " + b"i" * 600 + b"\n\ndata: ", b"x"),
    "object": (b"{\n", b' "a": 1,\n'),
    "object with comments": (b'{"a"\n', b": \n"),
}


@pytest.mark.parametrize("kind", TOO_LARGE)
@pytest.mark.parametrize("width", [1, 13, 100_000])
def test_limit(kind: str, width: int) -> None:
    """S5: an event over the limit raises LimitExceeded, with what was in front of it out and memory bounded."""
    head, unit = TOO_LARGE[kind]
    front = b"" if kind.startswith("object") else b'data: {"n":1}\n\n'
    body = front + head + unit * (5000 // len(unit) * 4)
    decoder = sse.EventDecoder(limit=LIMIT)
    found: list[Any] = []
    with pytest.raises(errors.LimitExceeded, match="1000 bytes") as caught:
        for i in range(0, len(body), width):
            found += decoder.feed(body[i : i + width])
        decoder.close()
    assert ("event", LIMIT) == (caught.value.limit, caught.value.allowed)
    assert [{"n": 1}] * bool(front) == found


def test_limit_is_sticky() -> None:
    """S5: behind an event that was too large, everything is refused."""
    for decoder in (sse.Decoder(limit=LIMIT), sse.EventDecoder(limit=LIMIT)):
        for chunk in (b"data: 1\n\ndata: " + b"x" * LIMIT, b'data: {"n":2}\n\n', b"\n\n", b""):
            try:
                assert len(decoder.feed(chunk)) == 1
            except errors.LimitExceeded:
                assert not chunk.startswith(b"data: 1")
        with pytest.raises(errors.LimitExceeded):
            decoder.close()


@given(st.lists(st.sampled_from([b"data: 123\n", b"event: ab\n", b"id: 12\n", b"\n", b"{\n", b":xx\n"]), max_size=30))
def test_limit_is_of_the_bytes(lines: list[bytes]) -> None:
    """S5: whether the limit is exceeded, and behind which event, does not depend on the cuts."""

    def outcome(chunks: list[bytes]) -> tuple[list[Any], bool]:
        found: list[Any] = []
        try:
            for event in sse.events(chunks, limit=25):
                found.append(event)
        except errors.LimitExceeded:
            return found, True
        return found, False

    body = b"".join(lines)
    assert outcome([body]) == outcome(in_ones(body)) == outcome(lines)


def test_limit_is_sticky_behind_the_shortcut() -> None:
    """S5: a line that is refused in a chunk of its own leaves no way in for the usual chunks behind it."""
    decoder = sse.EventDecoder(limit=LIMIT)
    usual = b'data: {"n":1}\n\n'
    assert decoder.feed(usual) == [{"n": 1}]
    for chunk in (b"data: " + b"x" * LIMIT, usual):
        with pytest.raises(errors.LimitExceeded):
            decoder.feed(chunk)


def test_rest_of_a_chunk_is_bounded() -> None:
    """S5: what a chunk has behind its whole events is not kept where it is over the limit."""
    decoder = sse.EventDecoder(limit=LIMIT)
    chunk = b'data: {"n":1}\n\n' + b"x" * 1_000_000
    tracemalloc.start()
    try:
        assert decoder.feed(chunk) == [{"n": 1}]
        assert tracemalloc.get_traced_memory()[0] < 100_000
    finally:
        tracemalloc.stop()


def test_what_fits_is_not_refused() -> None:
    """S5: only an event is limited, not the stream nor a chunk."""
    event = b"data: " + b"7" * 500 + b"\n\n"
    for chunks in ([event * 100], [event] * 100, in_ones(event * 10)):
        assert len(b"".join(chunks)) // len(event) == len(decoded(chunks, limit=LIMIT))
        assert len(b"".join(chunks)) // len(event) == len(list(sse.events(chunks, limit=LIMIT)))


def test_memory_is_bounded() -> None:
    """S5: an endless line needs no more memory than the limit and a chunk."""
    decoder = sse.Decoder(limit=1_000_000)
    chunk = b"x" * 10_000
    tracemalloc.start()
    try:
        with pytest.raises(errors.LimitExceeded):
            while True:
                decoder.feed(chunk)
        assert tracemalloc.get_traced_memory()[1] < 1_500_000
        assert tracemalloc.get_traced_memory()[0] < 100_000
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("limit", [0, -1, 1.5, None, True])
def test_limit_is_a_count(limit: Any) -> None:
    """A limit is an integer of at least 1."""
    with pytest.raises(ValueError, match="limit must be"):
        sse.Decoder(limit=limit)


# ------------------------------------------------------------------------------------------------ the laws of cuts


PIECES = st.sampled_from(
    [
        b"data: ", b"data:", b"event: ", b"event: error", b"id: 1", b"retry: 1", b":", b"\n", b"\n\n", b"\r\n", b"\r",
        b'{"type":"a"}', b'{"a":1}', b'data: {"type":"x"}\n\n', b'event: e\ndata: {"type":"y"}\n\n', b"[DONE]", b" ",
        b'event: e\ndata: {"b":2}\n\n', b"\xef\xbb\xbf", b"\xe6\xbd\x9c", b"\xff", b"\0", b"18446744073709551617", b"{",
    ]
)  # fmt: skip


@given(st.lists(PIECES | st.binary(max_size=3), max_size=25).map(b"".join), st.data())
def test_any_bytes_any_cut(body: bytes, data: st.DataObject) -> None:
    """S1, S4, law 4: any bytes are accepted, and their cuts change nothing."""
    ends = sorted(data.draw(st.lists(st.integers(0, len(body)), max_size=8)))
    chunks = [body[a:b] for a, b in zip([0, *ends], [*ends, len(body)], strict=True)]
    assert decoded([body]) == decoded(in_ones(body)) == decoded(chunks)
    assert list(sse.events([body])) == list(sse.events(in_ones(body))) == list(sse.events(chunks))


@given(st.lists(PIECES, max_size=25).map(b"".join))
def test_shortcut_changes_nothing(body: bytes) -> None:
    """S4: the shortcut for usual chunks gives what the general road gives."""
    general = sse.EventDecoder()
    expected: list[Any] = []
    for chunk in (body, b"\n\n"):
        general._room = 0
        expected += general.feed(chunk)
    expected += general.close()
    assert expected == list(sse.events([body, b"\n\n"]))


# ------------------------------------------------------------------------------------------------ the loops


class Source:
    """Chunks that know whether they were closed; `fault` is raised in place of the second."""

    def __init__(self, fault: Exception | None = None) -> None:
        self.fault = fault
        self.closed = 0
        self.left = [b"data: 1\n\n", b"data: 2\n\ndata: 3", b"\n\n"]

    def __iter__(self) -> Source:
        return self

    def __aiter__(self) -> Source:
        return self

    def __next__(self) -> bytes:
        if len(self.left) < 3 and self.fault is not None:
            raise self.fault
        if not self.left:
            raise StopIteration
        return self.left.pop(0)

    async def __anext__(self) -> bytes:
        await asyncio.sleep(0)
        try:
            return next(self)
        except StopIteration:
            raise StopAsyncIteration from None

    def close(self) -> None:
        self.closed += 1

    async def aclose(self) -> None:
        await asyncio.sleep(0)
        self.closed += 1


def test_events_to_the_end() -> None:
    """S4: the loop gives all events and leaves closing the source to its owner."""
    source = Source()
    assert [1, 2, 3] == list(sse.events(source))
    assert source.closed == 0


def test_events_closed_early() -> None:
    """The loop, closed early, closes the source, once."""
    source = Source()
    found = sse.events(source)
    assert next(found) == 1
    found.close()  # type: ignore[attr-defined]
    assert source.closed == 1


def test_events_of_a_broken_source() -> None:
    """What the source raises comes out as it is, behind what came before; the source is closed."""
    source = Source(ConnectionResetError("gone"))
    found = sse.events(source)
    assert next(found) == 1
    with pytest.raises(ConnectionResetError, match="gone"):
        next(found)
    assert source.closed == 1


def test_events_over_the_limit_close_the_source() -> None:
    """S5: LimitExceeded comes behind the events in front of it, and nobody reads on."""
    source = Source()
    found = sse.events(source, limit=7)
    assert next(found) == 1
    source.left[0] = b"data: 2\n\ndata: three\n\n"
    assert next(found) == 2
    with pytest.raises(errors.LimitExceeded):
        next(found)
    assert source.closed == 1


def test_events_of_what_cannot_be_closed() -> None:
    """A source without close() is as good."""
    found = sse.events([b"data: 1\n\n", b"data: 2\n\n"])
    assert next(found) == 1
    found.close()  # type: ignore[attr-defined]


def test_aevents() -> None:
    """S4: aevents is events, asynchronously: all events, the same errors, the same closing."""

    class Bare:
        """Chunks without aclose()."""

        def __init__(self) -> None:
            self.source = Source()

        def __aiter__(self) -> Bare:
            return self

        async def __anext__(self) -> bytes:
            return await anext(self.source)

    async def run() -> None:
        source = Source()
        assert [1, 2, 3] == [event async for event in sse.aevents(source)]
        assert source.closed == 0
        assert ["x"] == [event async for event in sse.aevents(aiter_of(b'data: "x"'))]
        found = sse.aevents(source := Source())
        assert await anext(found) == 1
        await found.aclose()  # type: ignore[attr-defined]
        assert source.closed == 1
        found = sse.aevents(source := Source(ConnectionResetError("gone")))
        assert await anext(found) == 1
        with pytest.raises(ConnectionResetError, match="gone"):
            await anext(found)
        assert source.closed == 1
        found = sse.aevents(Bare())
        assert await anext(found) == 1
        await found.aclose()  # type: ignore[attr-defined]

    async def aiter_of(*chunks: bytes) -> AsyncIterator[bytes]:
        for chunk in chunks:
            yield chunk

    asyncio.run(run())
