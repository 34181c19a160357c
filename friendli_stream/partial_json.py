"""A JSON text that is still arriving, scanned once (J1-J10).

Every look at a growing text costs what came since the last look, so that reading after each of 100,000 fragments is
linear. The plan:

* The scanner is one generator: its locals are the state, so a text may be cut anywhere without a table of states. It
  takes the fragments that came from a list and gives the value so far; feeding is `list.append`.
* Each fragment gets a closing quote behind it. An open string then ends there for the C `scanstring` as if it were
  whole, and a quote at the last index is the end of the fragment, found where a token would be.
* Only what cannot be judged yet is put back, to be read again with what comes next: half an escape, the first half of a
  surrogate pair, the beginning of a number or literal.
* A string grows by CPython's `+=` in place. That needs the local to be its only reference, hence the emptied slot.
* A fragment of a string that goes on, the usual one, takes a short way: as it is, or through orjson if it has escapes.
  A text that is whole at the first look goes to orjson at once, and to this scanner only where orjson has other rules.

A position is the number of characters that valid JSON can begin with: the same however the text was cut. It is counted
from the end of what was read, and only once something is wrong.
"""

from __future__ import annotations

import functools
import itertools
import json
import math
import re
from json.decoder import scanstring  # type: ignore[attr-defined]  # exported at run time, unknown to typeshed
from typing import TYPE_CHECKING, Any, Literal, final

import orjson

from friendli_stream.errors import IncompleteJSON, InvalidJSON
from friendli_stream.wire import decode_exact, paired, whole

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

__all__ = ["Change", "PartialJSON", "parse"]

Change = tuple[tuple[str | int, ...], Literal["open", "text", "done"], Any]
Path = tuple[str | int, ...]

# What may come next. The order makes the frequent questions one comparison: a value up to FIRST, a key from there to
# KEY, a closing bracket where a container is fresh or a value ended.
VALUE, FIRST, FIRST_KEY, KEY, COLON, AFTER, END = range(7)
EXPECTED = {
    VALUE: "a value",
    FIRST: "a value or ']'",
    FIRST_KEY: "a key or '}'",
    KEY: "a key",
    COLON: "':'",
    END: "nothing more",
}

SCALARS = "-0123456789tfn"
AFTER_SCALAR = ',]} \t\n\r"'
DUMPED = 254  # levels of containers
SHORT = 5  # no number of fewer characters is infinite
LONG = 64  # characters of a number that may be copied at each fragment
SPACE = " \t\n\r"
DIGITS = "0123456789"
HEX_DIGITS = "0123456789abcdefABCDEF"
LITERALS: dict[str, tuple[str, Any]] = {"t": ("true", True), "f": ("false", False), "n": ("null", None)}
CLOSERS = frozenset("]}")
CONTAINERS = frozenset((dict, list))
PLAIN = frozenset((str, int, bool, type(None)))  # not float: it may be what orjson makes of an integer over 64 bits

NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*+)(?:\.[0-9]++)?(?:[eE][-+]?[0-9]++)?")
BEGINNING_OF_NUMBER = re.compile(r"-?(?:(?:0|[1-9][0-9]*+)(?:\.(?![0-9])|(?:\.[0-9]++)?(?:[eE][-+]?[0-9]*+)?))?")
TEXT_UNITS = re.compile(r'(?:[^"\\\x00-\x1f]++|\\(?:["\\/bfnrt]|u[0-9A-Fa-f]{4}))*+')
BEGINNING_OF_ESCAPE = re.compile(r"(?:\\(?:u[0-9A-Fa-f]{0,3})?)?")
SPACES = re.compile(r"[ \t\n\r]*+")

# Digits to "0" and all else away: whether a run of 19 is there is then a search in C, ten times faster than a pattern.
ONLY_DIGITS = bytes(ord("0") if byte in DIGITS.encode() else 0 for byte in range(256))
LONG_RUN = b"0" * 19


def _refuse(literal: str) -> None:
    raise ValueError(literal)


