"""atap under cancellation: at every await, on asyncio and on trio, the partial stays and the source is closed.

The sources here are made for the purpose: they await where they are told, and count how often they are closed. The
streams of real SDKs are left and cancelled in test_sdks.py, with the tap and without it.
"""

import asyncio
import functools
import itertools

import anyio
import pytest

from friendli_stream import IncompleteStream, messages
from tests.replay_server import MESSAGES_EVENTS

EVENTS = MESSAGES_EVENTS[:12]


def reduced(events):
    return functools.reduce(messages.step, events, messages.State())


class Source:
    """A stream as SDKs have it, with two awaits before each event and one in closing. Raises what is in it."""

    def __init__(self, events=EVENTS, *, closing=None):
        self.left = iter(events)
        self.closing = closing
        self.given = 0
        self.closed = 0
        self.response = object()

    def __aiter__(self):
        return self

    async def __anext__(self):
        await anyio.lowlevel.checkpoint()
        await anyio.lowlevel.checkpoint()
        event = next(self.left, None)
        if event is None:
            raise StopAsyncIteration
        if isinstance(event, BaseException):
            raise event
        self.given += 1
        return event

    async def aclose(self):
        self.closed += 1
        await anyio.lowlevel.checkpoint()
        if self.closing is not None:
            raise self.closing


class SDKSource(Source):
    """As the openai SDK's: `close` is a coroutine function, there is no `aclose`, and iterating makes a generator."""

    async def __aiter__(self):
        while True:
            try:
                yield await self.__anext__()
            except StopAsyncIteration:
                return

    close = Source.aclose
    aclose = None


class SyncClosed(Source):
    """As aiohttp's response: `close` is a plain function."""

    aclose = None

    def close(self):
        self.closed += 1


SOURCES = pytest.mark.parametrize("kind", [Source, SDKSource, SyncClosed])
BACKENDS = pytest.mark.parametrize("backend", ["asyncio", "trio"])
# trio warns of every asynchronous generator that a bare break leaves to it, a source's as well as the tap's.
LEFT_TO_TRIO = pytest.mark.filterwarnings("ignore:Async generator:ResourceWarning")


async def read(events, log):
    """The application's loop: it awaits something for each event."""
    async for event in events:
        log.append(event)
        await anyio.lowlevel.checkpoint()


async def read_with(accumulator, source, log):
    async with accumulator.atap(source) as events:
        await read(events, log)


async def read_bare(accumulator, source, log):
    async for event in accumulator.atap(source):
        log.append(event)
        await anyio.lowlevel.checkpoint()


AWAITS = range(1, 3 * len(EVENTS) + 6)  # the turns that a whole reading takes, and some more


# ------------------------------------------------------------------------------------------------ at every await


@SOURCES
@pytest.mark.parametrize("reader", [read_bare, read_with])
def test_task_cancelled(kind, reader):
    """A task cancelled at any await ends as cancelled, the source is closed once, and the partial is kept."""

    async def main(turns):
        accumulator, source, log = messages.Accumulator(), kind(), []
        task = asyncio.create_task(reader(accumulator, source, log))
        for _ in range(turns):
            await asyncio.sleep(0)
        ended = task.done()
        task.cancel()
        await asyncio.wait([task])
        assert ended == (not task.cancelled())
        if reader is read_with:
            assert source.closed == 1
        else:
            await settled(lambda: source.closed)
            assert source.closed == (not ended)  # a stream read to its end is left open
        assert reduced(EVENTS[: source.given]) == accumulator.state
        assert log == EVENTS[: len(log)]
        assert source.given - len(log) in (0, 1)
        return ended

    assert [False, True] == sorted({asyncio.run(main(turns)) for turns in AWAITS})


async def settled(condition):
    """Wait for what the event loop does by itself at its next turns; trio takes some more than asyncio."""
    for _ in range(10):
        if condition():
            return
        await anyio.sleep(0)


