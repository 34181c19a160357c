"""Accumulator: one state, fed or tapped; a tap is seen by neither the reader nor the source (law 10, M15)."""

import asyncio
import functools
import itertools
import json
import subprocess
import sys
import threading

import pytest

from friendli_stream import IncompleteStream, ProtocolError, chat, messages
from tests.replay_server import CHAT_EVENTS, MESSAGES_EVENTS

FORMATS = pytest.mark.parametrize(
    ("module", "events"), [(messages, MESSAGES_EVENTS), (chat, CHAT_EVENTS)], ids=["messages", "chat"]
)


def reduced(module, events):
    return functools.reduce(module.step, events, module.State())


class Source:
    """A stream as SDKs have it: an iterator with `close`, a context manager, and a response. Raises what is in it."""

    def __init__(self, events, *, closing=None):
        self.left = iter(events)
        self.closing = closing
        self.closed = 0
        self.response = object()

    def __iter__(self):
        return self

    def __next__(self):
        event = next(self.left)
        if isinstance(event, BaseException):
            raise event
        return event

    def close(self):
        self.closed += 1
        if self.closing is not None:
            raise self.closing


# ------------------------------------------------------------------------------------------------ feed


@FORMATS
def test_fed_tapped_or_reduced(module, events):
    """Law 10: feed, feed_json, tap and reduce lead to one state and one result."""
    expected = reduced(module, events)
    fed, parsed, tapped = module.Accumulator(), module.Accumulator(), module.Accumulator()
    for event in events:
        fed.feed(event)
        parsed.feed_json(json.dumps(event))
    for _ in tapped.tap(events):
        pass
    for accumulator in (fed, parsed, tapped):
        assert expected == accumulator.state
        assert expected.snapshot == accumulator.snapshot
        assert expected.result() == accumulator.result()


@FORMATS
def test_state_is_the_newest(module, events):
    """After each event `.state` is the state of the events so far, and earlier ones stay valid (law 2)."""
    accumulator = module.Accumulator()
    seen = []
    for event in events:
        accumulator.feed(event)
        seen.append(accumulator.state)
    assert list(itertools.accumulate(events, module.step, initial=module.State()))[1:] == seen


@FORMATS
def test_goes_on_from_any_state(module, events):
    """An accumulator starts from the state it is given, and goes on from one that is set back."""
    half = len(events) // 2
    accumulator = module.Accumulator(reduced(module, events[:half]))
    for _ in range(2):
        before = accumulator.state
        for event in events[half:]:
            accumulator.feed(event)
        assert reduced(module, events) == accumulator.state
        accumulator.state = before


@FORMATS
def test_feed_refuses_what_is_no_event(module, events):
    """M15: bytes are a TypeError that names them, and the state is as it was."""
    accumulator = module.Accumulator(reduced(module, events[:3]))
    before = accumulator.state
    with pytest.raises(TypeError, match="bytes"):
        accumulator.feed(b"data: {}")
    assert before is accumulator.state


@FORMATS
def test_changes_since_last_asked(module, events):
    """`changes()` gives each change once, whenever it is asked: the texts put together are those of the result."""
    for every in (1, 3, len(events)):
        accumulator = module.Accumulator()
        found = []
        for number, event in enumerate(events, 1):
            accumulator.feed(event)
            if number % every == 0:
                found += accumulator.changes()
        found += accumulator.changes()
        assert [] == accumulator.changes()
        text = "".join(value for path, kind, value in found if kind == "text" and path[-1] in ("text", "content"))
        assert accumulator.snapshot.text == text


@FORMATS
def test_result_of_a_part(module, events):
    """The result of a stream that was cut is IncompleteStream with the state, as State.result's is (M14, C15)."""
    accumulator = module.Accumulator()
    with pytest.raises(IncompleteStream):
        accumulator.result()
    assert accumulator.snapshot is None
    for event in events[:8]:
        accumulator.feed(event)
    with pytest.raises(IncompleteStream) as caught:
        accumulator.result()
    assert accumulator.state is caught.value.state


