"""Any SDK: the objects that real SDKs yield go in as they are, and come to what the bytes give.

What an SDK's models drop is asserted as it is, beside the byte-level way round it.
"""

import asyncio
import functools
import logging
import time
from types import SimpleNamespace
from unittest.mock import MagicMock

import anthropic
import friendli
import openai
import pytest
from friendli.core.models import FriendliCoreError

from friendli_stream import IncompleteStream, ServerError, chat, messages, sse
from friendli_stream.wire import event_of
from tests.replay_server import CHAT, CHAT_EVENTS, MESSAGES, MESSAGES_EVENTS, ReplayServer, Reply, as_sse

logging.getLogger().setLevel(logging.ERROR)  # the friendli SDK warns about a missing team

TURN = [{"role": "user", "content": "How is the weather?"}]
MESSAGE = {"model": "replayed-model", "max_tokens": 64, "messages": TURN, "stream": True}
COMPLETION = {"model": "replayed-model", "messages": TURN, "stream": True}


@pytest.fixture
def server():
    with ReplayServer() as server:
        yield server


class SDK:
    """How one SDK makes one kind of stream, synchronous or not. `keeps`: whether its models keep all of the bytes."""

    def __init__(self, name, module, client, async_client, create, *, keeps=True):
        self.name = name
        self.module = module
        self.client = client
        self.async_client = async_client
        self.create = create
        self.keeps = keeps
        self.body, self.events = (MESSAGES, MESSAGES_EVENTS) if module is messages else (CHAT, CHAT_EVENTS)

    def __repr__(self):
        return f"{self.name}-{self.module.__name__.rpartition('.')[2]}"


def openai_clients(kind):
    return lambda url: kind(base_url=f"{url}/v1", api_key="none", max_retries=0)


def anthropic_clients(kind):
    return lambda url: kind(base_url=url, api_key="none", max_retries=0)


def friendli_clients(kind):
    return lambda url: kind(token="none", server_url=url)


FRIENDLI = (friendli_clients(friendli.SyncFriendli), friendli_clients(friendli.AsyncFriendli))

OPENAI = SDK(
    "openai",
    chat,
    openai_clients(openai.OpenAI),
    openai_clients(openai.AsyncOpenAI),
    lambda client: client.chat.completions.create(**COMPLETION),
)
ANTHROPIC = SDK(
    "anthropic",
    messages,
    anthropic_clients(anthropic.Anthropic),
    anthropic_clients(anthropic.AsyncAnthropic),
    lambda client: client.messages.create(**MESSAGE),
)
FRIENDLI_MESSAGES = SDK("friendli", messages, *FRIENDLI, lambda client: client.serverless.messages.messages(**MESSAGE))
FRIENDLI_CHAT = SDK(
    "friendli", chat, *FRIENDLI, lambda client: client.serverless.chat.complete(**COMPLETION), keeps=False
)
FRIENDLI_DEDICATED_MESSAGES = SDK(
    "friendli-dedicated", messages, *FRIENDLI, lambda client: client.dedicated.messages.messages(**MESSAGE)
)
FRIENDLI_DEDICATED_CHAT = SDK(
    "friendli-dedicated", chat, *FRIENDLI, lambda client: client.dedicated.chat.complete(**COMPLETION), keeps=False
)

SDKS = [OPENAI, ANTHROPIC, FRIENDLI_MESSAGES, FRIENDLI_CHAT]
EACH = pytest.mark.parametrize("sdk", SDKS, ids=repr)
DEDICATED = [FRIENDLI_DEDICATED_MESSAGES, FRIENDLI_DEDICATED_CHAT]


def holds(sdk, result):
    """The result is that of the bytes: the same text, tool inputs, finish and usage, and all else the SDK keeps."""
    expected = sdk.module.fold(sdk.events)
    assert expected.text == result.text
    if sdk.module is messages:
        assert [call.input for call in expected.tool_uses] == [call.input for call in result.tool_uses]
        assert expected.stop_reason == result.stop_reason
    else:
        assert [call.input for call in expected.tool_calls] == [call.input for call in result.tool_calls]
        assert [choice.finish_reason for choice in expected.choices] == [c.finish_reason for c in result.choices]
    assert expected.usage == result.usage
    assert (expected == result) == sdk.keeps
    return True


