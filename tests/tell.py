"""Every way to tell a message: the inverse of `fold`, written from the rules alone.

A *model* is a final message as plain data (`MessageModel`, `CompletionModel`); `expected` gives the `to_dict()` that
it must come out as, and `tell` one of the streams of events that say it: cut anywhere (through surrogate pairs too),
blocks, choices and tool calls interleaved, fields early, late or said again, pings and unknown events in between.

All chance comes from a `random.Random`. Hypothesis lends its own one, which shrinks; the fuzzer seeds one, which is fast.
Whatever can be told in more than one way makes one message; what could not (a wire index, the raw text of a tool
input, whether calls carry an index at all) is part of the model.
"""

from __future__ import annotations

import copy
import itertools
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from random import Random
from types import ModuleType
from typing import Any

import pytest
from hypothesis import strategies as st

from friendli_stream import chat, messages

Event = Any
JSON = Any

RANDOMS = st.randoms(use_true_random=False)


# ------------------------------------------------------------------------------------------------ chance


def rare(rng: Random, n: int) -> bool:
    """True once in `n` times; what shrinks to False."""
    return rng.randrange(n) == n - 1


def some(rng: Random, items: Iterable[Any], n: int = 2) -> list[Any]:
    """Each item with a chance of one in `n`."""
    return [item for item in items if rare(rng, n)]


def merge(rng: Random, tracks: Iterable[list[Any]], *, ordered: bool = False) -> list[Any]:
    """The tracks interleaved, each in its own order; `ordered`: they also begin in the order given."""
    left = [list(reversed(track)) for track in tracks if track]
    begun = 0 if ordered else len(left)
    merged = []
    while any(left):
        ready = [i for i, track in enumerate(left) if track and i <= begun]
        i = rng.choice(ready)
        begun = max(begun, i + 1)
        merged.append(left[i].pop())
    return merged


def sprinkle(rng: Random, events: list[Event], noise: Callable[[Random], Event], n: int) -> list[Event]:
    """The events with one of `noise` in one of `n` gaps, the ends included."""
    out: list[Event] = []
    for event in events:
        out += [noise(rng)] if rare(rng, n) else []
        out.append(event)
    return out + ([noise(rng)] if rare(rng, n) else [])


# ------------------------------------------------------------------------------------------------ texts and JSON


PIECES = (
    *("a", "b", "word ", "\n", '"', "\\", "{", "[1]", "\x00", "\t"),
    *("é", "中文", "\u2028", "\ufeff", "e\u0301", "\ufffd"),
    *("😀", "👩\u200d💻", "𝄞", "\U0010ffff", "\ud83d", "\ude00"),
)
KEYS = ("a", "b", "location", "", "né", "😀", '"', "\\u0041", "index", "type", "text", "error")
EXTRAS = ("x_alpha", "x_beta", "x-Γ", "x_😀")
NUMBERS = (0, 1, -1, 7, 2**53 + 1, -(2**63), 2**64, 10**40, 0.25, -1.5, 1000.0)


def text(rng: Random, most: int = 6) -> str:
    """A text out of pieces that are awkward in one way or another, lone halves of surrogate pairs among them."""
    return paired("".join(rng.choice(PIECES) for _ in range(rng.randint(0, most))))


def value(rng: Random, depth: int = 3) -> JSON:
    """A JSON value, not null."""
    kind = rng.randrange(6 if depth else 4)
    if kind == 0:
        return text(rng, 3)
    if kind == 1:
        return rng.choice(NUMBERS)
    if kind == 2:
        return rng.choice((True, False))
    if kind in {3, 4}:
        return {key: nullable(rng, depth - 1) for key in some(rng, KEYS, 4)} if depth else {}
    return [nullable(rng, depth - 1) for _ in range(rng.randint(0, 3))]


def nullable(rng: Random, depth: int) -> JSON:
    """A JSON value or null."""
    return value(rng, depth) if rng.randrange(5) else None


def halves(string: str) -> str:
    """The text in UTF-16 code units: each astral character as two halves, so that it can be cut in two."""
    return re.sub("[\U00010000-\U0010ffff]", lambda m: _units(m[0]), string)


def _units(char: str) -> str:
    code = ord(char) - 0x10000
    return chr(0xD800 + (code >> 10)) + chr(0xDC00 + (code & 0x3FF))


def paired(string: str) -> str:
    """Halves that are neighbours joined, as a JSON decoder does with two escapes."""
    return re.sub(
        "([\ud800-\udbff])([\udc00-\udfff])",
        lambda m: chr(0x10000 + (ord(m[1]) - 0xD800 << 10) + ord(m[2]) - 0xDC00),
        string,
    )


def mend(json_value: JSON) -> JSON:
    """A JSON value as it must come out (B1): pairs joined, lone halves U+FFFD, in strings and keys."""
    if isinstance(json_value, str):
        return re.sub("[\ud800-\udfff]", "\ufffd", paired(json_value))
    if isinstance(json_value, list):
        return [mend(item) for item in json_value]
    if isinstance(json_value, dict):
        return {mend(key): mend(item) for key, item in json_value.items()}
    return json_value


def cut(rng: Random, string: str, *, least: int = 1) -> list[str]:
    """The text in pieces, cut anywhere, within a surrogate pair too; a piece may be empty. At least `least` pieces."""
    units = halves(string)
    edges = sorted(rng.randint(0, len(units)) for _ in range(rng.randint(least, least + 3) - 1))
    return [paired(units[a:b]) for a, b in itertools.pairwise((0, *edges, len(units)))]


def compact(json_value: JSON) -> str:
    """Compact JSON, halves as they are."""
    return json.dumps(json_value, ensure_ascii=False, separators=(",", ":"))


def written(rng: Random, json_value: JSON) -> str:
    """JSON text of a value in one of the ways to write it."""
    if rng.randrange(3):
        return compact(json_value)
    return json.dumps(json_value, ensure_ascii=rare(rng, 2), indent=rng.choice((None, 1)))


def same(a: JSON, b: JSON) -> bool:
    """Equal JSON: 1, 1.0 and True are three values, and the order of keys is no difference."""
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(same(item, b[key]) for key, item in a.items())
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(map(same, a, b))
    return type(a) is type(b) and bool(a == b)


def without_nulls(fields: Mapping[str, Any], names: Iterable[str]) -> dict[str, Any]:
    """The fields, but not those of `names` that are null: for them null and absent say the same."""
    names = set(names)
    return {key: item for key, item in fields.items() if item is not None or key not in names}


def extras(rng: Random, n: int = 6) -> dict[str, JSON]:
    """Unknown fields; their values are not null (null says nothing)."""
    return {key: value(rng, 2) for key in EXTRAS if rare(rng, n)}


def say(rng: Random, places: list[dict[str, Any]], fields: Mapping[str, Any], other: Callable[[], Any]) -> None:
    """Say each field in one of the places: perhaps null or something `other` before it, null after it (M7, C13)."""
    for key, item in fields.items():
        at = rng.randrange(len(places))
        for i, place in enumerate(places):
            if i == at:
                place[key] = copy.deepcopy(item)
            elif rare(rng, 5):
                place[key] = None if i > at or rare(rng, 2) else other()


