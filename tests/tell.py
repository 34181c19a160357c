"""Every way to tell a message: the inverse of `fold`, written from the rules alone.

`message` and `completion` make any final answer, as the JSON that the API returns for it; `tell_message` and
`tell_completion` make one of the streams of events that say it: cut anywhere (through surrogate pairs too), blocks,
choices and tool calls interleaved, fields early, late or said again, pings and unknown events in between. `recut` and
`commuted` tell a stream another way, `hurt` and `wild` tell what nobody should.

All chance comes from a `random.Random`. The laws' is a `Dice`: bytes that Hypothesis draws at once and shrinks, where
less and smaller is simpler; the fuzzer's is seeded.
"""

from __future__ import annotations

import copy
import itertools
import json
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from random import Random
from types import ModuleType
from typing import Any

import pytest
from hypothesis import strategies as st

from friendli_stream import chat, messages

Event = Any
JSON = Any
Fields = dict[str, Any]


# ------------------------------------------------------------------------------------------------ chance


class Dice(Random):
    """Chance out of bytes, one for every 16 numbers: under a 0, and behind the end, each is 0, the simplest there is.

    So few bytes are drawn fast, and shrink to few that matter.
    """

    def __init__(self, data: bytes) -> None:
        super().__init__(0)
        self._data, self._n = data, 0

    def getrandbits(self, k: int) -> int:
        at, self._n = self._n // 16, self._n + 1
        byte = self._data[at] if at < len(self._data) else 0
        if byte and self._n % 16 == 1:
            self.seed(byte << 16 | at)
        return super().getrandbits(k) if byte else 0

    def __repr__(self) -> str:
        return f"Dice(bytes.fromhex('{self._data.rstrip(bytes(1)).hex()}'))"


DICE = st.sampled_from((16, 256)).flatmap(lambda size: st.binary(min_size=size, max_size=size)).map(Dice)


def rare(rng: Random, n: int) -> bool:
    """True once in `n` times; what shrinks to False."""
    return rng.randrange(n) == n - 1


def spots(rng: Random, n: int, most: int) -> list[int]:
    """At most `most` different numbers below `n`, sorted."""
    return sorted({rng.randrange(n) for _ in range(most)})


def some(rng: Random, items: Iterable[Any], n: int = 2) -> list[Any]:
    """Each item with a chance of one in `n`."""
    return [item for item in items if rare(rng, n)]


def merge(rng: Random, tracks: Iterable[list[Any]], *, ordered: bool = False) -> list[Any]:
    """The tracks interleaved, each in its own order; `ordered`: they also begin in the order given."""
    left = [list(reversed(track)) for track in tracks if track]
    begun = 0 if ordered else len(left)
    merged = []
    while any(left):
        i = rng.choice([i for i, track in enumerate(left) if track and i <= begun])
        begun = max(begun, i + 1)
        merged.append(left[i].pop())
    return merged


def sprinkle(rng: Random, events: list[Event], noise: Callable[[Random], Event], n: int) -> list[Event]:
    """The events with one of `noise` in one of `n` gaps, the ends included."""
    out: list[Event] = []
    for event in events:
        out += [noise(rng), event] if rare(rng, n) else [event]
    return out + ([noise(rng)] if rare(rng, n) else [])


def say(rng: Random, places: list[Fields], fields: Fields, other: Callable[[], Any]) -> None:
    """Say each field in one of the places: perhaps null or something `other` before it, null after it (M7, C13)."""
    for key, item in fields.items():
        at = rng.randrange(len(places))
        for i, place in enumerate(places):
            if i == at:
                place[key] = item
            elif rare(rng, 5):
                place[key] = None if i > at or rare(rng, 2) else other()


# ------------------------------------------------------------------------------------------------ texts and JSON


PIECES = (
    *("a", "b", "word ", "\n", '"', "\\", "{", "[1]", "\x00", "\t"),
    *("é", "中文", "\u2028", "\ufeff", "e\u0301", "\ufffd"),
    *("😀", "👩\u200d💻", "𝄞", "\U0010ffff", "\ud83d", "\ude00"),
)
KEYS = ("a", "b", "location", "", "né", "😀", '"', "\\u0041", "index", "type", "text", "error")
EXTRAS = ("x_alpha", "x_beta", "x-Γ", "x_😀")
NUMBERS = (0, 1, -1, 7, 2**53 + 1, -(2**63), 1 - 10**19, 2**64, 10**40, 0.25, -1.5, 1000.0)
NAMES = ("get_weather", "né", "f😀")


def text(rng: Random, most: int = 6) -> str:
    """A text out of pieces that are awkward in one way or another, lone halves of surrogate pairs among them."""
    return paired("".join(rng.choice(PIECES) for _ in range(rng.randint(0, most))))


def value(rng: Random, depth: int = 3) -> JSON:
    """A JSON value, not null."""
    kind = rng.randrange(6 if depth else 3)
    if kind == 0:
        return text(rng, 3)
    if kind == 1:
        return rng.choice(NUMBERS)
    if kind == 2:
        return rng.choice((True, False))
    return fields_of(rng, depth) if kind < 5 else [nullable(rng, depth - 1) for _ in range(rng.randint(0, 3))]


def nullable(rng: Random, depth: int) -> JSON:
    """A JSON value or null."""
    return None if rare(rng, 5) else value(rng, depth)


def fields_of(rng: Random, depth: int = 3) -> Fields:
    """A JSON object."""
    return {key: nullable(rng, depth - 1) for key in some(rng, KEYS, 4)}


def extras(rng: Random, n: int = 6) -> Fields:
    """Unknown fields; their values are not null (null says nothing)."""
    return {key: value(rng, 2) for key in some(rng, EXTRAS, n)}


def paired(string: str) -> str:
    """Halves that are neighbours joined, as a JSON decoder does with two escapes."""
    return string.encode("utf-16", "surrogatepass").decode("utf-16", "surrogatepass")


