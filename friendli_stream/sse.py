"""Bytes of an event stream -> server-sent events -> decoded events, for any client and any cut of the bytes (S1-S5).

Sans I/O: bytes go in, lists come out. Push style with `Decoder` (the events as WHATWG defines them) or `EventDecoder`
(their data decoded, ready for `step`); pull style with `events` and `aevents`.

Lines are cut as bytes: CR and LF are never part of a longer UTF-8 sequence, so decoding each value by itself gives
what decoding the whole stream first would give (S2), and orjson takes the bytes of a value as they are.
"""

from __future__ import annotations

from collections.abc import AsyncIterable, AsyncIterator, Iterable, Iterator
from typing import Any, Final, NamedTuple, TypeAlias

import attrs
import orjson

from friendli_stream.errors import LimitExceeded
from friendli_stream.wire import decode, has_long_number

__all__ = ["Decoder", "EventDecoder", "ServerSentEvent", "aevents", "events"]

Chunk: TypeAlias = bytes | bytearray | memoryview

LIMIT: Final = 16 * 1024 * 1024  # bytes of one event (S5)
BEGINNING: Final = 500  # characters that show what a foreign body was (S4)
LF, CR = 10, 13  # an integer is looked for by memchr; `bytes in bytes` costs ten times as much
BOM: Final = b"\xef\xbb\xbf"
WHITE: Final = " \t\r\n"


@attrs.frozen
class ServerSentEvent:
    """One event of the stream (S1).

    `event` is its name, "message" where none was given; `data` its data lines joined by LF. `id` is the last event id
    and `retry` the reconnection time in milliseconds that the stream has set so far: both stand until set anew.
    """

    event: str = "message"
    data: str = ""
    id: str = ""
    retry: int | None = None


class Decoder:
    """Bytes -> ServerSentEvent, by the rules of WHATWG (S1, S2) with one deviation (S3).

    `limit`: the most bytes that an event so far and the line being read may have together (S5). What is larger raises
    LimitExceeded from `feed` or `close`, once the events in front of it were returned, and at every call after that.
    """

    __slots__ = ("_lines",)

    def __init__(self, *, limit: int = LIMIT) -> None:
        self._lines = Lines(limit)

    def feed(self, chunk: Chunk) -> list[ServerSentEvent]:
        """The events that end in this chunk. Raises LimitExceeded, and TypeError for what is no bytes."""
        blocks = self._lines.feed(chunk)
        return [_event(block) for block in blocks] if blocks else []

    def close(self) -> list[ServerSentEvent]:
        """The unfinished last event, if it has data (S3): for when the bytes have ended. Raises LimitExceeded."""
        return [_event(block) for block in self._lines.close()]


class EventDecoder:
    """Bytes -> decoded events, ready for `step` (S4): push style, for gateways and callbacks.

    An event is the JSON value of the data, `"[DONE]"`, or, where the data is no JSON, its text. `event: NAME` becomes
    `type` in an object that says nothing of its kind. A body that is no event stream is one event, at `close()`: the
    JSON object that it is, or the first 500 characters of its text. `limit` as for Decoder; such an object has it too.
    """

    __slots__ = ("_lines", "_rest", "_room")

    def __init__(self, *, limit: int = LIMIT) -> None:
        self._lines = Lines(limit)
        self._lines.foreign = bytearray()
        self._rest = b""  # the beginning of an event that the next chunk may make whole, kept away from `_lines`
        self._room = limit  # bytes of whole events that need not go through `_lines`; 0 while it is inside of one

    def feed(self, chunk: Chunk) -> list[Any]:
        """The events that end in this chunk. Raises LimitExceeded, and TypeError for what is no bytes."""
        if type(chunk) is not bytes:
            chunk = _bytes(chunk)
        if not self._room and not self._rest and LF not in chunk:  # more of a line, as with tiny chunks
            blocks = self._lines.feed(chunk)
            return _decoded(blocks) if blocks else []
        if self._rest:
            chunk = self._rest + chunk
            self._rest = b""
        lines = self._lines
        whole = chunk.endswith(b"\n\n")
        if not whole:
            end = chunk.rfind(b"\n\n") + 2
            if end > 1 and CR not in chunk and len(chunk) - end <= lines.limit:
                self._rest = chunk[end:]
                chunk, whole = chunk[:end], True
        if whole and len(chunk) <= self._room:
            events = _plain(chunk)
            if events is not None:
                lines.started = True
                lines.foreign = None
                return events
        self._room = 0
        blocks = lines.feed(chunk)
        self._room = lines.room()
        return _decoded(blocks) if blocks else []

    def close(self) -> list[Any]:
        """What is left when the bytes have ended: an unfinished event (S3), or a body that was no stream (S4).

        Raises LimitExceeded.
        """
        lines = self._lines
        rest, self._rest = self._rest, b""
        events = _decoded(lines.feed(rest) + lines.close())
        body, lines.foreign = lines.foreign, None
        if body:
            value = _value(body)
            events.append(value if type(value) is dict else _text(body)[:BEGINNING])
        return events


