"""Recorded streams: files of server-sent events, JSON lines, a JSON array, or the blocks that API references print.

What a file is shows at its beginning. JSON (`{`, `[{`, `"`) is cut into values, whatever their layout: one a line, an
array, one object over many lines. Everything else is read as an event stream, with the liberties that documents take:
the JSON behind `data:` runs on over the next lines, blank lines between events are missing, there is prose around
them. Events come out as soon as they are whole, so a pipe can be read live, and no more than one is held.
"""

from __future__ import annotations

import io
import itertools
import os
import re
from collections.abc import Iterable, Iterator
from typing import Any, BinaryIO, Final, Literal, TypeAlias

import attrs

from friendli_stream import chat, messages, sse
from friendli_stream.errors import LimitExceeded, UnreadableRecording
from friendli_stream.wire import decode, encode_exact, event_of

__all__ = ["Recording", "detect", "read", "stream", "write"]

Format: TypeAlias = Literal["messages", "chat"]
Source: TypeAlias = str | os.PathLike[str] | BinaryIO

MODULES: Final[dict[str, Any]] = {"messages": messages, "chat": chat}
MESSAGES_TYPES: Final = (
    "message_start", "content_block_start", "content_block_delta", "content_block_stop", "message_delta",
    "message_stop", "message",
)  # fmt: skip

CHUNK: Final = 64 * 1024
MARGIN: Final = 1000  # bytes behind blank lines in which JSON shows, if it is any
UNDECIDED: Final = 1000  # events that may come before one that shows the format
EXPECTED: Final = "expected server-sent events, JSON lines, a JSON array of events, or the blocks of an API reference"


@attrs.frozen
class Recording:
    """A recording read whole: the format it is in, and its decoded events, `"[DONE]"` included."""

    format: Format
    events: list[Any]

    def fold(self) -> messages.Message | chat.Completion:
        """The final message or completion; raises as `messages.fold` and `chat.fold` do."""
        return messages.fold(self.events) if self.format == "messages" else chat.fold(self.events)

    def states(self) -> Iterator[messages.State] | Iterator[chat.State]:
        """The last state of each message, for a recording that may hold several."""
        return messages.states(self.events) if self.format == "messages" else chat.states(self.events)


def read(source: Source | bytes | bytearray | memoryview) -> Recording:
    """The recording in a file, given by its path or opened for reading bytes, or in these bytes.

    Raises UnreadableRecording; LimitExceeded for an event over 16 MiB; OSError where the file cannot be read.
    """
    name = _name(source)
    found, events = recognised(_stream(source, name))
    whole = list(events)
    if found is None:
        message = "events of neither format; expected Messages events or chat.completion.chunk objects"
        raise UnreadableRecording(message, file=name, line=1)
    return Recording(found, whole)


def stream(source: Source) -> Iterator[Any]:
    """The events of a recording, each as soon as it is whole: for files too long to hold, and for pipes.

    `source` is a path, or a file that reads bytes, which stays open. Raises as `read` does, behind the events that
    could be read.
    """
    return _stream(source, _name(source))


def write(target: str | os.PathLike[str] | BinaryIO, events: Iterable[Any]) -> None:
    """Write events as server-sent events, for `read`. `target` is a path, or a file that writes bytes."""
    if isinstance(target, (str, os.PathLike)):
        with open(target, "wb") as file:  # noqa: PTH123  pathlib costs a third of importing the package
            write(file, events)
        return
    for item in events:
        event = event_of(item)
        name = event.get("type") if isinstance(event, dict) else None
        if isinstance(name, str) and re.fullmatch(r"\w+", name, re.ASCII):
            target.write(b"event: %s\n" % name.encode())
        target.write(b"data: %s\n\n" % (b"[DONE]" if event == "[DONE]" else encode_exact(event)))


def detect(event: Any) -> Format | None:
    """The format that an event shows; None for one that is no sign of either, as a ping, an error or `"[DONE]"`."""
    event = event_of(event)
    if not isinstance(event, dict):
        return None
    if "choices" in event or str(event.get("object")).startswith("chat.completion"):
        return "chat"
    return "messages" if event.get("type") in MESSAGES_TYPES else None


def recognised(events: Iterable[Any]) -> tuple[Format | None, Iterator[Any]]:
    """The format of a stream, and all its events: reads on to the first event that shows it, but not for ever.

    Where none does, an error or a ping says by its shape which of the two it is likely to be.
    """
    rest = iter(events)
    seen = []
    found: Format | None = None
    for event in itertools.islice(rest, UNDECIDED):
        seen.append(event)
        found = detect(event)
        if found is not None:
            break
    else:
        found = next((likely for likely in map(_likely, seen) if likely is not None), None)
    return found, itertools.chain(seen, rest)


def _likely(event: Any) -> Format | None:
    if event == "[DONE]":
        return "chat"
    if not isinstance(event, dict):
        return None
    if event.get("type") in ("error", "ping"):
        return "messages"
    return "chat" if "error" in event or "error_message" in event or event.get("object") == "error" else None


