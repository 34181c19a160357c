"""Any HTTP client: each real one reads replayed streams, in awkward pieces and compressed, to the same result.

The clients' own decompression is used; nothing in the package knows a client.
"""

import asyncio
import contextlib
import functools
import http.client
import json
from typing import Any, NamedTuple

import aiohttp
import anyio
import httpx
import pytest
import requests
import trio
import urllib3

from friendli_stream import IncompleteStream, ServerError, chat, messages, sse
from tests.replay_server import CHAT, CHAT_EVENTS, MESSAGES, MESSAGES_EVENTS, Reply, as_sse

BODY = {"model": "replayed-model", "stream": True}
HEADERS = {"accept-encoding": "gzip"}


class Format(NamedTuple):
    module: Any
    path: str
    body: bytes
    events: list[Any]


MESSAGES_FORMAT = Format(messages, "/v1/messages", MESSAGES, MESSAGES_EVENTS)
CHAT_FORMAT = Format(chat, "/v1/chat/completions", CHAT, CHAT_EVENTS)

FORMATS = pytest.mark.parametrize("format_", [MESSAGES_FORMAT, CHAT_FORMAT], ids=["messages", "chat"])


# Each client feeds an accumulator until `enough` says so, and then leaves: what happens at an application's break.


def with_httpx(url, accumulator, enough):
    with httpx.Client() as client, client.stream("POST", url, json=BODY, headers=HEADERS) as response:
        for event in sse.events(response.iter_bytes()):
            accumulator.feed(event)
            if enough():
                break


def with_httpx_async(url, accumulator, enough):
    async def main():
        async with (
            httpx.AsyncClient() as client,
            client.stream("POST", url, json=BODY, headers=HEADERS) as response,
        ):
            async for event in sse.aevents(response.aiter_bytes()):
                accumulator.feed(event)
                if enough():
                    break

    asyncio.run(main())


def with_httpx_on_trio(url, accumulator, enough):
    async def main():
        async with (
            httpx.AsyncClient() as client,
            client.stream("POST", url, json=BODY, headers=HEADERS) as response,
            contextlib.aclosing(sse.aevents(response.aiter_bytes())) as events,
        ):
            async for event in events:
                accumulator.feed(event)
                if enough():
                    break

    trio.run(main)


def with_requests(url, accumulator, enough):
    with requests.post(url, json=BODY, headers=HEADERS, stream=True) as response:
        for event in sse.events(response.iter_content(None)):
            accumulator.feed(event)
            if enough():
                break


def with_aiohttp(url, accumulator, enough):
    async def main():
        async with (
            aiohttp.ClientSession() as session,
            session.post(url, json=BODY, headers=HEADERS) as response,
        ):
            async for event in sse.aevents(response.content.iter_any()):
                accumulator.feed(event)
                if enough():
                    break

    asyncio.run(main())


def with_urllib3(url, accumulator, enough):
    with urllib3.PoolManager() as pool:
        response = pool.request("POST", url, json=BODY, headers=HEADERS, preload_content=False)
        for event in sse.events(response.stream(decode_content=True)):
            accumulator.feed(event)
            if enough():
                break
        response.close()


def with_http_client(url, accumulator, enough):
    host, _, path = url.removeprefix("http://").partition("/")
    with contextlib.closing(http.client.HTTPConnection(host)) as connection:
        connection.request("POST", f"/{path}", json.dumps(BODY), {"content-type": "application/json"})
        with connection.getresponse() as response:
            for event in sse.events(iter(response.read1, b"")):
                accumulator.feed(event)
                if enough():
                    break


CLIENTS = [
    with_httpx,
    with_httpx_async,
    with_httpx_on_trio,
    with_requests,
    with_aiohttp,
    with_urllib3,
    with_http_client,
]
DECOMPRESSING = CLIENTS[:-1]  # http.client hands compressed bytes on as they are

# trio warns of each asynchronous generator that is left to it: httpx leaves its own, inside of the one that it gives.
LEFT_TO_TRIO = pytest.mark.filterwarnings("ignore:Async generator '(friendli_stream|httpx|httpcore)\\.:ResourceWarning")

EACH = pytest.mark.parametrize("client", CLIENTS, ids=lambda client: client.__name__.removeprefix("with_"))


def never():
    return False


def folded(format_, cut):
    """The state after the events that are whole in the first `cut` bytes."""
    return functools.reduce(format_.module.step, sse.EventDecoder().feed(format_.body[:cut]), format_.module.State())


# ------------------------------------------------------------------------------------------------ whole streams


@FORMATS
@EACH
@pytest.mark.parametrize("pieces", [1, 64])
def test_pieces(server, client, format_, pieces):
    """Law 4: bytes cut anywhere, in UTF-8 and in line ends, come to the result of the decoded events."""
    server.replies.append(Reply(format_.body, pieces=pieces))
    accumulator = format_.module.Accumulator()
    client(server.url + format_.path, accumulator, never)
    assert format_.module.fold(format_.events) == accumulator.result()
    assert [BODY] == server.requests


