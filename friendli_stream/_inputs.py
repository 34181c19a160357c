"""Tool inputs of both formats: JSON text that is still arriving, read when somebody asks (J11, J12).

Nothing here runs in `step`. A `Scan` is the scanner of one input, shared by all states in which that input grows: each
reading goes on where the last one stopped, from the last reader to the newest. An older state, or one of another
branch, is scanned anew.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any, Literal, TypeVar, cast, overload

from friendli_stream import wire
from friendli_stream._fragments import Pending, Promise, Rope, added, pieces
from friendli_stream.errors import InvalidInput, InvalidJSON
from friendli_stream.partial_json import PartialJSON, parse

if TYPE_CHECKING:
    from collections.abc import Callable

    from cattrs import Converter

__all__ = ["Change", "InputState", "Raw", "Scan", "ToolInput", "blank", "scanned"]

InputState = Literal["complete", "incomplete", "invalid"]
Change = tuple[tuple[Any, ...], str, Any]
T = TypeVar("T")

JSON_SPACE = " \t\n\r"


class Scan:
    """The scanners of one growing input: one for its value, one for what was added; and its value without any text.

    Both remember the rope they have read to; a lock keeps two readers out of one scanner. It is no part of any
    value: copies and equal states may have another, and read the same.
    """

    __slots__ = ("_changes", "_ended", "_lock", "_value")

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._value: tuple[PartialJSON, Rope | None] | None = None
        self._changes: tuple[PartialJSON, Rope | None] | None = None
        self._ended: tuple[str, tuple[InputState, Any]] | None = None

    def read(self, rope: Rope | None, depth: int) -> tuple[InputState, Any]:
        """The state of the text so far, and a snapshot of what is certain."""
        with self._lock:
            before, self._value = self._value, None  # a scanner that is interrupted is not read again
            scanner = _forward(before, rope, depth)
            state, value = scanner.state, scanner.snapshot()
            scanner._forget()
            newer = before is None or length(before[1]) <= length(rope)  # an older reader takes nothing away
            self._value = (scanner, rope) if newer else before
            return state, value

    def ended(self, text: str, depth: int) -> tuple[InputState, Any]:
        """The same of a text that has ended with nothing certain in it, or of what stands in its place (M4)."""
        with self._lock:
            if self._ended is None or self._ended[0] != text:
                self._ended = text, _ended(text, depth)
            return self._ended[1]

    def changes(self, older: Rope | None, newer: Rope | None, depth: int) -> list[Change]:
        """The entries of PartialJSON.changes between two ropes of one line."""
        with self._lock:
            before, self._changes = self._changes, None
            scanner = _forward(before, older, depth)
            scanner.changes()  # those up to `older`, none where the last call ended there
            scanner = _forward((scanner, older), newer, depth)
            changes = cast("list[Change]", scanner.changes())
            scanner._forget()
            self._changes = scanner, newer
            return changes


def _forward(before: tuple[PartialJSON, Rope | None] | None, rope: Rope | None, depth: int) -> PartialJSON:
    """A scanner that has been fed `rope`: the one before, if the rope goes on from there, else a new one."""
    if before is not None:
        scanner, reached = before
        more = added(reached, rope)
        if more is not None:
            for piece in more:
                scanner.feed(piece)
            return scanner
    scanner = PartialJSON(depth=depth)
    for piece in pieces(rope) if rope is not None else ():
        scanner.feed(piece)
    return scanner


def length(rope: Rope | None) -> int:
    """The characters of a rope, 0 for none."""
    return rope.length if rope is not None else 0


def blank(text: str) -> bool:
    """Whether a text is no JSON yet: empty or white space."""
    return not text.strip(JSON_SPACE)


class Raw(Promise):
    """The raw text of a tool input, in a value: a str, or one that is still pending in a state.

    `closed`: no more of it comes. `scan` is the scanner of its line. `default` stands in place of no text once the
    input is closed (M4), None for the text as it is.
    """

    __slots__ = ("_memo", "_text", "closed", "default", "depth", "scan")

    def __init__(
        self,
        text: str | Pending,
        *,
        closed: bool,
        scan: Scan | None = None,
        default: str | None = None,
        depth: int = 200,
    ) -> None:
        self._text = text
        self._memo: tuple[InputState, Any] | None = None
        self.closed = closed
        self.scan = scan
        self.default = default
        self.depth = depth

    def get(self) -> str:
        """The text, or its default."""
        text = self._text
        if isinstance(text, Pending):
            text = self._text = text.get()
        return self.default if self.closed and self.default is not None and blank(text) else text

    def read(self) -> tuple[InputState, Any]:
        """The state (J11) and the certain part; scanned at most once."""
        memo = self._memo
        if memo is None:
            memo = self._memo = self._scanned()
        return memo

    def _scanned(self) -> tuple[InputState, Any]:
        pending = self._text
        if isinstance(pending, Pending) and self.scan is not None:
            state, value = self.scan.read(pending.rope(), self.depth)
        else:
            state, value = _scan(self.get(), self.depth)
        if state == "incomplete" and value is None and self.closed:  # no text, or a bare number or literal
            text = self.get()
            if blank(text):
                return "complete", {}
            state, value = self.scan.ended(text, self.depth) if self.scan is not None else _ended(text, self.depth)
        if state == "complete" and not isinstance(value, dict):
            return "invalid", value
        return state, value


def scanned(text: str, depth: int) -> list[Change]:
    """The changes of a whole text."""
    scanner = PartialJSON(depth=depth)
    scanner.feed(text)
    return cast("list[Change]", scanner.changes())


def _scan(text: str, depth: int) -> tuple[InputState, Any]:
    scanner = PartialJSON(depth=depth)
    scanner.feed(text)
    return scanner.state, scanner.snapshot()


def _ended(text: str, depth: int) -> tuple[InputState, Any]:
    """What becomes of such a text once no more comes: a bare number is whole now."""
    try:
        return "complete", parse(text, depth)
    except InvalidJSON:
        return "incomplete", None


class ToolInput:
    """What ToolUseBlock and ToolCall have alike: one input in four readings."""

    __slots__ = ()
    _raw: Raw

    if TYPE_CHECKING:

        @property
        def _place(self) -> str: ...  # where it is in the message, for errors

    @property
    def input_state(self) -> InputState:
        """How far the input is (J11): "complete" for a whole JSON object, "incomplete", or "invalid"."""
        return self._raw.read()[0]

    @property
    def partial_input(self) -> Any:
        """What of the input is certain already (J3, J4), None while nothing is; read-only, it never changes (J9)."""
        return self._raw.read()[1]

    @property
    def input(self) -> dict[str, Any]:
        """The input, fresh at each access. Raises InvalidInput unless `input_state` is "complete"."""
        text = self._raw.get()
        if blank(text) and self._raw.closed:
            return {}
        try:
            value = parse(text, self._raw.depth)
        except InvalidJSON as error:
            state = self.input_state
            message = f"{self._place} is {state}: {error}"
            raise InvalidInput(message, path=self._place, state=state, text=text) from error
        if isinstance(value, dict):
            return value
        message = f"{self._place} is {self.input_state}: a JSON object was expected, not {type(value).__name__}"
        raise InvalidInput(message, path=self._place, state=self.input_state, text=text)

    @overload
    def input_as(self, cls: type[T], converter: Converter | None = None) -> T: ...
    @overload
    def input_as(self, cls: Callable[..., T], converter: Converter | None = None) -> T: ...
    def input_as(self, cls: Any, converter: Converter | None = None) -> Any:
        """The input as an instance of `cls`: an attrs class, a dataclass, a TypedDict, whatever the converter knows.

        Structured by cattrs, or by the `converter` given. Raises InvalidInput, with the field's path, where the input
        is not complete or does not fit.
        """
        value = self.input
        converter = converter or wire.converter()
        try:
            return converter.structure(value, cls)
        except Exception as error:
            reasons = _misfits(error, self._place)
            if reasons is None:
                raise
            path = reasons[0].rpartition(" @ ")[2]
            message = f"{self._place} does not fit {getattr(cls, '__name__', cls)}: {'; '.join(reasons)}"
            text = self._raw.get()
            raise InvalidInput(message, path=path, state="complete", text=text) from error


def _misfits(error: Exception, place: str) -> list[str] | None:
    """What cattrs says of a value that does not fit, "reason @ path" each; None for an error of another kind."""
    from cattrs import BaseValidationError, transform_error  # noqa: PLC0415  loaded with the converter

    if isinstance(error, BaseValidationError):
        return transform_error(error, place)
    if isinstance(error, (ValueError, TypeError, KeyError)):  # a converter without detailed validation
        return [f"{type(error).__name__}: {error} @ {place}"]
    return None