# ------------------------------------------------------------------------------------------------ Messages


@dataclass
class Block:
    """A content block of a model. `raw`: the JSON text of a tool input; `opening`: it never had a start (M6)."""

    index: int
    kind: str
    type: str
    texts: dict[str, str] = field(default_factory=dict)
    citations: list[JSON] | None = None
    id: str | None = None
    name: str | None = None
    input: dict[str, Any] = field(default_factory=dict)
    raw: str = ""
    extra: dict[str, JSON] = field(default_factory=dict)
    implicit: bool = False

    def to_dict(self) -> dict[str, Any]:
        """The block as the API would return it, halves as they are."""
        if self.kind == "tool":
            return {"type": self.type, "id": self.id, "name": self.name, "input": self.input, **self.extra}
        named = {"citations": self.citations} if self.citations is not None else {}
        return {"type": self.type, **self.texts, **named, **self.extra}


@dataclass
class MessageModel:
    """A final message."""

    id: str
    model: str | None
    blocks: list[Block]
    stop_reason: str | None
    stop_sequence: str | None
    usage: dict[str, Any]
    extra: dict[str, JSON]
    message_stop: dict[str, JSON]

    def to_dict(self) -> dict[str, Any]:
        """As the API would return it, halves as they are."""
        return {
            "id": self.id,
            "type": "message",
            "role": "assistant",
            "model": self.model,
            "content": [block.to_dict() for block in self.blocks],
            "stop_reason": self.stop_reason,
            "stop_sequence": self.stop_sequence,
            "usage": self.usage or None,
            **self.extra,
            **({"message_stop": self.message_stop} if self.message_stop else {}),
        }


DELTA_OF = {"text": "text_delta", "thinking": "thinking_delta", "signature": "signature_delta"}
TOOL_TYPES = ("tool_use", "server_tool_use", "mcp_tool_use", "x_tool")


def block_model(rng: Random, index: int) -> Block:
    """Any content block."""
    kind = rng.choice(("text", "tool", "thinking", "opaque", "compaction"))
    if kind == "text":
        citations = [value(rng, 2) for _ in range(rng.randint(1, 3))] if rare(rng, 3) else None
        block = Block(index, kind, kind, {"text": text(rng)}, citations)
    elif kind == "thinking":
        texts = {"thinking": text(rng)}
        if rare(rng, 2):
            texts["signature"] = "sig" + text(rng, 3)
        block = Block(index, kind, kind, texts)
    elif kind == "tool":
        content = {key: nullable(rng, 2) for key in some(rng, KEYS, 4)}
        block = Block(index, kind, rng.choice(TOOL_TYPES), input=content, raw=written(rng, content))
        block.id, block.name = f"toolu_{index}", rng.choice(("get_weather", "né", "😀"))
    elif kind == "opaque":
        block = Block(index, kind, rng.choice(("web_search_tool_result", "x_block")), extra=extras(rng, 2))
        block.extra["content"] = value(rng)
        return block
    else:
        return Block(index, kind, kind, {"content": "c" + text(rng)})
    block.implicit = block.type != "x_tool" and rare(rng, 10)
    if block.implicit:
        block.type, block.id, block.name = ("tool_use" if kind == "tool" else kind), None, None
    block.extra = extras(rng, 12)
    return block


def message_model(rng: Random) -> MessageModel:
    """Any final message."""
    gap = rng.choice((1, 2)) if rare(rng, 8) else 0
    usage: dict[str, Any] = {
        name: rng.choice((0, 1, 12, 10**20))
        for name in some(rng, ("input_tokens", "output_tokens", "cache_read_input_tokens", "x_tokens"))
    }
    if rare(rng, 4):
        usage["server_tool_use"] = {"web_search_requests": 2, "x": rng.choice((5, "é"))}
    return MessageModel(
        id=f"msg_{rng.randrange(3)}",
        model=rng.choice((None, "model-a", "mödel")),
        blocks=[block_model(rng, i + (gap if i else 0)) for i in range(rng.randint(0, 3))],
        stop_reason=rng.choice((None, "end_turn", "tool_use", "x_reason")),
        stop_sequence=rng.choice((None, None, "END", "😀")),
        usage=usage,
        extra=extras(rng),
        message_stop=extras(rng, 20),
    )


def _block_track(rng: Random, block: Block) -> list[Event]:
    """The events of one block, in order: start, deltas, stop (M2-M6)."""
    head: dict[str, Any] = {"type": block.type}
    lanes: list[list[dict[str, Any]]] = []

    def lane(delta_type: str, key: str, start: str | None, pieces: list[Any]) -> None:
        """The pieces of one text or list: the first may stand in the start block."""
        if start is not None:
            head[start] = pieces.pop(0) if rare(rng, 4) else rng.choice(("", None))
            if head[start] is None and rare(rng, 2):
                del head[start]
        lanes.append([{"type": delta_type, key: piece} for piece in pieces])

    least = 2 if block.implicit or block.extra else 1  # something must carry the block, or the extra
    start = None if block.implicit else ""
    for name, string in block.texts.items():
        delta_type = "compaction_delta" if block.kind == "compaction" else DELTA_OF[name]
        if name != "signature" or not block.implicit or rare(rng, 2):
            lane(delta_type, name, start if start is None else name, cut(rng, string, least=least))
        else:
            lane(delta_type, name, None, [string])
    if block.citations is not None:
        kept = rng.randint(0, len(block.citations)) if start is not None else 0
        if kept:
            head["citations"] = block.citations[:kept]
        lanes.append([{"type": "citations_delta", "citation": item} for item in block.citations[kept:]])
    if block.kind == "tool":
        head |= {"id": block.id, "name": block.name, "input": {}}
        blanks = [rng.choice(("", None, " ", "\n")) for _ in range(rng.randrange(3))]
        if block.raw == compact(block.input) and not block.implicit and rare(rng, 3):  # whole in the start (M4)
            head["input"] = block.input
            pieces = blanks
        elif block.raw == "{}" and blanks and rare(rng, 2):  # no input at all is {} (M4)
            pieces = blanks
        else:
            pieces = cut(rng, block.raw, least=least)
            if block.type != "x_tool" and rare(rng, 3):
                head["input"] = None
        lanes.append([{"type": "input_json_delta", "partial_json": piece} for piece in pieces])
    if block.kind == "opaque":
        head |= block.extra
    deltas = merge(rng, lanes)
    if block.kind != "opaque" and block.extra:
        places = deltas if block.implicit or (deltas and rare(rng, 4)) else [head, *deltas]
        say(rng, places, block.extra, lambda: value(rng, 1))
    at = {"index": block.index}
    events: list[Event] = [] if block.implicit else [{"type": "content_block_start", **at, "content_block": head}]
    events += [{"type": "content_block_delta", **at, "delta": delta} for delta in deltas]
    if rng.randrange(6):  # or message_stop closes it (M9)
        late = _may_be_late(block, deltas) and rare(rng, 6)  # a text may go on after its stop (M6)
        events.insert(len(events) - late, {"type": "content_block_stop", **at})
    if not block.implicit and rare(rng, 12):  # the first start stays (M2)
        again = {"type": "content_block_start", **at, "content_block": {"type": "text", "text": "again"}}
        events.insert(rng.randint(1, len(events)), again)
    return events