# C code for numbers and literals; strings and containers never get there.
_scan_once = json.JSONDecoder(parse_constant=_refuse).scan_once  # type: ignore[attr-defined]  # unknown to typeshed
_loads = orjson.loads
_nothing_read = iter(()).__next__  # in place of the scanner until the first look


@final
class PartialJSON:
    """A JSON text that arrives in fragments (J1): what is certain of it can be read at any time, in linear time.

    ::

        partial = PartialJSON()
        partial.feed('{"city": "Se')
        partial.value            # {"city": "Se"}
        partial.feed('oul", "days": 1')
        partial.value            # {"city": "Seoul"}, as 1 may become 12
        partial.feed("2}")
        partial.finish()         # {"city": "Seoul", "days": 12}

    RFC 8259 to the letter (J2), integers exact (J6), containers at most `depth` deep (J7). Of a duplicate key the last
    value stands; a lone surrogate is U+FFFD. Reading never raises, but for a TypeError where what was fed is no str.
    """

    feed: Callable[[str], None]
    __slots__ = {
        "_depth": "J7",
        "_error": "once it was asked for",
        "_logs": "the changes that nobody took, in a list; none while nobody asks",
        "_new": "fragments that nobody looked at",
        "_old": "and those before",
        "_read": "the scanner: reads what is new, gives the value",
        "_slots": "where in its parent each open container is",
        "_stack": "the root, whose items are the value and the verdict, and the open containers",
        "feed": "feed(text): remember the next fragment; nothing is scanned. A list.append, with no call of Python's.",
    }

    def __init__(self, *, depth: int = 200) -> None:
        self._depth = depth
        self._new: list[str] = []
        self._old: list[str] = []
        self.feed = self._new.append
        self._read: Callable[[], Any] = _nothing_read
        self._error: InvalidJSON | None = None

    def _begin(self, *, record: bool = False) -> Any:
        """Make the scanner and read: at the first look, and where one was interrupted or met what is no str."""
        if self._old:
            self._new[:0] = self._old
            self._old.clear()
        self._stack: list[Any] = [[None, "incomplete"]]
        self._slots: list[Any] = []
        self._logs: list[list[Change]] = [[]] if record else []
        self._read = _scan(self._new, self._old, self._stack, self._slots, self._logs, self._depth).__next__
        self._read()
        return self._read()

    def _look(self) -> Any:
        try:
            return self._read()
        except StopIteration:
            return self._begin()

    @property
    def value(self) -> Any:
        """The certain part, None while nothing is.

        Unfinished strings show what is certain of them (J3); unfinished numbers and literals are withheld, and so is a
        key until its value begins (J4). The value is live: the same containers at each access, growing in place (J9),
        to be read, not changed. Keeping each of its growing strings costs a copy each time.
        """
        read = self._read  # as in _look, which would be a call more a fragment
        try:
            return read()
        except StopIteration:
            return self._begin()

    def snapshot(self) -> Any:
        """`value` as it is now, for good: open containers are copied, closed ones shared, so only to be read (J9).

        Costs the width of the open containers.
        """
        self._look()
        containers = reversed(self._stack)
        inner = next(containers).copy()
        for container, slot in zip(containers, reversed(self._slots), strict=True):
            outer = container.copy()
            outer[slot] = inner
            inner = outer
        return inner[0]

    def changes(self) -> list[Change]:
        """What came since the last call (J10), from the beginning at the first; costs what came.

        `(path, "open", "object" | "array" | "string")`, `(path, "text", added)` for strings, `(path, "done", value)`; a
        path is a tuple of keys and list indexes, () for the root. Numbers and literals have only their "done". An
        equal path a second time, from a duplicate key, replaces what was there.
        """
        read = self._read
        try:
            read()
        except StopIteration:
            self._begin(record=True)
        logs = self._logs
        if not logs:
            logs.append(_changes_of(self._old + self._new, self._depth))
        changes = logs[0]
        logs[0] = []
        return changes

    @property
    def state(self) -> Literal["incomplete", "complete", "invalid"]:
        """How far the text is; a bare number at the root stays "incomplete" until `finish` (J1)."""
        self._look()
        verdict = self._stack[0][1]
        return "invalid" if type(verdict) is tuple else verdict

    @property
    def error(self) -> InvalidJSON | None:
        """Why the text is invalid, None unless it is; it stays, and `value` keeps what was good."""
        if self._error is None and self.state == "invalid":
            reason, behind = self._stack[0][1]
            text = "".join(self._old)
            self._error = InvalidJSON(reason, len(paired(text[: len(text) - behind])))
        return self._error

    def _forget(self) -> None:
        """Drop the text that was read: for who keeps it elsewhere, and asks for no `text`, `error` or `finish`."""
        self._old.clear()

    @property
    def text(self) -> str:
        """All of the text, with lone surrogates as U+FFFD (B1)."""
        return whole("".join(self._old + self._new))

    def finish(self) -> Any:
        """The value of the whole text, parsed anew: fresh, shared with no preview (J1, J9).

        Raises IncompleteJSON where the text is the beginning of JSON, else InvalidJSON; both have `reason` and
        `position`, in code points of the joined text.
        """
        return parse("".join(self._old + self._new), self._depth)


