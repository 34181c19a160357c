"""Any SDK: the objects that real SDKs yield go in as they are, and come to what the bytes give.

What an SDK's models drop is asserted as it is, beside the byte-level way round it.
"""

import asyncio
import functools
import gc
import itertools
import logging
import time
import types
from types import SimpleNamespace
from unittest.mock import MagicMock

import anthropic
import anyio
import friendli
import openai
import pytest
import trio
from friendli.core.models import FriendliCoreError, ResponseValidationError

from friendli_stream import IncompleteStream, ServerError, chat, messages, sse
from friendli_stream.wire import event_of
from tests.replay_server import CHAT, CHAT_EVENTS, MESSAGES, MESSAGES_EVENTS, Reply, as_sse

logging.getLogger().setLevel(logging.ERROR)  # the friendli SDK warns about a missing team

TURN = [{"role": "user", "content": "How is the weather?"}]
MESSAGE = {"model": "replayed-model", "max_tokens": 64, "messages": TURN, "stream": True}
COMPLETION = {"model": "replayed-model", "messages": TURN, "stream": True}


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
    lambda client, **options: client.chat.completions.create(**COMPLETION, **options),
)
ANTHROPIC = SDK(
    "anthropic",
    messages,
    anthropic_clients(anthropic.Anthropic),
    anthropic_clients(anthropic.AsyncAnthropic),
    lambda client, **options: client.messages.create(**MESSAGE, **options),
)
FRIENDLI_MESSAGES = SDK(
    "friendli", messages, *FRIENDLI, lambda client, **options: client.serverless.messages.messages(**MESSAGE, **options)
)
FRIENDLI_CHAT = SDK(
    "friendli",
    chat,
    *FRIENDLI,
    lambda client, **options: client.serverless.chat.complete(**COMPLETION, **options),
    keeps=False,
)
FRIENDLI_DEDICATED_MESSAGES = SDK(
    "friendli-dedicated",
    messages,
    *FRIENDLI,
    lambda client, **options: client.dedicated.messages.messages(**MESSAGE, **options),
)
FRIENDLI_DEDICATED_CHAT = SDK(
    "friendli-dedicated",
    chat,
    *FRIENDLI,
    lambda client, **options: client.dedicated.chat.complete(**COMPLETION, **options),
    keeps=False,
)

SDKS = [OPENAI, ANTHROPIC, FRIENDLI_MESSAGES, FRIENDLI_CHAT]
EACH = pytest.mark.parametrize("sdk", SDKS, ids=repr)
DEDICATED = [FRIENDLI_DEDICATED_MESSAGES, FRIENDLI_DEDICATED_CHAT]

BACKENDS = ("asyncio", "trio")
# The friendli SDK's asynchronous client calls asyncio by itself: see test_friendli_needs_asyncio.
ASYNCHRONOUS = pytest.mark.parametrize(
    ("sdk", "backend"),
    [
        *((sdk, backend) for sdk in (OPENAI, ANTHROPIC) for backend in BACKENDS),
        *((sdk, "asyncio") for sdk in (FRIENDLI_MESSAGES, FRIENDLI_CHAT)),
    ],
    ids=repr,
)
# trio warns of each asynchronous generator that is left to it. These SDKs leave theirs, tapped or not.
SDKS_GENERATORS = pytest.mark.filterwarnings(
    r"ignore:Async generator '(openai|anthropic|httpx|httpx2|httpcore|httpcore2)\.:ResourceWarning"
)
OWN_GENERATOR = pytest.mark.filterwarnings("ignore:Async generator 'friendli_stream:ResourceWarning")


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
    """Response, `close` and `with` of an SDK's stream are reachable through the tap, or around it, and close it."""
    with sdk.client(server.url) as client:
        stream = sdk.create(client)
        with sdk.module.Accumulator().tap(stream) as events:
            next(events)
            assert stream.response is events.response
            assert events.response.headers["content-type"].startswith("text/event-stream")
            assert not events.response.is_closed
        assert stream.response.is_closed
        with sdk.create(client) as stream:
            next(sdk.module.Accumulator().tap(stream))
        assert stream.response.is_closed


@SDKS_GENERATORS
@OWN_GENERATOR
@ASYNCHRONOUS
def test_asynchronous_streams_attributes_stay_reachable(server, sdk, backend):
    """The same of an asynchronous stream, whose `close` is a coroutine function."""

    async def main():
        async with sdk.async_client(server.url) as client:
            stream = await sdk.create(client)
            async with sdk.module.Accumulator().atap(stream) as events:
                await anext(events)
                assert stream.response is events.response
                assert not events.response.is_closed
            assert stream.response.is_closed
            for closed_by in ("close", "aclose"):
                events = sdk.module.Accumulator().atap(await sdk.create(client))
                await anext(events)
                await getattr(events, closed_by)()
                assert events.response.is_closed
            async with await sdk.create(client) as stream:
                await anext(sdk.module.Accumulator().atap(stream))
            assert stream.response.is_closed

    anyio.run(main, backend=backend)