def _may_be_late(block: Block, deltas: list[dict[str, Any]]) -> bool:
    """Whether the last delta may come after the stop: it must not end a pair that was cut there (B1)."""
    if block.kind not in {"text", "thinking"} or len(deltas) < 2 or len(deltas[-1]) > 2:
        return False
    last = next((deltas[-1][key] for key in block.texts if key in deltas[-1]), None)
    return last is not None and not "\udc00" <= last[:1] <= "\udfff"


def _usages(rng: Random, usage: dict[str, Any], n: int) -> list[dict[str, Any]]:
    """The counts as `n` running totals: the last non-null value of each key is the one of `usage` (M8)."""
    places: list[dict[str, Any]] = [{} for _ in range(n)]
    for key, total in usage.items():
        if isinstance(total, dict):
            inner: list[dict[str, Any]] = [{} for _ in range(n)]
            say(rng, inner, total, lambda: rng.randrange(9))
            for place, part in zip(places, inner, strict=True):
                if part or rare(rng, 6):
                    place[key] = part or None
        else:  # 0 does not replace a positive input_tokens: before a 0 there may be nothing else
            say(rng, places, {key: total}, lambda most=9 if total else 1: rng.randrange(most))  # type: ignore[misc]
    return places


def tell_message(rng: Random, model: MessageModel, *, noisy: bool = True) -> list[Event]:
    """One of the streams that say the message; `noisy` with events that change nothing in between."""
    given = 0
    if rare(rng, 5):  # blocks that message_start holds already (M1)
        while given < len(model.blocks) and _may_be_given(model.blocks[given], given):
            given += 1
    late = not given and rare(rng, 8)  # message_start after other events (M12)
    count = rng.randint(1 if late else 0, 2)
    head: dict[str, Any] = {"id": model.id, "type": "message", "role": "assistant", "model": model.model, "content": []}
    for name in ("role", "type", "content", "model"):
        if head[name] in ("assistant", "message", [], None) and rare(rng, 6):
            head.pop(name) if rare(rng, 2) else head.__setitem__(name, None)
    if given:
        head["content"] = [block.to_dict() for block in model.blocks[:given]]
    deltas: list[dict[str, Any]] = [{} for _ in range(count)]
    places = deltas if late else [head, *deltas]
    known = {"stop_reason": model.stop_reason, "stop_sequence": model.stop_sequence}
    say(rng, places, {key: item for key, item in known.items() if item is not None}, lambda: "other")
    say(rng, places, model.extra, lambda: value(rng, 1))
    body: list[Event] = []
    usages = _usages(rng, model.usage, len(places))
    if not late:
        head |= {"usage": usages[0]} if usages[0] else rng.choice(({}, {"usage": None}))
    for delta, usage in zip(deltas, usages[len(places) - count :], strict=True):
        up = {key: delta.pop(key) for key in some(rng, [key for key in delta if key in model.extra])}
        event = {"type": "message_delta", "delta": delta, **up}
        if usage or rare(rng, 3):
            event["usage"] = usage or None
        body.append(event)
    body = merge(rng, [body, *(_block_track(rng, block) for block in model.blocks[given:])])
    body.insert(rng.randint(0, len(body)) if late else 0, {"type": "message_start", "message": head})
    if not late and rare(rng, 12):  # the same message again (M11)
        body.insert(rng.randint(1, len(body)), {"type": "message_start", "message": {"id": model.id, "content": []}})
    events = [*body, {"type": "message_stop", **model.message_stop}]
    return copy.deepcopy(sprinkle(rng, events, message_noise, 8) if noisy else events)


def _may_be_given(block: Block, position: int) -> bool:
    """Whether a block can stand in message_start so that it is equal to itself told by deltas."""
    raw = block.kind != "tool" or block.raw == compact(block.input)
    return block.index == position and raw and not block.implicit


def message_unknown(rng: Random) -> Event:
    """An event of a type that nobody knows (M10)."""
    return {"type": rng.choice(("x_event", "vertex_event", "")), **extras(rng, 2), "index": rng.randrange(2)}


def message_noise(rng: Random) -> Event:
    """An event that is noted at most: ping, [DONE], unknown, malformed (M10, M15)."""
    kind = rng.randrange(5)
    if kind < 2:
        return {"type": "ping"} if kind else "[DONE]"
    if kind == 2:
        return message_unknown(rng)
    return rng.choice((None, 1, "text", [], {}, {"type": None}, {"type": "content_block_stop"}, {"index": 0}))


# ------------------------------------------------------------------------------------------------ chat


@dataclass
class Call:
    """A tool call of a model. `index`: None where the stream has none."""

    index: int | None
    id: str | None
    name: str
    arguments: str
    type: str = "function"
    extra: dict[str, JSON] = field(default_factory=dict)
    function: dict[str, JSON] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """The call as the API would return it."""
        function = {"name": self.name, "arguments": self.arguments, **self.function}
        return {"id": self.id, "type": self.type, "function": function, **self.extra}


@dataclass
class ChoiceModel:
    """A choice of a model.

    `reasoning_keys`: "both", "reasoning_content" or "reasoning" (C5). `calls_by`: "index", "id" (no call has an
    index) or "one index" (all calls share index 0, each has an id) (C6).
    """

    index: int
    role: str | None = None
    content: str | None = None
    reasoning: str | None = None
    reasoning_keys: str = "both"
    refusal: str | None = None
    calls: list[Call] = field(default_factory=list)
    calls_by: str = "index"
    function_call: dict[str, str] | None = None
    finish_reason: str | None = "stop"
    logprobs: dict[str, list[JSON]] | None = None
    details: list[dict[str, Any]] = field(default_factory=list)
    annotations: list[JSON] = field(default_factory=list)
    audio: dict[str, Any] | None = None
    parts: list[JSON] = field(default_factory=list)
    extra: dict[str, JSON] = field(default_factory=dict)
    lists: dict[str, list[JSON]] = field(default_factory=dict)
    choice_extra: dict[str, JSON] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """The choice as the API would return it."""
        message: dict[str, Any] = {"role": self.role or "assistant", "content": self.content}
        if self.reasoning is not None:
            message["reasoning" if self.reasoning_keys == "reasoning" else "reasoning_content"] = self.reasoning
        named = {
            "refusal": self.refusal,
            "tool_calls": [call.to_dict() for call in self.calls] or None,
            "function_call": self.function_call,
            "reasoning_details": self.details or None,
            "annotations": self.annotations or None,
            "audio": self.audio,
            "content_parts": self.parts or None,
        }
        message |= {key: item for key, item in named.items() if item is not None}
        message |= self.extra | self.lists
        known = {"index": self.index, "message": message, "finish_reason": self.finish_reason}
        return {**known, "logprobs": self.logprobs, **self.choice_extra}


