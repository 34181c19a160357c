"""How other libraries fold the same events, each as it would get them.

* anthropic, openai: the SDK's object built from each dict, then the SDK's own helper.
* langchain-core: an AIMessageChunk built from the fields of each dict, added to the message so far.
* litellm: its chunk built from each dict and kept; all of them put together at the end.
* pydantic-ai: the SDK's object built from each dict, its fields told to the parts manager. "from dicts": without the
  object, which it never does itself.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from functools import partial
from types import ModuleType
from typing import Any, NamedTuple

import orjson

from benchmarks.measure import Values, Work, ratios, repeated, seconds
from benchmarks.streams import Events, Tell, decoded
from friendli_stream import chat, messages

SAMPLES, SAMPLE = 4, 20  # of a long stream so many times so many events are timed

INPUT = ("tool_use", "input_json_delta")

Build = Callable[[Any], Any]


class Fold(NamedTuple):
    """One stream being folded."""

    feed: Callable[[Any], object]
    end: Callable[[], object]


Start = Callable[[], Fold]


def reduced(step: Callable[[Any, Any], Any]) -> Fold:
    """functools.reduce, an event at a time."""
    message: Any = None

    def feed(event: Any) -> None:
        nonlocal message
        message = step(message, event)

    return Fold(feed, lambda: message)


# ------------------------------------------------------------------------------------------------ objects


def build_anthropic() -> Build:
    from anthropic._models import construct_type
    from anthropic.types import RawMessageStreamEvent

    return lambda event: construct_type(type_=RawMessageStreamEvent, value=event)


def build_openai() -> Build:
    from openai._models import construct_type
    from openai.types.chat import ChatCompletionChunk

    return lambda event: construct_type(type_=ChatCompletionChunk, value=event)


def build_friendli(form: ModuleType) -> Build:
    from friendli.core import models
    from friendli.core.utils.serializers import unmarshal

    kind = models.MessagesStream if form is messages else models.StreamedChatResult
    options = {"coerce_iterables": False, "allow_unknown_union_variants": True}
    if form is messages:
        return lambda event: unmarshal({"event": event["type"], "data": event}, kind, **options)
    return lambda event: unmarshal({"data": event}, kind, **options)


# ------------------------------------------------------------------------------------------------ folds


def anthropic() -> Start:
    from anthropic.lib.streaming._messages import accumulate_event

    build = build_anthropic()

    def start() -> Fold:
        inputs: dict[int, bytes] = {}
        return reduced(
            lambda message, event: accumulate_event(event=build(event), current_snapshot=message, json_bufs=inputs)
        )

    return start


def openai() -> Start:
    from openai.lib.streaming.chat import ChatCompletionStreamState

    build = build_openai()

    def start() -> Fold:
        state = ChatCompletionStreamState()
        return Fold(lambda event: state.handle_chunk(build(event)), state.get_final_completion)

    return start


def langchain(form: ModuleType) -> Start:
    from langchain_core.messages import AIMessageChunk

    def call(index: int, head: Any, args: str) -> dict[str, Any]:
        return {"index": index, "id": head.get("id"), "name": head.get("name"), "args": args}

    def of_messages(event: Any) -> Any:
        part = event.get("content_block") or event.get("delta") or {}
        if "index" not in event or not part:
            return AIMessageChunk(content=[])
        index = event["index"]
        calls = [call(index, part, part.get("partial_json", ""))] if part["type"] in INPUT else []
        content = [{**part, "type": part["type"].removesuffix("_delta"), "index": index}]
        return AIMessageChunk(content=content, tool_call_chunks=calls)

    def of_chat(event: Any) -> Any:
        choice = event["choices"][0]
        delta = choice["delta"]
        return AIMessageChunk(
            content=delta.get("content", ""),
            id=event["id"],
            tool_call_chunks=[
                call(one["index"], {**one["function"], **one}, one["function"]["arguments"])
                for one in delta.get("tool_calls", ())
            ],
            additional_kwargs={"reasoning_content": delta["reasoning"]} if "reasoning" in delta else {},
            response_metadata={"logprobs": choice["logprobs"]} if choice["logprobs"] else {},
        )

    chunk = of_messages if form is messages else of_chat
    return lambda: reduced(lambda message, event: chunk(event) if message is None else message + chunk(event))


def litellm() -> Start:
    os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")  # else importing it fetches a price list
    import litellm
    from litellm.types.utils import ModelResponseStream

    litellm.suppress_debug_info = True  # else it prints for models it does not know

    def start() -> Fold:
        held: list[Any] = []
        feed = lambda event: held.append(ModelResponseStream(**event))  # noqa: E731
        return Fold(feed, lambda: litellm.stream_chunk_builder(held))

    return start


def pydantic_ai(form: ModuleType, build: Build = lambda _: None) -> Start:
    from pydantic_ai._parts_manager import ModelResponsePartsManager
    from pydantic_ai.models import ModelRequestParameters

    def tell(manager: Any, index: Any, part: Any) -> None:
        """What a delta, a tool call, or the beginning of a block says."""
        for key, kind in {"text": "text", "content": "text", "thinking": "thinking", "reasoning": "thinking"}.items():
            if part.get(key):
                for _ in getattr(manager, f"handle_{kind}_delta")(vendor_part_id=(kind, index), content=part[key]):
                    pass  # generators, which want to be taken
        if "partial_json" in part or "name" in part:
            name, args = part.get("name"), part.get("partial_json")
            manager.handle_tool_call_delta(vendor_part_id=index, tool_name=name, args=args, tool_call_id=part.get("id"))

    def start() -> Fold:
        manager = ModelResponsePartsManager(model_request_parameters=ModelRequestParameters())

        def feed(event: Any) -> None:
            build(event)  # what is read of it is read from the dict, for less
            if form is messages:
                tell(manager, event.get("index"), event.get("delta") or event.get("content_block") or {})
                return
            delta = event["choices"][0]["delta"]
            tell(manager, 0, delta)
            for call in delta.get("tool_calls", ()):
                function = call["function"]
                name, args = function.get("name"), function["arguments"]
                tell(manager, call["index"], {"name": name, "partial_json": args, "id": call.get("id")})

        return Fold(feed, manager.get_parts)

    return start


PEERS: dict[ModuleType, dict[str, Callable[[], Start]]] = {
    messages: {
        "anthropic or openai": anthropic,
        "langchain-core": lambda: langchain(messages),
        "pydantic-ai": lambda: pydantic_ai(messages, build_anthropic()),
        "from dicts": lambda: pydantic_ai(messages),
    },
    chat: {
        "anthropic or openai": openai,
        "langchain-core": lambda: langchain(chat),
        "pydantic-ai": lambda: pydantic_ai(chat, build_openai()),
        "from dicts": lambda: pydantic_ai(chat),
        "litellm": litellm,
    },
}


# ------------------------------------------------------------------------------------------------ timing


def installed(make: Callable[[], Any]) -> Any:
    """What `make` gives, None if what it imports is not installed."""
    try:
        return make()
    except ImportError:
        return None


def fold_of(fold: Fold, events: Events) -> None:
    for data in events:
        event = orjson.loads(data)
        if event != "[DONE]":
            fold.feed(event)


def folded(start: Start, events: Events) -> Work:
    def work() -> None:
        fold = start()
        fold_of(fold, events)
        fold.end()

    return work


def halfway(start: Start, tell: Tell, length: int) -> Iterator[tuple[float, float]]:
    """Seconds of some events in the middle of a stream, and of decoding them: what they cost there on the average.

    The first half comes in one piece, so that a fold whose events cost more and more need not be waited for.
    """
    events = tell(length, length // 2)
    fold = start()
    fold_of(fold, events[:3])  # at most two are in front of that piece
    for at in range(3, 3 + SAMPLES * SAMPLE, SAMPLE):
        timed = events[at : at + SAMPLE]
        yield seconds(partial(fold_of, fold, timed)), seconds(decoded(timed * 20)) / 20


def sampled(make: Callable[[], Start], length: int) -> bool:
    """Whether only a part of so long a stream is timed. What folds at the end has no middle."""
    return length > 1_000 and make is not litellm


def against(make: Callable[[], Start], tell: Tell, length: int) -> Values:
    """A peer's fold against decoding: of the whole stream, or of events in its middle."""
    start = installed(make)
    if start is None:
        return []
    if sampled(make, length):
        return [fold / decode for fold, decode in halfway(start, tell, length)]
    events, times = tell(length), max(1, 300 // length)
    work, low = repeated(folded(start, events), times), repeated(decoded(events), times)
    return ratios(work, low, rounds=5 if length < 10_000 else 1)
