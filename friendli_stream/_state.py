"""What a State of either format is made of: an outline, and its place in a chain of fragments.

The *outline* is what the message is apart from its growing texts and lists: which blocks or choices there are, what
was noted, whether it failed. It is replaced, never changed, and only by rare events. The *chain* (_fragments) has
everything that is appended. `step` of a hot event builds one State, which is the newest member of its chain, and
touches neither outline nor rope, but for every 64th.

A rare event goes through a `Draft`: a copy that is changed freely and committed as the next State, or thrown away when
the event turns out malformed or refused, so that "nothing of that event is folded" needs no undoing.

The two formats share these mechanics by one base class: equality, pickling, saving and errors would otherwise stand
in both to the letter. What an event *means* is in messages.py and chat.py alone.
"""

from __future__ import annotations

import functools
import re
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Literal, Self, TypeVar

import attrs

from friendli_stream._fragments import (
    LAST,
    LIST,
    PENDING,
    TEXT,
    Piece,
    Rope,
    Ropes,
    Settled,
    Slot,
    entries,
    linked,
    settled,
)
from friendli_stream._values import Extra
from friendli_stream.errors import (
    Diagnostic,
    IncompleteStream,
    InvalidState,
    LimitExceeded,
    Limits,
    ProtocolError,
    ServerError,
    StreamError,
)
from friendli_stream.wire import decode, depth_exceeds, encode, encode_exact, whole

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from collections.abc import Set as AbstractSet

    from cattrs import Converter

__all__ = [
    "Draft",
    "Failure",
    "Malformed",
    "Outline",
    "Refused",
    "State",
    "Status",
    "changed",
    "copied",
    "short",
    "taken",
]

Status = Literal["empty", "open", "complete", "failed"]
WEIGHT = 32  # characters that an entry or extra field counts for besides its JSON (B4)
ALLOWANCE = 65_536  # characters that one event may bring on the happy path
LARGEST = 10**18  # an index is less: of one of thousands of digits not even a path could be written
FREE = 1024  # characters of an id, a name, a usage object that count for nothing
SAVED_VERSION = 1

_HALVES = re.compile("(?<=[\ud800-\udbff])(?=[\udc00-\udfff])")


@attrs.frozen(repr=False, match_args=False)
class Failure:
    """Why a state failed: what its error is built from. `detail` is JSON, so that equal failures are equal."""

    kind: Literal["server", "protocol", "limit"]
    message: str
    detail: bytes

    @classmethod
    def protocol(cls, note: Diagnostic) -> Failure:
        """A ProtocolError about what `note` says."""
        return cls("protocol", note.message, encode(attrs.asdict(note)))

    @classmethod
    def limit(cls, name: str, allowed: int) -> Failure:
        """A LimitExceeded for the limit `name`."""
        what = "characters of text" if name == "text" else name.replace("_", " ")
        return cls("limit", f"more than {allowed:,} {what}", encode({"limit": name, "allowed": allowed}))

    @classmethod
    def server(cls, message: str, **said: Any) -> Failure:
        """A ServerError with what the server `said`."""
        return cls("server", message, encode(said))

    @classmethod
    def of_server(cls, event: dict[str, Any], depth: int, inner: Any = None) -> Failure:
        """The ServerError of an error event or body (M13, C14); `inner`: an error that is deeper in the event."""
        error = event.get("error") or inner
        said = error if isinstance(error, dict) else {}

        def text(*names: str) -> str | None:
            found = (source.get(name) for name in names for source in (said, event))
            return next((whole(value) for value in found if value and isinstance(value, str)), None)

        kind = text("type", "error_type")
        code = said.get("code", event.get("code"))
        message = text("message", "error_message") or (
            whole(error) if error and isinstance(error, str) else short(event)
        )
        return cls.server(
            message,
            type=None if kind == "error" else kind,
            code=code if type(code) in {int, str} else None,
            request_id=text("request_id"),
            raw=None if depth_exceeds(event, depth) else event,
        )

    def error(self, state: Any) -> StreamError:
        """The error, fresh."""
        detail = decode(self.detail)
        if self.kind == "server":
            return ServerError(self.message, state=state, **detail)
        if self.kind == "limit":
            return LimitExceeded(self.message, state=state, **detail)
        return ProtocolError(
            f"event {detail['event_number']}: {self.message}", diagnostic=Diagnostic(**detail), state=state
        )