@dataclass
class CompletionModel:
    """A final completion."""

    id: str
    created: int
    model: str
    choices: list[ChoiceModel]
    usage: dict[str, Any] | None
    system_fingerprint: str | None
    service_tier: str | None
    extra: dict[str, JSON]

    def to_dict(self) -> dict[str, Any]:
        """As the API would return it."""
        return {
            "id": self.id,
            "object": "chat.completion",
            "created": self.created,
            "model": self.model,
            "choices": [choice.to_dict() for choice in sorted(self.choices, key=lambda choice: choice.index)],
            "usage": self.usage,
            "system_fingerprint": self.system_fingerprint,
            "service_tier": self.service_tier,
            **self.extra,
        }


def _calls(rng: Random, by: str) -> list[Call]:
    start, step = (0, 1) if by != "index" else (rng.choice((0, 0, 1, 3)), rng.choice((1, 1, 2)))
    calls = []
    for i in range(rng.randint(1, 3)):
        content = {key: nullable(rng, 1) for key in some(rng, KEYS, 5)}
        arguments = rng.choice((written(rng, content), written(rng, content), "", '{"cut": "sh', "no json"))
        index = {"index": start + i * step, "id": None, "one index": 0}[by]
        identity = None if by == "index" and rare(rng, 6) else f"call_{i}"
        name = rng.choice(("get_weather", "né", "f😀"))
        kind = rng.choice(("function", "function", "x_kind"))
        calls.append(Call(index, identity, name, arguments, kind, extras(rng, 12), extras(rng, 16)))
    return calls


def choice_model(rng: Random, index: int) -> ChoiceModel:
    """Any choice."""
    choice = ChoiceModel(index, rng.choice((None, "assistant", "assistant", "tool")))
    if rng.randrange(4):
        choice.content = text(rng)
    if rare(rng, 3):
        choice.reasoning = "r" + text(rng)
        choice.reasoning_keys = rng.choice(("both", "reasoning_content", "reasoning"))
    if rare(rng, 6):
        choice.refusal = text(rng)
    if rare(rng, 2):
        choice.calls_by = rng.choice(("index", "index", "id", "one index"))
        choice.calls = _calls(rng, choice.calls_by)
    if rare(rng, 8):
        choice.function_call = {"name": "legacy", "arguments": written(rng, {"a": text(rng, 2)})}
    choice.finish_reason = rng.choice(("stop", "tool_calls", "length", "content_filter", None))
    if rare(rng, 5):
        choice.logprobs = {key: [value(rng, 1) for _ in range(3)] for key in ("content", "refusal") if rng.randrange(3)}
        choice.logprobs = choice.logprobs or None
    if rare(rng, 6):
        for i in range(rng.randint(1, 2)):
            entry: dict[str, Any] = {"type": rng.choice(("reasoning.text", "reasoning.summary")), "index": i}
            entry["summary" if entry["type"].endswith("summary") else "text"] = text(rng)
            choice.details.append(entry | {key: text(rng, 1) + "!" for key in some(rng, ("format", "id"))})
        if rare(rng, 2):
            choice.details.append({"type": "reasoning.encrypted", "data": text(rng)})
    if rare(rng, 8):
        choice.annotations = [value(rng, 1) for _ in range(rng.randint(1, 3))]
    if rare(rng, 10):
        choice.audio = {"id": "audio_1", "data": text(rng), "transcript": text(rng), "expires_at": 1700000000}
    if choice.content is not None and rare(rng, 10):
        choice.parts = [{"type": "image_url", "image_url": value(rng, 1)} for _ in range(rng.randint(1, 2))]
    choice.extra = {key: item for key, item in extras(rng).items() if not isinstance(item, list)}
    choice.lists = {"x_list": [value(rng, 1) for _ in range(3)]} if rare(rng, 10) else {}
    choice.choice_extra = extras(rng, 10)
    return choice


def completion_model(rng: Random) -> CompletionModel:
    """Any final completion."""
    indexes = rng.choice(((0,), (0,), (0, 1), (2, 0), (1,), (0, 1, 3)))
    usage = {"prompt_tokens": 3, "completion_tokens": rng.choice((0, 7, 10**25)), "total_tokens": 10}
    if rare(rng, 3):
        usage |= {"prompt_tokens_details": {"cached_tokens": 1, "x": None}, **extras(rng, 3)}  # type: ignore[dict-item]
    return CompletionModel(
        id=rng.choice(("chatcmpl-1", "id-é")),
        created=rng.choice((1700000000, 10**30)),
        model=rng.choice(("model-a", "mödel")),
        choices=[choice_model(rng, index) for index in indexes],
        usage=rng.choice((None, usage, usage)),
        system_fingerprint=rng.choice((None, "fp_1")),
        service_tier=rng.choice((None, "default")),
        extra=extras(rng),
    )


def _call_track(rng: Random, call: Call, by: str) -> list[dict[str, Any]]:
    """The deltas of one tool call (C6-C8). Under "#": what tells the rest of the telling about this one."""
    pieces: list[Any] = cut(rng, call.arguments)
    deltas: list[dict[str, Any]] = [{"function": {"arguments": piece}} for piece in pieces]
    head: dict[str, Any] = {"function": {"name": call.name}}
    if rare(rng, 2):
        head["function"]["arguments"] = rng.choice(("", None))
    if _whole_object(call) and rare(rng, 8):
        head["function"]["arguments"] = json.loads(call.arguments)
        deltas = []
    elif rare(rng, 3):
        head["function"]["arguments"] = pieces[0]
        deltas.pop(0)
    deltas.insert(0, head)
    if by == "index" and len(call.name) > 4 and "arguments" not in head["function"] and rare(rng, 4):
        head["function"]["name"] = call.name[:3]  # a name in pieces (C7)
        deltas[1:1] = [{"function": {"name": call.name[3:]}}, {"function": {}}]
        named = 1
    elif by == "index" and call.id is not None and rare(rng, 6) and len(deltas) > 1:
        named = rng.randrange(1, len(deltas))  # the name late, after arguments
        del head["function"]["name"]
        deltas[named]["function"]["name"] = call.name
    else:
        named = 0
    identified = 0
    if call.id is not None and by == "index" and rare(rng, 5):
        identified = rng.randint(min(named + 1, len(deltas) - 1), len(deltas) - 1)  # the id late
    for i, delta in enumerate(deltas):
        delta["#"] = call
        if call.id is None:
            delta.update(rng.choice(({}, {"id": None}, {"id": ""})))
        elif i == identified or (i > identified and i > named and rare(rng, 4)) or (by != "index" and i == 0):
            delta["id"] = call.id
        elif i != identified and rare(rng, 4):
            delta["id"] = rng.choice(("", None))
        if i > max(named, identified) and by == "index" and rare(rng, 6):
            delta["function"]["name"] = rng.choice((call.name, "", None))
        if rare(rng, 6) and by == "index":
            delta["#index"] = "digits"
    places = [delta for delta in deltas if "name" not in delta["function"]] or deltas[-1:]
    for extra, at in ((call.extra, places), (call.function, [delta["function"] for delta in places])):
        say(rng, at, extra, lambda: value(rng, 1))
    if call.type != "function" or rare(rng, 2):
        at = rng.randrange(len(deltas))
        deltas[at]["type"] = call.type
        for delta in deltas[at:]:
            if rare(rng, 4):
                delta["type"] = call.type
    return deltas


