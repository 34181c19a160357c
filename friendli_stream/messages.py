"""Messages events -> the final message: a pure reducer.

    state = functools.reduce(messages.step, events, messages.State())
    message = state.result()

The grammar of a stream, as the format's reference gives it::

    message_start
        ( content_block_start  content_block_delta*  content_block_stop )*     blocks may interleave
    message_delta*
    message_stop                        `ping` anywhere; `error` in place of the rest

Nothing that arrives is an exception. What departs from the grammar is noted as a Diagnostic and folded as well as it
can be (rules M1-M15 of the format, cited below); what cannot be folded makes the state "failed", with all it had.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, ClassVar, Final, Literal, TypeAlias

import attrs

from friendli_stream import _accumulator, _state
from friendli_stream._fragments import LIST, PENDING, TEXT, Pending, Promise, Rope, Slot, added, between, ropes, touched
from friendli_stream._inputs import Change, Raw, Scan, ToolInput, blank, scanned
from friendli_stream._state import FREE, LARGEST, Draft, Failure, Malformed, Refused, changed, short, taken
from friendli_stream._values import NO_EXTRA, Extra, Lazy, WithExtra, extra_field, lazy, plain, thaw
from friendli_stream.errors import Diagnostic
from friendli_stream.wire import clean, decode, decode_event, depth_exceeds, encode, event_of, whole

__all__ = [
    "Accumulator",
    "ContentBlock",
    "Message",
    "OpaqueBlock",
    "State",
    "TextBlock",
    "ThinkingBlock",
    "ToolUseBlock",
    "Usage",
    "changes",
    "fold",
    "fold_all",
    "running",
    "states",
    "step",
    "step_json",
]


# ------------------------------------------------------------------------------------------------ the values


USAGE_FIELDS: Final = ("input_tokens", "output_tokens", "cache_creation_input_tokens", "cache_read_input_tokens")


@attrs.frozen(repr=False)
class Usage(WithExtra):
    """Token counts, running totals of the whole message (M8); None for a count that never came.

    `extra`: all other keys, as `server_tool_use` or `service_tier`.
    """

    input_tokens: int | None = None
    output_tokens: int | None = None
    cache_creation_input_tokens: int | None = None
    cache_read_input_tokens: int | None = None
    _extra: Extra = extra_field()

    def to_dict(self) -> dict[str, Any]:
        """What came, as JSON."""
        named = {name: getattr(self, name) for name in USAGE_FIELDS}
        return {name: count for name, count in named.items() if count is not None} | self.extra


class _WithUnknown(Lazy):
    """A content block, which may get deltas that no rule knows."""

    __slots__ = ()

    @property
    def unknown_deltas(self) -> list[Any]:
        """The deltas that no rule has a place for, raw and in order (M5), fresh."""
        return self._list("_unknown_deltas")  # type: ignore[no-any-return]


@attrs.frozen(repr=False)
class TextBlock(_WithUnknown, WithExtra):
    """A text. `index` is its index on the wire."""

    type: ClassVar[str] = "text"

    index: int
    _text: str = lazy("")
    _citations: Any = lazy(None)
    _extra: Extra = extra_field()
    _unknown_deltas: Any = lazy(b"[]")

    @property
    def text(self) -> str:
        """The text so far."""
        return self._read("_text")  # type: ignore[no-any-return]

    @property
    def citations(self) -> list[Any] | None:
        """The citations so far, fresh; None if the stream has none."""
        return self._list("_citations")  # type: ignore[no-any-return]

    def to_dict(self) -> dict[str, Any]:
        """The block as the API returns it."""
        block: dict[str, Any] = {"type": self.type, "text": self.text}
        citations = self.citations
        if citations is not None:
            block["citations"] = citations
        return {**block, **self.extra, **block}


@attrs.frozen(repr=False)
class ThinkingBlock(_WithUnknown, WithExtra):
    """A thinking text and its signature."""

    type: ClassVar[str] = "thinking"

    index: int
    _thinking: str = lazy("")
    _signature: str | None = lazy(None)
    _extra: Extra = extra_field()
    _unknown_deltas: Any = lazy(b"[]")

    @property
    def thinking(self) -> str:
        """The thinking so far."""
        return self._read("_thinking")  # type: ignore[no-any-return]

    @property
    def signature(self) -> str | None:
        """The signature so far; None if none came."""
        return self._read("_signature")  # type: ignore[no-any-return]

    def to_dict(self) -> dict[str, Any]:
        """The block as the API returns it."""
        block: dict[str, Any] = {"type": self.type, "thinking": self.thinking}
        signature = self.signature
        if signature is not None:
            block["signature"] = signature
        return {**block, **self.extra, **block}


@attrs.frozen(repr=False)
class ToolUseBlock(ToolInput, _WithUnknown, WithExtra):
    """A tool use: `tool_use`, `server_tool_use`, `mcp_tool_use`, or any block that starts with an `input` (M4).

    `id` and `name` are None only where the stream did not say them. `stopped`: no more input comes.
    """

    index: int
    type: str = "tool_use"
    id: str | None = None
    name: str | None = None
    _raw: Any = attrs.field(default="", alias="input_json", eq=plain, hash=False)
    stopped: bool = True
    _extra: Extra = extra_field()
    _unknown_deltas: Any = lazy(b"[]")

    def __attrs_post_init__(self) -> None:
        if isinstance(self._raw, str):  # built by hand
            object.__setattr__(self, "_raw", Raw(whole(self._raw), closed=self.stopped))

    @property
    def input_json(self) -> str:
        """The raw text of the input so far."""
        return self._raw.get()  # type: ignore[no-any-return]

    @property
    def _place(self) -> str:
        return f"content[{self.index}].input"

    def to_dict(self) -> dict[str, Any]:
        """The block as the API returns it; of an input that is not complete the certain part, and its text (J12)."""
        block: dict[str, Any] = {"type": self.type, "id": self.id, "name": self.name}
        if self.input_state == "complete":
            block["input"] = self.input
        else:
            block["input"] = clean(self.partial_input) if self.partial_input is not None else {}
            block["partial_json"] = self.input_json
        return {**block, **self.extra, **block}


@attrs.frozen(repr=False)
class OpaqueBlock(_WithUnknown):
    """A block of another type, kept as it came (M5); result blocks arrive whole."""

    index: int
    type: str
    _raw: Any = lazy(b"{}")
    _unknown_deltas: Any = lazy(b"[]")

    @property
    def raw(self) -> dict[str, Any]:
        """The whole block, fresh."""
        return self._list("_raw")  # type: ignore[no-any-return]

    def to_dict(self) -> dict[str, Any]:
        """The block as it came."""
        return self.raw


ContentBlock: TypeAlias = TextBlock | ThinkingBlock | ToolUseBlock | OpaqueBlock


@attrs.frozen(repr=False)
class Message(WithExtra):
    """A message, final or so far. Texts are joined when they are read."""

    id: str | None = None
    model: str | None = None
    role: str = "assistant"
    _content: tuple[ContentBlock, ...] = lazy(())
    stop_reason: str | None = None
    stop_sequence: str | None = None
    usage: Usage | None = None
    _extra: Extra = extra_field()

    @property
    def content(self) -> tuple[ContentBlock, ...]:
        """The blocks, by wire index (M2)."""
        return self._read("_content")  # type: ignore[no-any-return]

    @property
    def text(self) -> str:
        """The texts of all text blocks, joined."""
        return "".join(block.text for block in self.content if isinstance(block, TextBlock))

    @property
    def thinking(self) -> str:
        """The texts of all thinking blocks, joined."""
        return "".join(block.thinking for block in self.content if isinstance(block, ThinkingBlock))

    @property
    def tool_uses(self) -> tuple[ToolUseBlock, ...]:
        """The tool uses."""
        return tuple(block for block in self.content if isinstance(block, ToolUseBlock))

    def to_dict(self) -> dict[str, Any]:
        """The message as the same call returns it without `stream`."""
        message: dict[str, Any] = {
            "id": self.id,
            "type": "message",
            "role": self.role,
            "model": self.model,
            "content": [block.to_dict() for block in self.content],
            "stop_reason": self.stop_reason,
            "stop_sequence": self.stop_sequence,
            "usage": self.usage.to_dict() if self.usage is not None else None,
        }
        return {**message, **self.extra, **message}

    def to_json(self) -> bytes:
        """`to_dict` as compact JSON."""
        return encode(self.to_dict())

    def to_request(self) -> dict[str, Any]:
        """The assistant turn for the next request: signatures kept, empty texts dropped.

        Raises InvalidInput for a tool use whose input is not complete (J12).
        """
        content = []
        for block in self.content:
            if isinstance(block, TextBlock) and not block.text:
                continue
            if isinstance(block, ToolUseBlock):
                block.input  # noqa: B018  raises InvalidInput
            content.append(block.to_dict())
        return {"role": self.role, "content": content}


# ------------------------------------------------------------------------------------------------ the outline


Kind: TypeAlias = Literal["text", "thinking", "tool", "opaque"]

TOOL_TYPES: Final = frozenset({"tool_use", "server_tool_use", "mcp_tool_use"})
COMPACTION: Final = "compaction"

# The known deltas: the kind of block each is for, the key of its piece, the type of block it implies (M3, M6).
DELTAS: Final[dict[str, tuple[Kind, str, str]]] = {
    "text_delta": ("text", "text", "text"),
    "citations_delta": ("text", "citation", "text"),
    "thinking_delta": ("thinking", "thinking", "thinking"),
    "signature_delta": ("thinking", "signature", "thinking"),
    "input_json_delta": ("tool", "partial_json", "tool_use"),
    "compaction_delta": ("opaque", "content", COMPACTION),
}
# The delta that each kind of block gets by the thousand, and the happy path through `step` takes.
PLAIN: Final[dict[Kind, str]] = {
    "text": "text_delta",
    "thinking": "thinking_delta",
    "tool": "input_json_delta",
    "opaque": "compaction_delta",
}
Route: TypeAlias = tuple[Slot, str, str, int]  # its slot, the key of the piece, the delta's type, the block's index

# The named fields of a block, by its kind; all others are `extra` and come out again (M1, M3).
NAMED: Final[dict[Kind, frozenset[str]]] = {
    "text": frozenset({"type", "text", "citations"}),
    "thinking": frozenset({"type", "thinking", "signature"}),
    "tool": frozenset({"type", "id", "name", "input"}),
    "opaque": frozenset(),
}
# The texts of a block, by its kind, in the order in which they are told.
TEXTS: Final[dict[Kind, tuple[str, ...]]] = {
    "text": ("text",),
    "thinking": ("thinking", "signature"),
    "tool": ("partial_json",),
    "opaque": ("content",),
}
MESSAGE_FIELDS: Final = frozenset({"id", "type", "role", "model", "content", "stop_reason", "stop_sequence", "usage"})
CACHE_COUNTS: Final = ("cache_creation_input_tokens", "cache_read_input_tokens")
EVENT_FIELDS: Final = MESSAGE_FIELDS | {"delta"}  # of a message_delta


def _scan_of(block: Block) -> Any:
    return Scan() if block.kind == "tool" else None


@attrs.define(repr=False, match_args=False, weakref_slot=False)
class Block:
    """One content block in the outline: all but its texts and lists. Replaced there, never changed (see `changed`).

    `raw`: an opaque block as it started. `start_input`: the JSON of the input it started with. `both`: that input and
    text came, and it was noted (M4). `unknown`: how many unknown deltas are kept.
    """

    index: int
    kind: Kind
    type: str
    id: str | None = None
    name: str | None = None
    stopped: bool = False
    raw: bytes | None = None
    start_input: bytes | None = None
    both: bool = False
    unknown: int = 0
    extra: dict[str, bytes] = NO_EXTRA
    scan: Scan = attrs.field(
        default=attrs.Factory(_scan_of, takes_self=True), eq=False, repr=False, metadata={"saved": False}
    )

    def slot(self, name: str) -> Slot:
        """The slot of one of its texts."""
        return (TEXT, self.index, name)

    def list_slot(self, name: str) -> Slot:
        """The slot of one of its lists."""
        return (LIST, self.index, name)

    def route(self) -> Route | None:
        """What its plain delta is and where the piece goes; nowhere once it stopped."""
        if self.stopped:
            return None
        delta = PLAIN[self.kind]
        _, key, implied = DELTAS[delta]
        if (self.start_input is not None and not self.both) or (self.raw and implied != self.type):
            return None
        return self.slot(key), key, delta, self.index


@attrs.define(repr=False, match_args=False, weakref_slot=False)
class Outline(_state.Outline):
    """The message apart from its texts and lists.

    `started`: there is a message. `headless`: but no message_start so far (M12). `counts`: what `usage` is the
    JSON of, where that is integers only and was not loaded; never changed.
    """

    started: bool = False
    headless: bool = False
    id: str | None = None
    model: str | None = None
    role: str | None = None
    stop_reason: str | None = None
    stop_sequence: str | None = None
    usage: bytes | None = None
    extra: dict[str, bytes] = NO_EXTRA
    blocks: dict[int, Block] = attrs.field(factory=dict)
    counts: dict[str, int] | None = attrs.field(default=None, eq=False, repr=False, metadata={"saved": False})

    def put(self, block: Block) -> None:
        """Open or replace a block."""
        self.blocks = {**self.blocks, block.index: block}
        self.routes = {**self.routes, block.index: block.route()}


class State(_state.State[Outline, Message]):
    """A Messages stream so far: immutable, equal by value, picklable, copyable.

    `State(strict=False, limits=Limits())`. In strict mode whatever would be noted fails the state instead.
    """

    __slots__ = ()

    _format = "messages"
    _outline_class = Outline

    @property
    def snapshot(self) -> Message | None:
        """The message so far, None while empty. It never changes; its texts are joined when they are read."""
        outline = self._outline
        if not outline.started:
            return None
        content: Any = _Content(self)
        return Message(
            outline.id,
            outline.model,
            outline.role or "assistant",
            content,
            outline.stop_reason,
            outline.stop_sequence,
            self.usage,
            outline.extra,
        )

    @property
    def message(self) -> Message | None:
        """The same as `snapshot`."""
        return self.snapshot

    @property
    def usage(self) -> Usage | None:
        """The token counts so far (M8), None if none came."""
        data = self._outline.usage
        if data is None:
            return None
        counts = decode(data)
        named: dict[str, Any] = {name: counts.pop(name) for name in USAGE_FIELDS if type(counts.get(name)) is int}
        named["extra"] = counts
        return Usage(**named)

    def _missing(self) -> str:
        outline = self._outline
        if not outline.started:
            seen = "no message_start" if self._n else "no event at all"
            return f"the stream is incomplete: {seen}{self._first_note()}"
        going = [str(index) for index, block in sorted(outline.blocks.items()) if not block.stopped]
        if outline.stop_reason is not None:
            seen = f"stop_reason {short(outline.stop_reason)[1:-1]} seen, message_stop missing"
        elif going:
            seen = f"cut in block {', '.join(going[:8])}"
        elif outline.blocks:
            seen = f"cut after block {max(outline.blocks)}"
        else:
            seen = "cut before the first content block"
        return f"the stream is incomplete: {seen} (event {self._n} was the last)"

    def _restore(self) -> None:
        outline = self._outline
        known: set[Slot] = set()
        if outline.usage is not None and not isinstance(decode(outline.usage), dict):
            message = "usage: an object expected"
            raise ValueError(message)
        for block in outline.blocks.values():
            known.update(block.slot(key) for _, key, _ in DELTAS.values() if key != "citation")
            known.update((block.list_slot("citations"), block.list_slot("unknown_deltas")))
            if block.kind == "opaque" and (block.raw is None or not isinstance(decode(block.raw), dict)):
                message = f"block {block.index}: an object expected"
                raise ValueError(message)
            if not block.stopped and outline.status == "open":
                outline.put(block)
        if not known.issuperset(ropes(self)):
            message = f"unknown fragments {set(ropes(self)) - known}"
            raise ValueError(message)


class _Content(Promise):
    """The blocks of a snapshot."""

    __slots__ = ("_state",)

    def __init__(self, state: State) -> None:
        self._state = state

    def get(self) -> tuple[ContentBlock, ...]:
        blocks = self._state._outline.blocks
        return tuple(_block(self._state, blocks[index]) for index in sorted(blocks))


def _sealed(outline: Outline, block: Block) -> bool:
    """Whether the block's texts will not go on (B1)."""
    return block.stopped or outline.status in {"complete", "failed"}