@FORMATS
@pytest.mark.parametrize("client", DECOMPRESSING, ids=lambda client: client.__name__.removeprefix("with_"))
@pytest.mark.parametrize("pieces", [1, 100_000])
def test_compressed(server, client, format_, pieces):
    """A compressed body is decompressed by the client, and comes to the same result."""
    server.replies.append(Reply(format_.body, pieces=pieces, compressed=True))
    accumulator = format_.module.Accumulator()
    client(server.url + format_.path, accumulator, never)
    assert format_.module.fold(format_.events) == accumulator.result()


@FORMATS
@EACH
def test_line_ends(server, client, format_):
    """S1: CR LF, cut in two by the pieces, comes to the same result as LF."""
    body = as_sse(format_.events, named=format_.module is messages, end="\r\n")
    server.replies.append(Reply(body))
    accumulator = format_.module.Accumulator()
    client(server.url + format_.path, accumulator, never)
    assert format_.module.fold(format_.events) == accumulator.result()


# ------------------------------------------------------------------------------------------------ errors


@FORMATS
@EACH
def test_error_status(server, client, format_):
    """S4, M13, C14: an error body in place of a stream is a ServerError that says what the server said."""
    error = {"type": "error", "error": {"type": "rate_limit_error", "message": "slow down"}}
    server.replies.append(Reply(json.dumps(error, indent=2).encode(), status=429, content_type="application/json"))
    accumulator = format_.module.Accumulator()
    client(server.url + format_.path, accumulator, never)
    with pytest.raises(ServerError, match="slow down") as caught:
        accumulator.result()
    assert caught.value.type == "rate_limit_error"


@FORMATS
@EACH
def test_page_in_place_of_a_stream(server, client, format_):
    """S4: a proxy's HTML page is an incomplete stream whose diagnostic shows the page's beginning."""
    page = b"<html>\n<h1>502 Bad Gateway</h1>\n</html>\n"
    server.replies.append(Reply(page, status=502, content_type="text/html"))
    accumulator = format_.module.Accumulator()
    client(server.url + format_.path, accumulator, never)
    with pytest.raises(IncompleteStream):
        accumulator.result()
    [note] = accumulator.state.diagnostics
    assert note.code == "malformed_event"
    assert "502 Bad Gateway" in note.message


# ------------------------------------------------------------------------------------------------ cancel


@LEFT_TO_TRIO
@FORMATS
@EACH
def test_left_midway(server, client, format_):
    """A stream that is left midway is cut at the server too, and the partial says what it is (M14, C15)."""
    half = len(format_.body) // 2
    server.replies.append(Reply(format_.body, hang_after=half))
    accumulator = format_.module.Accumulator()
    expected = folded(format_, half)
    client(server.url + format_.path, accumulator, lambda: accumulator.state == expected)
    assert server.dropped.wait(5)
    with pytest.raises(IncompleteStream) as caught:
        accumulator.result()
    assert accumulator.state is caught.value.state
    assert accumulator.snapshot.text
    assert format_.module.fold(format_.events).text.startswith(accumulator.snapshot.text)


@LEFT_TO_TRIO
@FORMATS
@pytest.mark.parametrize("backend", [None, "asyncio", "trio"])
def test_cancelled_by_the_user(server, format_, backend):
    """Cancel: text, the tool inputs' state and the usage so far are there; result() is IncompleteStream with them."""
    cut = format_.body.index(b"\n\n", format_.body.index("S\u00e3o".encode())) + 2  # within the first tool's input
    expected = folded(format_, cut)
    server.replies.append(Reply(format_.body, hang_after=cut))
    accumulator = format_.module.Accumulator()
    url = server.url + format_.path

    async def main():
        async with httpx.AsyncClient() as client, client.stream("POST", url, json=BODY) as response:
            async with accumulator.atap(sse.aevents(response.aiter_bytes())) as events:
                async for _ in events:
                    if accumulator.state == expected:
                        break
            await anyio.to_thread.run_sync(server.dropped.wait, 5)
        assert server.dropped.is_set()

    if backend:
        anyio.run(main, backend=backend)
    else:
        with httpx.Client() as client, client.stream("POST", url, json=BODY) as response:
            for _ in accumulator.tap(sse.events(response.iter_bytes())):
                if accumulator.state == expected:
                    break
            assert server.dropped.wait(5)
    with pytest.raises(IncompleteStream) as caught:
        accumulator.result()
    message = caught.value.state.snapshot
    assert format_.module.fold(format_.events).text == message.text
    call = (message.tool_uses if format_.module is messages else message.tool_calls)[0]
    assert call.input_state == "incomplete"
    assert call.partial_input == {"city": "São"}
    if format_.module is messages:
        assert message.usage.input_tokens == 21
    else:
        assert message.usage is None  # it comes with the last chunk
