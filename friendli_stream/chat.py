"""chat.completion.chunk events -> the final completion: a pure reducer.

    state = functools.reduce(chat.step, chunks, chat.State())
    completion = state.result()

The grammar, as the streaming guide gives it: chunks whose `choices` carry a `delta`, a chunk with a `finish_reason` for
each choice, a chunk with `usage` and no choices if it was asked for, and `"[DONE]"`. What servers send besides is
answered by rules C1-C17 of the format, cited below. A malformed part of a chunk is noted and skipped, not the chunk.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator, Mapping
from operator import itemgetter
from types import NoneType
from typing import Any, Final

import attrs

from friendli_stream import _accumulator, _state
from friendli_stream._fragments import (
    LAST,
    LIST,
    MANY,
    NOTHING,
    PENDING,
    TEXT,
    Pending,
    Promise,
    Slot,
    added,
    between,
    listed,
    ropes,
    shown,
    touched,
)
from friendli_stream._inputs import Change, Raw, Scan, ToolInput
from friendli_stream._state import LARGEST, WEIGHT, Draft, Failure, Malformed, Refused, changed, short, taken
from friendli_stream._values import NO_EXTRA, Extra, Lazy, WithExtra, extra_field, freeze, lazy, plain, thaw
from friendli_stream.wire import decode, decode_event, depth_exceeds, encode, event_of, whole

__all__ = [
    "Accumulator",
    "ChatMessage",
    "Choice",
    "Completion",
    "FunctionCall",
    "State",
    "ToolCall",
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


def _extra_of(value: Any) -> dict[str, Any]:
    """The fields of an Extra, or of a promise of one."""
    return thaw(value.get() if isinstance(value, Promise) else value)


def _extra_in(value: Any) -> Any:
    return value if isinstance(value, Promise) else freeze(value)


REASONING: Final = ("reasoning_content", "reasoning")
USAGE_FIELDS: Final = ("prompt_tokens", "completion_tokens", "total_tokens")


@attrs.frozen(repr=False)
class Usage(WithExtra):
    """Token counts, the last object that came (C10); None for a count that never came.

    `extra`: all other keys, as `prompt_tokens_details` or `cost`.
    """

    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    total_tokens: int | None = None
    _extra: Extra = extra_field()

    def to_dict(self) -> dict[str, Any]:
        """What came, as JSON."""
        named = {name: getattr(self, name) for name in USAGE_FIELDS}
        return {name: count for name, count in named.items() if count is not None} | self.extra


@attrs.frozen(repr=False)
class ToolCall(ToolInput, WithExtra):
    """A tool call: `index` is what the wire says, None if nothing; `arguments` the raw text of its input (C6-C8).

    Unknown fields of `function` are in `extra` under that key.
    """

    index: int | None = None
    id: str | None = None
    type: str = "function"
    name: str | None = None
    _raw: Any = attrs.field(default="", alias="arguments", eq=plain, hash=False)
    _extra: Extra = extra_field()
    _path: str = attrs.field(default="tool_calls", eq=False, repr=False)

    def __attrs_post_init__(self) -> None:
        if isinstance(self._raw, str):  # built by hand
            object.__setattr__(self, "_raw", Raw(whole(self._raw), closed=True))

    @property
    def arguments(self) -> str:
        """The raw text of the input so far."""
        return self._raw.get()  # type: ignore[no-any-return]

    @property
    def _place(self) -> str:
        return f"{self._path}.function.arguments"

    def to_dict(self) -> dict[str, Any]:
        """The call as the API returns it; `arguments` is the raw text in any case (J12)."""
        extra = self.extra
        function = {"name": self.name, "arguments": self.arguments}
        more = extra.pop("function", None)
        if isinstance(more, dict):
            function = {**function, **more, **function}
        call: dict[str, Any] = {"id": self.id, "type": self.type, "function": function}
        return {**call, **extra, **call}


@attrs.frozen(repr=False)
class FunctionCall(WithExtra):
    """The call of the format before there were tool calls (C8)."""

    name: str | None = None
    _arguments: str = lazy("")
    _extra: Extra = extra_field()

    @property
    def arguments(self) -> str:
        """The raw text of the input so far."""
        return self._read("_arguments")  # type: ignore[no-any-return]

    def to_dict(self) -> dict[str, Any]:
        """The call as the API returns it."""
        call = {"name": self.name, "arguments": self.arguments}
        return {**call, **self.extra, **call}


@attrs.frozen(repr=False)
class ChatMessage(Lazy):
    """The message of one choice; a text that never came is None.

    `extra` has all else, as `annotations`, `audio`, `reasoning_details`.
    """

    role: str = "assistant"
    _content: str | None = lazy(None)
    _reasoning_content: str | None = lazy(None)
    _refusal: str | None = lazy(None)
    tool_calls: tuple[ToolCall, ...] = ()
    function_call: FunctionCall | None = None
    _extra: Any = attrs.field(factory=dict, converter=_extra_in, alias="extra", eq=_extra_of, hash=False)
    _reasoning_key: str = attrs.field(default="reasoning_content", alias="reasoning_key", repr=False, eq=False)

    @property
    def content(self) -> str | None:
        """The text so far (C4)."""
        return self._read("_content")  # type: ignore[no-any-return]

    @property
    def reasoning_content(self) -> str | None:
        """The reasoning so far, once, whichever keys it came under (C5)."""
        return self._read("_reasoning_content")  # type: ignore[no-any-return]

    @property
    def refusal(self) -> str | None:
        """The refusal so far."""
        return self._read("_refusal")  # type: ignore[no-any-return]

    @property
    def extra(self) -> dict[str, Any]:
        """The fields without a name here, fresh."""
        return thaw(self._read("_extra"))

    def to_dict(self) -> dict[str, Any]:
        """The message as the API returns it."""
        message: dict[str, Any] = {"role": self.role, "content": self.content}
        optional = {
            "refusal": self.refusal,
            self._reasoning_key: self.reasoning_content,
            "tool_calls": [call.to_dict() for call in self.tool_calls] or None,
            "function_call": self.function_call.to_dict() if self.function_call is not None else None,
        }
        message |= {key: value for key, value in optional.items() if value is not None}
        return {**message, **self.extra, **message}

    def to_request(self) -> dict[str, Any]:
        """The assistant message for the next request: one reasoning field, no empty text, "{}" for no input.

        Raises InvalidInput for a tool call whose input is not complete (J12).
        """
        for call in self.tool_calls:
            call.input  # noqa: B018  raises InvalidInput
        message = self.to_dict()
        for call in message.get("tool_calls", ()):
            call["function"]["arguments"] = call["function"]["arguments"].strip() or "{}"
        for name in (*REASONING, "refusal"):
            second = name in REASONING and name != self._reasoning_key
            if second or not message.get(name):
                message.pop(name, None)
        if message["content"] == "" and len(message) > 2:  # noqa: PLR2004  something besides role and content
            message["content"] = None
        return message


@attrs.frozen(repr=False)
class Choice(WithExtra):
    """One choice: its message, why it ended, and the log probabilities."""

    index: int = 0
    message: ChatMessage = attrs.field(factory=ChatMessage)
    finish_reason: str | None = None
    _logprobs: Any = lazy(None)
    _extra: Extra = extra_field()

    @property
    def logprobs(self) -> dict[str, Any] | None:
        """The log probabilities so far, its lists concatenated (C11), fresh; None if none came."""
        return self._list("_logprobs")  # type: ignore[no-any-return]

    def to_dict(self) -> dict[str, Any]:
        """The choice as the API returns it."""
        choice: dict[str, Any] = {
            "index": self.index,
            "message": self.message.to_dict(),
            "finish_reason": self.finish_reason,
            "logprobs": self.logprobs,
        }
        return {**choice, **self.extra, **choice}


@attrs.frozen(repr=False)
class Completion(WithExtra):
    """A completion, final or so far. Texts and lists are joined when they are read."""

    id: str | None = None
    created: int | float | None = None
    model: str | None = None
    _choices: tuple[Choice, ...] = lazy(())
    usage: Usage | None = None
    system_fingerprint: str | None = None
    service_tier: str | None = None
    _extra: Extra = extra_field()

    @property
    def choices(self) -> tuple[Choice, ...]:
        """The choices, by index (C2)."""
        return self._read("_choices")  # type: ignore[no-any-return]

    @property
    def text(self) -> str:
        """The content of the first choice, "" if there is none."""
        return (self.choices[0].message.content or "") if self.choices else ""

    @property
    def reasoning(self) -> str:
        """The reasoning of the first choice, "" if there is none."""
        return (self.choices[0].message.reasoning_content or "") if self.choices else ""

    @property
    def tool_calls(self) -> tuple[ToolCall, ...]:
        """The tool calls of the first choice."""
        return self.choices[0].message.tool_calls if self.choices else ()

    def to_dict(self) -> dict[str, Any]:
        """The completion as the same call returns it without `stream`."""
        completion: dict[str, Any] = {
            "id": self.id,
            "object": "chat.completion",
            "created": self.created,
            "model": self.model,
            "choices": [choice.to_dict() for choice in self.choices],
            "usage": self.usage.to_dict() if self.usage is not None else None,
        }
        for name in ("system_fingerprint", "service_tier"):
            value = getattr(self, name)
            if value is not None:
                completion[name] = value
        return {**completion, **self.extra, **completion}

    def to_json(self) -> bytes:
        """`to_dict` as compact JSON."""
        return encode(self.to_dict())

    def to_request(self) -> dict[str, Any]:
        """The first choice's message for the next request, as ChatMessage.to_request."""
        return self.choices[0].message.to_request() if self.choices else ChatMessage().to_request()


