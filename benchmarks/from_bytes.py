"""Table 4: from the bytes of a body to events, and to the final message."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from types import ModuleType
from typing import Any

import orjson

from benchmarks.measure import Cell, Table, Values, Work, module, ratios
from benchmarks.streams import KINDS, Events, decoded
from friendli_stream import messages, sse

CUTS = ("one event a chunk", "64 KiB chunks", "single bytes")
BUDGETS: dict[str, tuple[float, ...]] = {"one event a chunk": (9.0,), "64 KiB chunks": (6.0,), "single bytes": ()}


def body(form: ModuleType, events: Events) -> list[bytes]:
    """The events as they stand on the wire, each with its blank line."""
    if form is messages:
        return [b"event: " + orjson.loads(event)["type"].encode() + b"\ndata: " + event + b"\n\n" for event in events]
    return [b"data: " + event.strip(b'"') + b"\n\n" for event in events]


def cut(blocks: list[bytes], how: str) -> list[bytes]:
    if how == "one event a chunk":
        return blocks
    size = 65_536 if how == "64 KiB chunks" else 1
    whole = b"".join(blocks)
    return [whole[at : at + size] for at in range(0, len(whole), size)]


def events_of(pieces: list[bytes]) -> Work:
    def work() -> None:
        decoder = sse.EventDecoder()
        for piece in pieces:
            decoder.feed(piece)
        decoder.close()

    return work


def message_of(form: ModuleType, pieces: list[bytes]) -> Work:
    def work() -> None:
        decoder, step, state = sse.EventDecoder(), form.step, form.State()
        for piece in pieces:
            for event in decoder.feed(piece):
                state = step(state, event)
        for event in decoder.close():
            state = step(state, event)
        state.result().to_json()

    return work


def sdk_events(streaming: Any) -> Callable[[list[bytes]], Work]:
    def of(pieces: list[bytes]) -> Work:
        def work() -> None:
            for event in streaming.SSEDecoder().iter_bytes(iter(pieces)):
                if not event.data.startswith("[DONE]"):
                    event.json()

        return work

    return of


def httpx_events(httpx: Any, httpx_sse: Any) -> Callable[[list[bytes]], Work]:
    class Stream(httpx.SyncByteStream):  # type: ignore[misc]
        def __init__(self, pieces: list[bytes]) -> None:
            self.pieces = pieces

        def __iter__(self) -> Iterator[bytes]:
            return iter(self.pieces)

    def of(pieces: list[bytes]) -> Work:
        def work() -> None:
            response = httpx.Response(200, headers={"content-type": "text/event-stream"}, stream=Stream(pieces))
            for event in httpx_sse.EventSource(response).iter_sse():
                if not event.data.startswith("[DONE]"):
                    orjson.loads(event.data)

        return work

    return of


def httpx_sse() -> Callable[[list[bytes]], Work] | None:
    httpx, found = module("httpx"), module("httpx_sse")
    return httpx_events(httpx, found) if httpx and found else None


def sdk(name: str) -> Callable[[list[bytes]], Work] | None:
    streaming = module(f"{name}._streaming")
    return streaming and sdk_events(streaming)


PEERS = {"httpx-sse": httpx_sse, "openai": lambda: sdk("openai"), "anthropic": lambda: sdk("anthropic")}


def from_bytes() -> Table:
    note = (
        "Times orjson.loads of each event's data: to decoded events (ours, and the peers behind it), and with folding\n"
        "to the final message as JSON (which the budget is for)."
    )
    table = Table("4. SSE", note)
    for name in ("Messages text", "chat text", "chat reasoning, mirrored"):
        kind = KINDS[name]
        for how in CUTS:
            tiny = how == "single bytes"
            events = kind.tell(200 if tiny else 1_000)
            pieces = cut(body(kind.format, events), how)

            def ratio(
                make: Any, pieces: Any = pieces, events: Events = events, rounds: int = 5 if tiny else 15
            ) -> Values:
                return ratios(make(pieces), decoded(events), rounds=rounds) if make else []

            table.rows[f"{name}, {how}"] = {
                "to message": Cell(
                    lambda ratio=ratio, form=kind.format: ratio(partial(message_of, form)), *BUDGETS[how]
                ),
                "to events": Cell(lambda ratio=ratio: ratio(events_of)),
                **{peer: Cell(lambda ratio=ratio, make=make: ratio(make())) for peer, make in PEERS.items()},
            }
    return table