class Refused(Exception):  # noqa: N818  internal, never seen outside
    """The event fails the state, and nothing of it is folded."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure)
        self.failure = failure


class Malformed(Exception):  # noqa: N818  internal, never seen outside
    """The event, or the part at `path`, is not what the format says (M15)."""

    def __init__(self, reason: str, path: str = "") -> None:
        super().__init__(reason, path)
        self.reason = reason
        self.path = path


V = TypeVar("V")


def copied(value: V) -> V:
    """A copy of an attrs value of a class with slots, to be changed before anybody else sees it."""
    kind: Any = type(value)
    copy: Callable[[V], V] = _copier(kind)
    return copy(value)


def changed(value: V, **fields: Any) -> V:
    """A copy with some fields set, none of them checked: `attrs.evolve` at a fifth of its cost."""
    new = copied(value)
    for name, field in fields.items():
        setattr(new, name, field)
    return new


@functools.cache
def _copier(cls: type[Any]) -> Callable[[Any], Any]:
    """What copies a value of a class, field by field in straight code, as attrs writes its methods."""
    lines = ["def copy(value):", "    new = make(cls)"]
    lines += [f"    new.{field.name} = value.{field.name}" for field in attrs.fields(cls)]
    names: dict[str, Any] = {"make": object.__new__, "cls": cls}
    exec("\n".join([*lines, "    return new"]), names)  # noqa: S102  of names that stand in this package
    return names["copy"]  # type: ignore[no-any-return]


@attrs.define(init=False, eq=False, repr=False, match_args=False, weakref_slot=False)  # the subclasses have these
class Outline:
    """What both formats' outlines have. A field with `saved=False` in its metadata is derived, or a cache.

    `routes` says where the fragments of the happy path go, so that one look-up tells whether they may. `allowance`:
    how many characters an event may bring there. PENDING such are within the room, which is thus counted only when a
    chain is settled, and still exact: an event that brings more is counted by itself (B4).
    """

    strict: bool
    limits: Limits
    status: Status = "empty"
    failure: Failure | None = None
    notes: tuple[Diagnostic, ...] = ()
    omitted: int = 0
    routes: dict[Any, Any] = attrs.field(factory=dict, eq=False, repr=False, metadata={"saved": False})
    allowance: int = attrs.field(default=ALLOWANCE, eq=False, repr=False, metadata={"saved": False})

    def allow(self, room: int) -> None:
        """Set the allowance to what goes with what more may weigh: to half of that, or it would change often."""
        self.allowance = min(ALLOWANCE, room // (2 * PENDING))


O = TypeVar("O", bound=Outline)  # noqa: E741


def short(value: Any, most: int = 120) -> str:
    """A value as it may stand in a message: its JSON, cut."""
    try:
        text = encode(value).decode()
    except (TypeError, RecursionError, ValueError):
        text = f"a {type(value).__name__} nested too deep"
    return text if len(text) <= most else f"{text[:most]}…"


class Draft(Generic[O]):
    """The next state while one event is being folded into it."""

    __slots__ = ("n", "outline", "pending", "room", "tip")

    tip: Any  # a link, or a Settled

    def __init__(self, state: State[O, Any]) -> None:
        self.outline = copied(state._outline)
        self.tip, events, self.room = linked(state)
        self.n = events + 1
        self.pending = state._pending + 1

    @property
    def limits(self) -> Limits:
        """What the message may hold (B4)."""
        return self.outline.limits

    def commit(self, cls: type[S]) -> S:
        """The state."""
        state = cls()
        state._outline = outline = self.outline
        state._older = self.tip
        state._slot = None
        state._piece = self.n, self.room
        pending = state._pending = self.pending
        if self.room < outline.allowance * PENDING:
            outline.allow(self.room)
        if pending == PENDING:
            state._settle()
        return state

    def note(self, code: str, message: str, path: str = "") -> None:
        """Note something tolerated: one Diagnostic per code and path, later ones counted. In strict mode: refuse."""
        outline = self.outline
        path = whole(short_path(path))  # a hostile name may be in it (B1)
        if outline.strict:
            raise Refused(Failure.protocol(Diagnostic(code, message, self.n, path)))
        notes = outline.notes
        for i, known in enumerate(notes):
            if known.code == code and known.path == path:
                more = attrs.evolve(known, count=known.count + 1)
                outline.notes = (*notes[:i], more, *notes[i + 1 :])
                return
        if len(notes) < self.limits.diagnostics:
            outline.notes = (*notes, Diagnostic(code, message, self.n, path))
        else:
            outline.omitted += 1

    def fail(self, failure: Failure) -> None:
        """Fail the state, what is folded so far kept."""
        self.outline.failure = failure
        self.outline.status = "failed"
        self.outline.routes = {}

    def reject(self, error: Malformed | Refused | ValueError | RecursionError, event: Any) -> None:
        """Take nothing of an event but the reason why (M15, B4)."""
        try:
            if isinstance(error, Refused):
                self.fail(error.failure)
            elif isinstance(error, Malformed):
                self.note("malformed_event", f"{error.reason}: {short(event)}", error.path)
            else:
                self.note("malformed_event", f"{error}: {short(event)}")
        except Refused as refused:
            self.fail(refused.failure)

    def weigh(self, amount: int) -> None:
        """Count what is kept; refuse the event where it is too much (B4)."""
        self.room -= amount
        if self.room < 0:
            raise Refused(Failure.limit("text", self.limits.text))

    def weigh_small(self, length: int, before: int = 0) -> None:
        """Count what is small in any honest stream: only what is beyond FREE."""
        if length > FREE or before > FREE:
            self.weigh(max(length, FREE) - max(before, FREE))

    def push(self, slot: Slot, piece: Piece) -> None:
        """Append a piece of text, or the entries of a list."""
        self.weigh(len(piece))
        self.tip = (self.tip, slot, piece)

    def push_entry(self, slot: Slot, value: Any) -> None:
        """Append one entry to a list."""
        self.weigh(WEIGHT)
        self.push(slot, entries([value]))

    def keep(self, extra: Extra, key: str, value: Any) -> Extra:
        """The extra fields with `key` set to `value`."""
        frozen = encode(value)
        before = extra.get(key)
        if before is None:
            if len(extra) >= self.limits.extra_keys:
                raise Refused(Failure.limit("extra_keys", self.limits.extra_keys))
            self.weigh(len(key) + WEIGHT + len(frozen))
        else:
            self.weigh(len(frozen) - len(before))
        return {**extra, key: frozen}

    def keep_all(self, extra: Extra, values: Mapping[str, Any], but: AbstractSet[str]) -> Extra:
        """`keep` for each field that is not null and not in `but`."""
        if not values.keys() <= but:
            for key, value in values.items():
                if value is not None and key not in but:
                    extra = self.keep(extra, whole(key), value)
        return extra


def short_path(path: str) -> str:
    """A path as it may stand in a Diagnostic: a hostile name in it is cut."""
    return path if len(path) <= 200 else f"{path[:200]}…"  # noqa: PLR2004


class State(Generic[O, V]):
    """A stream so far; immutable, equal by value, picklable, copyable. The formats' State classes say the rest."""

    __slots__ = ("_older", "_outline", "_pending", "_piece", "_slot")

    # The chain is settled in place and the slots are plain: a frozen class would cost three times as much in `step`.
    _outline: O
    _older: Any  # this, _slot and _piece: see _fragments.Node
    _slot: Slot | None
    _piece: Piece
    _pending: int  # events since a step settled the chain, 0 to PENDING - 1

    _format: ClassVar[str]
    _outline_class: ClassVar[type[Any]]

    if TYPE_CHECKING:  # what each format has to say

        @property
        def snapshot(self) -> V | None: ...  # the message so far, None while empty

        def _missing(self) -> str: ...  # what is missing to the end, in words

        def _restore(self) -> None: ...  # check what was loaded, derive what was not saved; raises ValueError

    def __init__(self, *, strict: bool = False, limits: Limits = Limits()) -> None:
        self._start(self._outline_class(strict, limits), Settled.of({}, 0, limits.text))

    def _start(self, outline: O, so_far: Settled) -> None:
        outline.allow(so_far.room)
        self._outline = outline
        self._older = so_far
        self._slot = None
        self._piece = so_far.events, so_far.room
        self._pending = 0

    def _settle(self) -> None:
        """Settle the chain of a state that nobody else has seen yet, when PENDING events are in it."""
        so_far = settled(self)
        so_far.pending = self._pending = 0
        if so_far.room < self._outline.allowance * PENDING:
            self._outline = copied(self._outline)
            self._outline.allow(so_far.room)

    @property
    def _n(self) -> int:
        """How many events came."""
        return settled(self).events

    @property
    def status(self) -> Status:
        """`"empty"`, `"open"`, `"complete"` (`.result()` would return) or `"failed"` (nothing more is taken)."""
        return self._outline.status

    @property
    def diagnostics(self) -> tuple[Diagnostic, ...]:
        """What was tolerated so far, at most Limits.diagnostics."""
        return self._outline.notes

    @property
    def diagnostics_omitted(self) -> int:
        """How many more there were."""
        return self._outline.omitted

    @property
    def error(self) -> StreamError | None:
        """Why the state is "failed", built when asked for; None while it is not."""
        failure = self._outline.failure
        return failure.error(self) if failure is not None else None

    def result(self) -> V:
        """The final message.

        Raises ServerError, ProtocolError or LimitExceeded if the state failed, IncompleteStream if the stream ended
        too early; each is fresh and has the state as `.state`, so that nothing is lost.
        """
        error = self.error
        if error is not None:
            raise error
        snapshot = self.snapshot
        if self._outline.status != "complete" or snapshot is None:
            raise IncompleteStream(self._missing(), state=self)
        return snapshot

    def _first_note(self) -> str:
        """What came in place of a stream: it says more than that there was none."""
        return "".join(f" (event {note.event_number}: {note.message})" for note in self._outline.notes[:1])

    def to_json(self) -> bytes:
        """The state as JSON: stop here, go on in another process with `from_json`."""
        so_far = settled(self)
        found = sorted(so_far.ropes.items(), key=lambda item: repr(item[0]))  # whoever read before
        fragments = [[slot, _content(slot, rope)] for slot, rope in found]
        return encode_exact(
            {
                "friendli_stream": self._format,
                "version": SAVED_VERSION,
                "event_number": so_far.events,
                "room": so_far.room,
                "outline": _saver().unstructure(self._outline),
                "fragments": fragments,
            }
        )

    @classmethod
    def from_json(cls, data: bytes | str) -> Self:
        """The state that `to_json` wrote. Raises InvalidState for anything else; runs no code from the data."""
        try:
            saved = decode(data)
            if depth_exceeds(saved, 270):
                message = "nested too deep"
                raise ValueError(message)  # noqa: TRY301  one way out
            return cls._loaded(saved)
        except Exception as error:
            message = f"not a state of {cls._format}: {type(error).__name__}: {short(str(error))}"
            raise InvalidState(message) from error

    @classmethod
    def _loaded(cls, saved: dict[str, Any]) -> Self:
        known = (saved["friendli_stream"], saved["version"])
        if known != (cls._format, SAVED_VERSION):
            message = f"written by {known[0]!r}, version {known[1]!r}"
            raise ValueError(message)
        state = cls.__new__(cls)
        outline = _saver().structure(saved["outline"], cls._outline_class)
        found: Ropes = {}
        for slot, content in saved["fragments"]:
            key = tuple(slot)
            found[key] = _rope(key, content)
        state._start(outline, Settled.of(found, _count(saved["event_number"]), _count(saved["room"])))
        state._check()
        state._restore()
        return state

    def _check(self) -> None:
        """Status, start and failure fit together, and the error can be built. Raises whatever from_json answers."""
        outline: Any = self._outline
        failed = outline.status == "failed"
        if failed != (self.error is not None) or not (failed or outline.started == (outline.status != "empty")):
            message = f"status {outline.status}"
            raise ValueError(message)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, State) or self._format != other._format:
            return NotImplemented
        mine, its = settled(self), settled(other)
        return (
            mine.events == its.events
            and mine.room == its.room
            and self._outline == other._outline
            and _texts(mine.ropes) == _texts(its.ropes)
        )

    def __hash__(self) -> int:
        so_far = settled(self)
        return hash((self._format, so_far.events, so_far.room))

    def __repr__(self) -> str:
        return f"<{self._format}.State {self.status}, {self._n} events>"

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return self

    def __reduce__(self) -> tuple[Callable[[bytes], Self], tuple[bytes]]:
        return type(self).from_json, (self.to_json(),)