# ------------------------------------------------------------------------------------------------ the outline


USAGE: Final[Slot] = (LAST, "usage")
OTHER_USAGE: Final[Slot] = (LAST, "other usage")  # of a choice, or x_groq: where there is no usage (C10)
USAGE_ROOM: Final = 512  # characters: what a usage object counts for at least, so that a growing one weighs once

TEXT_KEYS: Final = ("content", "refusal", "reasoning_content")
CONTENT_KEYS: Final = (*TEXT_KEYS, "reasoning", "tool_calls", "function_call", "audio")
MERGED_KEYS: Final = frozenset({"text", "summary", "data"})  # of reasoning_details (C12)

TOP_FIELDS: Final = frozenset(
    {
        "id",
        "object",
        "created",
        "model",
        "choices",
        "usage",
        "system_fingerprint",
        "service_tier",
        "error",
        "obfuscation",
    }
)
CHUNK_FIELDS: Final = frozenset(  # C16
    {"choices", "usage", "id", "object", "x_groq", "error", "error_message", "error_type"}
)
ANSWER_FIELDS: Final = ("id", "model", "usage", "created", "system_fingerprint", "service_tier", "x_groq")
CHOICE_FIELDS: Final = frozenset({"index", "delta", "message", "finish_reason", "logprobs", "usage", "obfuscation"})
CALL_FIELDS: Final = frozenset({"index", "id", "type", "function", "obfuscation"})
FUNCTION_FIELDS: Final = frozenset({"name", "arguments", "obfuscation"})
UNSAID: Final = frozenset({"", "null"})  # finish reasons that say nothing (C9)
UNSAID_OR_NULL: Final = (None, *UNSAID)
FIXED_TYPES: Final = frozenset({str, NoneType})  # of the fields that say a chunk is like the last one
VARYING: Final = frozenset({"choices", "usage", "created", "obfuscation"})  # of an envelope

MIRROR: Final = "mirror"
ONCE: Final[Any] = None  # no key of a JSON object, so none that a delta could have
SKIP: Final = "skip"


@attrs.define(repr=False, match_args=False, weakref_slot=False)
class Call:
    """One tool call in the outline. Replaced there, never changed.

    `key` is its number among the calls of the choice, `path` its index in changes. `begun`: arguments came.
    """

    key: int
    path: int
    index: int | None = None
    id: str | None = None
    type: str | None = None
    name: str | None = None
    begun: bool = False
    extra: dict[str, bytes] = NO_EXTRA
    function_extra: dict[str, bytes] = NO_EXTRA
    scan: Scan = attrs.field(factory=Scan, eq=False, repr=False, metadata={"saved": False})


@attrs.define(repr=False, match_args=False, weakref_slot=False)
class Part:
    """One choice in the outline: all but its texts and lists. Replaced there, never changed.

    `seen`: the keys that came in its deltas as texts. `touched`: the key of the call touched last. `lists`: the keys
    that came as lists. `logprobs`, `audio`: their fields that are no lists or texts.
    """

    index: int
    role: str | None = None
    finish_reason: str | None = None
    seen: tuple[str, ...] = ()
    calls: tuple[Call, ...] = ()
    touched: int | None = None
    function_name: str | None = None
    function_extra: dict[str, bytes] = NO_EXTRA
    lists: tuple[str, ...] = ()
    logprobs: dict[str, bytes] | None = None
    audio: dict[str, bytes] | None = None
    message_extra: dict[str, bytes] = NO_EXTRA
    extra: dict[str, bytes] = NO_EXTRA

    def text(self, *names: Any) -> Slot:
        """The slot of one of its texts."""
        return (TEXT, self.index, *names)

    def list(self, *names: Any) -> Slot:
        """The slot of one of its lists."""
        return (LIST, self.index, *names)

    def call_slot(self, call: Call) -> Slot:
        """The slot of a call's arguments."""
        return self.text("call", call.key)

    def routes(self) -> dict[str, Any]:
        """What to do with a key of a delta on the happy path: a slot, SKIP, MIRROR, or the slots of tool calls."""
        if self.finish_reason is not None:
            return {}
        routes: dict[str, Any] = {}
        for name in self.seen:
            if name in TEXT_KEYS:
                routes[name] = self.text(name)
        if "reasoning" in self.seen:
            routes["reasoning"] = MIRROR
            routes[ONCE] = self.text("reasoning_content")
        if self.role is not None:
            routes["role"] = SKIP
        routes["tool_calls"] = calls = {}
        if self.touched is not None:
            call = self.calls[self.touched]
            if call.begun and call.index is not None and self._newest(call):
                calls[call.index] = self.call_slot(call)
        return routes

    def _newest(self, call: Call) -> bool:
        return not any(other.index == call.index and other.key > call.key for other in self.calls)