def _whole_object(call: Call) -> bool:
    """Whether the arguments could come as an object in place of text."""
    return call.arguments.startswith("{") and call.arguments.isascii() and _is_compact(call.arguments)


def _is_compact(string: str) -> bool:
    try:
        return compact(json.loads(string)) == string
    except ValueError:
        return False


def _address(rng: Random, deltas: list[dict[str, Any]], by: str) -> list[dict[str, Any]]:
    """Give each tool call delta of a choice an index or an id, or nothing where the rules find its call (C6)."""
    seen: list[Call] = []
    opened: list[Call] = []
    for delta in deltas:
        if (call := delta.pop("#", None)) is None:
            continue
        digits = delta.pop("#index", None)
        first = call not in seen
        last_touched = bool(seen) and seen[-1] is call
        named = bool(delta["function"].get("name"))
        if first:
            opened.append(call)
        seen.append(call)
        if by == "index":
            if last_touched and not named and not delta.get("id") and rare(rng, 5):
                delta.update(rng.choice(({}, {"index": None})))
            else:
                delta["index"] = str(call.index) if digits else call.index
        elif by == "one index":
            delta["index"] = 0
            if opened[-1] is not call:
                delta["id"] = call.id
        else:
            delta.update(rng.choice(({}, {"index": None}, {"index": -1})))
            if not last_touched or named:
                delta["id"] = call.id
    return deltas


def _choice_ops(rng: Random, choice: ChoiceModel) -> list[dict[str, Any]]:
    """What a choice says, piece by piece: each a part of one chunk's choice, fields of its delta under "delta"."""
    tracks: list[list[dict[str, Any]]] = []

    def deltas(key: str, items: Iterable[Any]) -> None:
        tracks.append([{"delta": {key: item}} for item in items])

    if choice.content is not None:
        pieces: list[Any] = cut(rng, choice.content)
        if choice.parts or rare(rng, 10):  # as a list of parts (C4)
            kept = list(choice.parts)
            pieces = [[{"type": "text", "text": piece}] if rare(rng, 2) else piece for piece in pieces]
            pieces = merge(rng, [pieces, [[part] for part in kept]])
        deltas("content", [*pieces, *some(rng, [None], 4)])
    if choice.reasoning is not None:
        track = []
        for piece in cut(rng, choice.reasoning):
            keys = ["reasoning", "reasoning_content"]
            if choice.reasoning_keys != "both":
                keys = [choice.reasoning_keys]
            elif rare(rng, 3):
                keys = [rng.choice(keys)]
            track.append({"delta": dict.fromkeys(keys, piece)})
        if choice.reasoning_keys == "both":  # so that both keys were seen
            track.append({"delta": {"reasoning_content": "", "reasoning": ""}})
        tracks.append(track)
    if choice.refusal is not None:
        deltas("refusal", cut(rng, choice.refusal))
    calls = [_call_track(rng, call, choice.calls_by) for call in choice.calls]
    merged = merge(rng, calls, ordered=choice.calls_by != "index")
    tracks.append([{"delta": {"tool_calls": [delta]}} for delta in _address(rng, merged, choice.calls_by)])
    if choice.function_call is not None:
        pieces = cut(rng, choice.function_call["arguments"])
        deltas("function_call", [{"name": choice.function_call["name"]}, *({"arguments": piece} for piece in pieces)])
    if choice.logprobs is not None:
        track = []
        for key, items in choice.logprobs.items():
            at = rng.randint(0, len(items))
            track += [{"logprobs": {key: part}} for part in (items[:at], items[at:])]
        tracks.append([*track, *some(rng, [{"logprobs": None}], 3)])
    deltas("reasoning_details", merge(rng, [_detail_track(rng, entry) for entry in choice.details], ordered=True))
    at = rng.randint(0, len(choice.annotations))
    deltas("annotations", [part for part in (choice.annotations[:at], choice.annotations[at:]) if part])
    if choice.audio is not None:
        lanes = [[{key: piece} for piece in cut(rng, choice.audio[key])] for key in ("data", "transcript")]
        deltas("audio", [{"id": choice.audio["id"]}, *merge(rng, lanes), {"expires_at": choice.audio["expires_at"]}])
    places: list[dict[str, Any]] = [{}, {}]
    say(rng, places, choice.extra, lambda: text(rng, 1))
    for key, items in choice.lists.items():
        at = rng.randint(0, len(items))
        places[0][key], places[1][key] = items[:at], items[at:]
    tracks.append([{"delta": place} for place in places if place])
    tops: list[dict[str, Any]] = [{}, {}]
    say(rng, tops, choice.choice_extra, lambda: value(rng, 1))
    tracks.append([top for top in tops if top])
    ops = merge(rng, tracks)
    finishes = [{"finish_reason": choice.finish_reason}] if choice.finish_reason is not None else []
    if finishes and rare(rng, 6):  # the first real one stands, but "stop" gives way (C9)
        other = {"finish_reason": "stop"}
        finishes.insert(0 if choice.finish_reason != "stop" else 1, other)
    at = len(ops)
    if finishes and rare(rng, 6):  # content after it still appends (C9), but a pair cut there is two lone halves (B1)
        at -= rng.randint(0, next((i for i, op in enumerate(reversed(ops)) if _begins_low(op)), at))
    return [*ops[:at], *finishes, *ops[at:]] or [{"delta": {}}]


def _begins_low(json_value: JSON) -> bool:
    """Whether some text in it begins with the second half of a pair."""
    if isinstance(json_value, dict | list):
        return any(map(_begins_low, json_value.values() if isinstance(json_value, dict) else json_value))
    return isinstance(json_value, str) and "\udc00" <= json_value[:1] <= "\udfff"


def _detail_track(rng: Random, entry: dict[str, Any]) -> list[list[dict[str, Any]]]:
    """An entry of reasoning_details in fragments that merge by index and type (C12)."""
    if "index" not in entry:
        return [[entry]]
    key = "text" if "text" in entry else "summary"
    track = [{"type": entry["type"], "index": entry["index"], key: piece} for piece in cut(rng, entry[key])]
    for name in ("format", "id"):
        if name in entry:
            track[0][name] = entry[name]
            if rare(rng, 3):
                track[-1].setdefault(name, "later")
    return [[fragment] for fragment in track]