def _changes_of(fragments: list[str], depth: int) -> list[Change]:
    partial = PartialJSON(depth=depth)
    for text in fragments:
        partial.feed(text)
    return partial.changes()


def parse(text: str, depth: int = 200) -> Any:
    """The value of a whole JSON text by the rules of PartialJSON: fresh. Raises IncompleteJSON, InvalidJSON."""
    if text.rstrip(SPACE)[-1:] in CLOSERS:
        try:
            return _whole_document(text, depth)
        except ValueError:
            pass  # unfinished, wrong, or where our rules differ
    partial = PartialJSON(depth=depth)
    partial.feed(text)
    if partial.state == "incomplete" and NUMBER.fullmatch(text.strip(SPACE)):
        partial.feed(" ")  # the end of the text is the end of a bare number
    if partial.error is not None:
        raise partial.error
    if partial.state == "incomplete":
        reason = "unfinished JSON"
        raise IncompleteJSON(reason, len(whole(text)))
    return partial.value


def _whole_document(text: str, depth: int) -> Any:
    """A whole object or array by C code, where that follows our rules; otherwise ValueError."""
    value = orjson.loads(text)  # refuses lone surrogates and 1e999
    if depth > 0 and PLAIN.issuperset(map(type, value.values() if type(value) is dict else value)):
        return value
    data = text.encode()
    if LONG_RUN in data.translate(ONLY_DIGITS):
        value = decode_exact(data)
    if data.count(b"[") + data.count(b"{") > depth and _deeper(value, depth):
        raise ValueError
    return value


def _deeper(value: Any, depth: int) -> bool:
    """Whether an object or array is nested deeper than `depth`: C code says no, a walk by levels yes."""
    if _dumps_refuses_more():
        for _ in range(DUMPED - depth):
            value = [value]
        depth = max(depth, DUMPED)
        try:
            orjson.dumps(value)
        except TypeError:
            pass  # too deep, or an integer over 64 bits
        else:
            return False
    level = [value]
    for _ in range(depth):
        level = [
            inner
            for container in level
            for inner in (container.values() if type(container) is dict else container)
            if type(inner) in CONTAINERS
        ]
        if not level:
            return False
    return True


@functools.cache
def _dumps_refuses_more() -> bool:
    """Whether orjson.dumps takes no more than DUMPED levels, which it does not promise."""
    value: list[Any] = []
    for _ in range(DUMPED):
        value = [value]
    try:
        orjson.dumps(value)
    except TypeError:
        return True
    return False


