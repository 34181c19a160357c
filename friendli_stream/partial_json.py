"""A JSON text that is still arriving, scanned once (J1-J10).

Every look at a growing text costs what came since the last look, so that reading after each of 100,000 fragments is
linear. The plan:

* The scanner is one generator: its locals are the state, so a text may be cut anywhere without a table of states.
* Each fragment gets a closing quote behind it. An open string then ends there for the C `scanstring` as if it were
  whole, and a quote at the last index is the end of the fragment, found where a token would be.
* Only what cannot be judged yet is carried into the next fragment: half an escape, the first half of a surrogate pair,
  the beginning of a number or literal.
* A string grows by CPython's `+=` in place. That needs the local to be its only reference, hence the emptied slot.
* A text fed as a whole goes to orjson first, and to this scanner only where orjson has other rules.

A position is the number of characters that valid JSON can begin with: the same however the text was cut.
"""

from __future__ import annotations

import itertools
import json
import math
import re
from json.decoder import scanstring  # type: ignore[attr-defined]  # exported at run time, unknown to typeshed
from typing import TYPE_CHECKING, Any, Literal

import orjson

from friendli_stream.errors import IncompleteJSON, InvalidJSON
from friendli_stream.wire import decode_exact, whole

if TYPE_CHECKING:
    from collections.abc import Generator

__all__ = ["Change", "PartialJSON", "Scanner", "parse"]

Change = tuple[tuple[str | int, ...], Literal["open", "text", "done"], Any]
Verdict = Literal["incomplete", "complete"]

# What may come next. The order makes the frequent questions one comparison: a value up to FIRST, a key from there to
# KEY, a closing bracket where a container is fresh or a value ended.
VALUE, FIRST, FIRST_KEY, KEY, COLON, AFTER, END, TEXT = range(8)
EXPECTED = {
    VALUE: "a value",
    FIRST: "a value or ']'",
    FIRST_KEY: "a key or '}'",
    KEY: "a key",
    COLON: "':'",
    END: "nothing more",
}

SHORT = 5  # no number of fewer characters is infinite
SPACE = " \t\n\r"
DIGITS = "0123456789"
LITERALS = {"t": "true", "f": "false", "n": "null"}
CONTAINERS = frozenset((dict, list))

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