def _fits(place: dict[str, Any], op: dict[str, Any]) -> bool:
    """Whether an op can be said in the same choice of the same chunk."""
    if "finish_reason" in place:
        return False
    delta, more = place.get("delta", {}), op.get("delta", {})
    if "tool_calls" in more and "tool_calls" in delta:
        return more.keys() == {"tool_calls"}
    if {"reasoning", "reasoning_content"} & more.keys() and {"reasoning", "reasoning_content"} & delta.keys():
        return False
    return not (place.keys() & op.keys() - {"delta"}) and not (delta.keys() & more.keys())


def _put(place: dict[str, Any], op: dict[str, Any]) -> None:
    delta = place.setdefault("delta", {})
    for key, item in op.get("delta", {}).items():
        if key == "tool_calls":
            delta[key] = delta.get(key, []) + item
        else:
            delta[key] = item
    place |= {key: item for key, item in op.items() if key != "delta"}


def tell_completion(rng: Random, model: CompletionModel, *, noisy: bool = True) -> list[Event]:
    """One of the streams that say the completion; `noisy` with events that change nothing in between."""
    ops = merge(rng, [[(choice, op) for op in _choice_ops(rng, choice)] for choice in model.choices])
    packed = rng.randrange(3)
    chunks: list[dict[int, dict[str, Any]]] = []
    for choice, op in ops:
        if not (chunks and packed and rare(rng, 4 - packed) and _fits(chunks[-1].get(choice.index, {}), op)):
            chunks.append({})
        _put(chunks[-1].setdefault(choice.index, {}), op)
    events: list[dict[str, Any]] = [{"choices": _entries(rng, chunk, model)} for chunk in chunks]
    roles = {choice.index: rng.choice(("first", "every")) for choice in model.choices}
    for choice in model.choices:
        _say_role(rng, events, choice, roles[choice.index])
    if rare(rng, 6):  # a first chunk without a choice (C1)
        events.insert(0, {"choices": rng.choice(([], None))})
    done = rng.randrange(4) > 0 or any(choice.finish_reason is None for choice in model.choices)
    _say_envelope(rng, events, model)
    told: list[Event] = list(events)
    told += ["[DONE]"] if done else []
    if model.usage is not None:
        told = _say_usage(rng, told, model)
    return copy.deepcopy(sprinkle(rng, told, completion_noise, 8) if noisy else told)


def _entries(rng: Random, chunk: dict[int, dict[str, Any]], model: CompletionModel) -> list[dict[str, Any]]:
    entries: list[dict[str, Any]] = []
    for index, place in chunk.items():
        entry = {"index": index, **place}
        if not entry["delta"] and rare(rng, 2):
            entry["delta"] = None
            if rare(rng, 2):
                del entry["delta"]
        entry.setdefault("finish_reason", rng.choice(UNSAID))
        if rare(rng, 3):
            entry.setdefault("logprobs", None)
        if rare(rng, 6):
            entry.setdefault("delta", {})
            (entry["delta"] or {}).setdefault("obfuscation", "padding")
        if [choice.index for choice in model.choices] == [0] and rare(rng, 8):
            del entry["index"]
        entries.append(entry)
    return entries


def _say_role(rng: Random, events: list[dict[str, Any]], choice: ChoiceModel, how: str) -> None:
    said = choice.role is None
    for event in events:
        for entry in event["choices"] or ():
            if entry.get("index", 0) != choice.index:
                continue
            if not said or (how == "every" and choice.role is not None):
                entry["delta"] = {"role": choice.role, **(entry.get("delta") or {})}
                said = True
            elif entry.get("delta") is not None and rare(rng, 6):
                entry["delta"]["role"] = rng.choice((None, ""))


def _say_envelope(rng: Random, events: list[dict[str, Any]], model: CompletionModel) -> None:
    """Each chunk's own fields: the first non-empty id, model and created stand, the others' last (C1, C13)."""
    empty = rng.randrange(len(events)) if rare(rng, 4) else 0
    for i, event in enumerate(events):
        event["object"] = rng.choice(("chat.completion.chunk", "chat.completion.chunk", ""))
        for key, item, nothing in (("id", model.id, ""), ("created", model.created, 0), ("model", model.model, "")):
            if i < empty or (i > empty and rare(rng, 8)):
                event.update(rng.choice(({}, {key: None}, {key: nothing})))
            else:
                event[key] = item
        if i > empty and rare(rng, 6):
            event["created"] = 1800000000 + i
        if i and rare(rng, 5):
            event["usage"] = None
    known = {"system_fingerprint": model.system_fingerprint, "service_tier": model.service_tier}
    say(rng, events, {key: item for key, item in known.items() if item is not None}, lambda: "other")
    say(rng, events, model.extra, lambda: value(rng, 1))


def _say_usage(rng: Random, events: list[Event], model: CompletionModel) -> list[Event]:
    """The usage in a chunk of its own, in one that is there, or in each (C10). The last one counts, as a whole."""
    where = rng.choice(("own", "own", "chunk", "each"))
    chunks = [event for event in events if isinstance(event, dict)]
    if where == "own":
        chunk = {"id": model.id, "choices": rng.choice(([], None)), "usage": model.usage}
        after = rng.randint(len(chunks), len(events))  # [DONE] may have come (C15)
        return [*events[:after], chunk, *events[after:]]
    chunks[-1]["usage"] = model.usage
    if where == "each":
        for chunk in chunks[:-1]:
            chunk["usage"] = {"prompt_tokens": 3, "x_earlier": True}
    return events


def completion_unknown(rng: Random) -> Event:
    """An object that is no chunk (C16)."""
    return {**extras(rng, 2), "type": rng.choice(("x_event", "", None)), "index": 0}


def completion_noise(rng: Random) -> Event:
    """An event that is noted at most: ping, unknown, malformed (C16, M15)."""
    kind = rng.randrange(4)
    if kind == 0:
        return {"type": "ping"}
    return completion_unknown(rng) if kind == 1 else rng.choice((None, 1, "text", [], {}))


# ------------------------------------------------------------------------------------------------ the same, cut or mixed


UNSAID = (None, "", "null")  # what a finish_reason says nothing by (C9)


def _fragment(event: Event) -> tuple[Any, str, Callable[[str], Event]] | None:
    """Of a Messages event that is one fragment of a text: (which text, the piece, the event with another piece)."""
    match event:
        case {"type": "content_block_delta", "index": int(index), "delta": {"type": str(kind), **rest}}:
            if len(event) == 3 and len(rest) == 1 and kind != "citations_delta":
                ((key, piece),) = rest.items()
                if isinstance(piece, str):
                    return (index, kind), piece, lambda piece: {**event, "delta": {"type": kind, key: piece}}
    return None


