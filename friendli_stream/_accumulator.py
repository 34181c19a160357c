"""Any step behind `feed` and `tap`: one mutable place for the newest state, for programs that want one.

A tap has three duties: every event passes on as the very same object; nothing that goes wrong while folding reaches
the reader; and when reading ends before the source does, the source is closed at once. For the last one an inner
generator reads the source: a `break` drops it, an error or a cancellation goes through it, and all of them end in its
`except` clause (a dropped async generator is closed by the event loop that ran it, whichever that is).
"""

from __future__ import annotations

from contextlib import AsyncExitStack, ExitStack, suppress
from reprlib import Repr
from typing import TYPE_CHECKING, Any, Generic, Protocol, Self, TypeVar

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterable, Callable, Generator, Iterable
    from types import TracebackType

    from friendli_stream._inputs import Change

__all__ = ["Accumulator", "AsyncTap", "Tap"]


class Foldable(Protocol):
    """What an accumulator asks of a state."""

    @property
    def snapshot(self) -> Any:
        """The message so far."""

    def result(self) -> Any:
        """The final message."""


S = TypeVar("S", bound=Foldable)
M = TypeVar("M")  # the message
E = TypeVar("E")  # an event

_REPR = Repr()  # bounded, and safe with a __repr__ that raises
_REPR.maxother = 200


class Accumulator(Generic[S, M]):
    """The newest state of a stream, and the ways to feed it. `state` may be read, kept, and set back, at any time."""

    __slots__ = ("_changes", "_seen", "_step", "_step_json", "state")

    def __init__(
        self,
        state: S,
        step: Callable[[S, Any], S],
        step_json: Callable[[S, str | bytes], S],
        changes: Callable[[S, S], list[Change]],
    ) -> None:
        self.state = self._seen = state
        self._step = step
        self._step_json = step_json
        self._changes = changes

    def feed(self, event: Any) -> None:
        """Fold one event, as `step` does: raises TypeError only for what is neither a JSON value nor an SDK's event."""
        self.state = self._step(self.state, event)

    def feed_json(self, data: str | bytes) -> None:
        """Fold the JSON of one event, as `step_json` does."""
        self.state = self._step_json(self.state, data)

    def changes(self) -> list[Change]:
        """What was added since the last call; everything at the first. See `changes` of the format."""
        seen, self._seen = self._seen, self.state
        return self._changes(seen, self._seen)

    @property
    def snapshot(self) -> M | None:
        """The message so far, None while empty; it never changes."""
        snapshot: M | None = self.state.snapshot
        return snapshot

    def result(self) -> M:
        """The final message. Raises what `State.result` raises; `.state` of the error has all that was folded."""
        result: M = self.state.result()
        return result

    def tap(self, events: Iterable[E]) -> Tap[E]:
        """The same events, folded by `feed` as they pass. What cannot be folded is noted (M15), never raised.

        Reading that ends early, by break, error, or `close()`, closes `events` where it can be closed.
        """
        return Tap(self._take, events)

    def atap(self, events: AsyncIterable[E]) -> AsyncTap[E]:
        """`tap` for an asynchronous stream. Cancellation and timeout close it too.

        A bare `break` leaves the closing to the event loop, which does it at its next turn; `async with` does it there.
        """
        return AsyncTap(self._take, events)

    def _take(self, event: Any) -> None:
        try:
            self.feed(event)
        except Exception:  # noqa: BLE001  no event, or an SDK's object that fails to say what it is
            self.state = self._step(self.state, _REPR.repr(event))


class Tap(Generic[E]):
    """An iterator over a stream's events. Every other attribute is the stream's own, as `.response`."""

    __slots__ = ("_closing", "_events", "_source")

    def __init__(self, take: Callable[[Any], None], source: Iterable[E]) -> None:
        self._source = source
        self._closing = ExitStack()  # closes once, whoever asks first
        self._closing.callback(_close, source)
        self._events = _read(take, source, self._closing)

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> E:
        return next(self._events)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._source, name)

    def close(self) -> None:
        """Close the stream, and with it the HTTP response. What was folded stays."""
        self._closing.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with suppress(*() if error is None else (Exception,)):
            self.close()


class AsyncTap(Generic[E]):
    """An asynchronous iterator over a stream's events. Every other attribute is the stream's own, as `.response`."""

    __slots__ = ("_closing", "_events", "_source")

    def __init__(self, take: Callable[[Any], None], source: AsyncIterable[E]) -> None:
        self._source = source
        self._closing = AsyncExitStack()
        self._closing.push_async_callback(_aclose, source)
        self._events = _aread(take, source, self._closing)

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> E:
        return await anext(self._events)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._source, name)

    async def aclose(self) -> None:
        """Close the stream, and with it the HTTP response. What was folded stays."""
        try:
            await self._closing.aclose()
        finally:
            with suppress(RuntimeError):  # another task waits in it: the closed source ends that
                await self._events.aclose()  # trio warns of a generator that is left to it

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with suppress(*() if error is None else (Exception,)):
            await self.aclose()


def _read(take: Callable[[Any], None], source: Iterable[E], closing: ExitStack) -> Generator[E, None, None]:
    try:
        for event in source:
            take(event)
            yield event
    except BaseException:  # a break arrives as GeneratorExit
        with suppress(Exception):  # what reading ended with is what the reader sees
            closing.close()
        raise


async def _aread(
    take: Callable[[Any], None], source: AsyncIterable[E], closing: AsyncExitStack
) -> AsyncGenerator[E, None]:
    try:
        async for event in source:
            take(event)
            yield event
    except BaseException:
        with suppress(Exception):  # but not a cancellation
            await closing.aclose()
        raise


def _close(source: Any) -> None:
    close = getattr(source, "close", None)
    if close is not None:
        close()


async def _aclose(source: Any) -> None:
    """Close by `aclose`, or by a `close` that may be a coroutine function or not."""
    close = getattr(source, "aclose", None) or getattr(source, "close", None)
    if close is not None:
        closed = close()
        if hasattr(closed, "__await__"):
            await closed
