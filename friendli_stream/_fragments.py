"""The chain of fragments both formats share: appending in O(1), every older state valid, reading by slot.

What a chain must do:

* *append* one piece for one state, whatever the length so far, changing nothing that an older state holds;
* *read* one slot without joining the others, and go on cheaply from what was read before;
* *compare*: what came between an older and a newer state, at the cost of what came;
* hold little more than the text itself, for millions of four-character pieces.

Two layers do it. The states are the chain: each holds the piece that its event brought, its slot, and the state before.
Every `PENDING` events, and whenever somebody reads, `settled` sorts the pieces into one rope a slot, and the `Settled`
takes the place of the state before: one atomic write, which frees the chain. A rope is a linked list again, but its
last pieces are joined while they are short (each character is copied O(log n) times up to `PIECE` characters), and
reading joins all of it in one atomic write, which frees the pieces.

An event that is not on the happy path may bring any number of pieces, as links `(older, slot, piece)`, and these never
stand on a state: `linked` joins the pieces of the states before to one link a slot, and settles what is long. So a
chain holds no outline but that of its newest state, and it costs the same where such events and fragments take turns.

A slot is a tuple whose first member is its kind: what a list of pieces means.

* `TEXT`: str pieces, concatenated.
* `LIST`: bytes pieces, the JSON of each entry with a comma behind it, concatenated.
* `LAST`: the last piece stands: a str, number or bool, or the JSON of a container as bytes.

Pieces are immutable and are never the event's own containers (law 1, B3).
"""

from __future__ import annotations

from typing import Any, ClassVar, Final, Protocol, TypeAlias

from friendli_stream.wire import decode, encode, encode_exact, whole

__all__ = [
    "LAST",
    "LIST",
    "MANY",
    "NOTHING",
    "PENDING",
    "TEXT",
    "Pending",
    "Piece",
    "Promise",
    "Rope",
    "Ropes",
    "Settled",
    "Slot",
    "added",
    "between",
    "entries",
    "linked",
    "listed",
    "pieces",
    "ropes",
    "settled",
    "shown",
    "touched",
]

TEXT: Final = "text"
LIST: Final = "list"
LAST: Final = "last"

PENDING: Final = 64  # events between two settlings
LONG: Final = 4096  # characters of a link that is better settled
PIECE: Final = 65_536  # characters: longer pieces are not joined again before somebody reads

Slot: TypeAlias = tuple[Any, ...]
NOTHING: Final[Slot] = (LAST,)  # the slot of a state whose event brought no piece
MANY: Final[Slot] = ("many",)  # and of one whose piece is a list of pairs of slot and piece
Piece: TypeAlias = Any  # str in TEXT, bytes in LIST, any of both or a number in LAST; and see MANY and Node


class Rope:
    """The pieces of one slot. `parts` is all of it joined, or `(the rope before, the last piece)`."""

    __slots__ = ("length", "parts")

    def __init__(self, parts: Any, length: int) -> None:
        self.parts = parts
        self.length = length

    def text(self) -> Any:
        """All of it joined (str or bytes), remembered in place of the pieces."""
        joined = self.parts
        if type(joined) is tuple:
            joined = _join(pieces(self))
            self.parts = joined
        return joined

    def last(self) -> Any:
        """The last piece that is not empty, or an empty one."""
        node = self
        while True:
            parts = node.parts
            if type(parts) is not tuple:
                return parts
            if parts[1]:
                return parts[1]
            node = parts[0]


Ropes: TypeAlias = dict[Slot, Any]  # Rope for TEXT and LIST, the piece itself for LAST


class Node(Protocol):
    """A state, as a member of its chain.

    A state whose event was not on the happy path has no slot. Its piece is then `(events, room)`, as in Settled, and
    before it are links and a Settled, of which `events` tells whether it has this one in it too.
    """

    _older: Any  # the state before, or the Settled that has this one in it too
    _slot: Slot | None
    _piece: Piece
    _pending: int  # events since the chain was settled for good


class Settled:
    """What all up to a state comes to: its ropes, how many events, what more may weigh (B4), its `_pending`."""

    __slots__ = ("events", "pending", "room", "ropes")

    _slot: ClassVar[None] = None  # it ends a chain

    ropes: Ropes
    events: int
    room: int
    pending: int

    @classmethod
    def of(cls, ropes: Ropes, events: int, room: int) -> Settled:
        """The beginning of a chain."""
        found = cls()
        found.ropes = ropes
        found.events = events
        found.room = room
        found.pending = 0
        return found