def _block(state: State, block: Block) -> ContentBlock:
    """The value of a block, its texts pending."""
    outline = state._outline
    sealed = _sealed(outline, block)

    def text(name: str, default: str | None = "") -> Any:
        return Pending(state, block.slot(name), sealed=sealed, default=default)

    unknown: Any = Pending(state, block.list_slot("unknown_deltas"), default=b"[]") if block.unknown else b"[]"
    if block.kind == "text":
        citations: Any = Pending(state, block.list_slot("citations"))
        return TextBlock(block.index, text("text"), citations, block.extra, unknown)
    if block.kind == "thinking":
        return ThinkingBlock(block.index, text("thinking"), text("signature", None), block.extra, unknown)
    if block.kind == "tool":
        raw: Any = Raw(
            text("partial_json"),
            closed=block.stopped,
            scan=block.scan,
            default=_start_input(block),
            depth=outline.limits.depth,
        )
        return ToolUseBlock(block.index, block.type, block.id, block.name, raw, block.stopped, block.extra, unknown)
    return OpaqueBlock(block.index, block.type, _Opaque(state, block), unknown)


def _start_input(block: Block) -> str:
    """What becomes the input of a block that stops without text (M4)."""
    return block.start_input.decode() if block.start_input is not None else "{}"


class _Opaque(Promise):
    """An opaque block as it came, a compaction's content appended to (M3)."""

    __slots__ = ("_block", "_content")

    def __init__(self, state: State, block: Block) -> None:
        self._block = block
        self._content = Pending(state, block.slot("content"), sealed=_sealed(state._outline, block))

    def get(self) -> bytes:
        raw = decode(self._block.raw or b"{}")
        raw.update(thaw(self._block.extra))  # of its deltas, so what is newer (M3)
        content = self._content.get()
        if content is not None:
            raw["content"] = content
        return encode(raw)