def mend(json_value: JSON) -> JSON:
    """A JSON value as it must come out (B1): pairs joined, lone halves U+FFFD, in strings and keys."""
    if isinstance(json_value, str):
        return re.sub("[\ud800-\udfff]", "\ufffd", paired(json_value))
    if isinstance(json_value, list):
        return [mend(item) for item in json_value]
    if isinstance(json_value, dict):
        return {mend(key): mend(item) for key, item in json_value.items()}
    return json_value


def cut(rng: Random, string: str, most: int = 4) -> list[str]:
    """The text in pieces, cut anywhere, within a surrogate pair too; a piece may be empty."""
    units = re.sub("[\U00010000-\U0010ffff]", lambda m: _halves(ord(m[0]) - 0x10000), string)
    edges = sorted(rng.randint(0, len(units)) for _ in range(rng.randrange(most)))
    return [paired(units[a:b]) for a, b in itertools.pairwise((0, *edges, len(units)))]


def _halves(code: int) -> str:
    return chr(0xD800 + (code >> 10)) + chr(0xDC00 + (code & 0x3FF))


def begins_low(json_value: JSON) -> bool:
    """Whether some text in it begins with the second half of a pair."""
    if isinstance(json_value, dict | list):
        return any(map(begins_low, json_value.values() if isinstance(json_value, dict) else json_value))
    return isinstance(json_value, str) and "\udc00" <= json_value[:1] <= "\udfff"


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


# ------------------------------------------------------------------------------------------------ Messages


# The delta that says a text of a block, by the block's type and the text's key (M3).
DELTAS = {
    ("text", "text"): "text_delta",
    ("thinking", "thinking"): "thinking_delta",
    ("thinking", "signature"): "signature_delta",
    ("compaction", "content"): "compaction_delta",
}
TEXTS = ("text", "thinking", "signature", "content")
IMPLIED = ("text", "thinking", "compaction", "tool_use")  # by a delta without a start (M6)
AGAIN = {"type": "text", "text": "again", "x_alpha": "again"}


def content_block(rng: Random) -> Fields:
    """Any content block."""
    kind = rng.randrange(5)
    if kind == 0:
        cited = {"citations": [value(rng, 2) for _ in range(rng.randint(1, 3))]} if rare(rng, 3) else {}
        return {"type": "text", "text": text(rng), **cited, **extras(rng, 12)}
    if kind == 1:
        tool = {"type": rng.choice(("tool_use", "server_tool_use", "mcp_tool_use", "x_tool")), "id": None, "name": None}
        if tool["type"] != "tool_use" or rng.randrange(8):
            tool |= {"id": f"toolu_{rng.randrange(3)}", "name": rng.choice(NAMES)}
        return {**tool, "input": fields_of(rng), **extras(rng, 12)}
    if kind == 2:
        signed = {"signature": "sig" + text(rng, 3)} if rare(rng, 2) else {}
        return {"type": "thinking", "thinking": text(rng), **signed, **extras(rng, 12)}
    if kind == 3:
        return {"type": rng.choice(("x_block", "web_search_tool_result")), "content": value(rng), **extras(rng, 2)}
    return {"type": "compaction", "content": "c" + text(rng)}


def message(rng: Random) -> Fields:
    """Any final message."""
    counts = some(rng, ("input_tokens", "output_tokens", "cache_read_input_tokens", "x_tokens"))
    usage: Fields = {name: rng.choice((0, 1, 12, 10**20)) for name in counts}
    if rare(rng, 4):
        usage["server_tool_use"] = {"web_search_requests": 2, "x": rng.choice((5, "é"))}
    return {
        "id": f"msg_{rng.randrange(3)}",
        "type": "message",
        "role": "assistant",
        "model": rng.choice((None, "model-a", "mödel")),
        "content": [content_block(rng) for _ in range(rng.randint(0, 3))],
        "stop_reason": rng.choice((None, "end_turn", "tool_use", "x_reason")),
        "stop_sequence": rng.choice((None, None, "END", "😀")),
        "usage": usage or None,
        **extras(rng),
        **({"message_stop": {"x_metrics": value(rng, 2)}} if rare(rng, 6) else {}),
    }


def tell_input(rng: Random, block: Fields, head: Fields, *, implicit: bool) -> list[Any]:
    """The pieces of a tool input; where it starts with one, that is put into `head` (M4)."""
    blanks = [rng.choice(("", None, " ", "\n")) for _ in range(rng.randint(implicit, 2))]
    head |= {"input": {}}
    if not rng.randrange(3) and not implicit:  # whole in the start
        head["input"] = block["input"]
        return blanks
    if block["input"] == {} and rare(rng, 2):  # no input at all is {}
        return blanks
    if rare(rng, 4):  # the text beats what the start holds; an x_tool is known by its `input` alone
        head["input"] = {"other": 1} if block["type"] == "x_tool" else rng.choice((None, {"other": 1}))
    return cut(rng, written(rng, block["input"]))