# ------------------------------------------------------------------------------------------------ left midway
#
# Each way to leave a loop, with the tap and without it: what comes out of the loop must be the same. With the tap the
# partial is kept, and the HTTP connection is closed though stream and client still exist. `saw` says after each event
# whether it is time to leave.


class Stop(Exception):
    pass


def by_break(events, saw):
    for event in events:
        if saw(event):
            break


def by_break_in_with(events, saw):
    with events as inner:
        for event in inner:
            if saw(event):
                break


def by_error(events, saw):
    for event in events:
        if saw(event):
            raise Stop


def by_error_in_with(events, saw):
    with events as inner:
        for event in inner:
            if saw(event):
                raise Stop


def by_close(events, saw):
    for event in events:
        if saw(event):
            events.close()
            break


def by_reading_on(events, saw):
    for event in events:
        saw(event)


async def by_break_async(events, saw):
    async for event in events:
        if saw(event):
            break


async def by_break_in_with_async(events, saw):
    async with events as inner:
        async for event in inner:
            if saw(event):
                break


async def by_error_async(events, saw):
    async for event in events:
        if saw(event):
            raise Stop


async def by_error_in_with_async(events, saw):
    async with events as inner:
        async for event in inner:
            if saw(event):
                raise Stop


async def by_close_async(events, saw):
    async for event in events:
        if saw(event):
            await events.close()  # the SDK's own, reached through the tap
            break


async def by_timeout(events, saw):
    with anyio.fail_after(None) as scope:
        async for event in events:
            if saw(event):
                scope.deadline = anyio.current_time() + 0.02


async def by_asyncios_timeout(events, saw):
    async with asyncio.timeout(None) as timeout:
        async for event in events:
            if saw(event):
                timeout.reschedule(asyncio.get_running_loop().time() + 0.02)


async def by_a_timeout_for_each(events, saw):
    events, patience = aiter(events), None
    while True:
        if saw(await asyncio.wait_for(anext(events), patience)):
            patience = 0.02


async def by_cancelled_scope(events, saw):
    with anyio.CancelScope() as scope:
        async for event in events:
            if saw(event):
                scope.cancel()
    assert scope.cancelled_caught


def chain(error):
    """An error with those behind it, as far as two runs can have the same ones."""
    return None if error is None else (type(error), chain(error.__cause__), chain(error.__context__))