@attrs.define(repr=False, match_args=False, weakref_slot=False)
class Outline(_state.Outline):
    """The completion apart from its texts and lists.

    `done`: [DONE] came. `ids_changed`: more than one id came (C17). `usage_room`: what usage weighs at the most so
    far. `shape`: what the happy path takes chunks for that look like the last one, see `_shape`.
    """

    started: bool = False
    done: bool = False
    ids_changed: bool = False
    id: str | None = None
    created: int | float | None = None
    model: str | None = None
    system_fingerprint: str | None = None
    service_tier: str | None = None
    usage_room: int = 0
    other_usage_room: int = 0
    extra: dict[str, bytes] = NO_EXTRA
    choices: dict[int, Part] = attrs.field(factory=dict)
    shape: Any = attrs.field(default=None, eq=False, repr=False, metadata={"saved": False})

    def put(self, part: Part) -> None:
        """Open or replace a choice."""
        self.choices = {**self.choices, part.index: part}
        self.routes = {**self.routes, part.index: part.routes()}

    def closed(self, part: Part) -> bool:
        """Whether a choice's texts and inputs have ended (B1, J11)."""
        return part.finish_reason is not None or self.done


class State(_state.State[Outline, Completion]):
    """A chat.completion.chunk stream so far: immutable, equal by value, picklable, copyable.

    `State(strict=False, limits=Limits())`. In strict mode whatever would be noted fails the state instead.
    """

    __slots__ = ()

    _format = "chat"
    _outline_class = Outline

    @property
    def snapshot(self) -> Completion | None:
        """The completion so far, None while empty. It never changes; its texts are joined when they are read."""
        outline = self._outline
        if not outline.started:
            return None
        choices: Any = _Choices(self)
        return Completion(
            outline.id,
            outline.created,
            outline.model,
            choices,
            self.usage,
            outline.system_fingerprint,
            outline.service_tier,
            outline.extra,
        )

    @property
    def completion(self) -> Completion | None:
        """The same as `snapshot`."""
        return self.snapshot

    @property
    def usage(self) -> Usage | None:
        """The last usage that came (C10), None if none did."""
        found = ropes(self)
        data = found.get(USAGE, found.get(OTHER_USAGE))
        if data is None:
            return None
        counts = decode(data)
        named: dict[str, Any] = {name: counts.pop(name) for name in USAGE_FIELDS if type(counts.get(name)) is int}
        named["extra"] = counts
        return Usage(**named)

    def _missing(self) -> str:
        outline = self._outline
        if not outline.started:
            return f"the stream is incomplete: {'no chunk' if self._n else 'no event at all'}{self._first_note()}"
        if not outline.choices:
            return f"the stream is incomplete: no choice{', though [DONE] came' if outline.done else ''}"
        going = [str(index) for index, part in sorted(outline.choices.items()) if part.finish_reason is None]
        return (
            f"the stream is incomplete: no finish_reason of choice {', '.join(going[:8])}, [DONE] missing"
            f" (event {self._n} was the last)"
        )

    def _restore(self) -> None:
        outline = self._outline
        for part in outline.choices.values():
            if [call.key for call in part.calls] != list(range(len(part.calls))):
                message = f"calls of choice {part.index}"
                raise ValueError(message)
            if part.touched is not None and part.touched not in range(len(part.calls)):
                message = f"touched of choice {part.index}"
                raise ValueError(message)
            if outline.status != "failed":
                outline.put(part)
        for slot, rope in ropes(self).items():
            if slot in (USAGE, OTHER_USAGE):
                if type(rope) is not bytes or not isinstance(decode(rope), dict):
                    message = f"{slot} is an object"
                    raise ValueError(message)
            elif slot[0] == LAST or slot[1] not in outline.choices:
                message = f"unknown fragment {slot!r}"
                raise ValueError(message)


class _Choices(Promise):
    """The choices of a snapshot."""

    __slots__ = ("_state",)

    def __init__(self, state: State) -> None:
        self._state = state

    def get(self) -> tuple[Choice, ...]:
        choices = self._state._outline.choices
        return tuple(_choice(self._state, choices[index]) for index in sorted(choices))


def _sealed(outline: Outline, part: Part) -> bool:
    """Whether a choice's texts will not go on (B1)."""
    return outline.closed(part) or outline.status == "failed"


def _choice(state: State, part: Part) -> Choice:
    """The value of a choice, its texts pending."""
    sealed = _sealed(state._outline, part)

    def text(*names: Any, default: str | None = None) -> Any:
        return Pending(state, part.text(*names), sealed=sealed, default=default)

    calls = part.calls
    if all(call.index is not None for call in calls):
        calls = tuple(sorted(calls, key=lambda call: call.index or 0))  # stable: colliding ones as they came
    name = part.function_name
    message = ChatMessage(
        part.role or "assistant",
        text("content"),
        text("reasoning_content"),
        text("refusal"),
        tuple(_tool_call(state, part, call, position) for position, call in enumerate(calls)),
        FunctionCall(name, text("function_call", default=""), part.function_extra)
        if name is not None or "function_call" in part.seen
        else None,
        _MessageExtra(state, part),
        "reasoning" if "reasoning" in part.seen and "reasoning_content" not in part.seen else "reasoning_content",
    )
    logprobs: Any = _Logprobs(state, part) if part.logprobs is not None else None
    return Choice(part.index, message, part.finish_reason, logprobs, part.extra)


def _tool_call(state: State, part: Part, call: Call, position: int) -> ToolCall:
    outline = state._outline
    raw: Any = Raw(
        Pending(state, part.call_slot(call), sealed=_sealed(outline, part), default=""),
        closed=outline.closed(part),
        scan=call.scan,
        depth=outline.limits.depth,
    )
    extra = call.extra
    if call.function_extra:
        extra = {**extra, "function": encode(thaw(call.function_extra))}
    path = f"choices[{part.index}].message.tool_calls[{position}]"
    return ToolCall(call.index, call.id, call.type or "function", call.name, raw, extra, path)