# ------------------------------------------------------------------------------------------------ files -> events


def _name(source: object) -> str | None:
    name = os.fspath(source) if isinstance(source, (str, os.PathLike)) else getattr(source, "name", None)
    return name if isinstance(name, str) else None


def _stream(source: Source | bytes | bytearray | memoryview, name: str | None) -> Iterator[Any]:
    if isinstance(source, (str, os.PathLike)):
        with open(source, "rb") as file:  # noqa: PTH123  as above
            yield from _events(file, name)
    elif isinstance(source, (bytes, bytearray, memoryview)):
        yield from _events(io.BytesIO(source), name)
    else:
        yield from _events(source, name)


# What JSON begins with, and what may be the beginning of that. A bracket may also be a link of Markdown.
JSON: Final = re.compile(rb'\s*+(?:[{"]|\[\s*[{"\[\]])')
UNCERTAIN: Final = re.compile(rb"\s*(?:\[\s*)?")


def _events(file: BinaryIO, name: str | None) -> Iterator[Any]:
    chunks = _chunks(file)
    beginning, line = b"", 1
    decoder: sse.EventDecoder | Values | None = None
    while decoder is None:
        chunk = next(chunks, None)
        whole = beginning + (chunk or b"")
        beginning = whole.lstrip(b"\r\n")
        line += whole.count(b"\n") - beginning.count(b"\n")
        if JSON.match(beginning, 0, MARGIN):
            decoder = Values(name, line)
        elif chunk is None or len(beginning) >= MARGIN or UNCERTAIN.fullmatch(beginning) is None:
            decoder = documents()
    empty = True
    for chunk in itertools.chain([beginning], chunks):
        for event in decoder.feed(chunk):
            empty = False
            yield event
    for event in decoder.close():
        empty = False
        yield event
    if empty:
        start = beginning[:60].decode("utf-8", "replace")
        message = f"no event in it: {EXPECTED}; it begins with {start!r}" if start else f"empty: {EXPECTED}"
        raise UnreadableRecording(message, file=name, line=1)


def _chunks(file: BinaryIO) -> Iterator[bytes]:
    """The bytes of a file behind its BOM: what is there of them, and no waiting for more."""
    some = getattr(file, "read1", file.read)
    chunks = iter(lambda: some(CHUNK), b"")
    beginning = b""
    for chunk in chunks:
        beginning += chunk
        if len(beginning) >= len(sse.BOM) or not sse.BOM.startswith(beginning):
            break
    yield beginning.removeprefix(sse.BOM)
    yield from chunks


# ------------------------------------------------------------------------------------------------ event streams


def documents() -> sse.EventDecoder:
    """A decoder of event streams, behind a BOM, that takes the liberties of documents."""
    decoder = sse.EventDecoder(limit=sse.LIMIT)
    decoder._lines = Blocks(sse.LIMIT)
    decoder._lines.started = True
    return decoder


OPENING: Final = (b"{", b"[")
FIELDS: Final = (b"data", b"event", b"id", b"retry", b"")

# A string of JSON, or the beginning of one: as it matches at every quote, it takes linear time.
STRING: Final = re.compile(rb'"(?:[^"\\]++|\\.)*+(?:"|\\?\Z)', re.DOTALL)


def nesting(line: bytes) -> int:
    """How many more brackets a line of JSON opens than it closes. No string goes on over a line."""
    bare = STRING.sub(b"", line)
    return bare.count(b"{") + bare.count(b"[") - bare.count(b"}") - bare.count(b"]")


class Blocks(sse.Lines):
    """The grammar of event streams, and of the blocks that documents print.

    `depth`: brackets that the data so far leaves open. The next line may go on with the JSON, which no event stream
    has; or with a field, which is an event stream's own way (`plain` until its event ends). `document`: there was a
    line that no event stream has. From then on data that is no JSON is prose, and an event ends with its JSON.
    `ended`: the data so far is whole JSON, so that more of it, or a second name (`named`), is of the next event.
    """

    __slots__ = ("depth", "document", "ended", "named", "plain")

    def __init__(self, limit: int) -> None:
        super().__init__(limit)
        self.depth = 0
        self.document = False
        self.ended = False
        self.named = False
        self.plain = False

    def _fold(self, lines: list[bytes], *, safe: bool) -> list[sse.Block]:
        # Lines that go on with JSON have become longer than `safe` knows.
        return super()._fold(list(self._lines(lines)), safe=safe and not self.document)

    def _lines(self, lines: list[bytes]) -> Iterator[bytes]:
        """The lines as an event stream has them."""
        for line in lines:
            field, colon, _ = line.partition(b":")
            known = field in FIELDS if colon or not self.document else not line
            again = field == b"event" and self.named
            if self.ended and (again or (field == b"data" and line[5:].lstrip()[:1] in OPENING)):
                self.ended = self.named = False
                yield b""
            self.named |= field == b"event"
            if not line:
                self.depth, self.ended, self.named, self.plain = 0, False, False, False
                yield line
            elif known and self.depth > 0:
                self.depth, self.plain = 0, True
                yield line
            elif known and (self.plain or field != b"data"):
                yield line
            elif known:
                yield from self._data(line)
            elif self.depth > 0:
                self.document = True
                self.depth += nesting(line)
                yield b"data: " + line
                if self.depth <= 0:
                    yield b""
            else:
                self.document = True

    def _data(self, line: bytes) -> Iterator[bytes]:
        value = line[5:].strip()
        if value[:1] in OPENING:
            self.depth = nesting(value)
        elif self.document:
            return
        yield line
        if self.document and self.depth <= 0:
            yield b""
        else:
            self.ended = self.depth <= 0 and value[:1] in OPENING


