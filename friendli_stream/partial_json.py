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
Verdict = Literal["incomplete", "complete"] | InvalidJSON

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

SCALARS = "-0123456789tfn"
AFTER_NUMBER = ',]} \t\n\r"'
SHORT = 5  # no number of fewer characters is infinite
LONG = 64  # characters of a number that may be copied at each fragment
SPACE = " \t\n\r"
DIGITS = "0123456789"
LITERALS: dict[str, tuple[str, Any]] = {"t": ("true", True), "f": ("false", False), "n": ("null", None)}
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

    __slots__ = ("_logs", "_slots", "_stack", "root", "send", "verdict")

    def __init__(self, depth: int = 200, *, record: bool = False) -> None:
        self.root: list[Any] = []  # the root value is its only item
        self._stack: list[Any] = [self.root]  # and the open containers
        self._slots: list[Any] = []  # where in its parent each open container is
        self._logs: list[list[Change]] = [[]] if record else []  # none while nobody asks for changes
        scan = _scan(self._stack, self._slots, self._logs, depth)
        self.verdict: Verdict = next(scan)
        self.send = scan.send

    def feed(self, text: str) -> None:
        """Scan more of the text. Raises nothing: what is wrong is in `state` and `error`; text after it is ignored."""
        if text:
            self.verdict = self.send(text)

    @property
    def value(self) -> Any:
        """The certain part (J3, J4), None while nothing is: the same containers at each access, growing (J9)."""
        return self.root[0] if self.root else None

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
        verdict = self.verdict
        return "invalid" if isinstance(verdict, InvalidJSON) else verdict

    @property
    def error(self) -> InvalidJSON | None:
        """Why the text is invalid."""
        return self.verdict if isinstance(self.verdict, InvalidJSON) else None

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

    __slots__ = ("_depth", "_new", "_old", "_recording", "_root", "_scanner", "_send")

    def __init__(self, *, depth: int = 200) -> None:
        self._depth = depth
        self._new: list[str] = []  # what nobody has looked at
        self._old: list[str] = []
        self._scanner = Scanner(depth)
        self._send = self._scanner.send
        self._root = self._scanner.root
        self._recording = False

    def feed(self, text: str) -> None:
        """Remember the next fragment; nothing is scanned. Raises TypeError for what is no str."""
        text = "" + text  # a TypeError for what is no str, at half the cost of asking
        if text:
            self._new.append(text)

    def _look(self) -> Scanner:
        scanner = self._scanner
        new = self._new
        if new:
            text = "".join(new)
            new.clear()
            self._old.append(text)
            scanner.verdict = scanner.send(text)
        return scanner

    @property
    def value(self) -> Any:
        """The certain part, None while nothing is.

        Unfinished strings show what is certain of them (J3); unfinished numbers and literals are withheld, and so is a
        key until its value begins (J4). The value is live: the same containers at each access, growing in place (J9),
        to be read, not changed. Keeping each of its growing strings costs a copy each time.
        """
        new = self._new
        if new:  # as in _look, which would be a call more a fragment
            text = "".join(new)
            new.clear()
            self._old.append(text)
            self._scanner.verdict = self._send(text)
        root = self._root
        return root[0] if root else None

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
        if not self._recording:
            self._recording = True
            self._scanner.record(_changes_of(self._old, self._depth) if self._old else [])
        return self._look().changes()

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
        return whole("".join(self._old + self._new))

    def finish(self) -> Any:
        """The value of the whole text, parsed anew: fresh, shared with no preview (J1, J9).

        Raises IncompleteJSON where the text is the beginning of JSON, else InvalidJSON; both have `reason` and
        `position`, in code points of the joined text.
        """
        return parse("".join(self._old + self._new), self._depth)


def _changes_of(fragments: list[str], depth: int) -> list[Change]:
    scanner = Scanner(depth, record=True)
    for text in fragments:
        scanner.feed(text)
    return scanner.changes()


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