# ------------------------------------------------------------------------------------------------ the reducer


# The keys as orjson makes them: to look up by the same object compares no characters.
TYPE, INDEX, DELTA = decode('{"type": 0, "index": 0, "delta": 0}')


class _Next(State):
    """A State as the happy path makes it: without a Python `__init__` that costs a third less."""

    __slots__ = ()
    __init__: Any = object.__init__

    def __reduce__(self) -> tuple[Any, ...]:
        return State.from_json, (self.to_json(),)


def step(state: State, event: Any) -> State:
    """The state after one more event. Pure and total: any JSON value is folded, noted, or fails the state.

    `event` is a decoded event, or an SDK's own object for one. Raises TypeError only for what is neither (bytes
    included: those are for sse.EventDecoder or `step_json`).
    """
    try:  # the happy path: a fragment for an open block, and nothing else in the event
        if len(event) == 3 and event[TYPE] == "content_block_delta":  # noqa: PLR2004  type, index and delta
            delta = event[DELTA]
            index = event[INDEX]
            outline = state._outline
            slot, key, kind, own = outline.routes[index]
            piece = delta[key]
            if (
                type(piece) is str
                and index is own  # and no True or 1.0, which are equal to 1
                and delta[TYPE] == kind
                and len(delta) == 2  # noqa: PLR2004  type and piece
                and len(piece) <= outline.allowance
            ):
                new: State = _Next()
                new._outline = outline
                new._older = state
                new._slot = slot
                new._piece = piece
                pending = new._pending = state._pending + 1
                if pending == PENDING:
                    new._settle()
                return new
    except (KeyError, TypeError):
        pass
    return _step(state, event)


