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

import json
import math
import re
from collections.abc import Generator
from json.decoder import scanstring  # type: ignore[attr-defined]  # exported at run time, unknown to typeshed
from typing import Any, Literal

import orjson

from friendli_stream.errors import IncompleteJSON, InvalidJSON
from friendli_stream.wire import whole

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

    __slots__ = ("_log", "_send", "_slots", "_stack", "_verdict", "depth")

    def __init__(self, depth: int = 200, *, record: bool = False) -> None:
        self.depth = depth
        self._stack: list[Any] = [[]]  # a list for the root value, then the open containers
        self._slots: list[Any] = []  # where in its parent each open container is
        self._log: list[Change] | None = [] if record else None
        self._verdict: Verdict | InvalidJSON | None = None
        self._send = self._start(VALUE, 0)

    def _start(self, state: int, base: int) -> Any:
        scan = _scan(self._stack, self._slots, self.depth, self._log, state, base)
        next(scan)
        return scan.send

    def feed(self, text: str) -> None:
        """Scan more of the text. Raises nothing: what is wrong is in `state` and `error`; text after it is ignored."""
        if not text:
            return
        if self._verdict is None:
            self._verdict = "incomplete"
            if self._log is None and text.rstrip(SPACE)[-1:] in ("}", "]"):
                try:
                    self._stack[0].append(_quick(text, self.depth))
                except ValueError:
                    pass  # unfinished, wrong, or with other rules than ours
                else:
                    self._verdict = "complete"
                    self._send = self._start(END, len(text))
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

    def changes(self) -> list[Change]:
        """What came since the last call (J10); only of a Scanner made with `record`, else ValueError."""
        if self._log is None:
            message = "changes() needs a Scanner(record=True)"
            raise ValueError(message)
        changes = self._log.copy()
        self._log.clear()
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

    RFC 8259 to the letter (J2), integers exact (J6), containers at most `depth` deep (J7), a duplicate key's last
    value wins, lone surrogates become U+FFFD. Reading never raises.
    """

    __slots__ = ("_depth", "_fragments", "_recorded", "_recorder", "_scanned", "_scanner")

    def __init__(self, *, depth: int = 200) -> None:
        self._depth = depth
        self._fragments: list[str] = []
        self._scanner: Scanner | None = None
        self._scanned = 0
        self._recorder: Scanner | None = None
        self._recorded = 0