def _scan(stack: list[Any], slots: list[Any], logs: list[list[Change]], depth: int) -> Generator[Verdict, str]:
    """The scanner: fragments go in, after each the verdict comes out, at last what is wrong, for good.

    `stack`, `slots` and `logs` are those of Scanner. `base` is the position of buf[0], n the index of the added quote.
    """
    root = stack[0]
    top: Any = root
    closer, comma, after = "", VALUE, END  # of the innermost container: its bracket, the state after "," and a value
    path: tuple[str | int, ...] | None = None  # of the innermost container, once somebody needs it
    slot: Any = 0  # the key that waits for its value
    grown: Any = None  # the container with the unfinished string, at `where`; None for a key
    where: Any = 0
    here: tuple[str | int, ...] = ()  # the path of that place, as above
    string = reason = ""
    value: Any = None
    state = VALUE
    i = end = base = 0
    text = yield "incomplete"
    if not logs and text.rstrip(SPACE)[-1:] in ("}", "]"):
        try:
            root.append(_whole_document(text, depth))
        except ValueError:
            pass  # unfinished, wrong, or where our rules differ
        else:
            state = END
            base = len(text)
            text = ""
    buf = text + '"'
    n = len(text)
    while True:
        if state == TEXT:
            base += i
            if i == n:
                before = len(string)
                while '"' not in (text := (yield "incomplete")) and "\\" not in text and text.isprintable():
                    if grown is None:
                        string += text
                    else:
                        grown[where] = None
                        string += text
                        grown[where] = string
                        if logs:
                            here = here or (*slots, where)[1:]
                            logs[0].append((here, "text", text))
                base += len(string) - before
            else:
                text = buf[i:n] + (yield "incomplete")
            n = last = len(text)
            buf = text + '"'
            if "\\" in text:  # half an escape at the end waits
                at = text.rfind("\\", -5)
                if at == n - 1 or (at >= 0 and text[at + 1] == "u" and BEGINNING_OF_ESCAPE.fullmatch(text, at)):
                    last = at
            try:
                value, i = scanstring(buf if last == n else text[:last] + '"', 0)
                if not value.isascii():
                    value.encode()
            except ValueError:
                value, i, last, reason, joined = _text(buf, 0)
                base -= joined
            if grown is None:
                string += value
            elif value:
                grown[where] = None
                string += value
                grown[where] = string
                if logs:
                    here = here or (*slots, where)[1:]
                    logs[0].append((here, "text", value))
            if i > last:
                i = last
                if reason:
                    break
                continue
            if grown is None:
                slot = string
                if buf[i] == ":":
                    i += 1
                    if buf[i] == " ":
                        i += 1
                    state = VALUE
                else:
                    state = COLON
            else:
                if logs:
                    logs[0].append(((*slots, where)[1:], "done", string))
                if buf[i] == "," and closer:
                    i += 1
                    if buf[i] == " ":
                        i += 1
                    state = comma
                else:
                    state = after
        while True:
            c = buf[i]
            if c == '"':
                if i == n:
                    base += n
                    text = yield "complete" if state == END else "incomplete"
                    buf = text + '"'
                    n = len(text)
                    i = 0
                    continue
                if state > KEY:
                    break
                i += 1
                last = n
                try:
                    value, end = scanstring(buf, i)
                    if not value.isascii():
                        value.encode()
                except ValueError:
                    value, end, last, reason, joined = _text(buf, i)
                    base -= joined
                if end > last:
                    i = last
                    if state >= FIRST_KEY:
                        grown = None
                    else:
                        if closer == "}":
                            where = slot
                            top[where] = value
                        else:
                            where = len(top)
                            top.append(value)
                        grown = top
                        here = ()
                        if logs:
                            here = (*slots, where)[1:]
                            logs[0].append((here, "open", "string"))
                            if value:
                                logs[0].append((here, "text", value))
                    string = value
                    state = TEXT
                    break
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
            elif state <= FIRST and c in SCALARS:
                if c in LITERALS:
                    word, value = LITERALS[c]
                    more = not buf.startswith(word, i)
                    if not more:
                        i += len(word)
                    elif not word.startswith(buf[i:n]):
                        i = _first_other(buf, i, word)
                        reason = "malformed literal"
                        break
                else:
                    try:
                        value, end = _scan_once(buf, i)
                        plain = buf[end] in AFTER_NUMBER and (end - i < SHORT or value - value == 0)  # inf - inf is nan
                    except (StopIteration, ValueError):
                        plain = False
                    if plain:
                        more = end == n
                        if not more:
                            i = end
                    else:
                        value, i, more, reason = _number(buf, i)
                        if reason:
                            break
                if more:
                    base += i
                    text = buf[i:n]
                    text = (yield from _longer(text)) if len(text) > LONG else text + (yield "incomplete")
                    buf = text + '"'
                    n = len(text)
                    i = 0
                    continue
            elif c == closer:
                if state != AFTER and state != FIRST and state != FIRST_KEY:  # noqa: PLR1714  a set would be slower
                    break
                i += 1
                if logs:
                    logs[0].append((tuple(slots)[1:] if path is None else path, "done", top))
                path = None
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
            elif c == "," and state == AFTER:
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
                    break
                if len(stack) > depth:
                    reason = f"nested deeper than {depth}"
                    break
                inner: Any = {} if c == "{" else []
                if closer == "}":
                    top[slot] = inner
                else:
                    slot = len(top)
                    top.append(inner)
                stack.append(inner)
                slots.append(slot)
                path = None
                top = stack[-1]
                after = AFTER
                if c == "{":
                    closer, comma, state = "}", KEY, FIRST_KEY
                else:
                    closer, comma, state = "]", VALUE, FIRST
                if logs:
                    path = tuple(slots)[1:]
                    logs[0].append((path, "open", "object" if c == "{" else "array"))
                i += 1
                continue
            elif c == ":" and state == COLON:
                i += 1
                state = VALUE
                continue
            else:
                break
            # A value has ended right before i.
            if closer == "}":
                top[slot] = value
            else:
                slot = len(top)
                top.append(value)
            if logs:
                log = logs[0]
                if path is None:
                    path = tuple(slots)[1:]
                here = (*path, slot) if closer else ()
                if type(value) is str:
                    log.append((here, "open", "string"))
                    if value:
                        log.append((here, "text", value))
                log.append((here, "done", value))
            if buf[i] == "," and closer:
                i += 1
                if buf[i] == " ":
                    i += 1
                state = comma
            else:
                state = after
        if state != TEXT or reason:
            break
    error = InvalidJSON(reason or _expected(state, closer), base + i)
    while True:
        yield error