def _join(run: list[Any]) -> Any:
    return run[0] if len(run) == 1 else run[0][:0].join(run)


def pieces(rope: Rope) -> list[Any]:
    """The pieces of a rope in order."""
    found = []
    parts = rope.parts
    while type(parts) is tuple:
        found.append(parts[1])
        parts = parts[0].parts
    found.append(parts)
    found.reverse()
    return found


def _append(rope: Rope | None, piece: Any) -> Rope:
    """The rope with a piece behind it; its short last pieces are joined with it."""
    size = len(piece)
    if rope is None:
        return Rope(piece, size)
    length = rope.length + size
    behind = [piece]
    while rope is not None:
        parts = rope.parts
        before, last = parts if type(parts) is tuple else (None, parts)
        if len(last) > size or size >= PIECE:
            break
        behind.append(last)
        size += len(last)
        rope = before
    if len(behind) > 1:
        behind.reverse()
        piece = _join(behind)
    return Rope(piece, size) if rope is None else Rope((rope, piece), length)


Runs: TypeAlias = dict[Slot, list[Piece]]  # pieces by slot, the newest first


def _put(ropes: Ropes, runs: Runs) -> int:
    """Put pieces behind their ropes; how many characters they are."""
    size = 0
    for slot, run in runs.items():
        if slot[0] == LAST:
            if slot is not NOTHING and run:
                ropes[slot] = run[0]
        elif run:
            run.reverse()
            piece = _join(run)
            size += len(piece)
            ropes[slot] = _append(ropes.get(slot), piece)
    return size


def _collected(state: Any) -> tuple[Runs, Any]:
    """The pieces of a state and of those before it, and what ends these: a Settled, or a state that has links."""
    runs: Runs = {}
    run: list[Any] = []
    node: Any = state
    slot: Any = node._slot
    while slot is not None:
        if slot is MANY:
            pairs, node = node._piece, node._older
            run = [MANY]
            kept = type(node) is Settled
            for each, piece in () if kept else reversed(pairs):
                runs.setdefault(each, []).append(piece)
        else:
            run = runs.setdefault(slot, [])
            append = run.append
            while node._slot is slot:  # mostly the same object as before, and hashing one is slow
                append(node._piece)
                node = node._older
        slot = node._slot
    if type(node) is Settled:
        run.pop()  # of the state before it, which is in there
    return runs, node


def settled(state: Any) -> Settled:
    """What all up to a state comes to. It takes the place of what is before, in one atomic write."""
    older = state._older
    if type(older) is Settled and (state._slot is not None or older.events == state._piece[0]):
        return older
    slot: Any = state._slot
    node: Any = state
    run: list[Any] = []
    if slot and slot[0] == TEXT:
        append = run.append
        while node._slot is slot:
            append(node._piece)
            node = node._older
    if run and node._slot is None:  # mostly it is all of one text, and a dict of runs not worth its while
        runs: Runs | None = None
    else:
        runs, node = _collected(state)
    found = Settled()
    if type(node) is Settled:
        room, events, pending = node.room, node.events, node.pending
        ropes = node.ropes.copy()
        if runs is None:
            run.pop()  # of the state before it, which is in there
    else:
        (events, room), pending, base = node._piece, node._pending, node._older
        before: Runs = {}
        while type(base) is tuple:
            base, into, part = base
            before.setdefault(into, []).append(part)
        ropes = base.ropes.copy()
        _put(ropes, before)  # what they weigh is known
    if runs is None:
        run.reverse()
        piece = "".join(run)
        room -= len(piece)
        ropes[slot] = _append(ropes.get(slot), piece)
    else:
        room -= _put(ropes, runs)
    found.room = room
    found.ropes = ropes
    found.pending = state._pending
    found.events = events + found.pending - pending
    state._older = found
    return found


def linked(state: Any) -> tuple[Any, int, int]:
    """What a rare event behind a state stands on: links behind a Settled; how many events; what more may weigh."""
    older = state._older
    if state._slot is None:
        return older, *state._piece
    runs, node = _collected(state)
    if type(node) is Settled:
        older, events, room, pending = node, node.events, node.room, node.pending
    else:
        older, (events, room), pending = node._older, node._piece, node._pending
    for slot, run in runs.items():
        if not run:
            continue
        if slot[0] == LAST:
            older = (older, slot, run[0])
        else:
            run.reverse()
            piece = _join(run)
            if len(piece) > LONG:  # others may go on from here too, and are to share it
                so_far = settled(state)
                return so_far, so_far.events, so_far.room
            room -= len(piece)
            older = (older, slot, piece)
    return older, events + state._pending - pending, room