class _Logprobs(Promise):
    """The logprobs of a choice (C11), as JSON."""

    __slots__ = ("_part", "_state")

    def __init__(self, state: State, part: Part) -> None:
        self._state = state
        self._part = part

    def get(self) -> bytes:
        part = self._part
        found = thaw(part.logprobs or {})
        return encode({key: _entries(self._state, part.list("logprobs", key), found[key]) for key in found})


def _entries(state: State, slot: Slot, default: Any = None) -> Any:
    rope = ropes(state).get(slot)
    return listed(rope) if rope is not None else default


class _MessageExtra(Promise):
    """The unknown fields of a message: those in the outline, and those that are still pending, as an Extra."""

    __slots__ = ("_part", "_state")

    def __init__(self, state: State, part: Part) -> None:
        self._state = state
        self._part = part

    def get(self) -> Extra:
        state, part = self._state, self._part
        found = dict(part.message_extra)
        sealed = _sealed(state._outline, part)
        for key in part.lists:
            if key not in found:
                entries = _entries(state, part.list("delta", key), [])
                found[key] = encode(_details(entries, sealed=sealed) if key == "reasoning_details" else entries)
        other = Pending(state, part.text("other reasoning"), sealed=sealed).get()
        if other is not None:
            found["reasoning"] = encode(other)
        if part.audio is not None:
            audio = thaw(part.audio)
            for name in ("data", "transcript"):
                text = Pending(state, part.text("audio", name), sealed=sealed).get()
                if text is not None:
                    audio[name] = text
            found["audio"] = encode(audio)
        return found


def _details(entries: list[Any], *, sealed: bool) -> list[Any]:
    """C12: entries with the same index and type merge."""
    merged: list[Any] = []
    known: dict[tuple[Any, Any], dict[str, Any]] = {}
    texts: dict[tuple[Any, Any], dict[str, list[str]]] = {}
    for entry in entries:
        key = (short(entry.get("index")), short(entry.get("type"))) if isinstance(entry, dict) else None
        if key is None or entry.get("index") is None:
            merged.append(entry)
        elif key not in known:
            merged.append(entry)
            known[key], texts[key] = (
                entry,
                {name: [entry[name]] for name in MERGED_KEYS if isinstance(entry.get(name), str)},
            )
        else:
            for name, value in entry.items():
                if name in MERGED_KEYS and isinstance(value, str):
                    texts[key].setdefault(name, []).append(value)
                elif known[key].get(name) is None:
                    known[key][name] = value
    for key, entry in known.items():
        entry.update({name: shown("".join(run), sealed=sealed) for name, run in texts[key].items()})
    return merged


# ------------------------------------------------------------------------------------------------ the reducer


class _Next(State):
    """A State as the happy path makes it: without a Python `__init__` that costs a third less."""

    __slots__ = ()
    __init__: Any = object.__init__

    def __reduce__(self) -> tuple[Any, ...]:
        return State.from_json, (self.to_json(),)


def step(state: State, event: Any) -> State:
    """The state after one more chunk. Pure and total: any JSON value is folded, noted, or fails the state.

    `event` is a decoded chunk, the string "[DONE]", or an SDK's own object for a chunk. Raises TypeError only for what
    is none of these (bytes included: those are for sse.EventDecoder or `step_json`).
    """
    try:  # the happy path: the last chunk's shape, one open choice, and fragments of texts that it has already
        outline = state._outline
        (choice,) = event["choices"]
        fixed, values, varying, width, rest, others, breadth = outline.shape
        varying(event)
        if len(event) != width or fixed(event) != values or len(choice) != breadth or rest(choice) != others:
            return _step(state, event)
        index = choice["index"]
        delta = choice["delta"]
        if type(index) is not int:
            return _step(state, event)
        routes = outline.routes[index]
        slot: Slot = NOTHING
        pieces: Any = None
        size = 0
        for key, value in delta.items():
            if value is None:
                continue
            route = routes[key]
            if type(value) is str:
                if type(route) is not tuple:
                    if route is SKIP:  # C3
                        continue
                    if route is not MIRROR:
                        return _step(state, event)
                    other = delta.get("reasoning_content")  # C5
                    if other:
                        if other != value and value:
                            return _step(state, event)
                        continue
                    route = routes[ONCE]
                if slot is NOTHING:
                    slot, pieces = route, value
                else:
                    slot, pieces = MANY, _with(slot, pieces, route, value)
                size += len(value)
            elif key == "tool_calls" and type(value) is list:  # C6-C8
                for call in value:
                    function = call["function"]
                    piece = function["arguments"]
                    if (
                        len(call) != 2  # noqa: PLR2004  index and function
                        or len(function) != 1
                        or type(piece) is not str
                        or type(call["index"]) is not int
                    ):
                        return _step(state, event)
                    into = route[call["index"]]
                    if slot is NOTHING:
                        slot, pieces = into, piece
                    else:
                        slot, pieces = MANY, _with(slot, pieces, into, piece)
                    size += len(piece)
            else:
                return _step(state, event)
        usage = event.get("usage")
        if usage is not None:  # C10
            data = encode(usage)
            brackets = data.count(b"{") + data.count(b"[")
            limits = outline.limits
            if (
                type(usage) is not dict
                or len(data) > outline.usage_room
                or brackets > limits.depth
                or len(usage) > limits.extra_keys
            ):
                return _step(state, event)
            if slot is NOTHING:
                slot, pieces = USAGE, data
            else:
                slot, pieces = MANY, _with(slot, pieces, USAGE, data)
        if size > outline.allowance:
            return _step(state, event)
        new: State = _Next()
        new._outline = outline
        new._older = state
        new._slot = slot
        new._piece = pieces
        pending = new._pending = state._pending + 1
        if pending == PENDING:
            new._settle()
    except (KeyError, TypeError, ValueError, AttributeError, RecursionError):
        return _step(state, event)
    return new


def _with(slot: Slot, piece: Any, other: Slot, more: Any) -> list[tuple[Slot, Any]]:
    """The pieces of a chunk, with one more."""
    pieces = piece if slot is MANY else [(slot, piece)]
    pieces.append((other, more))
    return pieces


def step_json(state: State, data: str | bytes) -> State:
    """`step` from the JSON of one chunk (B2); what is no JSON is noted as malformed."""
    return step(state, decode_event(data))


def _step(state: State, event: Any) -> State:
    """`step` for everything that is not on the happy path."""
    if type(event) is not dict:
        value = event_of(event)
        if value is not event:  # an SDK's object: what it says may take the happy path
            return step(state, value)
    after: State = taken(state, event, _take, _Next)
    return after