@LEFT_TO_TRIO
@SOURCES
@BACKENDS
@pytest.mark.parametrize("turns", AWAITS)
def test_scope_cancelled(kind, backend, turns):
    """The same by a scope of anyio or trio, in which each await is cancelled, those of closing too."""

    async def main():
        accumulator, source, log = messages.Accumulator(), kind(), []
        outcomes = []

        async def reading():
            try:
                await read_with(accumulator, source, log)
            except BaseException as error:
                outcomes.append(type(error))
                raise
            outcomes.append(None)

        async with anyio.create_task_group() as group:
            group.start_soon(reading)
            for _ in range(turns):
                await anyio.lowlevel.checkpoint()
            group.cancel_scope.cancel()
        assert source.closed == 1
        [outcome] = outcomes
        assert outcome in (None, anyio.get_cancelled_exc_class())
        assert reduced(EVENTS[: source.given]) == accumulator.state

    anyio.run(main, backend=backend)


@LEFT_TO_TRIO
@BACKENDS
@pytest.mark.parametrize("turns", AWAITS)
def test_generator_cancelled(backend, turns):
    """A plain asynchronous generator ends by its own `finally`, wherever its reader is cancelled."""

    async def main():
        accumulator, source, log, started, ended = messages.Accumulator(), Source(), [], [], []

        async def generate():
            started.append(True)
            try:
                async for event in source:
                    yield event
            finally:
                ended.append(True)

        async with anyio.create_task_group() as group:
            group.start_soon(read_with, accumulator, generate(), log)
            for _ in range(turns):
                await anyio.sleep(0)
            group.cancel_scope.cancel()
        assert started in ([], [True])  # not at all, if trio ran the reader later than the cancellation
        assert started == ended
        assert reduced(EVENTS[: source.given]) == accumulator.state

    anyio.run(main, backend=backend)


# ------------------------------------------------------------------------------------------------ timeouts


PATIENCE = 0.5  # seconds: more than three events take, whatever else the machine does


class Hanging(Source):
    """Gives three events and then nothing, for ever."""

    async def __anext__(self):
        if self.given == 3:
            await anyio.sleep_forever()
        return await super().__anext__()


async def with_wait_for(events):
    await asyncio.wait_for(read(events, []), PATIENCE)


async def with_wait_for_each(events):
    while True:
        await asyncio.wait_for(anext(events), PATIENCE)


async def with_timeout(events):
    async with asyncio.timeout(PATIENCE):
        await read(events, [])


async def with_fail_after(events):
    with anyio.fail_after(PATIENCE):
        await read(events, [])


@pytest.mark.parametrize(
    ("reader", "backend"),
    [
        (with_wait_for, "asyncio"),
        (with_wait_for_each, "asyncio"),
        (with_timeout, "asyncio"),
        (with_fail_after, "asyncio"),
        (with_fail_after, "trio"),
    ],
)
def test_timeout(reader, backend):
    """A timeout is a TimeoutError as without the tap, the source is closed by then, and the partial is kept."""

    async def main():
        with pytest.raises(TimeoutError):
            await reader(Hanging())
        accumulator, source = messages.Accumulator(), Hanging()
        with pytest.raises(TimeoutError):
            await reader(accumulator.atap(source))
        assert source.closed == 1
        assert reduced(EVENTS[:3]) == accumulator.state
        with pytest.raises(IncompleteStream) as caught:
            accumulator.result()
        assert accumulator.state is caught.value.state

    anyio.run(main, backend=backend)


# ------------------------------------------------------------------------------------------------ without cancellation


@SOURCES
@BACKENDS
def test_passes_the_very_objects(kind, backend):
    """A tapped loop sees the same objects in the same order, and a stream read to its end is left open."""

    async def main():
        accumulator, source, log = messages.Accumulator(), kind(MESSAGES_EVENTS), []
        await read(accumulator.atap(source), log)
        assert len(MESSAGES_EVENTS) == len(log)
        assert all(map(lambda a, b: a is b, MESSAGES_EVENTS, log))
        assert messages.fold(MESSAGES_EVENTS) == accumulator.result()
        assert source.closed == 0

    anyio.run(main, backend=backend)