def tell_block(rng: Random, index: int, block: Fields) -> list[Event]:
    """The events of one block, in order: start, deltas, stop (M2-M6)."""
    kind = block["type"]
    named = {key for of, key in DELTAS if of == kind} | {"type", "id", "name", "input", "citations"}
    implicit = kind in IMPLIED and rare(rng, 8) and block.get("id") is None
    head: Fields = {"type": kind}
    lanes: list[list[Fields]] = []
    for (of, key), delta_type in DELTAS.items():
        if of == kind and key in block:
            pieces: list[Any] = cut(rng, block[key])
            if not implicit:
                head |= {key: pieces.pop(0)} if rare(rng, 4) else rng.choice(({}, {key: ""}, {key: None}))
            lanes.append([{"type": delta_type, key: piece} for piece in pieces])
            if rare(rng, 8):  # a null or missing piece is empty
                lanes[-1].append({"type": delta_type, **rng.choice(({}, {key: None}))})
    if "citations" in block:
        given = 0 if implicit else rng.randint(0, len(block["citations"]))
        head |= {"citations": block["citations"][:given]} if given else {}
        lanes.append([{"type": "citations_delta", "citation": item} for item in block["citations"][given:]])
    if "input" in block:
        head |= {"id": block["id"], "name": block["name"]}
        pieces = tell_input(rng, block, head, implicit=implicit)
        lanes.append([{"type": "input_json_delta", "partial_json": piece} for piece in pieces])
    deltas = merge(rng, lanes)
    more = {key: item for key, item in block.items() if key not in named}
    if kind in {"x_block", "web_search_tool_result"}:  # arrives whole (M5)
        head |= more
    else:
        say(rng, deltas if implicit or (deltas and rare(rng, 4)) else [head, *deltas], more, lambda: value(rng, 1))
    at = {"index": index}
    start = [{"type": "content_block_start", **at, "content_block": head}] if not implicit else []
    events = [*start, *({"type": "content_block_delta", **at, "delta": delta} for delta in deltas)]
    if rng.randrange(6):  # or message_stop closes it (M9)
        last = deltas[-1] if len(deltas) > implicit else {}
        late = last.get("type") in {"text_delta", "thinking_delta", "signature_delta"} and not begins_low(last)
        events.insert(len(events) - (late and rare(rng, 6)), {"type": "content_block_stop", **at})  # M6
        if "input" in block and rare(rng, 6):  # M6: but no input after the stop
            events.append(
                {"type": "content_block_delta", **at, "delta": {"type": "input_json_delta", "partial_json": "!"}}
            )
    if rare(rng, 10):  # the first start stays (M2)
        again = {"type": "content_block_start", **at, "content_block": AGAIN}
        events.insert(rng.randint(1, len(events)), again)
    if rare(rng, 10):  # a delta that does not belong there (M5)
        wrong = rng.choice(("x_delta", "text_delta" if "input" in block else "input_json_delta"))
        delta = {"type": wrong, "text": "x", "partial_json": "x"}
        events.insert(rng.randint(1, len(events)), {"type": "content_block_delta", **at, "delta": delta})
    return events


def tell_usage(rng: Random, usage: Fields, n: int) -> list[Fields]:
    """The counts as `n` running totals: the last non-null value of each key is the one of `usage` (M8)."""
    places: list[Fields] = [{} for _ in range(n)]
    for key, total in usage.items():
        if isinstance(total, dict):
            inner = tell_usage(rng, total, n)
            for place, part in zip(places, inner, strict=True):
                place |= {key: part or None} if part or rare(rng, 6) else {}
        else:  # 0 does not replace a positive input_tokens: before a 0 there may be nothing else
            say(rng, places, {key: total}, lambda most=9 if total else 1: rng.randrange(most))  # type: ignore[misc]
    for i, place in enumerate(places):  # unless the tokens moved to the cache
        if place.get("input_tokens") == 0 and place.get("cache_read_input_tokens") and i:
            places[0].setdefault("input_tokens", 40)
    said = [i for i, place in enumerate(places) if usage.get("input_tokens") and place.get("input_tokens")]
    for place in places[said[-1] + 1 :] if said else ():
        if not place.get("cache_read_input_tokens") and rare(rng, 2):
            place["input_tokens"] = 0
    return places


def tell_message(rng: Random, final: Fields, *, noisy: bool = True) -> list[Event]:
    """One of the streams that say the message; `noisy` with events that change nothing in between."""
    blocks = final["content"]
    given = rng.randint(0, len(blocks)) if rare(rng, 3) else 0  # blocks that message_start holds already (M1)
    late = not given and rare(rng, 8)  # message_start after other events (M12)
    deltas: list[Fields] = [{} for _ in range(rng.randint(late, 2))]
    head: Fields = {key: final[key] for key in ("id", "type", "role", "model")} | {"content": blocks[:given]}
    for name in ("type", "role", "model", "content"):
        if head[name] in ("message", "assistant", None, []) and rare(rng, 6):
            head |= {name: None}
            if rare(rng, 2):
                del head[name]
    places = deltas if late else [head, *deltas]
    known = ("id", "type", "role", "model", "content", "usage", "message_stop")
    more = {key: item for key, item in final.items() if key not in known}
    ends = {key: more.pop(key) for key in ("stop_reason", "stop_sequence")}
    say(rng, places, {key: item for key, item in ends.items() if item is not None}, lambda: "other")
    say(rng, places, more, lambda: value(rng, 1))
    usages = tell_usage(rng, final["usage"] or {}, len(places))
    if not late:
        head |= {"usage": usages.pop(0)} if usages[0] else rng.choice(({}, {"usage": usages.pop(0) or None}))
    body: list[Event] = []
    for delta, usage in zip(deltas, usages[-len(deltas) :], strict=True) if deltas else ():
        up = {key: delta.pop(key) for key in some(rng, [key for key in delta if key in more])}
        said = {"usage": usage or None} if usage or rare(rng, 3) else {}
        body.append({"type": "message_delta", "delta": delta, **up, **said})
    gap = rng.randint(1, 2) if given < len(blocks) and rare(rng, 8) else 0  # gaps are closed (M2)
    tracks = [tell_block(rng, i + (gap if i else 0), blocks[i]) for i in range(given, len(blocks))]
    acted = {"type": "input_json_delta", "partial_json": "!"}  # a block that message_start holds is closed (M1)
    for i in (i for i in range(given) if "input" in blocks[i] and rare(rng, 2)):
        tracks.append([{"type": "content_block_delta", "index": i, "delta": acted}])
    body = merge(rng, [body, *tracks])
    body.insert(rng.randint(0, len(body)) if late else 0, {"type": "message_start", "message": head})
    if not late and rare(rng, 12):  # the same message again (M11)
        again = {"id": final["id"], "content": [AGAIN], "model": "again", "usage": {"x": 1}, "x_alpha": "again"}
        body.insert(rng.randint(1, len(body)), {"type": "message_start", "message": again})
    events = [*body, {"type": "message_stop", **final.get("message_stop", {})}]
    if noisy and rare(rng, 8):  # what comes after the end (M11)
        events.append(rng.choice((body[-1], {"type": "error", "error": {"message": "late"}})))
    return copy.deepcopy(sprinkle(rng, events, message_noise, 8) if noisy else events)