def _scan(  # noqa: PLR0913, PLR0917  all of it is shared with PartialJSON
    new: list[str],
    old: list[str],
    stack: list[Any],
    slots: list[Any],
    logs: list[list[Any]],
    depth: int,
) -> Generator[Any, None, None]:
    """The scanner: takes what is in `new`, moves it to `old`, gives the value so far.

    buf[i] is where it is in a fragment, n the index of the added quote. While a string is open, `grown` is its
    container, `where` its place there, `string` what came of it.
    """
    root = top = stack[0]
    closer, comma, after = "", VALUE, END  # of the innermost container: its bracket, the state after "," and a value
    path: Path | None = None  # of the innermost container, once somebody needs it
    slot: Any = 0  # the key that waits for its value
    keys: Any = [""]  # the container of a key that is still open
    grown: Any = None
    where: Any = 0
    here: Path = ()  # the path of that place, once somebody needs it
    string = reason = ""
    value: Any = None
    run: Generator[str | None, str, None] | None = None  # reads a long number
    state = VALUE
    i = n = end = waits = 0
    while True:
        yield root[0]
        while not new:
            yield root[0]
        text = "".join(new)
        new.clear()
        old.append(text)
        if grown is not None:
            if "\\" not in text:
                if '"' not in text and text.isprintable():  # nothing but more of the string
                    grown[where] = None
                    string += text
                    grown[where] = string
                    if logs and text and grown is not keys:
                        here = here or (*slots, where)[1:]
                        logs[0].append((here, "text", text))
                    continue
            else:
                half = ""
                if text[-1] == "\\":
                    half = "\\"
                    text = text[:-1]
                elif "\\u" in text:
                    half = _half_escape(text)
                    text = text[: len(text) - len(half)]
                if '"' not in text or '"' not in text.replace('\\"', ""):
                    try:
                        value = _loads(f'"{text}"')
                    except ValueError:
                        pass  # what follows knows more
                    else:
                        grown[where] = None
                        string += value
                        grown[where] = string
                        if logs and value and grown is not keys:
                            here = here or (*slots, where)[1:]
                            logs[0].append((here, "text", value))
                        if half:
                            _put_back(half, new, old)
                        continue
                text += half
            # The string ends here, or is none for orjson.
            buf = text + '"'
            n = len(text)
            try:
                value, i = scanstring(buf, 0)
                if not value.isascii():
                    value.encode()
            except ValueError:
                value, i, waits, reason = _text(buf, 0)
                if i > n and waits < n and not reason:
                    _put_back(text[waits:], new, old)
            if value:
                grown[where] = None
                string += value
                grown[where] = string
                if logs and grown is not keys:
                    here = here or (*slots, where)[1:]
                    logs[0].append((here, "text", value))
            if i > n:
                if reason:
                    i = waits
                    break
                continue
            if grown is keys:
                slot = string
                state = COLON
            else:
                state = after
                if logs:
                    logs[0].append((here or (*slots, where)[1:], "done", string))
            grown = None
        else:
            if run is not None:
                number = run.send(text)
                if number is None:
                    continue
                text = number
                run = None
            i = 0
            buf = text + '"'
            n = len(text)
        while True:
            c = buf[i]
            if c == '"':
                if i == n:
                    if state == END:
                        root[1] = "complete"
                    break
                if state > KEY:
                    reason = _expected(state, closer)
                    break
                i += 1
                try:
                    value, end = scanstring(buf, i)
                    if not value.isascii():
                        value.encode()
                except ValueError:
                    value, end, waits, reason = _text(buf, i)
                    if end > n:
                        if reason:
                            i = waits
                        elif waits < n:
                            _put_back(buf[waits:n], new, old)
                if end <= n:
                    i = end
                    if state >= FIRST_KEY:
                        slot = value
                        if buf[i] == ":":
                            i += 1
                            if buf[i] == " ":
                                i += 1
                            state = VALUE
                        else:
                            state = COLON
                        continue
                else:
                    string = value
                    if state >= FIRST_KEY:
                        grown = keys
                        where = 0
                        break
                    grown = top
                    if closer == "]":
                        where = len(top)
                        top.append(value)
                    else:
                        where = slot
                        top[where] = value
                    here = ()
                    if logs:
                        if path is None:
                            path = tuple(slots)[1:]
                        here = path + (where,) if closer else ()  # noqa: RUF005  half the cost of unpacking
                        logs[0].append((here, "open", "string"))
                        if value:
                            logs[0].append((here, "text", value))
                    break
            elif state <= FIRST and c in SCALARS:
                try:
                    value, end = _scan_once(buf, i)
                    plain = buf[end] in AFTER_SCALAR and (end - i < SHORT or value - value == 0)  # inf - inf is nan
                except (StopIteration, ValueError):
                    plain = False
                more = False
                if not plain:
                    value, i, more, reason = _scalar(buf, i)
                    if reason:
                        break
                elif end < n or c in LITERALS:
                    i = end
                else:
                    more = True
                if more:
                    half = buf[i:n]
                    if len(half) > LONG:
                        run = _longer(half)
                        next(run)
                    else:
                        _put_back(half, new, old)
                    break
            elif c == closer:
                if state != AFTER and state != FIRST and state != FIRST_KEY:  # noqa: PLR1714  a set would be slower
                    reason = _expected(state, closer)
                    break
                i += 1
                if logs:
                    if path is None:
                        path = tuple(slots)[1:]
                    logs[0].append((path, "done", top))
                    path = path[:-1]
                stack.pop()
                slots.pop()
                top = outer = stack[-1]
                if type(outer) is dict:
                    closer, comma, after = "}", KEY, AFTER
                elif outer is root:
                    closer, comma, after = "", VALUE, END
                else:
                    closer, comma, after = "]", VALUE, AFTER
                state = after
                continue
            elif c == ":" and state == COLON:
                i += 1
                if buf[i] == " ":
                    i += 1
                state = VALUE
                continue
            elif c == "," and state == AFTER:
                i += 1
                if buf[i] == " ":
                    i += 1
                state = comma
                continue
            elif c in SPACE:
                i += 1
                if buf[i] in SPACE:
                    i = SPACES.match(buf, i).end()  # type: ignore[union-attr]  # it matches everywhere
                continue
            elif c == "{" or c == "[":  # noqa: PLR1714  a set would be slower
                if state > FIRST:
                    reason = _expected(state, closer)
                    break
                if len(stack) > depth:
                    reason = f"nested deeper than {depth}"
                    break
                if top is root and not logs and text.rstrip(SPACE)[-1:] in CLOSERS:
                    try:
                        root[0] = _whole_document(text[i:], depth)
                    except ValueError:
                        pass  # unfinished, wrong, or where our rules differ
                    else:
                        state = END
                        i = n
                        continue
                inner: Any = {} if c == "{" else []
                if closer == "]":
                    slot = len(top)
                    top.append(inner)
                else:
                    top[slot] = inner
                if logs:
                    if path is None:
                        path = tuple(slots)[1:]
                    path = path + (slot,) if closer else ()  # noqa: RUF005  as above
                    logs[0].append((path, "open", "object" if c == "{" else "array"))
                stack.append(inner)
                slots.append(slot)
                top = inner
                after = AFTER
                if c == "{":
                    closer, comma, state = "}", KEY, FIRST_KEY
                else:
                    closer, comma, state = "]", VALUE, FIRST
                i += 1
                continue
            else:
                reason = _expected(state, closer)
                break
            # A value has ended right before i.
            if closer == "]":
                if logs:
                    slot = len(top)
                top.append(value)
            else:
                top[slot] = value
            if buf[i] == "," and closer:
                i += 1
                if buf[i] == " ":
                    i += 1
                state = comma
            else:
                state = after
            if logs:
                if path is None:
                    path = tuple(slots)[1:]
                here = path + (slot,) if closer else ()  # noqa: RUF005  as above
                if type(value) is not str:
                    logs[0].append((here, "done", value))
                elif value:
                    logs[0] += ((here, "open", "string"), (here, "text", value), (here, "done", value))
                else:
                    logs[0] += ((here, "open", "string"), (here, "done", value))
        if reason:
            break
    behind = n - i
    while True:
        root[1] = reason, behind
        yield root[0]
        behind += len("".join(new))
        old += new
        new.clear()


