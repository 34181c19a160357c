"""What can be wrong with a stream: errors, diagnostics, and the limits that bound it.

The tree of errors::

    Exception
    ├── StreamError             what a stream can do wrong; .state has all that was folded
    │   ├── ServerError         the server sent an error (M13, C14)
    │   ├── ProtocolError       the events contradict the format (M11, M12), or a note in strict mode
    │   ├── LimitExceeded       a bound of Limits or of the SSE decoder was met (B4, S5)
    │   └── IncompleteStream    the events ended too early (M14, C15)
    └── ValueError
        ├── InvalidInput        a tool input is not a whole JSON object, or not what the caller's class wants (J11)
        ├── InvalidJSON         a text is not JSON (J2)
        │   └── IncompleteJSON  a text is the beginning of JSON (J1)
        ├── InvalidState        bytes that no State.to_json has written
        └── UnreadableRecording a file that holds no stream of a known format
"""

from __future__ import annotations

from typing import Any

import attrs

__all__ = [
    "Diagnostic",
    "IncompleteJSON",
    "IncompleteStream",
    "InvalidInput",
    "InvalidJSON",
    "InvalidState",
    "LimitExceeded",
    "Limits",
    "ProtocolError",
    "ServerError",
    "StreamError",
    "UnreadableRecording",
]


class StreamError(Exception):
    """What a stream can do wrong.

    `state` is the State at that moment (None where there is none, as in the SSE decoder): its snapshot has all
    that was folded before.
    """

    def __init__(self, message: str, *, state: Any = None) -> None:
        super().__init__(message)
        self.message = message
        self.state = state


class ServerError(StreamError):
    """The server reported an error in the stream (M13, C14).

    `message`, `type`, `code` and `request_id` are what the server said, None where it did not; `raw` is the whole
    event as it came. `str()` names the type in front of the message.
    """

    def __init__(  # noqa: PLR0913  one keyword for each thing a server says
        self,
        message: str,
        *,
        type: str | None = None,  # noqa: A002  the field's name on the wire
        code: str | int | None = None,
        request_id: str | None = None,
        raw: Any = None,
        state: Any = None,
    ) -> None:
        super().__init__(message, state=state)
        self.type = type
        self.code = code
        self.request_id = request_id
        self.raw = raw

    def __str__(self) -> str:
        return f"{self.type}: {self.message}" if self.type else self.message


class ProtocolError(StreamError):
    """The events contradict the format so that going on would mix up messages (M11, M12); in strict mode any note.

    `diagnostic` is what was noted, with the event's number and path.
    """

    def __init__(self, message: str, *, diagnostic: Diagnostic | None = None, state: Any = None) -> None:
        super().__init__(message, state=state)
        self.diagnostic = diagnostic


class LimitExceeded(StreamError):  # noqa: N818  the public name
    """A limit was exceeded (B4, S5). `limit` is its name in Limits, `allowed` its value."""

    def __init__(
        self, message: str, *, limit: str | None = None, allowed: int | None = None, state: Any = None
    ) -> None:
        super().__init__(message, state=state)
        self.limit = limit
        self.allowed = allowed


class IncompleteStream(StreamError):  # noqa: N818  the public name
    """The stream ended before its message did (M14, C15); the text says what is missing."""


class InvalidInput(ValueError):  # noqa: N818  the public name
    """A tool input that is not a whole JSON object (J11), or that does not fit the class asked for.

    `path` names the place, as `content[1].input.city`; `state` is the input's state, "incomplete", "invalid" or, for
    a mismatch with a class, "complete"; `text` is the raw input.
    """

    def __init__(self, message: str, *, path: str = "", state: str = "invalid", text: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.path = path
        self.state = state
        self.text = text


class InvalidJSON(ValueError):  # noqa: N818  the public name
    """A text that is no JSON (J2). `position` counts code points from the start of the whole text, from 0."""

    def __init__(self, reason: str, position: int = 0) -> None:
        super().__init__(reason, position)
        self.reason = reason
        self.position = position

    def __str__(self) -> str:
        return f"{self.reason} at position {self.position}"


class IncompleteJSON(InvalidJSON):
    """A text that is the beginning of JSON: more could make it valid (J1)."""


class InvalidState(ValueError):  # noqa: N818  the public name
    """Bytes that are not what State.to_json of this format writes."""


class UnreadableRecording(ValueError):  # noqa: N818  the public name
    """A recording that cannot be read. `file` and `line` (from 1) say where; the text says what was expected."""

    def __init__(self, message: str, *, file: str | None = None, line: int | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.file = file
        self.line = line

    def __str__(self) -> str:
        place = ":".join(str(part) for part in (self.file, self.line) if part is not None)
        return f"{place}: {self.message}" if place else self.message


@attrs.frozen
class Diagnostic:
    """Something in a stream that was tolerated.

    `code` is one of the public codes of the two formats; `path` the place in the event or message, as
    `content[1]`; `event_number` the first event (from 1) that showed it, `count` how many did.
    """

    code: str
    message: str
    event_number: int
    path: str
    count: int = 1


def _positive(_: object, attribute: attrs.Attribute[int], value: object) -> None:
    if type(value) is not int or value < 1:
        message = f"Limits.{attribute.name} must be an integer of at least 1, not {value!r}"
        raise ValueError(message)


def _shallow(instance: object, attribute: attrs.Attribute[int], value: object) -> None:
    _positive(instance, attribute, value)
    if value > 250:  # type: ignore[operator]  # noqa: PLR2004  beyond it json, copy and == of the standard library give up
        message = f"Limits.depth must be at most 250, not {value!r}"
        raise ValueError(message)


@attrs.frozen(kw_only=True)
class Limits:
    """Bounds on what one message may hold (B4); no honest stream meets the defaults.

    `content_blocks`, `choices`, `tool_calls`: how many. `text`: characters of all texts together, with everything
    else that is kept: an entry of a list or an extra field weighs the length of its JSON and 32. `extra_keys`: unknown
    fields kept at one level. `depth`: nested containers of a kept value or a tool input, at most 250.
    Exceeding these fails the state, or for `depth` drops the value. `diagnostics` and `unknown_deltas` (of one
    block): how many are kept; the rest is counted.
    """

    content_blocks: int = attrs.field(default=1024, validator=_positive)
    choices: int = attrs.field(default=1024, validator=_positive)
    tool_calls: int = attrs.field(default=1024, validator=_positive)
    text: int = attrs.field(default=256 * 1024 * 1024, validator=_positive)
    extra_keys: int = attrs.field(default=1024, validator=_positive)
    depth: int = attrs.field(default=200, validator=_shallow)
    diagnostics: int = attrs.field(default=64, validator=_positive)
    unknown_deltas: int = attrs.field(default=1024, validator=_positive)