def message_unknown(rng: Random) -> Event:
    """An event of a type that nobody knows (M10)."""
    return {"type": rng.choice(("x_event", "vertex_event", "")), **extras(rng, 2), "index": rng.randrange(2)}


def message_noise(rng: Random) -> Event:
    """An event that is noted at most: ping, [DONE], unknown, malformed (M10, M15)."""
    kind = rng.randrange(5)
    if kind < 2:
        return "[DONE]" if kind else {"type": "ping"}
    if kind == 2:
        return message_unknown(rng)
    return rng.choice((None, 1, "text", [], {}, {"type": None}, {"type": "content_block_stop"}, {"index": 0}))


# ------------------------------------------------------------------------------------------------ chat


UNSAID = (None, "", "null")  # what a finish_reason says nothing by (C9)


def tool_call(rng: Random, number: int, *, identified: bool) -> Fields:
    """Any tool call."""
    arguments = written(rng, fields_of(rng, 2))
    function = {
        "name": rng.choice(NAMES),
        "arguments": rng.choice((arguments, arguments, "", '{"cut": "sh', "no json")),
    }
    call = {"id": f"call_{number}" if identified or rng.randrange(6) else None}
    call["type"] = rng.choice(("function", "function", "x_kind"))
    return {**call, "function": {**function, **extras(rng, 16)}, **extras(rng, 12)}


def chat_message(rng: Random) -> Fields:
    """Any message of a choice."""
    answer: Fields = {"role": rng.choice(("assistant", "assistant", "tool")), "content": None}
    if rng.randrange(4):
        answer["content"] = text(rng)
        if rare(rng, 8):
            answer["content_parts"] = [{"type": "image_url", "x": value(rng, 1)} for _ in range(rng.randint(1, 2))]
    if rare(rng, 3):
        answer[rng.choice(("reasoning_content", "reasoning_content", "reasoning"))] = "r" + text(rng)
        if "reasoning_content" in answer and rare(rng, 6):
            answer["reasoning"] = "another" + text(rng)
    if rare(rng, 2):
        identified = rng.randrange(3) > 0
        answer["tool_calls"] = [tool_call(rng, i, identified=identified) for i in range(rng.randint(1, 3))]
    if rare(rng, 6):
        answer["refusal"] = text(rng)
    if rare(rng, 8):
        answer["function_call"] = {"name": "legacy", "arguments": written(rng, {"a": text(rng, 2)})}
    if rare(rng, 6):
        details = [
            {"type": f"reasoning.{key}", "index": i, key: text(rng)} | ({"id": "x!"} if rare(rng, 2) else {})
            for i, key in enumerate(some(rng, ("text", "summary", "data")))
        ]
        answer["reasoning_details"] = [*details, {"type": "reasoning.encrypted", "data": text(rng)}]
    if rare(rng, 8):
        answer["audio"] = {"id": "audio_1", "data": text(rng), "transcript": text(rng), "expires_at": 1700000000}
    for key in some(rng, ("annotations", "x_list"), 8):
        answer[key] = [value(rng, 1) for _ in range(rng.randint(1, 3))]
    return answer | {key: item for key, item in extras(rng).items() if not isinstance(item, list)}


def completion(rng: Random) -> Fields:
    """Any final completion."""
    choices = []
    for index in rng.choice(((0,), (0,), (0, 1), (0, 2), (1,), (0, 1, 3))):
        finish = rng.choice(("stop", "tool_calls", "length", "content_filter", None))
        probs = {key: [value(rng, 1) for _ in range(3)] for key in some(rng, ("content", "refusal", "x_probs"))}
        logprobs = probs or None if rare(rng, 4) else None
        head = {"index": index, "message": chat_message(rng), "finish_reason": finish, "logprobs": logprobs}
        choices.append({**head, **extras(rng, 10)})
    usage: Any = {"prompt_tokens": 3, "completion_tokens": rng.choice((0, 7, 10**25)), "total_tokens": 10}
    if rare(rng, 3):
        usage |= {"prompt_tokens_details": {"cached_tokens": 1, "x": None}, **extras(rng, 3)}
    return {
        "id": rng.choice(("chatcmpl-1", "id-é")),
        "object": "chat.completion",
        "created": rng.choice((1700000000, 10**30)),
        "model": rng.choice(("model-a", "mödel")),
        "choices": choices,
        "usage": usage if rng.randrange(3) else None,
        **{key: item for key, item in (("system_fingerprint", "fp_1"), ("service_tier", "default")) if rare(rng, 2)},
        **extras(rng),
    }


def tell_call(rng: Random, call: Fields, by: str, number: int, *, calm: bool) -> list[Fields]:
    """The deltas of one tool call (C6-C8); "#" is its number, for `addressed`."""
    name, arguments = call["function"]["name"], call["function"]["arguments"]
    head: Fields = {"function": {"name": name}}
    deltas: list[Fields] = [{"function": {"arguments": piece}} for piece in cut(rng, arguments, 12 if calm else 4)]
    if rare(rng, 8) and arguments.startswith("{") and arguments.isascii() and _is_compact(arguments):
        head["function"]["arguments"], deltas = json.loads(arguments), []  # C8
    elif rare(rng, 3):
        head["function"]["arguments"] = deltas.pop(0)["function"]["arguments"]
    elif rare(rng, 2):
        head["function"]["arguments"] = rng.choice(("", None))
    deltas.insert(0, head)
    named = identified = 0
    if by == "index" and len(name) > 4 and "arguments" not in head["function"] and rare(rng, 4):
        head["function"]["name"] = name[:3]  # a name in pieces (C7)
        deltas[1:1] = [{"function": {"name": name[3:]}}, {"function": {}}]
        named = 1
    elif by == "index" and call["id"] is not None and len(deltas) > 1 and rare(rng, 6):
        named = rng.randrange(1, len(deltas))  # the name late, after arguments
        deltas[named]["function"]["name"] = head["function"].pop("name")
    if call["id"] is not None and by == "index" and rare(rng, 5):
        identified = rng.randint(min(named + 1, len(deltas) - 1), len(deltas) - 1)  # the id late
    for i, delta in enumerate(deltas):
        delta["#"] = number
        if call["id"] is not None and (i == identified or (i > max(named, identified) and not calm and rare(rng, 4))):
            delta["id"] = call["id"]
        elif not calm and rare(rng, 4):
            delta["id"] = rng.choice(("", None))
        if i > max(named, identified) and by == "index" and not calm and rare(rng, 6):
            delta["function"]["name"] = rng.choice((name, "", None))
    places = [delta for delta in deltas if "name" not in delta["function"]] or deltas[-1:]
    more = {key: item for key, item in call.items() if key not in {"id", "type", "function"}}
    say(rng, places, more, lambda: value(rng, 1))
    more = {key: item for key, item in call["function"].items() if key not in {"name", "arguments"}}
    say(rng, [delta["function"] for delta in places], more, lambda: value(rng, 1))
    if call["type"] != "function" or rare(rng, 2):
        first, *later = deltas[rng.randrange(len(deltas)) :]
        for delta in (first, *some(rng, [] if calm else later, 4)):
            delta["type"] = call["type"] if delta is first else rng.choice((call["type"], "other", ""))
    return deltas