# ------------------------------------------------------------------------------------------------ the same as the bytes


@pytest.mark.parametrize("sdk", SDKS + DEDICATED, ids=repr)
def test_events_of_a_stream(server, sdk):
    """An SDK's own events, tapped, fed or reduced, give what the bytes give, without a diagnostic."""
    with sdk.client(server.url) as client:
        tapped, fed = sdk.module.Accumulator(), sdk.module.Accumulator()
        for event in tapped.tap(sdk.create(client)):
            fed.feed(event)
        state = functools.reduce(sdk.module.step, sdk.create(client), sdk.module.State())
    assert holds(sdk, tapped.result())
    assert state == tapped.state == fed.state
    assert () == state.diagnostics
    assert sdk.module.fold(sdk.events) == sdk.module.fold(sse.events([sdk.body]))


@EACH
def test_events_of_an_asynchronous_stream(server, sdk):
    """The same for the asynchronous client."""

    async def main():
        accumulator = sdk.module.Accumulator()
        async with sdk.async_client(server.url) as client, accumulator.atap(await sdk.create(client)) as events:
            async for _ in events:
                pass
        return accumulator.result()

    assert holds(sdk, asyncio.run(main()))


def test_container_streams(server):
    """The friendli SDK's container streams, whose URL is given with each call, are taken alike."""
    with friendli.SyncFriendli(token="none") as client:
        events = client.container.messages.messages(**MESSAGE, server_url=server.url)
        assert holds(FRIENDLI_MESSAGES, messages.fold(events))
        events = client.container.chat.complete(**COMPLETION, server_url=server.url)
        assert holds(FRIENDLI_CHAT, chat.fold(events))


@EACH
def test_streams_attributes_stay_reachable(server, sdk):
    """The response of an SDK's stream is reachable through the tap, and closed with it."""
    with sdk.client(server.url) as client:
        stream = sdk.create(client)
        with sdk.module.Accumulator().tap(stream) as events:
            next(events)
            assert stream.response is events.response
            assert events.response.headers["content-type"].startswith("text/event-stream")
            assert not events.response.is_closed
        assert stream.response.is_closed


# ------------------------------------------------------------------------------------------------ left midway