def events(chunks: Iterable[Chunk], *, limit: int = LIMIT) -> Iterator[Any]:
    """The decoded events of a body that arrives in chunks, as `response.iter_bytes()`: EventDecoder in a loop.

    Raises LimitExceeded, and whatever the chunks raise. When it is closed early, or raises, it closes the chunks too.
    """
    source = iter(chunks)
    decoder = EventDecoder(limit=limit)
    try:
        for chunk in source:
            yield from decoder.feed(chunk)
        yield from decoder.close()
    except BaseException:
        close = getattr(source, "close", None)
        if close is not None:
            close()
        raise


async def aevents(chunks: AsyncIterable[Chunk], *, limit: int = LIMIT) -> AsyncIterator[Any]:
    """`events` for chunks that arrive asynchronously, as `response.aiter_bytes()`."""
    source = aiter(chunks)
    decoder = EventDecoder(limit=limit)
    try:
        async for chunk in source:
            for event in decoder.feed(chunk):
                yield event
        for event in decoder.close():
            yield event
    except BaseException:
        close = getattr(source, "aclose", None)
        if close is not None:
            await close()
        raise


# ------------------------------------------------------------------------------------------------ bytes -> blocks


class Block(NamedTuple):
    """An event whose values are still bytes; `name` is empty where none was given."""

    name: bytes
    data: bytes
    id: bytes
    retry: int | None


class Lines:
    """The grammar of event streams, a line at a time, for any cut of the bytes.

    `tail` is the line that has not ended, `data` what the event that has not ended has (None: no data line yet),
    `foreign` the lines that belong to no event stream, while no event was seen and somebody wants to know (S4).
    All of it together never holds more than `limit` bytes: the line that would is refused, and everything after it
    (S5). Whether one is depends on the bytes alone, not on their cuts. `slack` is what `tail` must stay below by bytes
    that end no line, and need no other look; 0 where they do.
    """

    __slots__ = ("after_cr", "data", "foreign", "id", "limit", "name", "refused", "retry", "slack", "started", "tail")

    def __init__(self, limit: int) -> None:
        if type(limit) is not int or limit < 1:
            message = f"limit must be an integer of at least 1, not {limit!r}"
            raise ValueError(message)
        self.limit = limit
        self.tail = bytearray()
        self.data: bytes | bytearray | None = None
        self.name = b""
        self.id = b""
        self.retry: int | None = None
        self.foreign: bytearray | None = None
        self.started = False  # the BOM, if there is one, is behind us
        self.after_cr = False  # an LF that comes next belongs to the CR before it
        self.refused = False
        self.slack = 0

    def feed(self, chunk: Chunk) -> list[Block]:
        """The events that end in this chunk."""
        if type(chunk) is bytes and len(self.tail) + len(chunk) < self.slack and LF not in chunk and CR not in chunk:
            self.tail += chunk
            return []
        self.slack = 0
        blocks = self._feed(chunk)
        if self.started and not self.after_cr and not self.refused:
            self.slack = self.limit - self._held()
        return blocks

    def _feed(self, chunk: Chunk) -> list[Block]:
        if self.refused:
            raise self._refusal()
        if type(chunk) is not bytes:
            chunk = _bytes(chunk)
        if not self.started:
            chunk = self._untailed(chunk)
            if len(chunk) < len(BOM) and BOM.startswith(chunk):
                self.tail += chunk
                return []
            self.started = True
            chunk = chunk.removeprefix(BOM)
        if self.after_cr and chunk:
            self.after_cr = False
            chunk = chunk.removeprefix(b"\n")
        if CR in chunk:
            self.after_cr = chunk.endswith(b"\r")
            chunk = chunk.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        if LF not in chunk:
            # Joined only once it has ended: joining at each chunk would copy a long line over and over.
            if self._held() + len(self.tail) + len(chunk) > self.limit:
                return self._refuse([])
            self.tail += chunk
            return []
        if self.tail:
            chunk = self._untailed(chunk)
        lines = chunk.split(b"\n")
        self.tail += lines.pop()
        return self._fold(lines, safe=self._held() + len(chunk) <= self.limit)

    def close(self) -> list[Block]:
        """An unfinished last event, if it has data (S3)."""
        if self.refused:
            raise self._refusal()
        return self._fold([self._untailed(b""), b""], safe=True)

    def _fold(self, lines: list[bytes], *, safe: bool) -> list[Block]:
        """Take whole lines. `safe`: nothing in them can be over the limit."""
        blocks: list[Block] = []
        name, data = self.name, self.data
        for line in lines:
            if not safe:
                self.name, self.data = name, data
                if self._held() + len(line) > self.limit:
                    return self._refuse(blocks)
            if line.startswith(b"data:"):
                value = line[6:] if line.startswith(b" ", 5) else line[5:]
                data = value if data is None else _joined(data, value)
            elif not line:
                if data is not None:
                    blocks.append(Block(name, bytes(data), self.id, self.retry))
                    self.foreign = data = None
                name = b""
            elif line.startswith(b"event:"):
                name = line[7:] if line.startswith(b" ", 6) else line[6:]
            elif line == b"event":
                name = b""
            elif line == b"data":
                data = b"" if data is None else _joined(data, b"")
            else:
                self._rare(line)
        self.name, self.data = name, data
        if self._held() + len(self.tail) > self.limit:
            return self._refuse(blocks)
        return blocks

    def _rare(self, line: bytes) -> None:
        """A line that is neither blank nor name nor data."""
        field, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if field == b"id":
            if b"\0" not in value:
                self.id = value
        elif field == b"retry":
            if value.isdigit() and len(value) < 19:  # noqa: PLR2004  milliseconds that fit 64 bits
                self.retry = int(value)
        elif self.foreign:
            if self.foreign.startswith(b"{") or len(self.foreign) < 4 * BEGINNING:
                self.foreign += b"\n" + line
        elif field and self.foreign is not None:
            self.foreign += line.lstrip()

    def _held(self) -> int:
        return len(self.name) + len(self.data or b"") + len(self.id) + len(self.foreign or b"")

    def room(self) -> int:
        """The bytes of whole events that could not be over the limit now; 0 inside of an event."""
        if self.tail or self.name or self.data is not None or self.after_cr or self.refused:
            return 0
        return self.limit - self._held()

    def _untailed(self, chunk: bytes) -> bytes:
        """The chunk behind the line that it goes on with."""
        chunk = bytes(self.tail) + chunk
        self.tail.clear()
        return chunk

    def _refuse(self, blocks: list[Block]) -> list[Block]:
        """Refuse everything from here on; the events in front come out first."""
        self.refused = True
        self.tail, self.data, self.name, self.id, self.foreign = bytearray(), None, b"", b"", None
        if not blocks:
            raise self._refusal()
        return blocks

    def _refusal(self) -> LimitExceeded:
        return LimitExceeded(f"an event is larger than {self.limit} bytes", limit="event", allowed=self.limit)