def _take(draft: Draft[Outline], event: Any) -> None:
    """Fold one event into the draft. Raises Malformed or Refused, and then nothing of it is kept."""
    outline = draft.outline
    if event == "[DONE]":
        _done(draft)
        return
    if isinstance(event, dict) and event.get("type") == "ping" and not event.get("choices"):  # C16
        return
    if outline.done:
        _after_done(draft, event)
        return
    if not isinstance(event, dict):
        reason = "a chunk is a JSON object"
        raise Malformed(reason)
    error, notes, omitted = _is_error(event), outline.notes, outline.omitted
    if not error and CHUNK_FIELDS.isdisjoint(event):  # C16
        kind = event.get("type")
        name = kind if isinstance(kind, str) else ""
        draft.note("unknown_event", f"unknown event {short(kind if name else event)}", name)
        return
    choices = _sound(draft, event, "choices", list, "choices") or []
    if not error or choices or any(event.get(name) for name in ANSWER_FIELDS):
        outline.started = True
        if outline.status == "empty":
            outline.status = "open"
        _envelope(draft, event)
        for position, choice in enumerate(choices):
            error = _choice_of(draft, choice, position, alone=len(choices) == 1) or error
        _usages(draft, event)
    if error:  # C14
        inner = next((choice["error"] for choice in choices if isinstance(choice, dict) and choice.get("error")), None)
        draft.fail(Failure.of_server(event, draft.limits.depth, inner))
        return
    outline.status = "complete" if outline.choices else "open"
    for part in outline.choices.values():
        if part.finish_reason is None:
            outline.status = "open"
            break
    quiet = outline.notes is notes and outline.omitted == omitted  # else the next one is to be noted too
    outline.shape = _shape(event) if quiet and (outline.created or "created" not in event) else None


def _done(draft: Draft[Outline]) -> None:
    """C15."""
    outline = draft.outline
    if outline.done:
        draft.note("after_end", "[DONE] after [DONE]", "[DONE]")
        return
    outline.done = True
    outline.routes = {}
    for index, part in sorted(outline.choices.items()):
        if part.finish_reason is None:
            draft.note("missing_finish_reason", f"choice {index} has no finish_reason", f"choices[{index}]")
    if outline.choices:
        outline.status = "complete"


def _after_done(draft: Draft[Outline], event: Any) -> None:
    """C15: afterwards only usage is taken."""
    before = draft.tip
    if isinstance(event, dict):
        _usages(draft, event)
    if draft.tip is before or event.get("choices") or _is_error(event):
        draft.note("after_end", f"after [DONE]: {short(event)}", "chunk")


def _is_error(event: Mapping[str, Any]) -> bool:
    """C14."""
    error = event.get("error")
    if error is not None and (isinstance(error, dict) or error not in ("", False)):
        return True
    if event.get("object") == "error" or event.get("type") == "error":
        return True
    return not event.get("choices") and bool(event.get("error_message") or event.get("error_type"))


def _envelope(draft: Draft[Outline], event: Mapping[str, Any]) -> None:
    """C1, C13."""
    outline = draft.outline
    for name in ("id", "model"):
        value, known = event.get(name), getattr(outline, name)
        if value is None or value == known or _sound(draft, event, name, str, name) is None:
            continue
        if not known:
            draft.weigh_small(len(value))
            setattr(outline, name, whole(value))
        elif value and whole(value) != known:
            outline.ids_changed |= name == "id"
            draft.note(f"{name}_changed", f"{name} {short(known)} becomes {short(value)}", name)
    created = event.get("created")
    if not outline.created and created is not None:
        if isinstance(created, (int, float)) and not isinstance(created, bool):
            usual = type(created) is int and created.bit_length() < 64  # noqa: PLR2004
            # A ValueError where no JSON can be written of it (B2).
            outline.created = created if usual else decode(encode(created))
        else:
            _skip(draft, "created is a number", "created", created)
    for name in ("system_fingerprint", "service_tier"):
        if event.get(name) is None:
            continue
        value, known = _sound(draft, event, name, str, name), getattr(outline, name)
        if value is not None and (value or known is None):
            draft.weigh_small(len(value), len(known or ""))
            setattr(outline, name, whole(value))
    if not event.keys() <= TOP_FIELDS:
        outline.extra = _keep(draft, outline.extra, event, TOP_FIELDS, "")


def _choice_of(draft: Draft[Outline], choice: Any, position: int, *, alone: bool) -> bool:
    """One entry of `choices` (C2); whether it says that the server failed (C14)."""
    outline = draft.outline
    place = f"choices[{position}]"
    if not isinstance(choice, dict):
        _skip(draft, "a choice is an object", place, choice)
        return False
    given = choice.get("index")
    index = _number(given)
    if given is None:
        index = 0 if alone else position
        draft.note("missing_index", f"choice without index, taken for {index}", place)
    if index is None:
        _skip(draft, "index is an integer from 0", f"{place}.index", given)
        return False
    part = outline.choices.get(index)
    if part is None:
        most = outline.limits.choices
        if len(outline.choices) >= most:
            raise Refused(Failure.limit("choices", most))
        part = Part(index)
    name = "delta" if choice.get("delta") is not None else "message"
    delta = _sound(draft, choice, name, dict, f"{place}.{name}")
    if delta:
        part = _fold_delta(draft, part, delta, f"choices[{index}]")
    if choice.get("logprobs") is not None:
        part = _logprobs(draft, part, _sound(draft, choice, "logprobs", dict, f"{place}.logprobs"))
    if not choice.keys() <= CHOICE_FIELDS:
        part = changed(part, extra=_keep(draft, part.extra, choice, CHOICE_FIELDS, f"choices[{index}]."))
    reason = None
    if choice.get("finish_reason") is not None:
        reason = whole(_sound(draft, choice, "finish_reason", str, f"{place}.finish_reason") or "")
    if reason is not None and reason not in UNSAID and reason != part.finish_reason:  # C9
        if part.finish_reason is None:
            draft.weigh_small(len(reason))
            part = changed(part, finish_reason=reason)
        else:
            draft.note(
                "finish_reason_changed",
                f"finish_reason {short(part.finish_reason)}, then {short(reason)}",
                f"choices[{index}].finish_reason",
            )
            if part.finish_reason == "stop":
                draft.weigh_small(len(reason))
                part = changed(part, finish_reason=reason)
    outline.put(part)
    return bool(reason == "error")