def step_json(state: State, data: str | bytes) -> State:
    """`step` from the JSON of one event (B2); what is no JSON is noted as malformed."""
    return step(state, decode_event(data))


def _step(state: State, event: Any) -> State:
    """`step` for everything that is not a plain fragment."""
    if type(event) is not dict:
        value = event_of(event)
        if value is not event:  # an SDK's object: what it says may take the happy path
            return step(state, value)
    after: State = taken(state, event, _take, _Next)
    return after


def _take(draft: Draft[Outline], event: Any) -> None:
    """Fold one event into the draft. Raises Malformed (M15) or Refused, and then nothing of it is kept."""
    kind = event.get("type") if isinstance(event, dict) else None
    if kind == "ping" or (kind is None and event == "[DONE]"):  # M10
        return
    if draft.outline.status == "complete":  # M11
        name = kind if isinstance(kind, str) else "event"
        draft.note("after_end", f"{short(name)} after message_stop", name)
        return
    if not isinstance(event, dict):
        reason = "an event is a JSON object"
        raise Malformed(reason)
    depth = draft.outline.limits.depth
    if depth_exceeds(event, depth):
        reason = f"nested deeper than {depth}"
        raise Malformed(reason)
    handler = HANDLERS.get(kind) if isinstance(kind, str) else None
    if handler is not None:
        handler(draft, event)
    elif not (isinstance(kind, str) and kind) and event.get("error") is not None:  # M13
        _error(draft, event)
    elif not isinstance(kind, str):
        reason = "an event has a type"
        raise Malformed(reason, "type")
    else:  # M10
        draft.note("unknown_event", f"unknown event {short(kind)}", kind)


