"""A gateway: bytes pass through a real proxy unchanged while a decoder and an accumulator watch them, push style."""

import asyncio
import contextlib
import itertools
import random

import aiohttp
import httpx
import pytest
from aiohttp import web

from friendli_stream import IncompleteStream, chat, messages, sse
from tests.replay_server import CHAT, MESSAGES, Reply


class Watch:
    """What a gateway keeps of one stream: the decoder and the accumulator of its format."""

    def __init__(self, path):
        self.decoder = sse.EventDecoder()
        self.accumulator = messages.Accumulator() if path.endswith("/messages") else chat.Accumulator()

    def feed(self, chunk):
        for event in self.decoder.feed(chunk):
            self.accumulator.feed(event)

    def close(self):
        for event in self.decoder.close():
            self.accumulator.feed(event)


@contextlib.asynccontextmanager
async def gateway(upstream, watched):
    """A proxy in front of `upstream`; the watches of its streams are appended to `watched`. Gives its URL.

    It asks for plain bytes, whatever its clients accept: compressed ones would say nothing to a watch.
    """

    async def handle(request):
        async with (
            aiohttp.ClientSession(auto_decompress=False) as session,
            session.post(
                upstream + request.path,
                data=await request.read(),
                headers={**passed(request), "accept-encoding": "identity"},
            ) as received,
        ):
            watch = Watch(request.path)
            watched.append(watch)
            response = web.StreamResponse(status=received.status, headers=passed(received))
            await response.prepare(request)
            try:
                async for chunk in received.content.iter_any():
                    await response.write(chunk)
                    watch.feed(chunk)
                await response.write_eof()
            finally:
                watch.close()
            return response

    application = web.Application()
    application.router.add_post("/{path:.*}", handle)
    # Without it aiohttp lets a handler finish its stream for a client that has left.
    runner = web.AppRunner(application, handler_cancellation=True)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    host, port = runner.addresses[0]
    yield f"http://{host}:{port}"
    await runner.cleanup()


def passed(message):
    return {"content-type": message.headers.get("content-type", "application/json")}


def test_streams_pass_unchanged(server):
    """Concurrent streams of both formats reach their clients byte for byte, and each watch has its own result."""
    watched = []

    async def one(client, url, number):
        path, body = [("/v1/messages", MESSAGES), ("/v1/chat/completions", CHAT)][number % 2]
        got = b""
        async with client.stream("POST", url + path, json={"number": number}) as response:
            async for chunk in response.aiter_bytes():
                got += chunk
        assert body == got

    async def main():
        async with gateway(server.url, watched) as url, httpx.AsyncClient() as client:
            await asyncio.gather(*(one(client, url, number) for number in range(10)))

    asyncio.run(main())
    results = [watch.accumulator.result() for watch in watched]
    assert [messages.fold(sse.events([MESSAGES]))] * 5 == [r for r in results if isinstance(r, messages.Message)]
    assert [chat.fold(sse.events([CHAT]))] * 5 == [r for r in results if isinstance(r, chat.Completion)]


def test_compression_is_not_asked_for(server):
    """A server that would compress for the client sends plain bytes through the gateway, which the watch can read."""
    server.replies.append(Reply(MESSAGES, compressed=True))
    watched = []

    async def main():
        async with gateway(server.url, watched) as url, httpx.AsyncClient() as client:
            response = await client.post(f"{url}/v1/messages", json={}, headers={"accept-encoding": "gzip"})
            return response.content

    assert MESSAGES == asyncio.run(main())
    assert messages.fold(sse.events([MESSAGES])) == watched[0].accumulator.result()


def test_error_passes_unchanged(server):
    """An error's status and body pass unchanged, and the watch fails with what the server said (M13, S4)."""
    body = b'{"type": "error", "error": {"type": "overloaded_error", "message": "busy"}}'
    server.replies.append(Reply(body, status=529, content_type="application/json"))
    watched = []

    async def main():
        async with gateway(server.url, watched) as url, httpx.AsyncClient() as client:
            return await client.post(f"{url}/v1/messages", json={})

    response = asyncio.run(main())
    assert (529, body) == (response.status_code, response.content)
    assert str(watched[0].accumulator.state.error) == "overloaded_error: busy"


@pytest.mark.parametrize(("path", "body"), [("/v1/messages", MESSAGES), ("/v1/chat/completions", CHAT)])
def test_client_leaves(server, path, body):
    """A client that leaves ends the gateway's own request upstream; what had passed is kept (M14, C15)."""
    server.replies.append(Reply(body, hang_after=len(body) // 2))
    watched = []

    async def main():
        async with gateway(server.url, watched) as url, httpx.AsyncClient() as client:
            got = b""
            async with client.stream("POST", url + path, json={}) as response:
                async for chunk in response.aiter_raw():
                    got += chunk
                    if len(got) == len(body) // 2:
                        break
            assert await asyncio.to_thread(server.dropped.wait, 5)
            return got

    got = asyncio.run(main())
    [watch] = watched
    assert body.startswith(got)
    with pytest.raises(IncompleteStream):
        watch.accumulator.result()
    module = messages if path.endswith("/messages") else chat
    events = sse.EventDecoder().feed(got)
    *_, expected = itertools.accumulate(events, module.step, initial=module.State())
    assert watch.accumulator.snapshot.text == expected.snapshot.text
    assert expected.snapshot.text


def test_interleaved_in_one_thread():
    """Law 4 and nothing shared: streams of both formats, cut anywhere and fed in turns, come to their own results."""
    chance = random.Random(6)
    for _ in range(20):
        streams = [[Watch(path), body, 0] for path, body in (("/messages", MESSAGES), ("/chat", CHAT)) * 3]
        running = list(streams)
        while running:
            stream = chance.choice(running)
            watch, body, start = stream
            stream[2] = end = start + chance.randint(1, 200)
            watch.feed(body[start:end])
            if end >= len(body):
                watch.close()
                running.remove(stream)
        for watch, body, _ in streams:
            module = messages if body is MESSAGES else chat
            assert module.fold(sse.events([body])) == watch.accumulator.result()