class Scanner:
    """A JSON value that grows with each fragment fed to it; the text itself is not kept.

    `depth` is how deep containers may be nested (J7). With `record`, `changes` tells what came. Not safe to share
    between threads without a lock.
    """

    __slots__ = ("_logs", "_send", "_slots", "_stack", "_verdict", "depth")

    def __init__(self, depth: int = 200, *, record: bool = False) -> None:
        self.depth = depth
        self._stack: list[Any] = [[]]  # a list for the root value, then the open containers
        self._slots: list[Any] = []  # where in its parent each open container is
        self._logs: list[list[Change]] = [[]] if record else []  # none while nobody asks for changes
        self._verdict: Verdict | InvalidJSON | None = None
        self._start(VALUE, 0)

    def _start(self, state: int, base: int) -> None:
        scan = _scan(self._stack, self._slots, self._logs, self.depth, state, base)
        next(scan)
        self._send = scan.send

    def feed(self, text: str) -> None:
        """Scan more of the text. Raises nothing: what is wrong is in `state` and `error`; text after it is ignored."""
        if not text:
            return
        if self._verdict is None:
            self._verdict = "incomplete"
            if not self._logs and text.rstrip(SPACE)[-1:] in ("}", "]"):
                try:
                    self._stack[0].append(_whole_document(text, self.depth))
                except ValueError:
                    pass  # unfinished, wrong, or where our rules differ
                else:
                    self._verdict = "complete"
                    self._start(END, len(text))
                    return
        try:
            self._verdict = self._send(text)
        except StopIteration as stop:
            if stop.value is not None:
                self._verdict = stop.value

    @property
    def value(self) -> Any:
        """The certain part (J3, J4), None while nothing is: the same containers at each access, growing (J9)."""
        root = self._stack[0]
        return root[0] if root else None

    def snapshot(self) -> Any:
        """The certain part as it is now: open containers copied, closed ones shared, so only to be read (J9)."""
        containers = reversed(self._stack)
        inner = next(containers).copy()
        for container, slot in zip(containers, reversed(self._slots), strict=True):
            outer = container.copy()
            outer[slot] = inner
            inner = outer
        return inner[0] if inner else None

    @property
    def state(self) -> Literal["incomplete", "complete", "invalid"]:
        """How far the text is; a bare number stays "incomplete", for more digits may come (J1)."""
        verdict = self._verdict
        return "invalid" if isinstance(verdict, InvalidJSON) else verdict or "incomplete"

    @property
    def error(self) -> InvalidJSON | None:
        """Why the text is invalid."""
        return self._verdict if isinstance(self._verdict, InvalidJSON) else None

    def record(self, before: list[Change]) -> None:
        """Record changes from now on; `before` are those of the text fed so far."""
        self._logs[:] = [before]

    def changes(self) -> list[Change]:
        """What came since the last call (J10). Raises ValueError where nothing is recorded."""
        if not self._logs:
            message = "no changes are recorded: make it Scanner(record=True)"
            raise ValueError(message)
        changes = self._logs[0]
        self._logs[0] = []
        return changes


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
    value stands; a lone surrogate is U+FFFD. Reading never raises.
    """

    __slots__ = ("_depth", "_fragments", "_pending", "_recording", "_scanner")

    def __init__(self, *, depth: int = 200) -> None:
        self._depth = depth
        self._fragments: list[str] = []  # scanned
        self._pending: list[str] = []
        self._scanner = Scanner(depth)
        self._recording = False

    def feed(self, text: str) -> None:
        """Remember the next fragment; nothing is scanned. Raises TypeError for what is no str."""
        if not isinstance(text, str):
            message = f"a fragment of JSON text is a str, not {type(text).__name__}"
            raise TypeError(message)
        self._pending.append(text)

    def _look(self) -> Scanner:
        if self._pending:
            text = "".join(self._pending)
            self._pending.clear()
            self._fragments.append(text)
            self._scanner.feed(text)
        return self._scanner

    @property
    def value(self) -> Any:
        """The certain part, None while nothing is.

        Unfinished strings show what is certain of them (J3); unfinished numbers and literals are withheld, and so is a
        key until its value begins (J4). The value is live: the same containers at each access, growing in place (J9),
        to be read, not changed. Keeping each of its growing strings costs a copy each time.
        """
        return self._look().value

    def snapshot(self) -> Any:
        """`value` as it is now, for good: open containers are copied, closed ones shared, so only to be read (J9).

        Costs the width of the open containers.
        """
        return self._look().snapshot()

    def changes(self) -> list[Change]:
        """What came since the last call (J10), from the beginning at the first; costs what came.

        `(path, "open", "object" | "array" | "string")`, `(path, "text", added)` for strings, `(path, "done", value)`; a
        path is a tuple of keys and list indexes, () for the root. Numbers and literals have only their "done". An
        equal path a second time, from a duplicate key, replaces what was there.
        """
        scanner = self._look()
        if not self._recording:
            self._recording = True
            past = Scanner(self._depth, record=True)
            for text in self._fragments:
                past.feed(text)
            scanner.record(past.changes())
        return scanner.changes()

    @property
    def state(self) -> Literal["incomplete", "complete", "invalid"]:
        """How far the text is; a bare number at the root stays "incomplete" until `finish` (J1)."""
        return self._look().state

    @property
    def error(self) -> InvalidJSON | None:
        """Why the text is invalid, None unless it is; it stays, and `value` keeps what was good."""
        return self._look().error

    @property
    def text(self) -> str:
        """All of the text, with lone surrogates as U+FFFD (B1)."""
        return whole("".join(self._fragments + self._pending))

    def finish(self) -> Any:
        """The value of the whole text, parsed anew: fresh, shared with no preview (J1, J9).

        Raises IncompleteJSON where the text is the beginning of JSON, else InvalidJSON; both have `reason` and
        `position`, in code points of the joined text.
        """
        return parse("".join(self._fragments + self._pending), self._depth)


def parse(text: str, depth: int = 200) -> Any:
    """The value of a whole JSON text by the rules of PartialJSON: fresh. Raises IncompleteJSON, InvalidJSON."""
    scanner = Scanner(depth)
    scanner.feed(text)
    if scanner.state == "incomplete" and NUMBER.fullmatch(text.strip(SPACE)):
        scanner.feed(" ")  # the end of the text is the end of a bare number
    if scanner.error is not None:
        raise scanner.error
    if scanner.state == "incomplete":
        reason = "unfinished JSON"
        raise IncompleteJSON(reason, len(whole(text)))
    return scanner.value


def _whole_document(text: str, depth: int) -> Any:
    """A whole object or array by C code, where that follows our rules; otherwise ValueError."""
    data = text.encode()
    if LONG_RUN not in data.translate(ONLY_DIGITS):
        value = orjson.loads(data)  # refuses lone surrogates and 1e999
    elif "\\ud" in text or "\\uD" in text:
        raise ValueError
    else:
        value = decode_exact(data)
    if data.count(b"[") + data.count(b"{") > depth and _deeper(value, depth):
        raise ValueError
    return value


def _deeper(value: Any, depth: int) -> bool:
    """Whether an object or array is nested deeper than `depth`."""
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


def _scan(  # noqa: C901, PLR0912, PLR0913, PLR0915  one loop, for calls are what costs
    stack: list[Any], slots: list[Any], logs: list[list[Change]], depth: int, state: int, base: int
) -> Generator[Verdict, str, InvalidJSON]:
    """The scanner: fragments go in, after each the verdict comes out, at last what is wrong.

    `stack`, `slots` and `logs` are those of Scanner. `base` is the position of buf[0], n the index of the added quote.
    """
    root = stack[0]
    top: Any = root
    value: Any = None
    closer, comma, after = "", VALUE, END  # of the innermost container: its bracket, the state after "," and a value
    path: tuple[str | int, ...] = ()  # of the innermost container
    slot: Any = 0  # the key that waits for its value
    key = [""]  # where an unfinished key grows
    grown: Any = key  # the container with the unfinished string, at `where`; `here` is its path
    where: Any = 0
    here: tuple[str | int, ...] = ()
    string = ""
    i = 0
    buf = (yield "incomplete") + '"'
    n = len(buf) - 1
    while True:
        if state == TEXT:
            reason = ""
            try:
                piece, end = scanstring(buf, i)
                if not piece.isascii():
                    piece.encode()
                more = end > n
                i = n if more else end
            except ValueError:
                piece, i, more, reason, joined = _text(buf, i)
                base -= joined
            if piece:
                grown[where] = None
                string += piece
                grown[where] = string
                if logs and grown is not key:
                    logs[0].append((here, "text", piece))
            if reason:
                return InvalidJSON(reason, base + i)
            if more:
                base += i
                buf = buf[i:n] + (yield "incomplete") + '"'
                n = len(buf) - 1
                i = 0
                continue
            if grown is key:
                slot = string
                state = COLON
            else:
                state = after
                if logs:
                    logs[0].append((here, "done", string))
            string = ""
        while True:
            c = buf[i]
            if c == '"':
                if i == n:
                    base += n
                    buf = (yield "complete" if state == END else "incomplete") + '"'
                    n = len(buf) - 1
                    i = 0
                    continue
                if state > KEY:
                    return _unexpected(state, closer, base + i)
                i += 1
                try:
                    value, end = scanstring(buf, i)
                    if not value.isascii():
                        value.encode()
                except ValueError:
                    end = n + 1
                if end > n:  # it goes on in the next fragment, or is not plain
                    if state >= FIRST_KEY:
                        grown, where = key, 0
                    else:
                        if closer == "}":
                            where = slot
                            top[where] = ""
                        else:
                            where = len(top)
                            top.append("")
                        grown = top
                        here = (*path, where) if closer else ()
                        if logs:
                            logs[0].append((here, "open", "string"))
                    state = TEXT
                    break
                i = end
                if state >= FIRST_KEY:
                    slot = value
                    if buf[i] == ":":
                        i += 1
                        state = VALUE
                    else:
                        state = COLON
                    continue
            elif c == "," and state == AFTER:
                i += 1
                state = comma
                continue
            elif c == closer:
                if state != AFTER and state != FIRST and state != FIRST_KEY:  # noqa: PLR1714  a set would be slower
                    return _unexpected(state, closer, base + i)
                i += 1
                if logs:
                    logs[0].append((path, "done", top))
                stack.pop()
                slots.pop()
                top = stack[-1]
                path = path[:-1]
                if type(top) is dict:
                    closer, comma, after = "}", KEY, AFTER
                elif top is root:
                    closer, comma, after = "", VALUE, END
                else:
                    closer, comma, after = "]", VALUE, AFTER
                state = after
                continue
            elif c == "{" or c == "[":  # noqa: PLR1714  a set would be slower
                if state > FIRST:
                    return _unexpected(state, closer, base + i)
                if len(stack) > depth:
                    return InvalidJSON(f"nested deeper than {depth}", base + i)
                inner: Any = {} if c == "{" else []
                if closer == "}":
                    top[slot] = inner
                else:
                    slot = len(top)
                    top.append(inner)
                stack.append(inner)
                slots.append(slot)
                if closer:
                    path = (*path, slot)
                top = inner
                after = AFTER
                if c == "{":
                    closer, comma, state = "}", KEY, FIRST_KEY
                else:
                    closer, comma, state = "]", VALUE, FIRST
                if logs:
                    logs[0].append((path, "open", "object" if c == "{" else "array"))
                i += 1
                continue
            elif c == ":" and state == COLON:
                i += 1
                state = VALUE
                continue
            elif c in SPACE:
                i = SPACES.match(buf, i).end()  # type: ignore[union-attr]  # it matches everywhere
                continue
            else:
                if state > FIRST:
                    return _unexpected(state, closer, base + i)
                try:
                    value, end = _scan_once(buf, i)
                except (StopIteration, ValueError):
                    value, end = 0, n
                c = buf[end]
                if (c == "," or c == closer or c in SPACE or value is True or value is False or value is None) and (
                    end - i < SHORT or value - value == 0  # an infinity minus itself is none
                ):
                    i = end
                else:
                    value, i, more, reason = _scalar(buf, i)
                    if reason:
                        return InvalidJSON(reason, base + i)
                    if more:
                        base += i
                        buf = (yield from _longer(buf[i:n])) + '"'
                        n = len(buf) - 1
                        i = 0
                        continue
            # A value has ended right before i.
            if closer == "}":
                top[slot] = value
            else:
                slot = len(top)
                top.append(value)
            if logs:
                _log_value(logs[0], (*path, slot) if closer else (), value)
            if buf[i] == "," and closer:
                i += 1
                state = comma
            else:
                state = after


def _log_value(log: list[Change], path: tuple[str | int, ...], value: Any) -> None:
    if type(value) is str:
        log.append((path, "open", "string"))
        if value:
            log.append((path, "text", value))
    log.append((path, "done", value))


def _unexpected(state: int, closer: str, position: int) -> InvalidJSON:
    expected = f"',' or '{closer}'" if state == AFTER else EXPECTED[state]
    return InvalidJSON(f"expected {expected}", position)


def _text(buf: str, start: int) -> tuple[str, int, bool, str, int]:
    """The rest of a string from `start`, where scanstring gives no answer: (piece, index, more, reason, joined).

    It is whole, with the index behind its quote; or `more` is needed, with the index of what cannot be judged yet; or
    wrong for a reason, at the index. `joined` counts halves fed one by one that make one character (B1).
    """
    last = len(buf) - 1
    end = TEXT_UNITS.match(buf, start, last).end()  # type: ignore[union-attr]  # it matches everywhere
    raw = buf[start:end]
    piece = scanstring(raw + '"', 0)[0]
    joined = len(raw) - len(_pairs(raw))
    if end < last and buf[end] == '"':
        return whole(piece), end + 1, False, "", joined
    known = BEGINNING_OF_ESCAPE.match(buf, end, last).end()  # type: ignore[union-attr]  # it matches everywhere
    keep = end
    if "\ud800" <= piece[-1:] <= "\udbff":  # J3: a first half waits for its second
        keep -= 1 if raw[-1] == piece[-1] else 6
        piece = piece[:-1]
    piece = whole(piece)
    if known == last:
        return piece, keep, True, "", joined
    reason = "invalid escape" if known > end else "control character in a string"
    return piece, known, False, reason, joined


def _pairs(text: str) -> str:
    """The text with first and second halves next to each other joined."""
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")


def _scalar(buf: str, start: int) -> tuple[Any, int, bool, str]:
    """A number or literal that scan_once does not settle: (value, index, more, reason), as in `_text`."""
    last = len(buf) - 1
    end = start
    word = LITERALS.get(buf[start])
    if word is not None:
        while buf[end] == word[end - start]:  # a whole word never gets here
            end += 1
        return None, start if end == last else end, end == last, "" if end == last else "malformed literal"
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


def _longer(beginning: str) -> Generator[Verdict, str, str]:
    """An unfinished number or literal with what decides about it; a long run of digits costs no copy a fragment."""
    parts = [beginning]
    if beginning[-1] not in DIGITS or beginning in ("0", "-0"):
        parts.append((yield "incomplete"))
        return "".join(parts)
    mantissa, _, exponent = beginning.lower().partition("e")
    grows = exponent[:1] not in ("", "-") and mantissa.strip("-0.")
    while not (digits := (yield "incomplete")).strip(DIGITS):
        parts.append(digits)
        if grows:
            exponent = (exponent + digits).lstrip("+0")
            if exponent and math.isinf(float("".join(parts))):
                return "".join(parts)
    parts.append(digits)
    return "".join(parts)