@LEFT_TO_TRIO
@SOURCES
@BACKENDS
def test_break_closes(kind, backend):
    """A bare break closes at the event loop's next turn, `async with` at once; both once."""

    async def main():
        for read_first in (1, 5):
            accumulator, source = messages.Accumulator(), kind()
            for_all = itertools.count(1)
            async for _ in accumulator.atap(source):
                if next(for_all) == read_first:
                    break
            await settled(lambda source=source: source.closed)
            assert source.closed == 1
            assert reduced(EVENTS[:read_first]) == accumulator.state

            source = kind()
            async with messages.Accumulator().atap(source) as events:
                async for _ in events:
                    break
            assert source.closed == 1
            del events
            await anyio.sleep(0)
            assert source.closed == 1

    anyio.run(main, backend=backend)


@pytest.mark.parametrize("closing", [None, ValueError("closing")])
@pytest.mark.parametrize(
    ("kind", "backend"),
    [(LookupError, "asyncio"), (LookupError, "trio"), (KeyError, "asyncio"), (asyncio.CancelledError, "asyncio")],
)
def test_error_of_the_source(kind, backend, closing):
    """An error of the source passes as it is, even where closing fails too, and what came before it is kept."""

    async def main():
        error = kind()
        accumulator, source = messages.Accumulator(), Source([*EVENTS[:5], error], closing=closing)
        with pytest.raises(kind) as caught:
            await read(accumulator.atap(source), [])
        assert error is caught.value
        assert source.closed == 1
        assert reduced(EVENTS[:5]) == accumulator.state

    anyio.run(main, backend=backend)


@BACKENDS
def test_error_of_the_body(backend):
    """An error in the body of `async with` is what comes out, even where closing fails; a failing close alone is seen."""

    async def main():
        with pytest.raises(LookupError):
            async with messages.Accumulator().atap(Source(closing=ValueError("closing"))):
                raise LookupError
        with pytest.raises(ValueError, match="closing"):
            async with messages.Accumulator().atap(Source(closing=ValueError("closing"))):
                pass
        with pytest.raises(ValueError, match="closing"):
            await messages.Accumulator().atap(Source(closing=ValueError("closing"))).aclose()

    anyio.run(main, backend=backend)


@BACKENDS
def test_attributes_are_the_sources(backend):
    """Every other attribute is the source's own, its `close` included; one that it has not is an AttributeError."""

    async def main():
        source = SDKSource()
        tap = messages.Accumulator().atap(source)
        assert source.response is tap.response
        await tap.close()
        assert source.closed == 1
        with pytest.raises(AttributeError):
            _ = tap.headers

    anyio.run(main, backend=backend)


@LEFT_TO_TRIO
@BACKENDS
def test_what_cannot_be_closed(backend):
    """A source without any way to be closed is simply left."""

    class Bare:
        def __aiter__(self):
            return self

        async def __anext__(self):
            return {"type": "ping"}

    async def main():
        async with messages.Accumulator().atap(Bare()) as events:
            assert await anext(events) == {"type": "ping"}

    anyio.run(main, backend=backend)


@BACKENDS
def test_closed_by_another_task(backend):
    """`aclose()` from another task, as a stop button does it, reaches a source that is waiting for its next event."""

    class Waiting(Source):
        def __init__(self):
            super().__init__()
            self.woken = anyio.Event()

        async def __anext__(self):
            if self.given == 3:
                await self.woken.wait()
                raise StopAsyncIteration
            return await super().__anext__()

        async def aclose(self):
            await super().aclose()
            self.woken.set()

    async def main():
        accumulator, source, log = messages.Accumulator(), Waiting(), []
        tap = accumulator.atap(source)
        with anyio.fail_after(5):
            async with anyio.create_task_group() as group:
                group.start_soon(read, tap, log)
                while len(log) < 3:
                    await anyio.sleep(0)
                await tap.aclose()
        assert EVENTS[:3] == log
        assert source.closed == 1

    anyio.run(main, backend=backend)


def test_cancelled_while_closing_after_an_error():
    """A cancellation that arrives while a failed source is being closed is not lost: the task ends as cancelled."""

    async def main():
        source = Source([*EVENTS[:2], LookupError()])
        task = asyncio.create_task(read(messages.Accumulator().atap(source), []))
        while not source.closed:
            await asyncio.sleep(0)
        task.cancel()
        await asyncio.wait([task])
        assert task.cancelled()

    asyncio.run(main())