# ------------------------------------------------------------------------------------------------ JSON


# Where a value begins; where one without brackets or quotes ends; what counts inside of brackets, and of quotes.
BEGIN: Final = re.compile(rb"[^\s,]")
END: Final = re.compile(rb'[\s,"{}\[\]]')
BRACKET: Final = re.compile(rb'["{}\[\]]')
QUOTE: Final = re.compile(rb'["\\]')

NOTHING: Final = object()


class Values:
    """JSON text -> the values in it: in an array, or one after another, each on one line or over many.

    `value` has the bytes of the value that has not ended, `start` is the line on which it began; `depth` counts its
    brackets, `quoted`, `escaped` and `bare` say where in it we are. `listed`: inside of the array that holds events.
    """

    __slots__ = ("bare", "depth", "escaped", "found", "line", "listed", "name", "quoted", "start", "value")

    def __init__(self, name: str | None, line: int) -> None:
        self.name = name
        self.line = self.start = line
        self.value = bytearray()
        self.depth = 0
        self.bare = self.quoted = self.escaped = self.listed = self.found = False

    def feed(self, chunk: bytes) -> Iterator[Any]:
        """The values that end in this chunk, one by one; what is wrong is raised behind those in front of it."""
        at = tried = 0
        while at < len(chunk):
            if not self.value:
                before = at
                begin = BEGIN.search(chunk, at)
                at = begin.start() if begin is not None else len(chunk)
                self.line += chunk.count(b"\n", before, at)
                if begin is None:
                    return
                if begin[0] == (b"]" if self.listed else b"[") and (self.listed or not self.found):
                    self.listed = not self.listed
                    at += 1
                    continue
                self.start = self.line
                if at >= tried:  # most values are a line: no need to look at what is in it
                    end = chunk.find(b"\n", at)
                    tried = end if end >= 0 else len(chunk)
                    value = _line(chunk[at:end]) if end >= 0 else NOTHING
                    if value is not NOTHING:
                        self.found = True
                        yield value
                        at = end
                        continue
            end = self._end(chunk, at)
            self.line += chunk.count(b"\n", at, end)
            self.value += chunk[at:end]
            at = end
            if len(self.value) > sse.LIMIT:
                message = f"the JSON of line {self.start} is larger than {sse.LIMIT} bytes"
                raise LimitExceeded(message, limit="event", allowed=sse.LIMIT)
            if self.depth == 0 and not self.quoted and not (self.bare and at == len(chunk)):
                yield self._whole()

    def close(self) -> Iterator[Any]:
        """The last value; of a recording that was cut in the middle of one, its text."""
        if self.value and self.depth == 0 and not self.quoted:
            yield self._whole()
        elif self.value and self.found:
            yield self.value.decode("utf-8", "replace")
        elif self.value:
            what = "JSON that does not end"
            raise self._unreadable(what)

    def _end(self, chunk: bytes, at: int) -> int:
        """The place behind the value, or behind what of it is in the chunk."""
        if not self.value:
            self.bare = chunk[at : at + 1] not in (b'"', b"{", b"[")
            at += self.bare
        if self.bare:
            end = END.search(chunk, at)
            return end.start() if end is not None else len(chunk)
        at += self.escaped
        self.escaped = False
        while True:
            token = (QUOTE if self.quoted else BRACKET).search(chunk, at)
            if token is None:
                return len(chunk)
            at = token.end()
            if token[0] == b'"':
                self.quoted = not self.quoted
            elif token[0] == b"\\":
                self.escaped = at == len(chunk)
                at += 1
            else:
                self.depth += 1 if token[0] in b"{[" else -1
            if self.depth == 0 and not self.quoted:
                return at

    def _whole(self) -> Any:
        data = self.value.decode("utf-8", "replace")
        self.value.clear()
        self.found = True
        if data == "[DONE]":
            return data
        try:
            return decode(data)
        except ValueError:
            what = f"no JSON: {data[:60]!r}"
            raise self._unreadable(what) from None

    def _unreadable(self, what: str) -> UnreadableRecording:
        message = f"{what}; expected JSON values, one a line or in an array"
        return UnreadableRecording(message, file=self.name, line=self.start)


def _line(line: bytes) -> Any:
    """The value on a line, or NOTHING if there is none, or more than one, or only a part."""
    try:
        return decode(line.rstrip(b", \t\r")) if len(line) <= sse.LIMIT else NOTHING
    except ValueError:
        return NOTHING