def _is_compact(string: str) -> bool:
    return compact(json.loads(string)) == string if string.endswith("}") else False


def addressed(rng: Random, deltas: list[Fields], by: str, indexes: list[int]) -> list[Fields]:
    """Give each tool call delta of a choice an index or an id, or nothing where the rules find its call (C6)."""
    newest, touched = -1, -1
    ids = {delta["#"]: delta["id"] for delta in deltas if delta.get("id")}
    for delta in deltas:
        number = delta.pop("#")
        plain = number == touched and not delta["function"].get("name")
        newest, touched = max(newest, number), number
        if by == "index":
            if not (plain and not delta.get("id") and rare(rng, 5)):
                delta["index"] = str(indexes[number]) if rare(rng, 6) else indexes[number]
        elif by == "one index":
            delta |= {"index": 0} | ({"id": ids[number]} if newest != number else {})
        else:
            delta |= rng.choice(({}, {"index": None}, {"index": -1}))
            delta |= {} if plain else {"id": ids[number]}
    return deltas


def tell_choice(rng: Random, choice: Fields, *, calm: bool) -> list[Fields]:
    """What a choice says, piece by piece: each a part of one chunk's choice, fields of its delta under "delta"."""
    answer = dict(choice["message"])
    content, parts = answer.pop("content"), answer.pop("content_parts", [])
    tracks: list[list[Fields]] = []

    def deltas(key: str, items: Iterable[Any]) -> None:
        tracks.append([{"delta": {key: item}} for item in items])

    if content is not None:
        pieces: list[Any] = cut(rng, content, 8 if calm else 4)
        if parts or rare(rng, 8):  # as a list of parts (C4)
            pieces = [rng.choice((piece, [piece], [{"type": "text", "text": piece}])) for piece in pieces]
            pieces = merge(rng, [pieces, [[part] for part in parts]])
        deltas("content", [*pieces, *some(rng, [None], 4)])
    if "reasoning_content" in answer:  # C5
        reasoning = answer.pop("reasoning_content")
        track = [{"delta": {"reasoning_content": "", "reasoning": ""}}]
        if "reasoning" in answer:  # two that differ
            track = [{"delta": {"reasoning_content": reasoning[:1], "reasoning": answer.pop("reasoning")}}]
            reasoning = reasoning[1:]
        for piece in cut(rng, reasoning):
            both = {"reasoning": piece, "reasoning_content": piece}
            part = {"type": "thinking", "thinking": rng.choice((piece, [{"type": "text", "text": piece}]))}  # C4
            track.append({"delta": rng.choice((both, both, *({key: piece} for key in both), {"content": [part]}))})
        tracks.append(track)
    if "reasoning" in answer:
        deltas("reasoning", cut(rng, answer.pop("reasoning")))
    if "refusal" in answer:
        deltas("refusal", cut(rng, answer.pop("refusal")))
    if "tool_calls" in answer:
        calls = answer.pop("tool_calls")
        by = rng.choice(("index", "index", "id", "one index")) if all(call["id"] for call in calls) else "index"
        track = merge(
            rng, [tell_call(rng, call, by, i, calm=calm) for i, call in enumerate(calls)], ordered=by != "index"
        )
        start, step = rng.choice((0, 0, 1, 3)), rng.choice((1, 1, 2))
        deltas("tool_calls", ([delta] for delta in addressed(rng, track, by, [start, start + step, start + 2 * step])))
    if "function_call" in answer:
        call = answer.pop("function_call")
        deltas("function_call", [{"name": call["name"]}, *({"arguments": x} for x in cut(rng, call["arguments"]))])
    if choice["logprobs"] is not None:
        halves = [{"logprobs": {key: part}} for key, items in choice["logprobs"].items() for part in halved(rng, items)]
        tracks.append([*halves, *some(rng, [{"logprobs": None}], 3)])
    if "reasoning_details" in answer:  # C12
        details = [[[part] for part in tell_detail(rng, entry)] for entry in answer.pop("reasoning_details")]
        deltas("reasoning_details", merge(rng, details, ordered=True))
    if "audio" in answer:
        audio = answer.pop("audio")
        lanes = [[{key: piece} for piece in cut(rng, audio[key])] for key in ("data", "transcript")]
        deltas("audio", [{"id": audio["id"]}, *merge(rng, lanes), {"expires_at": audio["expires_at"]}])
    for key in ("annotations", "x_list"):
        deltas(key, halved(rng, answer.pop(key, [])))
    del answer["role"]
    places: list[Fields] = [{}, {}]
    say(rng, places, answer, lambda: text(rng, 1))
    tops: list[Fields] = [{}, {}]
    more = {key: item for key, item in choice.items() if key not in {"index", "message", "finish_reason", "logprobs"}}
    say(rng, tops, more, lambda: value(rng, 1))
    ops = merge(rng, [*tracks, [{"delta": place} for place in places if place], [top for top in tops if top]])
    reason = choice["finish_reason"]
    finishes = [{"finish_reason": reason}] if reason is not None else []
    if finishes and rare(rng, 6):  # the first real one stands, but "stop" gives way (C9)
        finishes.insert(reason == "stop" or rng.randrange(2), {"finish_reason": "stop"})
        finishes += [{"finish_reason": "length"}] if reason not in {"stop", "length"} and rare(rng, 2) else []
    at = len(ops)
    if finishes and rare(rng, 6):  # content after it still appends (C9), but a pair cut there is two lone halves (B1)
        at -= rng.randint(0, next((i for i, op in enumerate(reversed(ops)) if begins_low(op)), at))
    return [*ops[:at], *finishes, *ops[at:]] or [{"delta": {}}]