@EACH
def test_break_closes_the_connection(server, sdk):
    """At a break the HTTP connection is closed at once, though stream and client still exist, and the partial stays."""
    server.replies.append(Reply(sdk.body, hang_after=len(sdk.body) // 2))
    accumulator = sdk.module.Accumulator()
    with sdk.client(server.url) as client:
        stream = sdk.create(client)
        for _ in accumulator.tap(stream):
            if accumulator.snapshot.text:
                break
        assert stream.response.is_closed
        assert server.dropped.wait(5)
    with pytest.raises(IncompleteStream) as caught:
        accumulator.result()
    assert caught.value.state.snapshot.text == sdk.module.fold(sdk.events).text[:6]


@EACH
def test_cancelled_task_closes_the_connection(server, sdk):
    """A task cancelled while the SDK waits for bytes ends as cancelled, the connection is closed, the partial stays."""
    server.replies.append(Reply(sdk.body, hang_after=len(sdk.body) // 2))
    accumulator = sdk.module.Accumulator()

    async def read(client):
        async for _ in accumulator.atap(await sdk.create(client)):
            pass

    async def main():
        async with sdk.async_client(server.url) as client:
            task = asyncio.create_task(read(client))
            while not (accumulator.snapshot and accumulator.snapshot.text):
                await asyncio.sleep(0.005)
            task.cancel()
            await asyncio.wait([task], timeout=5)
            assert task.cancelled()
            assert await asyncio.to_thread(server.dropped.wait, 5)

    asyncio.run(main())
    with pytest.raises(IncompleteStream) as caught:
        accumulator.result()
    text = caught.value.state.snapshot.text
    assert text
    assert sdk.module.fold(sdk.events).text.startswith(text)


@EACH
def test_timeout_closes_the_connection(server, sdk):
    """A timeout around the loop is a TimeoutError, the connection is closed, the partial stays."""
    server.replies.append(Reply(sdk.body, pieces=100_000, hang_after=len(sdk.body) // 2))
    accumulator = sdk.module.Accumulator()

    async def main():
        async with sdk.async_client(server.url) as client:
            stream = await sdk.create(client)
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.5):
                    async for _ in accumulator.atap(stream):
                        pass
            assert stream.response.is_closed
            assert await asyncio.to_thread(server.dropped.wait, 5)

    asyncio.run(main())
    assert accumulator.snapshot.text


# ------------------------------------------------------------------------------------------------ what SDKs drop


def test_friendli_drops_reasoning(server):
    """The friendli SDK's chat models drop reasoning; the bytes of the same stream have it."""
    with friendli.SyncFriendli(token="none", server_url=server.url) as client:
        assert chat.fold(FRIENDLI_CHAT.create(client)).reasoning == ""
        stream = FRIENDLI_CHAT.create(client)
        completion = chat.fold(sse.events(stream.response.iter_bytes()))
    assert completion.reasoning == "The weather is asked for."
    assert chat.fold(CHAT_EVENTS) == completion


def test_friendli_raises_at_a_ping(server):
    """The friendli SDK raises at a ping; the tap keeps what came before and adds nothing; the bytes go on (M10)."""
    body = as_sse([*MESSAGES_EVENTS[:4], {"type": "ping"}, *MESSAGES_EVENTS[4:]], named=True)
    server.replies += [Reply(body), Reply(body)]
    with friendli.SyncFriendli(token="none", server_url=server.url) as client:
        accumulator = messages.Accumulator()
        with pytest.raises(FriendliCoreError, match="ping"):
            for _ in accumulator.tap(FRIENDLI_MESSAGES.create(client)):
                pass
        assert functools.reduce(messages.step, MESSAGES_EVENTS[:4], messages.State()) == accumulator.state
        stream = FRIENDLI_MESSAGES.create(client)
        assert messages.fold(MESSAGES_EVENTS) == messages.fold(sse.events(stream.response.iter_bytes()))


@pytest.mark.parametrize("sdk", [OPENAI, FRIENDLI_CHAT], ids=repr)
def test_done_is_hidden(server, sdk):
    """C15: an SDK that hides [DONE] leaves a stream without finish_reason incomplete; feeding "[DONE]" completes it."""
    body = as_sse([*CHAT_EVENTS[:8], "[DONE]"], named=False)
    server.replies += [Reply(body), Reply(body)]
    with sdk.client(server.url) as client:
        accumulator = chat.Accumulator()
        for _ in accumulator.tap(sdk.create(client)):
            pass
        with pytest.raises(IncompleteStream, match=r"finish_reason.*\[DONE\]"):
            accumulator.result()
        accumulator.feed("[DONE]")
        text = accumulator.result().text
        assert text == chat.fold(sse.events(sdk.create(client).response.iter_bytes())).text
    assert ["missing_finish_reason"] == [note.code for note in accumulator.state.diagnostics]


@pytest.mark.parametrize(
    ("sdk", "error"),
    [(OPENAI, openai.APIError), (ANTHROPIC, anthropic.APIStatusError), (FRIENDLI_CHAT, FriendliCoreError)],
    ids=repr,
)
def test_error_events_become_the_sdks_errors(server, sdk, error):
    """These SDKs raise at an error event, so the state is only incomplete; from the bytes it is ServerError (M13, C14)."""
    event = {"type": "error", "error": {"type": "overloaded_error", "message": "busy"}}
    body = as_sse([*sdk.events[:6], event], named=sdk.module is messages)
    server.replies += [Reply(body), Reply(body)]
    accumulator = sdk.module.Accumulator()
    with sdk.client(server.url) as client:
        with pytest.raises(error):
            for _ in accumulator.tap(sdk.create(client)):
                pass
        with pytest.raises(IncompleteStream):
            accumulator.result()
        with pytest.raises(ServerError, match="busy"):
            sdk.module.fold(sse.events(sdk.create(client).response.iter_bytes()))


def test_friendli_passes_error_events_on(server):
    """The friendli SDK yields the error event of a Messages stream: the state fails with what the server said (M13)."""
    event = {"type": "error", "error": {"type": "overloaded_error", "message": "busy"}}
    server.replies.append(Reply(as_sse([*MESSAGES_EVENTS[:6], event], named=True)))
    client = friendli.SyncFriendli(token="none", server_url=server.url)
    with client, pytest.raises(ServerError, match="busy") as caught:
        messages.fold(FRIENDLI_MESSAGES.create(client))
    assert caught.value.state.snapshot.content


@EACH
def test_bytes_of_a_stream(server, sdk):
    """The byte-level way round any SDK: `stream.response.iter_bytes()` in place of the stream."""
    with sdk.client(server.url) as client:
        stream = sdk.create(client)
        assert sdk.module.fold(sdk.events) == sdk.module.fold(sse.events(stream.response.iter_bytes()))

    async def main():
        async with sdk.async_client(server.url) as client:
            stream = await sdk.create(client)
            accumulator = sdk.module.Accumulator()
            async for event in sse.aevents(stream.response.aiter_bytes()):
                accumulator.feed(event)
            return accumulator.result()

    assert sdk.module.fold(sdk.events) == asyncio.run(main())


def test_streaming_responses(server):
    """The public byte-level way of openai and anthropic: `with_streaming_response`."""
    with (
        OPENAI.client(server.url) as client,
        client.chat.completions.with_streaming_response.create(**COMPLETION) as response,
    ):
        assert chat.fold(CHAT_EVENTS) == chat.fold(sse.events(response.iter_bytes()))
    with (
        ANTHROPIC.client(server.url) as client,
        client.messages.with_streaming_response.create(**MESSAGE) as response,
    ):
        assert messages.fold(MESSAGES_EVENTS) == messages.fold(sse.events(response.iter_bytes()))


# ------------------------------------------------------------------------------------------------ embedded


def test_calls_are_recorded(server):
    """A wrapper around an SDK's call records message, usage and time to first token; callers notice nothing."""

    class Call(chat.Accumulator):
        def __init__(self):
            super().__init__()
            self.began, self.first_token = time.monotonic(), None

        def feed(self, event):
            super().feed(event)
            if self.first_token is None and self.snapshot and self.snapshot.text:
                self.first_token = time.monotonic() - self.began

    calls = []
    server.replies += [Reply(CHAT), Reply(CHAT, hang_after=len(CHAT) // 2)]
    with OPENAI.client(server.url) as client:
        create = client.chat.completions.create

        def recorded(**request):
            calls.append(Call())
            return calls[-1].tap(create(**request))

        client.chat.completions.create = recorded
        chunks = list(client.chat.completions.create(**COMPLETION))
        for chunk in client.chat.completions.create(**COMPLETION):
            if chunk.choices[0].delta.content:
                break
    assert {type(chunk).__name__ for chunk in chunks} == {"ChatCompletionChunk"}
    whole, part = calls
    assert chat.fold(CHAT_EVENTS) == whole.result()
    assert whole.result().usage.completion_tokens == 42
    assert 0 < whole.first_token < 10
    assert part.state.status == "open"
    assert 0 < part.first_token < 10


# ------------------------------------------------------------------------------------------------ recognised by shape


def dumps(**options):
    assert options == {"by_alias": True, "exclude_unset": True}
    return {"type": "ping"}


@pytest.mark.parametrize(
    "event",
    [
        {"type": "ping"},
        SimpleNamespace(event="ping", data={"type": "ping"}),
        SimpleNamespace(data=SimpleNamespace(to_dict=lambda: {"type": "ping"})),
        SimpleNamespace(data=SimpleNamespace(model_dump=dumps)),
        SimpleNamespace(to_dict=lambda: {"type": "ping"}, model_dump=dict),
        SimpleNamespace(model_dump=dumps),
        SimpleNamespace(type="ping", data="an extra field", to_dict=lambda: {"type": "ping"}),
    ],
)
def test_shapes(event):
    """An SDK's event is what its wrapper's `data`, its `to_dict` or its `model_dump` by alias says, in this order."""
    assert {"type": "ping"} == event_of(event)


@pytest.mark.parametrize("event", [b"{}", bytearray(b"{}"), object(), dict, MagicMock(), SimpleNamespace(data=b"{}")])
def test_no_shape(event):
    """M15: anything else is a TypeError that names its type, and for bytes says what takes them."""
    with pytest.raises(TypeError, match=type(event).__name__) as caught:
        event_of(event)
    assert isinstance(event, (bytes, bytearray)) == ("step_json" in str(caught.value))
