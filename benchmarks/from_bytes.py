"""Table 4: from the bytes of a body to events, and to the final message."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

import orjson

from benchmarks.measure import Cell, Table, Work, module, paired
from benchmarks.per_event import decoded
from benchmarks.streams import KINDS, Events
from friendli_stream import messages, sse

CUTS = ("one event a chunk", "64 KiB chunks", "single bytes")
BUDGETS = {"one event a chunk": 9.0, "64 KiB chunks": 6.0}


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


def from_bytes(*, full: bool) -> Table:
    httpx, httpx_sse = module("httpx"), module("httpx_sse")
    peers: dict[str, Callable[[list[bytes]], Work] | None] = {}
    if full:
        peers["httpx-sse"] = httpx_events(httpx, httpx_sse) if httpx is not None and httpx_sse is not None else None
        for name in ("openai", "anthropic"):
            streaming = module(f"{name}._streaming")
            peers[name] = sdk_events(streaming) if hasattr(streaming, "SSEDecoder") else None
    rows: dict[str, dict[str, Cell]] = {}
    for name in ("Messages text", "chat text", "chat reasoning, mirrored"):
        kind = KINDS[name]
        for how in CUTS:
            events = kind.tell(200 if how == "single bytes" else 1_000)
            blocks = body(kind.format, events)
            pieces = cut(blocks, how)
            cells = rows[f"{name}, {how}"] = {}
            rounds = 3 if how == "single bytes" else 15
            cells["to events"] = Cell(paired(events_of(pieces), decoded(events), rounds=rounds))
            run = paired(message_of(kind.format, pieces), decoded(events), rounds=rounds)
            cells["to final message"] = Cell(run, BUDGETS.get(how))
            for peer, make in peers.items():
                run = None if make is None else paired(make(pieces), decoded(events), rounds=3)  # type: ignore[assignment]
                cells[f"{peer}, to events"] = Cell(run)
    note = "Against orjson.loads of each event's data: bytes to decoded events, and to the final message as JSON."
    return Table("4. SSE", note, rows)