def halved(rng: Random, items: list[Any]) -> list[list[Any]]:
    """A list in two parts."""
    at = rng.randint(0, len(items))
    return [items[:at], items[at:]] if items else []


def tell_detail(rng: Random, entry: Fields) -> list[Fields]:
    """An entry of reasoning_details in fragments that merge by index and type (C12)."""
    if "index" not in entry:
        return [entry]
    key = next(key for key in ("text", "summary", "data") if key in entry)
    track = [{"type": entry["type"], "index": entry["index"], key: piece} for piece in cut(rng, entry[key])]
    if "id" in entry:
        track[0]["id"] = entry["id"]
        track[-1].setdefault("id", rng.choice((None, "later")))
    return track


def put(place: Fields, op: Fields) -> bool:
    """Say what a choice says in a chunk's entry for it, if there is room."""
    delta, more = place.get("delta", {}), op.get("delta", {})
    mirrored = {"reasoning", "reasoning_content", "content"}
    if "finish_reason" in place or (place.keys() & op.keys()) - {"delta"}:
        return False
    if (delta.keys() & more.keys()) - {"tool_calls"} or (mirrored & delta.keys() and mirrored & more.keys()):
        return False
    calls = [*delta.get("tool_calls", ()), *more.get("tool_calls", ())]
    place |= {**op, "delta": {**delta, **more, **({"tool_calls": calls} if calls else {})}}
    return True


def tell_completion(rng: Random, final: Fields, *, noisy: bool = True) -> list[Event]:
    """One of the streams that say the completion; `noisy` with events that change nothing in between."""
    choices = {choice["index"]: choice for choice in final["choices"]}
    calm = rng.randrange(2) > 0  # all chunks alike, as most servers send them
    packed = 0 if calm else rng.randrange(3)
    chunks: list[dict[int, Fields]] = []
    for index, op in merge(
        rng, [[(index, op) for op in tell_choice(rng, choices[index], calm=calm)] for index in choices]
    ):
        if not (chunks and packed and rare(rng, 4 - packed) and put(chunks[-1].setdefault(index, {}), op)):
            chunks.append({index: {}})
            put(chunks[-1][index], op)
    events = [{"choices": [tell_entry(rng, chunk, index, calm=calm) for index in chunk]} for chunk in chunks]
    for index, choice in choices.items():  # C3
        role, every = choice["message"]["role"], rare(rng, 2)
        left = [role] if role != "assistant" or every or rng.randrange(2) else []
        for entry in (entry for event in events for entry in event["choices"] if entry["index"] == index):
            if left or every:
                entry["delta"] = {
                    "role": left.pop() if left else rng.choice((role, "other")),
                    **(entry.get("delta") or {}),
                }
            elif entry.get("delta") is not None and rare(rng, 6):
                entry["delta"]["role"] = rng.choice((None, ""))
    for event in events:
        for position, entry in enumerate(event["choices"]):  # C2
            if entry["index"] == (position if len(event["choices"]) > 1 else 0) and rare(rng, 12):
                entry.pop("index") if rare(rng, 2) else entry.update(index=None)
    if not calm and rare(rng, 6):  # a first chunk without a choice (C1)
        events.insert(0, {"choices": rng.choice(([], None))})
    tell_envelope(rng, events, final, calm=calm)
    done = rng.randrange(4) > 0 or any(choice["finish_reason"] is None for choice in final["choices"])
    told = [*events, *(["[DONE]"] if done else [])]
    if final["usage"] is not None:
        told = tell_usages(rng, told, final)
    if not calm and rare(rng, 4):  # a chunk that says nothing is one by any of its fields (C16)
        at = rng.randint(0, len(told))
        told[at:at] = [{name: None} for name in ("choices", "usage", "id", "object", "x_groq", "error")]
    for choice in [choice for event in events for choice in event["choices"] or () if not choice.get("logprobs")]:
        choice |= {"logprobs": 5} if noisy and rare(rng, 16) else {}  # a part is malformed, not the chunk (C2)
    if noisy and done and rare(rng, 8):  # what comes after the end (C15)
        told.append(rng.choice(("[DONE]", {key: item for key, item in events[-1].items() if key != "usage"})))
    return copy.deepcopy(sprinkle(rng, told, completion_noise, 8) if noisy else told)


def tell_entry(rng: Random, chunk: dict[int, Fields], index: int, *, calm: bool) -> Fields:
    """What a chunk says of a choice, and all that it might say besides."""
    entry = {"index": index, **chunk[index]}
    if calm:
        return {"finish_reason": None, **entry}
    entry.setdefault("finish_reason", rng.choice(UNSAID))
    if rare(rng, 3):
        entry.setdefault("logprobs", None)
    if not entry.get("delta") and rare(rng, 2):
        entry |= {"delta": None}
        if rare(rng, 2):
            del entry["delta"]
    elif rare(rng, 6):
        entry["delta"]["obfuscation"] = "padding"
    return entry