def _expected(state: int, closer: str) -> str:
    return "expected " + (f"',' or '{closer}'" if state == AFTER else EXPECTED[state])


def _first_other(buf: str, start: int, word: str) -> int:
    return next(i for i, letter in enumerate(word, start) if buf[i] != letter)


def _text(buf: str, start: int) -> tuple[str, int, int, str, int]:
    """The rest of a string from `start`, where scanstring gives no answer: (piece, end, last, reason, joined).

    Its `end` is behind its quote, or beyond `last` if there is none: then all before `last` is judged, and what is
    there waits for more, or is wrong for a `reason`. `joined` counts halves fed singly that make one character (B1).
    """
    last = len(buf) - 1
    end = TEXT_UNITS.match(buf, start, last).end()  # type: ignore[union-attr]  # it matches everywhere
    raw = buf[start:end]
    piece = scanstring(raw + '"', 0)[0]
    joined = 0 if raw.isascii() else len(raw) - len(_pairs(raw))
    if end < last and buf[end] == '"':
        return whole(piece), end + 1, last, "", joined
    known = BEGINNING_OF_ESCAPE.match(buf, end, last).end()  # type: ignore[union-attr]  # it matches everywhere
    reason = ""
    if known < last:
        reason = "invalid escape" if known > end else "control character in a string"
    if "\ud800" <= piece[-1:] <= "\udbff":  # J3: a first half waits for its second
        end -= 1 if raw[-1] == piece[-1] else 6
        piece = piece[:-1]
    return whole(piece), last + 1, known if reason else end, reason, joined


def _pairs(text: str) -> str:
    """The text with first and second halves next to each other joined."""
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")


def _number(buf: str, start: int) -> tuple[Any, int, bool, str]:
    """A number that scan_once does not settle, or none: (value, index, more, reason), as in `_text`."""
    last = len(buf) - 1
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
    """A long number that has not ended, with what decides about it; a run of digits is copied once."""
    parts = [beginning]
    if beginning[-1] not in DIGITS:
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