class Run:
    """One stream that hangs midway, left at its first text."""

    def __init__(self, server, sdk, *, tapped):
        server.replies.append(Reply(sdk.body, pieces=100, hang_after=len(sdk.body) // 2))
        server.dropped.clear()
        self.server, self.module, self.tapped = server, sdk.module, tapped
        self.accumulator = sdk.module.Accumulator()
        self.seen = sdk.module.State()

    def saw(self, event):
        self.seen = self.module.step(self.seen, event)
        return self.seen.snapshot.text != ""

    def check(self, stream):
        if self.tapped:
            assert stream.response.is_closed
            assert self.server.dropped.wait(5)
            assert self.seen == self.accumulator.state
            with pytest.raises(IncompleteStream) as caught:
                self.accumulator.result()
            assert self.accumulator.state is caught.value.state


def outcomes(server, sdk, leave, **options):
    """What comes out of a loop that is left, bare and tapped."""
    with sdk.client(server.url) as client:
        for tapped in (False, True):
            run = Run(server, sdk, tapped=tapped)
            stream, outcome = sdk.create(client, **options), None
            try:
                leave(run.accumulator.tap(stream) if tapped else stream, run.saw)
            except Exception as error:
                outcome = chain(error)
            run.check(stream)
            stream.close()
            yield outcome


@EACH
@pytest.mark.parametrize("leave", [by_break, by_break_in_with, by_error, by_error_in_with, by_close])
def test_left(server, sdk, leave):
    """A synchronous loop over a tapped stream ends as without the tap; partial kept, connection closed at once."""
    bare, tapped = outcomes(server, sdk, leave)
    assert bare == tapped
    assert (tapped is not None) == (leave in (by_error, by_error_in_with))


@EACH
def test_clients_timeout(server, sdk):
    """A client's own timeout while a stream hangs is the client's own error, with the tap as without; the rest alike."""
    patience = {"timeout_ms": 1000} if sdk.name == "friendli" else {"timeout": 1}
    bare, tapped = outcomes(server, sdk, by_reading_on, **patience)
    assert bare == tapped
    assert "Timeout" in tapped[0].__name__


async def async_outcomes(server, sdk, leave):
    """`outcomes` of an asynchronous loop."""
    found = []
    async with sdk.async_client(server.url) as client:
        for tapped in (False, True):
            run = Run(server, sdk, tapped=tapped)
            stream, outcome = await sdk.create(client), None
            try:
                await leave(run.accumulator.atap(stream) if tapped else stream, run.saw)
            except Exception as error:
                outcome = chain(error)
            with anyio.move_on_after(5):
                # A tap that was dropped, by a bare break or an error, is closed at one of the event loop's next turns.
                while tapped and not stream.response.is_closed:
                    await anyio.sleep(0)
            await anyio.to_thread.run_sync(run.check, stream)
            await stream.close()
            found.append(outcome)
    return found


@SDKS_GENERATORS
@OWN_GENERATOR
@ASYNCHRONOUS
@pytest.mark.parametrize(
    "leave",
    [
        by_break_async,
        by_break_in_with_async,
        by_error_async,
        by_error_in_with_async,
        by_close_async,
        by_timeout,
        by_cancelled_scope,
    ],
)
def test_left_asynchronously(server, sdk, backend, leave):
    """The same for an asynchronous loop, on asyncio and on trio, with timeouts and cancelled scopes."""
    bare, tapped = anyio.run(async_outcomes, server, sdk, leave, backend=backend)
    assert bare == tapped
    assert (tapped is not None) == (leave in (by_error_async, by_error_in_with_async, by_timeout))


@EACH
@pytest.mark.parametrize("leave", [by_asyncios_timeout, by_a_timeout_for_each])
def test_asyncios_timeouts(server, sdk, leave):
    """The same for asyncio's own timeouts, around the loop and around one step of it."""
    bare, tapped = asyncio.run(async_outcomes(server, sdk, leave))
    assert bare == tapped
    assert tapped[0] is TimeoutError


@SDKS_GENERATORS
@OWN_GENERATOR
@ASYNCHRONOUS
def test_closed_by_another_task(server, sdk, backend):
    """Closed by another task, as by a stop button, a loop that waits ends at once with the client's own error."""

    async def leave(events, saw):
        seen = anyio.Event()

        async def stop():
            await seen.wait()
            await anyio.sleep(0.2)  # until the loop has all that came, and waits
            await (events.aclose() if hasattr(events, "aclose") else events.close())

        async def read():
            async for event in events:
                if saw(event):
                    seen.set()

        async with anyio.create_task_group() as group:
            group.start_soon(stop)
            try:
                await read()
            except Exception as error:
                found.append(chain(error))

    found = []
    anyio.run(async_outcomes, server, sdk, leave, backend=backend)
    bare, tapped = found
    assert bare == tapped


@types.coroutine
def cancelled_at(turn, cancel, coroutine):
    """Run the coroutine, and call `cancel` as it begins to wait for the `turn`th time."""
    inner = coroutine.__await__()
    resume = functools.partial(inner.send, None)
    for number in itertools.count(1):
        try:
            waiting = resume()
        except StopIteration:
            return
        if number == turn:
            cancel()
        try:
            resume = functools.partial(inner.send, (yield waiting))
        except BaseException as error:
            resume = functools.partial(inner.throw, error)


@SDKS_GENERATORS
@OWN_GENERATOR
@ASYNCHRONOUS
def test_cancelled_at_every_await(server, sdk, backend):
    """Cancelled at any await of a real stream: it ends as cancelled, the response is closed, what came is kept."""

    async def read(events, log):
        async with events:
            async for event in events:
                log.append(event)
                await anyio.lowlevel.checkpoint()

    async def by_scope(turn, reading):
        with anyio.CancelScope() as scope:
            await cancelled_at(turn, scope.cancel, reading)
        return scope.cancelled_caught

    async def by_task(turn, reading):
        async def awaited():
            await cancelled_at(turn, task.cancel, reading)

        task = asyncio.create_task(awaited())
        await asyncio.wait([task])
        return task.cancelled()

    async def main(cancel):
        async with sdk.async_client(server.url) as client:
            for turn in itertools.count(1):
                server.replies.append(Reply(sdk.body, pieces=400))
                stream = await sdk.create(client)
                accumulator, log = sdk.module.Accumulator(), []
                cancelled = await cancel(turn, read(accumulator.atap(stream), log))
                assert stream.response.is_closed
                assert functools.reduce(sdk.module.step, log, sdk.module.State()) == accumulator.state
                if not cancelled:  # it ended before it came to this await
                    assert holds(sdk, accumulator.result())
                    assert turn > len(log)
                    return

    for cancel in [by_scope, by_task] if backend == "asyncio" else [by_scope]:
        anyio.run(main, cancel, backend=backend)


def test_friendli_needs_asyncio(server):
    """The friendli SDK's asynchronous client calls asyncio by itself, so that there is none of it on trio."""

    async def main():
        async with FRIENDLI_CHAT.async_client(server.url) as client:
            await FRIENDLI_CHAT.create(client)

    with pytest.raises(RuntimeError, match="no running event loop"):
        trio.run(main)


@SDKS_GENERATORS
@pytest.mark.parametrize("sdk", [OPENAI, ANTHROPIC], ids=repr)
def test_trio_finds_nothing_left_open(server, sdk):
    """`async with` closes the tap's own generator too: trio, which warns of each that is left to it, says nothing."""
    run = Run(server, sdk, tapped=True)

    async def main():
        async with sdk.async_client(server.url) as client:
            await by_break_in_with_async(run.accumulator.atap(await sdk.create(client)), run.saw)
            gc.collect()

    trio.run(main)


# ------------------------------------------------------------------------------------------------ what SDKs drop


def test_friendli_drops_reasoning(server):
    """The friendli SDK's chat models drop reasoning; the bytes of the same stream have it."""
    with friendli.SyncFriendli(token="none", server_url=server.url) as client:
        assert chat.fold(FRIENDLI_CHAT.create(client)).reasoning == ""
        stream = FRIENDLI_CHAT.create(client)
        completion = chat.fold(sse.events(stream.response.iter_bytes()))
    assert completion.reasoning == "The weather\u2028is asked for."
    assert chat.fold(CHAT_EVENTS) == completion


@pytest.mark.parametrize("kind", ["ping", "novelty"])
def test_friendli_raises_at_an_unknown_event(server, kind):
    """The friendli SDK raises at a ping and at what else it does not know; the tap keeps what came; the bytes go on (M10)."""
    body = as_sse([*MESSAGES_EVENTS[:4], {"type": kind}, *MESSAGES_EVENTS[4:]], named=True)
    server.replies += [Reply(body), Reply(body)]
    with friendli.SyncFriendli(token="none", server_url=server.url) as client:
        accumulator = messages.Accumulator()
        with pytest.raises(ResponseValidationError, match=kind):
            for _ in accumulator.tap(FRIENDLI_MESSAGES.create(client)):
                pass
        assert functools.reduce(messages.step, MESSAGES_EVENTS[:4], messages.State()) == accumulator.state
        stream = FRIENDLI_MESSAGES.create(client)
        assert messages.fold(MESSAGES_EVENTS) == messages.fold(sse.events(stream.response.iter_bytes()))


def test_anthropic_skips_pings(server):
    """The anthropic SDK passes no ping on, which nothing is lost by (M10)."""
    server.replies.append(Reply(as_sse([MESSAGES_EVENTS[0], {"type": "ping"}, *MESSAGES_EVENTS[1:]], named=True)))
    with ANTHROPIC.client(server.url) as client:
        events = list(ANTHROPIC.create(client))
    assert "ping" not in {event.type for event in events}
    assert messages.fold(MESSAGES_EVENTS) == messages.fold(events)


def test_anthropics_helper_adds_events(server):
    """`messages.stream()` of the anthropic SDK mixes events of its own in, which are noted as unknown ones (M10)."""
    accumulator = messages.Accumulator()
    request = {name: value for name, value in MESSAGE.items() if name != "stream"}
    with ANTHROPIC.client(server.url) as client, client.messages.stream(**request) as stream:
        for _ in accumulator.tap(stream):
            pass
    assert {"unknown_event"} == {note.code for note in accumulator.state.diagnostics}
    assert messages.fold(MESSAGES_EVENTS).text == accumulator.result().text


@EACH
def test_unknown_fields(server, sdk):
    """The openai and anthropic SDKs pass unknown fields on; friendli's drop them, and the bytes have them (M1, C13)."""
    first = dict(sdk.events[0])
    if sdk.module is messages:
        first["message"] = {**first["message"], "novelty": 1}
    else:
        first["novelty"] = 1
    body = as_sse([first, *sdk.events[1:]], named=sdk.module is messages)
    server.replies += [Reply(body), Reply(body)]
    with sdk.client(server.url) as client:
        kept = sdk.module.fold(sdk.create(client)).extra
        assert {"novelty": 1} == sdk.module.fold(sse.events(sdk.create(client).response.iter_bytes())).extra
    assert kept == ({} if sdk.name == "friendli" else {"novelty": 1})


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