S = TypeVar("S", bound=State[Any, Any])


def taken(state: S, event: Any, take: Callable[[Draft[Any], Any], None], cls: type[S]) -> S:
    """The state after one more event that a format takes by `take`, as a `cls`."""
    if state._outline.failure is not None:  # M13, C14: a failed state takes nothing more
        return state
    draft: Draft[Any] = Draft(state)
    try:
        take(draft, event)
    except (Malformed, Refused, ValueError, RecursionError) as error:  # the last two where no JSON can be written (B2)
        draft = Draft(state)
        draft.reject(error, event)
    return draft.commit(cls)


def _texts(found: Ropes) -> dict[Slot, Any]:
    return {slot: rope.text() if isinstance(rope, Rope) else rope for slot, rope in found.items()}


def _content(slot: Slot, rope: Any) -> Any:
    """What a slot holds, as JSON."""
    if slot[0] == TEXT:
        runs = _HALVES.split(rope.text())  # JSON would join the halves of a pair that came in two pieces
        return runs[0] if len(runs) == 1 else runs
    if slot[0] == LIST:
        return decode(b"[" + rope.text()[:-1] + b"]")
    return decode(rope) if type(rope) is bytes else rope


def _rope(slot: Slot, content: Any) -> Any:
    """`_content` undone."""
    if slot[0] == TEXT:
        text = content if type(content) is str else "".join(content)
        return Rope(text, len(text))
    if slot[0] == LIST and type(content) is list:
        data = b"".join(entries([entry]) for entry in content)  # one by one, as they were pushed
        return Rope(data, len(data))
    if slot[0] == LAST:
        return encode(content) if isinstance(content, (dict, list)) else content
    message = f"fragment {slot!r}"
    raise ValueError(message)