def _message_start(draft: Draft[Outline], event: dict[str, Any]) -> None:
    """M1, M11, M12."""
    _begin(draft, _object(event, "message", "message_start"))


def _message(draft: Draft[Outline], event: dict[str, Any]) -> None:
    """M15: a non-streamed answer is that message, complete."""
    if _begin(draft, event):
        _close(draft)


def _begin(draft: Draft[Outline], message: dict[str, Any]) -> bool:
    """The head of a message; whether it was taken."""
    outline = draft.outline
    ident = _string(message, "id", "message")
    content = _optional(message, "content", list, "message") or []
    usage = _optional(message, "usage", dict, "message")
    _optional(message, "type", str, "message")
    for index, block in enumerate(content):
        if not isinstance(block, dict) or not isinstance(block.get("type"), str):
            reason = "a content block is an object with a type"
            raise Malformed(reason, f"message.content[{index}]")
    if outline.status == "open":
        if outline.headless:
            draft.note("late_message_start", "message_start comes after other events", "message")
        elif (None if ident is None else whole(ident)) == outline.id:
            draft.note("message_start_again", f"message {short(outline.id)} starts again", "message")
            return False
        else:
            text = f"message {short(ident)} starts inside of message {short(outline.id)}"
            raise Refused(Failure.protocol(Diagnostic("message_start_again", text, draft.n, "message")))
    outline.status = "open"
    outline.started = True
    outline.headless = False
    for name in ("id", "model", "role", "stop_reason", "stop_sequence"):
        value = _string(message, name, "message")
        if value is not None and getattr(outline, name) is None:
            setattr(outline, name, whole(value))
            draft.weigh_small(len(value))
    if usage is not None:
        _set_usage(draft, usage if outline.usage is None else _merged(_merged({}, usage), decode(outline.usage)))
    if not message.keys() <= MESSAGE_FIELDS:
        outline.extra = draft.keep_all(outline.extra, message, but=MESSAGE_FIELDS | outline.extra.keys())
    for index, block in enumerate(content):
        if index not in outline.blocks:
            _open(draft, index, block, f"message.content[{index}]")
            outline.put(changed(outline.blocks[index], stopped=True))
    return True


def _content_block_start(draft: Draft[Outline], event: dict[str, Any]) -> None:
    """M2."""
    index = _index(event)
    head = _object(event, "content_block", "content_block_start")
    if not isinstance(head.get("type"), str):
        reason = "a content block has a type"
        raise Malformed(reason, "content_block.type")
    _join_late(draft)
    if index in draft.outline.blocks:
        draft.note("block_started_again", f"block {index} starts again", _at(index))
        return
    _open(draft, index, head, "content_block")