@FORMATS
def test_resumed_in_another_process(module, events):
    """Law 10: a state saved in the middle goes on in another process, to the same result."""
    program = (
        "import json, sys; from friendli_stream import chat, messages\n"
        "saved, events = json.load(sys.stdin)\n"
        f"module = {module.__name__.rpartition('.')[2]}\n"
        "print(module.fold(events, module.State.from_json(saved)).to_json().decode())"
    )
    expected = module.fold(events)
    for cut in (4, len(events) // 2):
        saved = reduced(module, events[:cut]).to_json().decode()
        ran = subprocess.run(
            [sys.executable, "-X", "utf8", "-c", program],
            input=json.dumps([saved, events[cut:]]).encode(),
            capture_output=True,
            check=True,
            timeout=60,
        )
        assert expected.to_dict() == json.loads(ran.stdout)


# ------------------------------------------------------------------------------------------------ tap: the events


@FORMATS
def test_tap_passes_the_very_objects(module, events):
    """A tapped loop sees the same objects in the same order, each after it was folded."""
    accumulator = module.Accumulator()
    state = module.State()
    passed = []
    for event in accumulator.tap(Source(events)):
        passed.append(event)
        state = module.step(state, event)
        assert state == accumulator.state
    assert len(events) == len(passed)
    assert all(map(lambda a, b: a is b, events, passed))


class Broken:
    """An SDK's object that fails to say what it is."""

    def to_dict(self):
        message = "lost"
        raise LookupError(message)

    def __repr__(self):
        raise RuntimeError


class Endless:
    def __repr__(self):
        return "x" * 10**6


@FORMATS
@pytest.mark.parametrize(
    "odd", [b"data: {}", object(), Broken(), Endless(), {1, 2}], ids=lambda odd: type(odd).__name__
)
def test_tap_notes_what_cannot_be_folded(module, events, odd):
    """M15: what cannot be folded passes through and is noted, shortened; everything else is folded as without it."""
    accumulator = module.Accumulator()
    mixed = [*events[:4], odd, *events[4:6], odd, *events[6:]]
    passed = list(accumulator.tap(mixed))
    assert odd is passed[4]
    assert odd is passed[7]
    [note] = accumulator.state.diagnostics
    assert ("malformed_event", 5, 2) == (note.code, note.event_number, note.count)
    assert len(note.message) < 400
    assert reduced(module, events).result() == accumulator.result()


@FORMATS
def test_tap_goes_through_feed(module, events):
    """A subclass's `feed` sees each tapped event, and what it raises does not reach the reader."""
    fed = []

    class Watching(module.Accumulator):
        def feed(self, event):
            super().feed(event)
            fed.append(event)
            if len(fed) == 5:
                raise LookupError

    accumulator = Watching()
    assert events == list(accumulator.tap(events)) == fed
    assert reduced(module, events).result() == accumulator.result()
    assert ["malformed_event"] == [note.code for note in accumulator.state.diagnostics]


@FORMATS
def test_tap_of_a_failed_stream_goes_on(module, events):
    """A state that fails, as in strict mode at a note, takes nothing from the reader's loop."""
    accumulator = module.Accumulator(module.State(strict=True))
    assert len(events) + 1 == len(list(accumulator.tap([events[0], object(), *events[1:]])))
    with pytest.raises(ProtocolError):
        accumulator.result()


def test_tap_is_one_iterator():
    """A tap is its own iterator: a loop that was left goes on where it was."""
    accumulator = messages.Accumulator()
    tap = accumulator.tap(Source(MESSAGES_EVENTS))
    assert tap is iter(tap)
    first = next(tap)
    assert MESSAGES_EVENTS == [first, *tap]
    assert next(tap, None) is None


# ------------------------------------------------------------------------------------------------ tap: the source


class Stop(Exception):  # noqa: N818
    pass


def test_attributes_are_the_sources():
    """Every other attribute is the source's own; one that it has not is an AttributeError."""
    source = Source([])
    tap = messages.Accumulator().tap(source)
    assert source.response is tap.response
    with pytest.raises(AttributeError):
        _ = tap.headers


def test_break_closes():
    """A loop that is left by break has closed the source by the next line, once, and the partial is kept."""
    accumulator = messages.Accumulator()
    source = Source(MESSAGES_EVENTS)
    for number, _ in enumerate(accumulator.tap(source), 1):
        if number == 9:
            break
    assert source.closed == 1
    assert reduced(messages, MESSAGES_EVENTS[:9]) == accumulator.state


def test_error_in_the_loop_closes():
    """An error in the loop's body passes as it is, and the source is closed."""
    source = Source(MESSAGES_EVENTS)
    error = Stop()
    with pytest.raises(Stop) as caught:
        for _ in messages.Accumulator().tap(source):
            raise error
    assert error is caught.value
    assert caught.value.__context__ is None
    assert source.closed == 1


@pytest.mark.parametrize("kind", [Stop, KeyboardInterrupt, SystemExit, TypeError])
def test_error_of_the_source_closes(kind):
    """An error of the source passes as it is, even where closing fails too, and what came before it is kept."""
    for closing in (None, ValueError("closing")):
        error = kind()
        source = Source([*MESSAGES_EVENTS[:9], error], closing=closing)
        accumulator = messages.Accumulator()
        with pytest.raises(kind) as caught:
            for _ in accumulator.tap(source):
                pass
        assert error is caught.value
        assert source.closed == 1
        assert reduced(messages, MESSAGES_EVENTS[:9]) == accumulator.state


def test_interrupt_while_folding_is_not_swallowed():
    """What is no Exception, as Ctrl-C, passes through a tap even where an SDK's object raises it."""

    class Interrupted:
        def to_dict(self):
            raise KeyboardInterrupt

    source = Source([Interrupted()])
    with pytest.raises(KeyboardInterrupt):
        next(messages.Accumulator().tap(source))
    assert source.closed == 1


def test_end_leaves_the_source_open():
    """A stream read to its end is not closed by the tap: it is still the application's."""
    source = Source(MESSAGES_EVENTS)
    for _ in messages.Accumulator().tap(source):
        pass
    assert source.closed == 0


@pytest.mark.parametrize("read", [0, 1, 4, None])
def test_with_closes_once(read):
    """`with` closes the source at its end, once, however far it was read."""
    source = Source(MESSAGES_EVENTS)
    with messages.Accumulator().tap(source) as events:
        list(itertools.islice(events, read))
        assert source.closed == 0
    assert source.closed == 1
    events.close()
    del events
    assert source.closed == 1


def test_with_shows_the_error_of_the_body():
    """An error in the body of `with` is what comes out, even where closing fails; a failing close alone is seen."""
    with pytest.raises(Stop), messages.Accumulator().tap(Source([], closing=ValueError("closing"))):
        raise Stop
    with (
        pytest.raises(ValueError, match="closing"),
        messages.Accumulator().tap(Source([], closing=ValueError("closing"))),
    ):
        pass
    with pytest.raises(ValueError, match="closing"):
        messages.Accumulator().tap(Source([], closing=ValueError("closing"))).close()


def test_generators_and_lists():
    """A plain generator is closed like any source; what cannot be closed is simply left."""
    ended = []

    def generate():
        try:
            yield from MESSAGES_EVENTS
        finally:
            ended.append(True)

    generator = generate()
    for _ in messages.Accumulator().tap(generator):
        break
    assert [True] == ended
    with messages.Accumulator().tap(MESSAGES_EVENTS) as events:
        next(events)


def test_closed_by_another_thread():
    """`close()` from another thread reaches a source that is waiting for its next event."""

    class Waiting(Source):
        woken = threading.Event()

        def __next__(self):
            if next(self.left, None) is not None:
                return {"type": "ping"}
            assert self.woken.wait(10)
            raise StopIteration

        def close(self):
            super().close()
            self.woken.set()

    source = Waiting([1, 2])
    tap = messages.Accumulator().tap(source)
    read = []
    thread = threading.Thread(target=lambda: read.extend(tap))
    thread.start()
    tap.close()
    thread.join(10)
    assert not thread.is_alive()
    assert len(read) == 2
    assert source.closed == 1


# ------------------------------------------------------------------------------------------------ atap


class AsyncSource:
    """`Source` for `async for`; what it lacks is its `close`, which is `aclose`, or whatever else is set."""

    def __init__(self, events, **options):
        self.source = Source(events, **options)

    def __aiter__(self):
        return self

    async def __anext__(self):
        await asyncio.sleep(0)
        try:
            return next(self.source)
        except StopIteration:
            raise StopAsyncIteration from None

    async def aclose(self):
        await asyncio.sleep(0)
        self.source.close()


class ClosedBySync(AsyncSource):
    """A stream whose `close` is a plain function."""

    aclose = None

    def close(self):
        self.source.close()


class ClosedByAsync(AsyncSource):
    """A stream whose `close` is a coroutine function."""

    aclose = None

    async def close(self):
        self.source.close()


class NeverClosed(AsyncSource):
    aclose = None


KINDS = pytest.mark.parametrize("kind", [AsyncSource, ClosedBySync, ClosedByAsync, NeverClosed])


@FORMATS
@KINDS
def test_atap(module, events, kind):
    """Law 10: `atap` is `tap`: the very objects pass, folded; read to its end, the stream is left open."""
    accumulator = module.Accumulator()
    source = kind([*events[:4], object(), *events[4:]])

    async def read():
        tap = accumulator.atap(source)
        assert tap.source is source.source
        assert tap is aiter(tap)
        return [event async for event in tap]

    passed = asyncio.run(read())
    assert len(events) == len(passed) - 1
    assert all(map(lambda a, b: a is b, events[:4], passed))
    assert ["malformed_event"] == [note.code for note in accumulator.state.diagnostics]
    assert reduced(module, events).result() == accumulator.result()
    assert source.source.closed == 0


@KINDS
@pytest.mark.parametrize("closing", [None, ValueError("closing")])
def test_atap_closes(kind, closing):
    """`async with`, `aclose`, and an error of the source or of the body close the stream, once; the error is what is seen."""
    if kind is NeverClosed:
        closed, closing = 0, None
    else:
        closed = 1

    async def read_all(tap):
        async with tap as events:
            async for _ in events:
                pass

    async def body_raises(tap):
        async with tap:
            raise Stop

    async def twice(tap):
        await anext(tap)
        try:
            await tap.aclose()
        finally:
            await tap.aclose()

    for use, events, expected in (
        (read_all, MESSAGES_EVENTS, closing),
        (read_all, [*MESSAGES_EVENTS[:9], Stop()], Stop()),
        (body_raises, MESSAGES_EVENTS, Stop()),
        (twice, MESSAGES_EVENTS, closing),
    ):
        accumulator = messages.Accumulator()
        source = kind(events, closing=closing)
        if expected is None:
            asyncio.run(use(accumulator.atap(source)))
        else:
            with pytest.raises(type(expected)):
                asyncio.run(use(accumulator.atap(source)))
        assert (use.__name__, closed) == (use.__name__, source.source.closed)
    assert accumulator.state == reduced(messages, MESSAGES_EVENTS[:1])