def _fold_delta(draft: Draft[Outline], part: Part, delta: dict[str, Any], place: str) -> Part:
    """C3-C8, C12, C13: what one delta adds to its choice."""
    if part.finish_reason is not None and any(map(delta.get, CONTENT_KEYS)):
        draft.note("content_after_finish", f"content after finish_reason {short(part.finish_reason)}", place)  # C9
    if "reasoning" in delta or "reasoning_content" in delta:
        part = _reasoning(draft, part, delta, place)
    for key, value in delta.items():
        if value is None or key in {"reasoning", "reasoning_content", "obfuscation"}:
            continue
        if key == "role":
            role = value if type(value) is str else _sound(draft, delta, key, str, f"{place}.delta.role")
            if role and part.role is None:
                draft.weigh_small(len(role))
                part = changed(part, role=whole(role))
        elif key in {"content", "refusal"} and isinstance(value, str):
            part = _append(draft, part, key, value)
        elif key == "content" and isinstance(value, list):
            part = _parts(draft, part, value, place)
        elif key == "tool_calls" and isinstance(value, list):
            for number, entry in enumerate(value):
                part = _tool_delta(draft, part, entry, f"{place}.delta.tool_calls[{number}]")
        elif key == "function_call" and isinstance(value, dict):
            part = _function_delta(draft, part, value, place)
        elif key == "audio" and isinstance(value, dict):
            part = _audio(draft, part, value, place)
        elif key in {"content", "refusal", "tool_calls", "function_call"}:
            _skip(draft, f"{key} has another type", f"{place}.delta.{key}", value)
        elif isinstance(value, list):
            part = _extend(draft, part, key, value, place)
        else:
            part = changed(
                part, message_extra=_keep(draft, part.message_extra, {key: value}, (), f"{place}.delta.", part.lists)
            )
    return part


def _push(draft: Draft[Outline], part: Part, slot: Slot, text: str) -> None:
    """A piece of text."""
    if part.finish_reason is not None and "\udc00" <= text[:1] <= "\udfff":  # the first half was shown as U+FFFD (B1)
        text = "\ufffd" + text[1:]
    draft.push(slot, text)


def _append(draft: Draft[Outline], part: Part, key: str, text: str) -> Part:
    """A piece of text, and that its key was seen (C4: what was never sent stays null)."""
    _push(draft, part, part.text(key), text)
    return part if key in part.seen else changed(part, seen=(*part.seen, key))


def _reasoning(draft: Draft[Outline], part: Part, delta: dict[str, Any], place: str) -> Part:
    """C5: one text, whichever keys it comes under."""
    texts = {}
    for key in REASONING:
        text = _sound(draft, delta, key, str, f"{place}.delta.{key}")
        if text is not None:
            texts[key] = text
            if key not in part.seen:
                part = changed(part, seen=(*part.seen, key))
    first, second = texts.get("reasoning_content"), texts.get("reasoning")
    if first and second and first != second:
        draft.note("reasoning_differs", "reasoning and reasoning_content differ", f"{place}.delta.reasoning")
        _push(draft, part, part.text("other reasoning"), second)
    if texts:
        part = _append(draft, part, "reasoning_content", first or second or "") if first is not None else part
        if first is None:
            _push(draft, part, part.text("reasoning_content"), second or "")
    return part


def _parts(draft: Draft[Outline], part: Part, parts: list[Any], place: str) -> Part:
    """C4: content as a list of parts."""
    for number, item in enumerate(parts):
        where = f"{place}.delta.content[{number}]"
        kind = item.get("type") if isinstance(item, dict) else None
        if kind == "text" and isinstance(item.get("text"), str):
            part = _append(draft, part, "content", item["text"])
        elif kind == "thinking" and isinstance(item.get("thinking"), (str, list)):
            thinking = item["thinking"]
            if isinstance(thinking, list):
                pieces = (inner.get("text") for inner in thinking if isinstance(inner, dict))
                thinking = "".join(piece for piece in pieces if isinstance(piece, str))
            part = _append(draft, part, "reasoning_content", thinking)
        elif isinstance(item, str):
            part = _append(draft, part, "content", item)
        elif isinstance(item, dict):
            part = _extend(draft, part, "content_parts", [item], place)
        else:
            _skip(draft, "a part of content is an object", where, item)
    return part


def _extend(draft: Draft[Outline], part: Part, key: str, values: list[Any], place: str) -> Part:
    """C12, C13: a list in a delta goes on from the one before."""
    key = whole(key)
    if key not in part.lists:
        if len(part.lists) + len(part.message_extra) >= draft.limits.extra_keys:
            raise Refused(Failure.limit("extra_keys", draft.limits.extra_keys))
        draft.weigh(WEIGHT + len(key))
        part = changed(part, lists=(*part.lists, key))
    if key in part.message_extra:
        part = changed(part, message_extra={name: value for name, value in part.message_extra.items() if name != key})
    draft.push(part.list("delta", key), b"")
    if part.finish_reason is not None:
        values = [_behind(value) for value in values]
    for value in values:
        if depth_exceeds(value, draft.limits.depth - 1):
            _skip(draft, "nested too deep", f"{place}.delta.{key}", None)
        else:
            draft.push_entry(part.list("delta", key), value)
    return part


def _behind(entry: Any) -> Any:
    """An entry of a list that comes behind the finish: the first half of its text was shown as U+FFFD (B1)."""
    if not isinstance(entry, dict):
        return entry
    lone = {key: value for key, value in entry.items() if isinstance(value, str) and "\udc00" <= value[:1] <= "\udfff"}
    return entry | {key: "\ufffd" + value[1:] for key, value in lone.items()}


def _audio(draft: Draft[Outline], part: Part, audio: dict[str, Any], place: str) -> Part:
    """C12: data and transcript append, all else is the last."""
    for name in ("data", "transcript"):
        text = _sound(draft, audio, name, str, f"{place}.delta.audio.{name}")
        if text is not None:
            _push(draft, part, part.text("audio", name), text)
    rest = _keep(draft, part.audio or {}, audio, ("data", "transcript"), f"{place}.delta.audio.")
    return changed(part, audio=rest)


def _function_delta(draft: Draft[Outline], part: Part, call: dict[str, Any], place: str) -> Part:
    """C8: the legacy function_call: name once, arguments append."""
    place = f"{place}.delta.function_call"
    name = _sound(draft, call, "name", str, f"{place}.name")
    if name and part.function_name is None:
        draft.weigh_small(len(name))
        part = changed(part, function_name=whole(name))
    part = changed(part, function_extra=_keep(draft, part.function_extra, call, FUNCTION_FIELDS, f"{place}."))
    return _append(draft, part, "function_call", _arguments(draft, call, place) or "")


def _arguments(draft: Draft[Outline], function: dict[str, Any], place: str) -> str | None:
    """C8: a piece of arguments; an object or array as JSON text."""
    piece = function.get("arguments")
    if not isinstance(piece, (dict, list)):
        text: str | None = _sound(draft, function, "arguments", str, f"{place}.arguments")
        return text
    if depth_exceeds(piece, draft.limits.depth):
        _skip(draft, "nested too deep", f"{place}.arguments", None)
        return None
    draft.note("arguments_not_text", "arguments is no text, written as JSON", f"{place}.arguments")
    return encode(piece).decode()