def _put_back(half: str, new: list[str], old: list[str]) -> None:
    """What ends a text and cannot be judged yet is new once more."""
    new.append(half)
    text = old.pop()[: -len(half)]
    if text:
        old.append(text)


def _half_escape(text: str) -> str:
    r"""The half of a \u escape at the end of a text, going by the last backslash: one before it may have escaped it."""
    at = text.rfind("\\u", -5)
    return text[at:] if at >= 0 and not text[at + 2 :].strip(HEX_DIGITS) else ""


def _expected(state: int, closer: str) -> str:
    return "expected " + (f"',' or '{closer}'" if state == AFTER else EXPECTED[state])


def _first_other(buf: str, start: int, word: str) -> int:
    return next(i for i, letter in enumerate(word, start) if buf[i] != letter)


def _text(buf: str, start: int) -> tuple[str, int, int, str]:
    """The rest of a string from `start`, where scanstring gives no answer: (piece, end, waits, reason).

    Its `end` is behind its quote, or beyond the added one: then all before `waits` is judged, and what is there waits
    for more, or is wrong for a `reason`.
    """
    last = len(buf) - 1
    end = TEXT_UNITS.match(buf, start, last).end()  # type: ignore[union-attr]  # it matches everywhere
    raw = buf[start:end]
    closed = end < last and buf[end] == '"'
    waits = end == last and "\ud800" <= raw[-1:] <= "\udbff"
    # Halves that come raw belong together, as do escaped ones, but not one with the other.
    piece = scanstring(whole(raw[: len(raw) - waits]) + '"', 0)[0]
    if closed:
        return whole(piece), end + 1, last, ""
    known = BEGINNING_OF_ESCAPE.match(buf, end, last).end()  # type: ignore[union-attr]  # it matches everywhere
    reason = ""
    if known < last:
        reason = "invalid escape" if known > end else "control character in a string"
    if waits:  # J3: a first half waits for its second
        end -= 1
    elif "\ud800" <= piece[-1:] <= "\udbff":
        end -= 6
        piece = piece[:-1]
    return whole(piece), last + 1, known if reason else end, reason