def _open(draft: Draft[Outline], index: int, head: dict[str, Any], place: str) -> None:
    """Open a block with what its start, at `place` in the event, holds already (M2)."""
    outline = draft.outline
    most = outline.limits.content_blocks
    if len(outline.blocks) >= most:
        raise Refused(Failure.limit("content_blocks", most))
    kind = _kind(head)
    name = whole(head["type"])
    draft.weigh_small(len(name))
    if kind == "opaque":
        raw = encode(head)
        draft.weigh(len(raw))
        block = Block(index, kind, name, raw=raw)
        if name == COMPACTION and isinstance(head.get("content"), str):
            draft.push(block.slot("content"), head["content"])
        outline.put(block)
        return
    extra = draft.keep_all(NO_EXTRA, head, but=NAMED[kind])
    if kind == "tool":
        ident, called, start = _string(head, "id", place), _string(head, "name", place), head.get("input")
        block = Block(
            index,
            kind,
            name,
            id=whole(ident) if ident is not None else None,
            name=whole(called) if called is not None else None,
            start_input=encode(start) if start else None,
            extra=extra,
        )
        draft.weigh_small(len(block.id or "") + len(block.name or ""))
        draft.weigh(len(block.start_input or b""))
    else:
        block = Block(index, kind, name, extra=extra)
        for key in TEXTS[kind]:
            text = _string(head, key, place)
            if text is not None:
                draft.push(block.slot(key), text)
        if kind == "text" and (citations := _optional(head, "citations", list, place)) is not None:
            draft.push(block.list_slot("citations"), b"")
            for citation in citations:
                draft.push_entry(block.list_slot("citations"), citation)
    outline.put(block)


def _kind(head: Mapping[str, Any]) -> Kind:
    """M4, M5."""
    if head["type"] == "text":
        return "text"
    if head["type"] == "thinking":
        return "thinking"
    return "tool" if head["type"] in TOOL_TYPES or "input" in head else "opaque"


def _content_block_delta(draft: Draft[Outline], event: dict[str, Any]) -> None:
    """M3-M6: a delta that is not on the happy path."""
    outline = draft.outline
    index = _index(event)
    delta = _object(event, "delta", "content_block_delta")
    kind = delta.get("type")
    if not isinstance(kind, str):
        reason = "a delta has a type"
        raise Malformed(reason, "delta.type")
    _join_late(draft)
    block = outline.blocks.get(index)
    known = DELTAS.get(kind)
    if block is None:
        if known is None:
            draft.note("unknown_delta", f"delta {short(kind)} for a block that never started", _at(index))
            return
        draft.note("block_not_started", f"{kind} for block {index}, which never started", _at(index))
        _open(draft, index, {"type": known[2]}, "delta")
        block = outline.blocks[index]
    if known is None or known[0] != block.kind or (known[0] == "opaque" and known[2] != block.type):
        _keep_delta(draft, block, delta, "unknown_delta" if known is None else "misplaced_delta")
        return
    key = known[1]
    piece = delta.get(key) if key == "citation" else _string(delta, key, "delta")
    if block.stopped:
        if block.kind == "tool":
            draft.note("input_after_stop", f"input for block {index} after its stop", _at(index))
            return
        draft.note("delta_after_stop", f"{kind} for block {index} after its stop", _at(index))
        if isinstance(piece, str) and "\udc00" <= piece[:1] <= "\udfff":  # the first half was shown as U+FFFD (B1)
            piece = "\ufffd" + piece[1:]
    if block.start_input is not None and piece and not block.both and not blank(piece):
        draft.note("input_twice", f"block {index} started with an input, and text came", f"{_at(index)}.input")
        block = changed(block, both=True)
    if piece is None:
        pass
    elif key == "citation":
        draft.push_entry(block.list_slot("citations"), piece)
    else:
        draft.push(block.slot(key), piece)
    more = draft.keep_all(block.extra, delta, but=NAMED[block.kind] | {"type", key})
    outline.put(changed(block, extra=more))


def _keep_delta(draft: Draft[Outline], block: Block, delta: dict[str, Any], code: str) -> None:
    """M5: nothing is ever written into a block of the wrong type."""
    draft.note(code, f"{short(delta['type'])} in a {short(block.type)} block", _at(block.index))
    if block.unknown < draft.limits.unknown_deltas:
        draft.push_entry(block.list_slot("unknown_deltas"), delta)
        draft.outline.put(changed(block, unknown=block.unknown + 1))


def _content_block_stop(draft: Draft[Outline], event: dict[str, Any]) -> None:
    """M2, M4, M6."""
    index = _index(event)
    _join_late(draft)
    block = draft.outline.blocks.get(index)
    if block is None:
        draft.note("block_not_started", f"block {index} stops, but never started", _at(index))
    elif block.stopped:
        draft.note("block_stopped_again", f"block {index} stops again", _at(index))
    else:
        draft.outline.put(changed(block, stopped=True))