def tell_envelope(rng: Random, events: list[Fields], final: Fields, *, calm: bool) -> None:
    """Each chunk's own fields: the first non-empty id, model and created stand, the others' last (C1, C13)."""
    empty = rng.randrange(len(events)) if not calm and rare(rng, 4) else 0
    for i, event in enumerate(events):
        if calm:
            event |= {"object": "chat.completion.chunk"} | {key: final[key] for key in ("id", "created", "model")}
            continue
        event["object"] = rng.choice(("chat.completion.chunk", "chat.completion.chunk", ""))
        for key, nothing, other in (("id", "", "other"), ("created", 0, 1800000000 + i), ("model", "", "other")):
            if i < empty or (i > empty and rare(rng, 8)):
                event |= rng.choice(({}, {key: None}, {key: nothing}, {key: other if i > empty else nothing}))
            else:
                event[key] = final[key]
        if i and rare(rng, 5):
            event["usage"] = None
    known = ("id", "object", "created", "model", "choices", "usage", "system_fingerprint", "service_tier")
    lasts = {key: final[key] for key in known[-2:] if key in final}
    places = events[:1] if calm else events
    say(rng, places, lasts, lambda: "other")
    say(rng, places, {key: item for key, item in final.items() if key not in known}, lambda: value(rng, 1))


def tell_usages(rng: Random, events: list[Event], final: Fields) -> list[Event]:
    """The usage in a chunk of its own, in one that is there, in each, or in a choice (C10). The last one counts."""
    where = rng.choice(("own", "own", "chunk", "each", "choice"))
    chunks = [event for event in events if isinstance(event, dict)]
    earlier = {"prompt_tokens": 3, "x_earlier": True}
    if where == "own":
        after = rng.randint(len(chunks), len(events))  # [DONE] may have come (C15)
        chunk = {"id": final["id"], "choices": rng.choice(([], None)), "usage": final["usage"]}
        return [*events[:after], chunk, *events[after:]]
    if where == "choice":
        chunks[-1]["choices"][-1]["usage"] = final["usage"]
        return events
    chunks[-1]["usage"] = final["usage"]
    for chunk in chunks[:-1] if where == "each" else ():
        chunk["usage"] = earlier
        if chunk["choices"] and rare(rng, 4):  # beside the chunk's own it says nothing
            chunk["choices"][0]["usage"] = earlier
    return events


def completion_unknown(rng: Random) -> Event:
    """An object that is no chunk, whatever else a chunk has (C16)."""
    more = rng.choice(({}, {"model": "x"}, {"created": 1, "service_tier": "x"}, {"delta": {"content": "x"}}))
    return {**extras(rng, 2), **more, "type": rng.choice(("x_event", "", None)), "index": 0}


def completion_noise(rng: Random) -> Event:
    """An event that is noted at most: ping, unknown, malformed (C16, M15)."""
    kind = rng.randrange(4)
    if kind == 0:
        return {"type": "ping"}
    return completion_unknown(rng) if kind == 1 else rng.choice((None, 1, "text", [], {}))


# ------------------------------------------------------------------------------------------------ the same, cut or mixed


Path = tuple[Any, ...]


def message_place(event: Event) -> tuple[Any, list[Path]]:
    """Which block an event is about, and where its piece is if it is nothing but a fragment."""
    match event:
        case {"type": "content_block_delta", "index": int(index), "delta": {"type": str(), **rest}}:
            plain = len(event) == 3 and len(rest) == 1
            return (index, None), [("delta", key) for key in ("partial_json", *TEXTS) if plain and key in rest]
        case {"type": "content_block_start" | "content_block_stop", "index": int(index)}:
            return (index, None), []
    return None, []


def completion_place(event: Event) -> tuple[Any, list[Path]]:
    """Which choice and call a chunk is about, and where its piece is, mirrored or not, if it is only a fragment."""
    match event:
        case {"choices": [{"index": int(index), "delta": dict(delta)} as choice]}:
            says_more = event.get("usage") or choice.get("logprobs") or choice.get("finish_reason") not in UNSAID
            keys = delta.keys() - {"obfuscation"}
            at: Path = ("choices", 0, "delta")
            if says_more or choice.keys() - {"index", "delta", "finish_reason", "logprobs"}:
                return (index, None), []
            if keys == {"tool_calls"} and len(delta["tool_calls"]) == 1:
                call = delta["tool_calls"][0]
                plain = call.keys() == {"index", "function"} and call["function"].keys() == {"arguments"}
                number = call.get("index") if type(call.get("index")) is int else None
                return (index, number), [(*at, "tool_calls", 0, "function", "arguments")] if plain else []
            texts = len(keys) == 1 and keys <= {"content", "refusal"} or keys <= {"reasoning", "reasoning_content"}
            return (index, None), [(*at, key) for key in keys if texts]
        case {"choices": [{"index": int(index)}]}:
            return (index, None), []
    return None, []


def closed_by(event: Event) -> list[Any]:
    """The blocks or choices whose texts an event closes: a pair that is cut after it is two lone halves (B1)."""
    match event:
        case {"type": "content_block_stop", "index": index}:
            return [index]
        case {"choices": list(choices)}:
            return [choice.get("index") or 0 for choice in choices if choice.get("finish_reason") not in UNSAID]
    return []


def at_path(event: Event, path: Path) -> Any:
    """What an event has there."""
    for key in path:
        event = event[key]
    return event


def with_piece(event: Event, paths: list[Path], piece: str) -> Event:
    """The event with another piece of text."""
    event = copy.deepcopy(event)
    for *path, key in paths:
        at_path(event, tuple(path))[key] = piece
    return event


def recut(rng: Random, fmt: Format, events: list[Event]) -> list[Event]:
    """The events with neighbouring fragments joined and others cut (law 4)."""
    closed: set[Any] = set()
    out: list[Event] = []
    before: Any = None
    for event in events:
        place, paths = fmt.place(event)
        texts = {piece for path in paths if isinstance(piece := at_path(event, path), str)}
        closed.update(closed_by(event))
        if len(texts) != 1 or place[0] in closed:
            before = None
            out.append(event)
            continue
        (piece,) = texts
        now = {key: item for key, item in with_piece(event, paths, "").items() if key not in {"created", "object"}}
        if now == before and rare(rng, 2):
            out[-1] = with_piece(out[-1], paths, paired(at_path(out[-1], paths[0]) + piece))
        else:
            out += [with_piece(event, paths, part) for part in cut(rng, piece)]
        before = now
    return out