def _tool_delta(draft: Draft[Outline], part: Part, entry: Any, place: str) -> Part:
    """C6-C8: one entry of tool_calls."""
    if not isinstance(entry, dict):
        _skip(draft, "a tool call is an object", place, entry)
        return part
    function = _sound(draft, entry, "function", dict, f"{place}.function") or {}
    index = _number(entry.get("index"))
    ident = whole(_sound(draft, entry, "id", str, f"{place}.id") or "") or None
    name = whole(_sound(draft, function, "name", str, f"{place}.function.name") or "") or None
    kind = whole(_sound(draft, entry, "type", str, f"{place}.type") or "") or None
    call = _find_call(part, index, ident, name)
    if call is None:
        if (
            sum(len(other.calls) for other in draft.outline.choices.values()) >= draft.limits.tool_calls
            or len(part.calls) >= draft.limits.tool_calls
        ):
            raise Refused(Failure.limit("tool_calls", draft.limits.tool_calls))
        paths = {other.path for other in part.calls}
        free = index if index is not None and index not in paths else max(paths, default=-1) + 1
        call = Call(len(part.calls), free, index)
    new: dict[str, Any] = {}
    if ident is not None and call.id is None:
        draft.weigh_small(len(ident))
        new["id"] = ident
    if kind is not None and call.type is None:
        draft.weigh_small(len(kind))
        new["type"] = kind
    if name is not None and name != call.name and (call.name is None or (not call.begun and ident is None)):  # C7
        draft.weigh_small(len(name))
        new["name"] = (call.name or "") + name
    piece = _arguments(draft, function, f"{place}.function")
    if piece is not None:
        _push(draft, part, part.call_slot(call), piece)
        new["begun"] = call.begun or bool(piece)
    new["extra"] = _keep(draft, call.extra, entry, CALL_FIELDS, f"{place}.")
    new["function_extra"] = _keep(draft, call.function_extra, function, FUNCTION_FIELDS, f"{place}.function.")
    call = changed(call, **new)
    return changed(part, calls=(*part.calls[: call.key], call, *part.calls[call.key + 1 :]), touched=call.key)


def _find_call(part: Part, index: int | None, ident: str | None, name: str | None) -> Call | None:
    """C6: the call that a delta belongs to, None for a new one."""
    there = [call for call in part.calls if call.index == index] if index is not None else []
    if there:
        newest = there[-1]
        same = next((call for call in there if ident is not None and call.id == ident), None)
        if same is None and name is not None and ident is not None and newest.id is not None:
            return None
        return same or newest
    if ident is not None and (index is None or name is None):
        same = next((call for call in part.calls if call.id == ident), None)
        if same is not None:
            return same
    if index is None and ident is None and name is None and part.touched is not None:
        return part.calls[part.touched]
    return None


def _logprobs(draft: Draft[Outline], part: Part, logprobs: dict[str, Any] | None) -> Part:
    """C11: lists concatenate, null adds nothing."""
    if logprobs is None:
        return part
    known = part.logprobs or {}
    for key, value in logprobs.items():
        if not isinstance(value, list) and depth_exceeds(value, draft.limits.depth):
            _skip(draft, "nested too deep", f"choices[{part.index}].logprobs.{key}", None)
            continue
        if isinstance(value, list):
            slot = part.list("logprobs", whole(key))
            draft.push(slot, b"")
            for entry in value:
                if depth_exceeds(entry, draft.limits.depth - 1):
                    _skip(draft, "nested too deep", f"choices[{part.index}].logprobs.{key}", None)
                else:
                    draft.push_entry(slot, entry)
        if whole(key) not in known or not (value is None or isinstance(value, list)):
            known = draft.keep(known, whole(key), None if isinstance(value, list) else value)
    return changed(part, logprobs=known)


def _usages(draft: Draft[Outline], event: Mapping[str, Any]) -> None:
    """C10."""
    if event.get("usage") is not None:
        _usage_in(draft, USAGE, event, "")
    choices = event.get("choices")
    for at, choice in enumerate(choices if isinstance(choices, list) else ()):
        if isinstance(choice, dict) and choice.get("usage") is not None:
            _usage_in(draft, OTHER_USAGE, choice, f"choices[{at}].")
    beside = event.get("x_groq")
    if isinstance(beside, dict) and beside.get("usage") is not None:
        _usage_in(draft, OTHER_USAGE, beside, "x_groq.")


def _usage_in(draft: Draft[Outline], slot: Slot, source: Mapping[str, Any], place: str) -> None:
    """The last usage stands as a whole; it weighs what the longest did."""
    place = f"{place}usage"
    usage = _sound(draft, source, "usage", dict, place)
    if usage is None:
        return
    if depth_exceeds(usage, draft.limits.depth):
        _skip(draft, "nested too deep", place, None)
        return
    if len(usage.keys() - set(USAGE_FIELDS)) > draft.limits.extra_keys:
        raise Refused(Failure.limit("extra_keys", draft.limits.extra_keys))
    data = encode(usage)
    name = "usage_room" if slot is USAGE else "other_usage_room"
    room = getattr(draft.outline, name)
    needed = max(len(data), USAGE_ROOM)
    if needed > room:
        draft.weigh_small(needed, room)
        setattr(draft.outline, name, needed)
    draft.outline.started = True
    if draft.outline.status == "empty":  # usage alone, behind [DONE]
        draft.outline.status = "open"
    draft.tip = (draft.tip, slot, data)


def _shape(event: Mapping[str, Any]) -> Any:
    """What a chunk with nothing new in it but its VARYING fields and its deltas looks like; None if none could.

    Of the chunk: the getter of its fixed fields, their values, the getter of the others (a KeyError where one is
    missing), and how many fields there are; of its choice the same but for index and delta. Fixed fields are str or
    null, where == is exact (1 == True == 1.0).
    """
    choices = event.get("choices")
    if not isinstance(choices, list) or len(choices) != 1 or not isinstance(choices[0], dict):
        return None
    [choice] = choices
    if choice.get("finish_reason") not in UNSAID_OR_NULL:
        return None
    known = event.keys() <= TOP_FIELDS and choice.keys() <= CHOICE_FIELDS  # or hostile names would outlive their stream
    getters = _getters if known else _getters.__wrapped__
    names, of_event, varying, rest, of_choice = getters(tuple(event), tuple(choice))
    for source, fields in ((event, names), (choice, rest)):
        for name in fields:
            if type(source[name]) not in FIXED_TYPES:
                return None
    return of_event, of_event(event), varying, len(event), of_choice, of_choice(choice), len(choice)


@functools.lru_cache(maxsize=64)  # nearly all chunks have the same few sets of fields
def _getters(event: tuple[str, ...], choice: tuple[str, ...]) -> tuple[Any, ...]:
    """The fixed fields of a chunk and their getter, that of the others; the same of its choice, which has no others."""
    names = [name for name in event if name not in VARYING]
    others = [name for name in event if name in VARYING and name != "choices"]
    rest = [name for name in choice if name not in {"index", "delta"}]
    return names, _getter(names), _getter(others), rest, _getter(rest)


def _getter(names: list[str]) -> Any:
    return itemgetter(*names) if names else _nothing