def _scalar(buf: str, start: int) -> tuple[Any, int, bool, str]:
    """A number or literal that scan_once does not settle, or none: (value, index, more, reason), as in `_text`."""
    last = len(buf) - 1
    if buf[start] in LITERALS:
        word, value = LITERALS[buf[start]]
        if buf.startswith(word, start):
            return value, start + len(word), False, ""
        if word.startswith(buf[start:last]):
            return None, start, True, ""
        return None, _first_other(buf, start, word), False, "malformed literal"
    end = BEGINNING_OF_NUMBER.match(buf, start, last).end()  # type: ignore[union-attr]  # it matches everywhere
    number = buf[start:end]
    too_large = _too_large(number)
    if too_large:
        return None, start + too_large, False, "number too large"
    if end == last > start:
        return None, start, True, ""
    if NUMBER.fullmatch(number) is None:
        return None, end, False, "malformed number" if number else "expected a value"
    if not number.lstrip("-").isdigit():
        value = float(number)
        return value, end, False, "number too large" if math.isinf(value) else ""
    try:
        return int(number), end, False, ""
    except ValueError:  # J2: over 4,300 digits
        return None, end, False, "integer too long"


def _too_large(number: str) -> int:
    """Where in a number its positive exponent grows so large that no digits more can make it finite again, else 0."""
    exponent = number.lower().partition("e")[2].lstrip("+")
    if not exponent or exponent[0] == "-" or not math.isinf(float(number)):
        return 0
    start = len(number) - len(exponent)
    zeros = len(exponent) - len(exponent.lstrip("0"))
    stops = itertools.chain((start + 1,), itertools.count(start + zeros + 1))
    return next(stop - 1 for stop in stops if math.isinf(float(number[:stop])))


def _longer(beginning: str) -> Generator[str | None, str, None]:
    """A long number that has not ended, with what decides about it; a run of digits is copied once."""
    parts = [beginning]
    if beginning[-1] not in DIGITS:
        parts.append((yield None))
        yield "".join(parts)
    mantissa, _, exponent = beginning.lower().partition("e")
    grows = exponent[:1] not in ("", "-") and mantissa.strip("-0.")
    while not (digits := (yield None)).strip(DIGITS):
        parts.append(digits)
        if grows:
            exponent = (exponent + digits).lstrip("+0")
            if exponent and math.isinf(float("".join(parts))):
                yield "".join(parts)
    parts.append(digits)
    yield "".join(parts)