def touched(older: Node, newer: Node) -> set[Slot] | None:
    """The slots of the pieces between two states of one chain, or None if that cannot be told from the chain."""
    slots: set[Slot] = set()
    node: Any = newer
    while node is not older:
        if node._slot is None or type(node._older) is Settled:
            return None
        if node._slot is MANY:
            slots.update(slot for slot, _ in node._piece)
        else:
            slots.add(node._slot)
        node = node._older
    slots.discard(NOTHING)
    return slots


def added(old: Rope | None, new: Rope | None) -> list[Any] | None:
    """The pieces of `new` behind the text of `old`, or None if `new` does not begin with it.

    Ropes of one line share their older nodes, so that what is compared is what was joined since, not the whole.
    """
    if old is None:
        return [] if new is None else pieces(new)
    if new is None or new.length < old.length:
        return None
    behind: list[Any] = []
    node = new
    while node is not old:
        parts = node.parts
        before, piece = parts if type(parts) is tuple else (None, parts)
        start = before.length if before is not None else 0
        if before is None or start < old.length:
            cut = old.length - start
            if not _same(old, before, start, piece[:cut]):
                return None
            behind.append(piece[cut:])
            break
        behind.append(piece)
        node = before
    behind.reverse()
    return behind


def _same(old: Rope, before: Rope | None, start: int, head: Any) -> bool:
    """Whether the text of `old` is that of `before` (`start` long) and then `head`."""
    run, node = [], old
    while node is not before:
        parts = node.parts
        older, piece = parts if type(parts) is tuple else (None, parts)
        run.append(piece)
        if older is None or older.length < start:
            whole_before = before.text() if before is not None else head[:0]
            return bool(old.text() == whole_before + head)
        node = older
    run.reverse()
    return bool((_join(run) if run else head[:0]) == head)


def shown(text: str, *, sealed: bool) -> str:
    """What of a raw text may be seen (B1): not a trailing first half of a surrogate pair while the text may go on."""
    if not sealed and "\ud800" <= text[-1:] <= "\udbff":
        text = text[:-1]
    return whole(text)


def between(old: Rope | None, new: Rope | None, *, was_sealed: bool, sealed: bool) -> str | None:
    """What `shown` of a newer text adds to `shown` of the older one; None if it does not go on from there."""
    more = added(old, new)
    if more is None:
        return None
    text: str = "".join(more)
    if old is not None and not was_sealed:
        withheld: str = old.last()[-1:]
        if "\ud800" <= withheld <= "\udbff":
            text = withheld + text
    return shown(text, sealed=sealed)


def entries(values: list[Any]) -> bytes:
    """The piece of a LIST slot for some JSON values; half surrogates stay, for entries may merge (C12)."""
    return encode_exact(values)[1:-1] + b"," if values else b""


def listed(rope: Rope) -> list[Any]:
    """The values of a LIST slot, fresh, half surrogates as they came."""
    values: list[Any] = decode(b"[" + rope.text()[:-1] + b"]")
    return values


def ropes(node: Node) -> Ropes:
    """The ropes of a state."""
    return settled(node).ropes


class Promise:
    """What a snapshot holds in place of something that nobody has read yet."""

    __slots__ = ()

    def get(self) -> Any:
        """The thing itself."""


class Pending(Promise):
    """A text or list that is still in the chain of a state."""

    __slots__ = ("_default", "_sealed", "_slot", "_state")

    def __init__(self, state: Node, slot: Slot, *, sealed: bool = True, default: Any = None) -> None:
        self._state = state
        self._slot = slot
        self._sealed = sealed
        self._default = default

    def rope(self) -> Rope | None:
        """The rope of the text, None if nothing came."""
        return ropes(self._state).get(self._slot)

    def get(self) -> Any:
        """The text as it may be seen (`sealed`: it will not go on, B1), a list as JSON; or the default."""
        rope = self.rope()
        if rope is None:
            return self._default
        if self._slot[0] == LIST:
            return encode(listed(rope)) if b"\\ud" in rope.text() else b"[" + rope.text()[:-1] + b"]"
        return shown(rope.text(), sealed=self._sealed)