def commuted(rng: Random, fmt: Format, events: list[Event]) -> list[Event]:
    """The events with neighbours swapped that are about different blocks, choices, or calls with an index (law 5).

    Of a chunk its choices move, its envelope stays. Where a call is found by what came before it, calls keep order.
    """
    calls = [
        call
        for event in events
        if isinstance(event, dict)
        for choice in event.get("choices") or ()
        for call in (choice.get("delta") or {}).get("tool_calls") or ()
    ]
    indexed = all(type(call.get("index")) is int and call["index"] >= 0 for call in calls)
    events = list(events)
    for i in [*range(len(events) - 1)] * 2:
        first, second = events[i], events[i + 1]
        (a, _), (b, _) = fmt.place(first), fmt.place(second)
        if a is None or b is None or not rare(rng, 2):
            continue
        if a[0] != b[0] or (indexed and None not in (a[1], b[1]) and a[1] != b[1]):
            events[i : i + 2] = second, first
            if "choices" in first:
                events[i : i + 2] = first | {"choices": second["choices"]}, second | {"choices": first["choices"]}
    return events


# ------------------------------------------------------------------------------------------------ as nobody should tell it


def nested(depth: int) -> JSON:
    """Containers in containers, `depth` deep."""
    inner: JSON = "core"
    for i in range(depth):
        inner = [inner] if i % 2 else {"in": inner}
    return inner


HOSTILE: tuple[JSON, ...] = (
    *(None, True, False, 0, 1, -1, 1.0, -0.0, 1e300, 2**63, 10**100, 10**5000, -(10**5000)),
    *("", "0", "[DONE]", "null", "error", '{"a": 1', "a" * 300, "\ud83d", "\ude00", "\ude00\ud83d", "\x00"),
    *([], {}, [[]], [None], {"": None}, {"error": {}}, {"type": "text"}, {"type": "x", "input": []}),
    *({"message": 1}, {"index": "0"}, {"\ud83d": {"\ude00": "\ud83d"}}),
    *(nested(30), nested(198), nested(201), nested(210), nested(400)),
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


def retyped(rng: Random, old: JSON) -> JSON:
    """A value that says nearly the same in another type or shape."""
    shapes: list[Callable[[], JSON]] = [lambda: [old], lambda: {"a": old}, lambda: None, lambda: not old]
    if isinstance(old, int | float):
        shapes += [lambda: str(old % 10**9), lambda: float(old % 1000), lambda: -old]
    if isinstance(old, str):
        shapes += [lambda: paired("\ud83d" + old), lambda: old + "\ud83d"]
        shapes += [lambda: paired(old * 2), lambda: old[: len(old) // 2]]
    if isinstance(old, dict | list):
        shapes += [lambda: list(old), lambda: str(len(old)), lambda: {str(i): x for i, x in enumerate(list(old))}]
    return rng.choice(shapes)()


def hurt_one(rng: Random, event: Event) -> Event:
    """The event with one thing in it dropped, nulled, replaced, retyped or renamed. It shares what is not changed."""
    if not isinstance(event, dict | list) or not event or rare(rng, 8):
        return hostile(rng) if rare(rng, 2) else retyped(rng, event)
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
        copied[key] = retyped(rng, event[key])
    elif what == 4 and isinstance(copied, dict):
        copied[rng.choice(WORDS)] = hostile(rng) if rare(rng, 2) else copied.pop(key)
    elif what == 4:
        copied.insert(key, hostile(rng) if rare(rng, 2) else copied[key])
    else:
        copied[key] = hurt_one(rng, event[key])
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
            events[at] = hurt_one(rng, events[at])
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


def message_texts(value: messages.Message) -> Iterator[tuple[Any, str]]:
    for block in value.content:
        for name in ("text", "thinking", "signature", "input_json"):
            yield (block.index, name), getattr(block, name, None) or ""
        content = block.raw.get("content") if isinstance(block, messages.OpaqueBlock) else None
        if block.type == "compaction" and isinstance(content, str):
            yield (block.index, "content"), content


def message_inputs(value: messages.Message) -> Iterator[tuple[Any, Any]]:
    for block in value.content:
        if isinstance(block, messages.ToolUseBlock):
            yield (block.index, "input_json"), block


def completion_texts(value: chat.Completion) -> Iterator[tuple[Any, str]]:
    for choice in value.choices:
        for name in ("content", "reasoning_content", "refusal"):
            yield (choice.index, name), getattr(choice.message, name) or ""
    for place, call in completion_inputs(value):
        yield place, call.arguments


def completion_inputs(value: chat.Completion) -> Iterator[tuple[Any, Any]]:
    for choice in value.choices:
        seen: dict[Any, int] = {}
        for call in choice.message.tool_calls or ():
            seen[call.index] = seen.get(call.index, 0) + 1
            yield (choice.index, call.index, seen[call.index]), call


@dataclass(frozen=True, repr=False)
class Format:
    """What the laws need to know of a format.

    `texts`: each text of a value and its place; `inputs`: each tool input, its place the one of its raw text.
    """

    name: str
    module: ModuleType
    final: Callable[[Random], Fields]
    tell: Callable[..., list[Event]]
    unknown: Callable[[Random], Event]
    place: Callable[[Event], tuple[Any, list[Path]]]
    texts: Callable[[Any], Iterator[tuple[Any, str]]]
    inputs: Callable[[Any], Iterator[tuple[Any, Any]]]

    def __repr__(self) -> str:
        return self.name.upper()

    def told(self, rng: Random, *, noisy: bool = True) -> list[Event]:
        """Any stream of any message."""
        return self.tell(rng, self.final(rng), noisy=noisy)


MESSAGES = Format(
    "messages", messages, message, tell_message, message_unknown, message_place, message_texts, message_inputs
)
CHAT = Format(
    "chat", chat, completion, tell_completion, completion_unknown, completion_place, completion_texts, completion_inputs
)
FORMATS = (MESSAGES, CHAT)
both_formats = pytest.mark.parametrize("fmt", FORMATS, ids=lambda fmt: fmt.name)