def _nothing(_: Any) -> None:
    """The values of no fields."""


def _number(index: Any) -> int | None:
    """A usable index: an integer from 0, or its digits (C6)."""
    if isinstance(index, str) and index.isascii() and index.isdigit() and len(index) < len(str(LARGEST)):
        return int(index)
    return index if type(index) is int and 0 <= index < LARGEST else None


def _sound(draft: Draft[Outline], source: Mapping[str, Any], name: str, kind: type, place: str) -> Any:
    """The field if it has the type it must have, else None, noted unless it is null (C2)."""
    value = source.get(name)
    if value is None or isinstance(value, kind):
        return value
    _skip(draft, f"{name} is null or {kind.__name__}", place, value)
    return None


def _skip(draft: Draft[Outline], reason: str, place: str, value: Any) -> None:
    """C2: a malformed part is noted and skipped."""
    draft.note("malformed_event", f"{reason}: {short(value)}", place)


def _keep(  # noqa: PLR0913, PLR0917  one place for all unknown fields
    draft: Draft[Outline],
    extra: dict[str, bytes],
    values: Mapping[str, Any],
    but: Iterable[str],
    place: str,
    others: tuple[str, ...] = (),
) -> dict[str, bytes]:
    """The unknown fields with those of `values` that are not null (C13); what is nested too deep is skipped."""
    for key, value in values.items():
        if value is None or key in but:
            continue
        if depth_exceeds(value, draft.limits.depth):
            _skip(draft, "nested too deep", f"{place}{key}", None)
        else:
            if len(extra) + len(others) >= draft.limits.extra_keys and whole(key) not in extra:
                raise Refused(Failure.limit("extra_keys", draft.limits.extra_keys))
            extra = draft.keep(extra, whole(key), value)
    return extra


# ------------------------------------------------------------------------------------------------ whole streams


def fold(events: Iterable[Any], state: State = State()) -> Completion:  # noqa: B008  immutable
    """The final completion of a stream: reduce, then `.result()`, which see for what it raises."""
    for event in events:
        state = step(state, event)
    return state.result()


def running(events: Iterable[Any], state: State = State()) -> Iterator[tuple[State, bool]]:  # noqa: B008  immutable
    """Each state of a recording that may hold several completions, and whether it is the last of its completion (C17).

    Each completion starts from `state`; a recording without any gives one last state.
    """
    now, done = state, False
    for event in events:
        item = event_of(event)
        if isinstance(item, dict) and _starts(now, item, done=done):
            yield now, True
            now, done = state, False
        now = step(now, item)
        done |= item == "[DONE]"  # which a failed state does not take
        yield now, False
    yield now, True


def states(events: Iterable[Any], state: State = State()) -> Iterator[State]:  # noqa: B008  immutable
    """The last state of each completion of a recording that may hold several; each starts from `state` (C17)."""
    return (now for now, ended in running(events, state) if ended)


def _starts(state: State, chunk: Mapping[str, Any], *, done: bool) -> bool:
    """C17: whether a chunk with choices begins the next completion."""
    outline = state._outline
    choices = chunk.get("choices")
    if not isinstance(choices, list) or not choices:
        return False
    if done or outline.done or (outline.failure is not None and outline.failure.kind == "server"):
        return True
    ident = chunk.get("id")
    return (
        outline.status == "complete"
        and not outline.ids_changed
        and bool(outline.id)
        and isinstance(ident, str)
        and ident not in ("", outline.id)
        and any(isinstance(choice, dict) and choice.get("finish_reason") in UNSAID_OR_NULL for choice in choices)
    )


def fold_all(events: Iterable[Any]) -> Iterator[Completion]:
    """The final completions of a recording that may hold several; raises as `fold` at the first that has none."""
    for state in states(events):
        yield state.result()


# ------------------------------------------------------------------------------------------------ what was added


def changes(older: State, newer: State) -> list[Change]:
    """What was added between two states of one line, at the cost of what was added.

    `(path, "open", type)` for a choice or tool call that appeared, `(path, "text", added)` for texts,
    `(path, "done", None)` for a choice that finished; below a tool input the entries of PartialJSON.changes. A path is
    as `("choices", 0, "message", "content")`, with wire indexes. For a pair that is not of one line, all of `newer`.
    """
    if older is newer:
        return []
    found = _changes(older, newer)
    return found if found is not None else _changes(None, newer) or []


def _changes(older: State | None, newer: State) -> list[Change] | None:
    """The changes, or None if `newer` does not go on from `older`."""
    after = newer._outline
    before = older._outline if older is not None else Outline(strict=False, limits=after.limits)
    indexes: Iterable[int] = sorted(after.choices)
    if older is not None:
        if before.id not in (None, "", after.id) or not before.choices.keys() <= after.choices.keys():
            return None
        slots = touched(older, newer) if before is after else None
        if slots is not None:
            indexes = sorted({slot[1] for slot in slots if slot[0] != LAST})
        elif older._n > newer._n:
            return None
    old_ropes = ropes(older) if older is not None else {}
    new_ropes = ropes(newer)
    found: list[Change] = []
    for index in indexes:
        part, known = after.choices[index], before.choices.get(index)
        path = ("choices", index)
        was_sealed = known is not None and _sealed(before, known)
        sealed = _sealed(after, part)
        if known is None:
            found.append((path, "open", "choice"))
        for name in ("reasoning_content", "content", "refusal"):
            slot = part.text(name)
            old, new = old_ropes.get(slot), new_ropes.get(slot)
            if old is new and was_sealed == sealed:
                continue
            text = between(old, new, was_sealed=was_sealed, sealed=sealed)
            if text is None:
                return None
            if text:
                found.append(((*path, "message", name), "text", text))
        old_calls = known.calls if known is not None else ()
        if len(old_calls) > len(part.calls):
            return None
        for call in part.calls:
            call_path = (*path, "message", "tool_calls", call.path)
            if call.key >= len(old_calls):
                found.append((call_path, "open", call.type or "function"))
            elif old_calls[call.key].id not in (None, call.id):
                return None
            slot = part.call_slot(call)
            old, new = old_ropes.get(slot), new_ropes.get(slot)
            if old is new:
                continue
            if added(old, new) is None:
                return None
            found += [
                ((*call_path, "input", *inner), kind, value)
                for inner, kind, value in call.scan.changes(old, new, after.limits.depth)
            ]
        if after.closed(part) and not (known is not None and before.closed(known)):
            found.append((path, "done", None))
    return found


# ------------------------------------------------------------------------------------------------ for a running stream


class Accumulator(_accumulator.Accumulator[State, Completion]):
    """A State that moves: feed it chunks, or let it watch a stream that is iterated elsewhere."""

    __slots__ = ()

    def __init__(self, state: State = State()) -> None:  # noqa: B008  immutable
        super().__init__(state, step, step_json, changes)