def _message_delta(draft: Draft[Outline], event: dict[str, Any]) -> None:
    """M7, M8."""
    outline = draft.outline
    delta = _optional(event, "delta", dict, "message_delta") or {}
    usage = _optional(event, "usage", dict, "message_delta")
    _join_late(draft)
    for name in ("stop_reason", "stop_sequence"):
        value = _string(delta, name, "delta")
        if value is not None:
            draft.weigh_small(len(value), len(getattr(outline, name) or ""))
            setattr(outline, name, whole(value))
    if usage is not None:
        known: dict[str, Any] = outline.counts or {}
        if outline.counts is None and outline.usage is not None:
            known = decode(outline.usage)
        _set_usage(draft, _merged(known, usage))
    more = draft.keep_all(outline.extra, delta, but=MESSAGE_FIELDS)
    outline.extra = draft.keep_all(more, event, but=EVENT_FIELDS)


def _merged(known: dict[str, Any], usage: dict[str, Any]) -> dict[str, Any]:
    """M8: per key the last non-null value, in nested objects too."""
    merged = dict(known)
    for raw, value in usage.items():
        key = whole(raw)
        before = merged.get(key)
        if value is None:
            merged.setdefault(key, None)
        elif isinstance(value, dict) and isinstance(before, dict):
            merged[key] = _merged(before, value)
        elif key != "input_tokens" or value != 0 or not _is_positive(before) or _has_cached(usage):
            merged[key] = value
    return merged


def _has_cached(usage: Mapping[str, Any]) -> bool:
    """Whether input tokens may have moved to a cache count."""
    split = usage.get("cache_creation")
    counts = [*map(usage.get, CACHE_COUNTS), *(split.values() if isinstance(split, dict) else ())]
    return any(map(_is_positive, counts))


def _is_positive(count: Any) -> bool:
    return isinstance(count, (int, float)) and count > 0


def _set_usage(draft: Draft[Outline], usage: dict[str, Any]) -> None:
    data = encode(usage)
    # Each usage that comes writes the known one anew: a bound on its length keeps that linear.
    most = draft.outline.limits.extra_keys
    if len(data) > 64 * most + FREE or (len(usage) > most and len(usage.keys() - set(USAGE_FIELDS)) > most):
        raise Refused(Failure.limit("extra_keys", most))
    draft.weigh_small(len(data), len(draft.outline.usage or b""))
    draft.outline.usage = data
    plain = {*map(type, usage.values())} <= {int} and "".join(usage).isascii()
    draft.outline.counts = usage.copy() if plain else None


def _message_stop(draft: Draft[Outline], event: dict[str, Any]) -> None:
    """M9, M2, M12."""
    outline = draft.outline
    _join_late(draft)
    if len(event) > 1:
        more = {key: value for key, value in event.items() if key != "type"}
        outline.extra = draft.keep(outline.extra, "message_stop", more)
    if outline.headless:
        note = Diagnostic("missing_message_start", "message_stop without any message_start", draft.n, "message")
        draft.fail(Failure.protocol(note))
        return
    if outline.blocks and max(outline.blocks) != len(outline.blocks) - 1:
        draft.note("index_gap", f"the block indexes are {short(sorted(outline.blocks))}", "content")
    _close(draft)


def _close(draft: Draft[Outline]) -> None:
    """M9: complete, and what is open is closed."""
    outline = draft.outline
    outline.status = "complete"
    blocks = outline.blocks.copy()
    for index, block in outline.blocks.items():
        if not block.stopped:
            blocks[index] = changed(block, stopped=True)
    outline.blocks = blocks
    outline.routes = {}


def _error(draft: Draft[Outline], event: dict[str, Any]) -> None:
    """M13."""
    draft.fail(Failure.of_server(event, draft.limits.depth))


def _join_late(draft: Draft[Outline]) -> None:
    """M12: an event before any message_start opens an empty message, so that its content is not lost."""
    outline = draft.outline
    if outline.status == "empty":
        draft.note("missing_message_start", "the stream does not begin with message_start", "message")
        outline.status = "open"
        outline.started = outline.headless = True


HANDLERS: Final = {
    "message_start": _message_start,
    "content_block_start": _content_block_start,
    "content_block_delta": _content_block_delta,
    "content_block_stop": _content_block_stop,
    "message_delta": _message_delta,
    "message_stop": _message_stop,
    "error": _error,
    "message": _message,
}


# What a field must be, else the event is malformed (M15).


def _at(index: int) -> str:
    return f"content[{index}]"


def _index(event: Mapping[str, Any]) -> int:
    index = event.get("index")
    if type(index) is not int or not 0 <= index < LARGEST:
        reason = "index is an integer from 0"
        raise Malformed(reason, "index")
    return index


def _object(event: Mapping[str, Any], name: str, place: str) -> dict[str, Any]:
    value = event.get(name)
    if not isinstance(value, dict):
        reason = f"{name} is an object"
        raise Malformed(reason, f"{place}.{name}")
    return value