def _chunk_fragment(event: Event) -> tuple[Any, str, Callable[[str], Event]] | None:
    """Of a chunk that is one fragment of a text: (which text, the piece, the chunk with another piece)."""
    match event:
        case {"choices": [{"index": int(index), "delta": dict(delta)} as choice]} if not _says_more(event, choice):
            keys = [key for key in delta if key != "obfuscation"]
            pieces = [delta[key] for key in keys]
            one_text = (keys and set(keys) <= {"reasoning", "reasoning_content"}) or keys in (["content"], ["refusal"])
            if one_text and isinstance(pieces[0], str) and pieces[-1] == pieces[0]:
                place = (index, *keys, _envelope_of(event))
                return place, pieces[0], lambda piece: _with_delta(event, dict.fromkeys(keys, piece))
            match delta:
                case {"tool_calls": [{"index": int(at), "function": {"arguments": str(piece), **rest}, **more}]}:
                    if len(delta) == 1 and not rest and not more:
                        place = (index, "tool_calls", at, _envelope_of(event))
                        return place, piece, lambda piece: _with_delta(event, _arguments(at, piece))
    return None


def _says_more(event: Event, choice: dict[str, Any]) -> bool:
    said = event.get("usage") or choice.get("finish_reason") not in UNSAID or choice.get("logprobs")
    return bool(said) or not choice.keys() <= {"index", "delta", "finish_reason", "logprobs"}


def _envelope_of(event: Event) -> str:
    return json.dumps({key: item for key, item in event.items() if key not in {"choices", "created"}})


def _with_delta(event: Event, delta: dict[str, Any]) -> Event:
    return {**event, "choices": [{**event["choices"][0], "delta": delta}]}


def _arguments(index: int, piece: str) -> dict[str, Any]:
    return {"tool_calls": [{"index": index, "function": {"arguments": piece}}]}


def _closed_by(event: Event) -> list[Any]:
    """The blocks or choices whose texts an event closes: a pair that is cut after it is two lone halves (B1)."""
    match event:
        case {"type": "content_block_stop", "index": index}:
            return [index]
        case {"choices": list(choices)}:
            return [choice.get("index", 0) for choice in choices if choice.get("finish_reason") not in UNSAID]
    return []


def recut(rng: Random, fmt: Format, events: list[Event]) -> list[Event]:
    """The events with neighbouring fragments joined and others cut (law 4)."""
    one = fmt.fragment
    closed: set[Any] = set()
    out: list[Event] = []
    for event in events:
        fragment = one(event)
        if fragment is None or fragment[0][0] in closed:
            closed.update(_closed_by(event))
            out.append(event)
            continue
        place, piece, with_piece = fragment
        before = one(out[-1]) if out else None
        if before is not None and before[0] == place and rare(rng, 2):
            out[-1] = with_piece(paired(before[1] + piece))
        else:
            out += [with_piece(part) for part in cut(rng, piece)]
    return out


def commuted_message(rng: Random, events: list[Event]) -> list[Event]:
    """The events with neighbours of different blocks swapped (law 5)."""

    def block(event: Event) -> int | None:
        match event:
            case {"type": "content_block_start" | "content_block_delta" | "content_block_stop", "index": int(index)}:
                return index
        return None

    events = list(events)
    for i in [*range(len(events) - 1)] * 2:
        a, b = block(events[i]), block(events[i + 1])
        if a is not None and b is not None and a != b and rare(rng, 2):
            events[i], events[i + 1] = events[i + 1], events[i]
    return events


def commuted_completion(rng: Random, events: list[Event]) -> list[Event]:
    """The chunks with what neighbours say of different choices or tool calls swapped, each envelope in its place."""

    def one(event: Event) -> tuple[int, int | None] | None:
        match event:
            case {"choices": [{"index": int(index), "delta": {"tool_calls": [{"index": int(at)}]} as delta}]}:
                return index, (at if len(delta) == 1 and not _says_more(event, event["choices"][0]) else None)
            case {"choices": [{"index": int(index)}]}:
                return index, None
        return None

    calls = [
        call
        for event in events
        if isinstance(event, dict)
        for choice in event.get("choices") or ()
        for call in (choice.get("delta") or {}).get("tool_calls") or ()
    ]
    indexed = all(isinstance(call.get("index"), int) and call["index"] >= 0 for call in calls)
    events = list(events)
    for i in [*range(len(events) - 1)] * 2:
        a, b = one(events[i]), one(events[i + 1])
        if a is None or b is None or not rare(rng, 2):
            continue
        if a[0] != b[0] or (indexed and a[1] is not None and b[1] is not None and a[1] != b[1]):
            first, second = events[i], events[i + 1]
            events[i], events[i + 1] = (
                {**first, "choices": second["choices"]},
                {**second, "choices": first["choices"]},
            )
    return events


# ------------------------------------------------------------------------------------------------ as nobody should tell it


def nested(depth: int) -> JSON:
    """Containers in containers, `depth` deep."""
    inner: JSON = "core"
    for i in range(depth):
        inner = [inner] if i % 2 else {"in": inner}
    return inner


HOSTILE: tuple[JSON, ...] = (
    *(None, True, False, 0, 1, -1, 1.0, -0.0, 1e300, 2**63, 10**100, -(10**5000)),
    *("", "0", "[DONE]", "null", "error", '{"a": 1', "a" * 300, "\ud83d", "\ude00", "\ude00\ud83d", "\x00"),
    *([], {}, [[]], [None], {"": None}, {"error": {}}, {"type": "text"}, {"type": "x", "input": []}),
    *({"message": 1}, {"index": "0"}, {"\ud83d": {"\ude00": "\ud83d"}}),
    *(nested(30), nested(198), nested(201), nested(210)),
)
WORDS = (  # noqa: SIM905  words
    "type index delta message content_block content text thinking signature partial_json citation citations input "
    "usage stop_reason stop_sequence id name model role error choices finish_reason logprobs tool_calls function "
    "function_call arguments created reasoning reasoning_content reasoning_details refusal audio annotations x_groq "
    "object system_fingerprint service_tier obfuscation error_message request_id code container"
).split()
TYPES = (  # noqa: SIM905  words
    "message_start content_block_start content_block_delta content_block_stop message_delta message_stop message ping "
    "error text_delta thinking_delta signature_delta input_json_delta citations_delta compaction_delta x_delta text "
    "thinking tool_use compaction x"
).split()


def hostile(rng: Random) -> JSON:
    """A JSON value that is awkward wherever it stands."""
    kind = rng.randrange(6)
    if kind == 0:
        return rng.choice(TYPES)
    if kind == 1:
        return nullable(rng, 3)
    if kind == 2:
        return {rng.choice(WORDS): rng.choice(HOSTILE) for _ in range(rng.randint(1, 4))}
    return rng.choice(HOSTILE)