def _joined(data: bytes | bytearray, value: bytes) -> bytearray:
    """The data with one more line: grown in place from the second line on, linear in their number."""
    grown = data if isinstance(data, bytearray) else bytearray(data)
    grown += b"\n"
    grown += value
    return grown


def _bytes(chunk: object) -> bytes:
    if isinstance(chunk, (bytes, bytearray, memoryview)):
        return bytes(chunk)
    hint = ": iterate the raw bytes, not lines or text" if isinstance(chunk, str) else ""
    message = f"a chunk is bytes, bytearray or memoryview, not {type(chunk).__name__}{hint}"
    raise TypeError(message)


def _text(value: bytes | bytearray) -> str:
    return value.decode("utf-8", "replace")


# ------------------------------------------------------------------------------------------------ blocks -> events


def _event(block: Block) -> ServerSentEvent:
    name, data, last_id, retry = block
    return ServerSentEvent(_text(name) or "message", _text(data), _text(last_id), retry)


def _plain(chunk: bytes) -> list[Any] | None:
    """The events of a chunk that looks as nearly all do: whole events, all named or none, each an object on one line.

    It ends with a blank line. None for any other, which takes the general road: three times as slow, to the same end.
    """
    named = chunk.startswith(b"event: ")
    width = 3 if named else 2
    lines = chunk.split(b"\n")
    lines.pop()
    single = len(lines) == width  # whose last line is blank, so that there is nothing to look for
    if not single and any(lines[width - 1 :: width]):
        return None
    if not single and named and not all(name.startswith(b"event: ") for name in set(lines[::3])):
        return None
    if CR in chunk or has_long_number(chunk):
        return None
    loads = orjson.loads
    events = []
    try:
        for line in lines[width - 2 :: width]:
            if not line.startswith(b"data: {"):
                return None
            event = loads(line[6:])
            if named and "type" not in event:
                return None
            events.append(event)
    except ValueError:
        return None
    return events


def _decoded(blocks: list[Block]) -> list[Any]:
    """The decoded events of blocks (S4)."""
    loads = decode if has_long_number(b" ".join([data for _, data, _, _ in blocks])) else orjson.loads
    events: list[Any] = []
    for name, data, _, _ in blocks:
        try:
            value = loads(data)
        except ValueError:
            value = _value(data)
            if value == "":
                continue
        if name:
            value = _named(name, value, data)
        events.append(value)
    return events


def _value(data: bytes | bytearray) -> Any:
    """The JSON value of data that orjson refuses (B2), or its text; "" for white space."""
    text = _text(data).strip(WHITE)
    try:
        return decode(text)
    except ValueError:
        return text


def _named(name: bytes, value: Any, data: bytes) -> Any:
    """The value with what only the name of its event says."""
    if type(value) is dict:
        if "type" in value or "object" in value or "choices" in value or "error" in value or name == b"message":
            return value
        return {"type": _text(name), **value}
    if name == b"error" and value != "[DONE]":
        return {"type": "error", "error": {"message": value if type(value) is str else _text(data)}}
    return value