def _count(value: Any) -> int:
    if type(value) is not int or value < 0:
        message = f"not a count: {value!r}"
        raise ValueError(message)
    return value


@functools.cache
def _saver() -> Converter:
    """The converter of saved outlines: strict about types, JSON kept as JSON."""
    from cattrs import Converter  # noqa: PLC0415  40 ms that most programs never need
    from cattrs.gen import make_dict_structure_fn, make_dict_unstructure_fn, override  # noqa: PLC0415
    from cattrs.strategies import configure_union_passthrough  # noqa: PLC0415

    saver = Converter(forbid_extra_keys=True, detailed_validation=False)

    def exactly(kind: type[Any]) -> None:
        def check(value: Any, _: Any) -> Any:
            if type(value) is not kind or (kind is str and whole(value) != value):  # B1
                message = f"{kind.__name__} expected, not {type(value).__name__}"
                raise TypeError(message)
            return value

        saver.register_structure_hook(kind, check)

    for kind in (str, int, bool):
        exactly(kind)
    configure_union_passthrough(str | int | bool | None, saver)
    saver.register_unstructure_hook(bytes, decode)
    saver.register_structure_hook(bytes, lambda value, _: encode(value))

    def indexed(kind: Any) -> bool:
        return getattr(kind, "__origin__", None) is dict and kind.__args__[0] is int

    def restored(value: Any, kind: Any) -> Any:
        items = [saver.structure(item, kind.__args__[1]) for item in value]
        return {item.index: item for item in items}

    saver.register_unstructure_hook_func(indexed, lambda value: [saver.unstructure(item) for item in value.values()])
    saver.register_structure_hook_func(indexed, restored)

    def unsaved(cls: Any) -> dict[str, Any]:
        fields = attrs.fields(attrs.resolve_types(cls))
        return {field.name: override(omit=True) for field in fields if field.metadata.get("saved") is False}

    saver.register_unstructure_hook_factory(attrs.has, lambda cls: make_dict_unstructure_fn(cls, saver, **unsaved(cls)))
    saver.register_structure_hook_factory(
        attrs.has, lambda cls: make_dict_structure_fn(cls, saver, _cattrs_forbid_extra_keys=True, **unsaved(cls))
    )
    return saver