def _optional(event: Mapping[str, Any], name: str, kind: type, place: str) -> Any:
    value = event.get(name)
    if value is not None and not isinstance(value, kind):
        reason = f"{name} is null or {kind.__name__}"
        raise Malformed(reason, f"{place}.{name}")
    return value


def _string(event: Mapping[str, Any], name: str, place: str) -> str | None:
    value = event.get(name)
    return value if type(value) is str else _optional(event, name, str, place)


# ------------------------------------------------------------------------------------------------ whole streams


def fold(events: Iterable[Any], state: State = State()) -> Message:  # noqa: B008  immutable
    """The final message of a stream: reduce, then `.result()`, which see for what it raises."""
    for event in events:
        state = step(state, event)
    return state.result()


def running(events: Iterable[Any], state: State = State()) -> Iterator[tuple[State, bool]]:  # noqa: B008  immutable
    """Each state of a recording that may hold several messages, and whether it is the last of its message (M11).

    Each message starts from `state`; a recording without any message gives one last state.
    """
    now = state
    for event in events:
        item = event_of(event)
        starts = isinstance(item, dict) and item.get("type") in ("message_start", "message")
        if starts and now.status in ("complete", "failed"):
            yield now, True
            now = state
        after = step(now, item)
        if starts and after.status == "failed" and now.status == "open":
            yield after, True
            after = step(state, item)
        now = after
        yield now, False
    yield now, True


def states(events: Iterable[Any], state: State = State()) -> Iterator[State]:  # noqa: B008  immutable
    """The last state of each message of a recording that may hold several; each starts from `state` (M11)."""
    return (now for now, ended in running(events, state) if ended)


def fold_all(events: Iterable[Any]) -> Iterator[Message]:
    """The final messages of a recording that may hold several; raises as `fold` at the first that has none."""
    for state in states(events):
        yield state.result()


# ------------------------------------------------------------------------------------------------ what was added


def changes(older: State, newer: State) -> list[Change]:
    """What was added between two states of one line, at the cost of what was added.

    `(path, "open", type)` for a block that started, `(path, "text", added)` for its texts, `(path, "done", None)` for
    its stop; below a tool input the entries of PartialJSON.changes. A path is as `("content", 1, "text")`, with the
    wire index. For a pair that is not of one line, all of `newer`.
    """
    if older is newer:
        return []
    found = _changes(older, newer)
    return found if found is not None else _changes(None, newer) or []


def _changes(older: State | None, newer: State) -> list[Change] | None:
    """The changes, or None if `newer` does not go on from `older`."""
    after = newer._outline
    before = older._outline if older is not None else Outline(strict=False, limits=after.limits)
    indexes: Iterable[int] = sorted(after.blocks)
    if older is not None:
        if before.id not in (None, after.id) or not before.blocks.keys() <= after.blocks.keys():
            return None
        slots = touched(older, newer) if before is after else None
        if slots is not None:
            indexes = sorted({slot[1] for slot in slots})
        elif older._n > newer._n:
            return None
    old_ropes = ropes(older) if older is not None else {}
    new_ropes = ropes(newer)
    found: list[Change] = []
    for index in indexes:
        block, known = after.blocks[index], before.blocks.get(index)
        if known is not None and (known.type, known.id, known.name) != (block.type, block.id, block.name):
            return None
        path = ("content", index)
        if known is None:
            found.append((path, "open", block.type))
        for name in TEXTS[block.kind]:
            slot = block.slot(name)
            old, new = old_ropes.get(slot), new_ropes.get(slot)
            was_sealed = known is not None and _sealed(before, known)
            if old is new and was_sealed == _sealed(after, block):
                continue
            if block.kind == "tool":
                if added(old, new) is None:
                    return None
                found += _input_changes(block, known, old, new, after.limits.depth)
                continue
            text = between(old, new, was_sealed=was_sealed, sealed=_sealed(after, block))
            if text is None:
                return None
            if text:
                found.append(((*path, name), "text", text))
        if block.stopped and not (known is not None and known.stopped):
            found.append((path, "done", None))
    return found


def _input_changes(block: Block, known: Block | None, old: Rope | None, new: Rope | None, depth: int) -> list[Change]:
    """The changes of a tool input, below its path."""
    if block.stopped and (known is None or not known.stopped) and (new is None or blank(new.text())):
        entries = scanned(_start_input(block), depth)  # M4: no text came
    else:
        entries = block.scan.changes(old, new, depth)
    return [(("content", block.index, "input", *path), kind, value) for path, kind, value in entries]


# ------------------------------------------------------------------------------------------------ for a running stream


class Accumulator(_accumulator.Accumulator[State, Message]):
    """A State that moves: feed it events, or let it watch a stream that is iterated elsewhere."""

    __slots__ = ()

    def __init__(self, state: State = State()) -> None:  # noqa: B008  immutable
        super().__init__(state, step, step_json, changes)