def _retyped(rng: Random, old: JSON) -> JSON:
    shapes: list[Callable[[], JSON]] = [lambda: [old], lambda: {"a": old}, lambda: None, lambda: not old]
    if isinstance(old, int | float):
        shapes += [lambda: str(old % 10**9), lambda: float(old % 1000), lambda: -old]
    if isinstance(old, str):
        shapes += [
            lambda: paired("\ud83d" + old),
            lambda: old + "\ud83d",
            lambda: paired(old * 2),
            lambda: old[: len(old) // 2],
        ]
    if isinstance(old, dict | list):
        shapes += [lambda: list(old), lambda: str(len(old)), lambda: {str(i): x for i, x in enumerate(list(old))}]
    return rng.choice(shapes)()


def _hurt(rng: Random, event: Event) -> Event:
    """The event with one thing in it changed. It shares what is not changed."""
    if not isinstance(event, dict | list) or not event or rare(rng, 8):
        return hostile(rng) if rare(rng, 2) else _retyped(rng, event)
    copied: Any = list(event) if isinstance(event, list) else dict(event)
    key = rng.choice(list(range(len(event)) if isinstance(event, list) else event))
    what = rng.randrange(12)
    if what == 0:
        del copied[key]
    elif what == 1:
        copied[key] = None
    elif what == 2:
        copied[key] = hostile(rng)
    elif what == 3:
        copied[key] = _retyped(rng, event[key])
    elif what == 4 and isinstance(copied, dict):
        copied[rng.choice(WORDS)] = hostile(rng) if rare(rng, 2) else copied.pop(key)
    elif what == 4:
        copied.insert(key, hostile(rng) if rare(rng, 2) else copied[key])
    else:
        copied[key] = _hurt(rng, event[key])
    return copied


def hurt(rng: Random, events: list[Event], other: list[Event]) -> list[Event]:
    """The events with some dropped, doubled, moved, changed or replaced, or with some of `other` spliced in."""
    events = list(events)
    for _ in range(rng.randint(1, 5)):
        at = rng.randrange(len(events) + 1)
        what = rng.randrange(10)
        if what == 0:
            del events[at : at + rng.randint(1, 3)]
        elif what == 1:
            events[at:at] = events[at : at + 1] * rng.choice((1, 1, 2))
        elif what == 2 and events:
            events.insert(at, events.pop(rng.randrange(len(events))))
        elif what == 3:
            start = rng.randrange(len(other) + 1)
            events[at:at] = other[start : start + rng.randint(1, 4)]
        elif what == 4:
            events.insert(at, hostile(rng))
        elif at < len(events):
            events[at] = _hurt(rng, events[at])
    return events


def wild(rng: Random, fmt: Format) -> list[Event]:
    """Any stream at all: a told one, hurt or not, with pieces of another message or of the other format in it.

    Perhaps after so many pings that its middle is where a state settles its fragments by itself.
    """
    events = fmt.told(rng)
    if rng.randrange(4):
        events = hurt(rng, events, rng.choice(FORMATS).told(rng))
    return [{"type": "ping"}] * (60 if rare(rng, 6) else 0) + events


# ------------------------------------------------------------------------------------------------ the two formats


MESSAGE_NAMES = ("id", "model", "stop_reason", "stop_sequence", "usage")
BLOCK_NAMES = ("id", "name", "citations", "signature", "content")
COMPLETION_NAMES = ("id", "created", "model", "usage", "system_fingerprint", "service_tier")
CHAT_MESSAGE_NAMES = ("content", "reasoning_content", "reasoning", "refusal", "tool_calls", "function_call", "audio")


def _normal_message(fields: dict[str, Any]) -> dict[str, Any]:
    content = [without_nulls(block, BLOCK_NAMES) for block in fields["content"]]
    return {**without_nulls(fields, MESSAGE_NAMES), "content": content}


def _normal_completion(fields: dict[str, Any]) -> dict[str, Any]:
    choices = []
    for choice in fields["choices"]:
        message = without_nulls(choice["message"], CHAT_MESSAGE_NAMES)
        if "tool_calls" in message:
            message["tool_calls"] = [without_nulls(call, ("id",)) for call in message["tool_calls"]]
        choices.append({**without_nulls(choice, ("logprobs", "finish_reason")), "message": message})
    return {**without_nulls(fields, COMPLETION_NAMES), "choices": choices}


def _message_texts(message: messages.Message) -> Iterator[tuple[Any, str]]:
    for block in message.content:
        for name in ("text", "thinking", "signature", "input_json"):
            yield (block.index, name), getattr(block, name, None) or ""
        content = block.raw.get("content") if isinstance(block, messages.OpaqueBlock) else None
        if block.type == "compaction" and isinstance(content, str):
            yield (block.index, "content"), content


def _message_inputs(message: messages.Message) -> Iterator[tuple[Any, Any]]:
    for block in message.content:
        if isinstance(block, messages.ToolUseBlock):
            yield block.index, block


def _completion_texts(completion: chat.Completion) -> Iterator[tuple[Any, str]]:
    for choice in completion.choices:
        for name in ("content", "reasoning_content", "refusal"):
            yield (choice.index, name), getattr(choice.message, name) or ""
    for place, call in _completion_inputs(completion):
        yield place, call.arguments


def _completion_inputs(completion: chat.Completion) -> Iterator[tuple[Any, Any]]:
    for choice in completion.choices:
        seen: dict[Any, int] = {}
        for call in choice.message.tool_calls or ():
            seen[call.index] = seen.get(call.index, 0) + 1
            yield (choice.index, call.index, seen[call.index]), call


@dataclass(frozen=True, repr=False)
class Format:
    """What the laws need to know of a format."""

    name: str
    module: ModuleType
    model: Callable[[Random], Any]
    tell: Callable[..., list[Event]]
    unknown: Callable[[Random], Event]
    noise: Callable[[Random], Event]
    normal: Callable[[dict[str, Any]], dict[str, Any]]
    texts: Callable[[Any], Iterator[tuple[Any, str]]]
    inputs: Callable[[Any], Iterator[tuple[Any, Any]]]
    fragment: Callable[[Event], tuple[Any, str, Callable[[str], Event]] | None]
    commuted: Callable[[Random, list[Event]], list[Event]]

    def __repr__(self) -> str:
        return self.name.upper()

    def expected(self, model: Any) -> dict[str, Any]:
        """What `fold(tell(model)).to_dict()` must be, `normal`."""
        return self.normal(mend(model.to_dict()))

    def path(self, place: Any, name: Any, *_: Any) -> tuple[Any, ...] | None:
        """The path in `changes` of one of `texts`, None for the raw text of a tool input."""
        if not isinstance(name, str) or name == "input_json":
            return None
        return ("content", place, name) if self.name == "messages" else ("choices", place, "message", name)

    def told(self, rng: Random, *, noisy: bool = True) -> list[Event]:
        """Any stream of any message."""
        return self.tell(rng, self.model(rng), noisy=noisy)


MESSAGES = Format(
    "messages",
    messages,
    message_model,
    tell_message,
    message_unknown,
    message_noise,
    _normal_message,
    _message_texts,
    _message_inputs,
    _fragment,
    commuted_message,
)
CHAT = Format(
    "chat",
    chat,
    completion_model,
    tell_completion,
    completion_unknown,
    completion_noise,
    _normal_completion,
    _completion_texts,
    _completion_inputs,
    _chunk_fragment,
    commuted_completion,
)
FORMATS = (MESSAGES, CHAT)
both_formats = pytest.mark.parametrize("fmt", FORMATS, ids=lambda fmt: fmt.name)
