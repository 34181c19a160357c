"""One state in many threads: stepping from it, reading it, taking changes, settling it (law 2); and in other processes.

Nothing in `step` takes a lock, and a state joins its fragments in place when somebody reads it: what these tests hold is
that nobody can tell. Switching as often as the interpreter can makes a race likely, not certain: each test is repeated.
"""

from __future__ import annotations

import functools
import json
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from random import Random
from typing import Any

import pytest

from tests.tell import CHAT, FORMATS, MESSAGES, Format, both_formats

GUARD = 120  # seconds after which threads that wait for each other give up
THREADS = 8
ROUNDS = 6
TOOL = {"path": "/tmp/né", "lines": [1, 2, {"deep": ["x" * 40] * 8}], "more": {str(i): i for i in range(40)}}


@pytest.fixture(autouse=True)
def _restless() -> Iterator[None]:
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(interval)


def at_once(*tasks: Callable[[], Any]) -> list[Any]:
    """The results of tasks that start together, each in a thread of its own; the first of their errors, if any."""
    barrier = threading.Barrier(len(tasks))
    results: list[Any] = [None] * len(tasks)
    errors: list[BaseException] = []

    def run(at: int) -> None:
        try:
            barrier.wait(GUARD)
            results[at] = tasks[at]()
        except BaseException as error:  # noqa: BLE001  for the test to raise
            errors.append(error)

    threads = [threading.Thread(target=run, args=(at,), daemon=True) for at in range(len(tasks))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(GUARD)
    if errors:
        raise errors[0]
    assert not any(thread.is_alive() for thread in threads)
    return results


def line(fmt: Format, pieces: int = 300) -> list[Any]:
    """A stream with a text and a tool input that grow together, fragment by fragment."""
    raw = json.dumps(TOOL)
    size = len(raw) // pieces + 1
    fragments = [raw[i : i + size] for i in range(0, len(raw), size)]
    if fmt is MESSAGES:
        start = {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}
        tool = {"type": "tool_use", "id": "t", "name": "f", "input": {}}
        events: list[Any] = [{"type": "message_start", "message": {"id": "m", "content": []}}, start]
        events.append({"type": "content_block_start", "index": 1, "content_block": tool})
        for i, piece in enumerate(fragments):
            text = {"type": "text_delta", "text": f"{i} é 😀 "}
            events.append({"type": "content_block_delta", "index": 0, "delta": text})
            part = {"type": "input_json_delta", "partial_json": piece}
            events.append({"type": "content_block_delta", "index": 1, "delta": part})
        return [*events, {"type": "content_block_stop", "index": 1}, {"type": "message_stop"}]
    head = {"index": 0, "id": "t", "type": "function", "function": {"name": "f", "arguments": ""}}
    deltas: list[Any] = [{"role": "assistant", "tool_calls": [head]}]
    for i, piece in enumerate(fragments):
        deltas.append({"content": f"{i} é 😀 "})
        deltas.append({"tool_calls": [{"index": 0, "function": {"arguments": piece}}]})
    chunks = [{"id": "c", "choices": [{"index": 0, "delta": delta}]} for delta in deltas]
    return [*chunks, {"id": "c", "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}, "[DONE]"]


def readings(fmt: Format, state: Any) -> Any:
    """Everything that makes a state join, scan, or save what it has."""
    value = state.snapshot
    inputs = [(tool.input_state, tool.partial_input) for _, tool in fmt.inputs(value)]
    saved = fmt.module.State.from_json(state.to_json())
    return list(fmt.texts(value)), inputs, value.to_dict(), saved


def alone(fmt: Format, events: list[Any]) -> Any:
    return functools.reduce(fmt.module.step, events, fmt.module.State())


@both_formats
def test_one_state_read_by_all(fmt: Format) -> None:
    """Law 2: a state that nobody has read reads the same in all threads that read it first."""
    events = line(fmt)
    expected = readings(fmt, alone(fmt, events[:-2]))
    for _ in range(ROUNDS):
        state = alone(fmt, events[:-2])
        assert at_once(*[functools.partial(readings, fmt, state)] * THREADS) == [expected] * THREADS


@both_formats
def test_one_state_stepped_from_by_all(fmt: Format) -> None:
    """Law 2: steps from one state in many threads, while others read it, lead where each leads alone."""
    events = line(fmt)
    middle = len(events) // 2
    tails = [events[middle : middle + 20 + n] for n in range(THREADS)]
    expected = [alone(fmt, events[:middle] + tail) for tail in tails]
    before = readings(fmt, alone(fmt, events[:middle]))
    for _ in range(ROUNDS):
        state = alone(fmt, events[:middle])
        steppers = [functools.partial(functools.reduce, fmt.module.step, tail, state) for tail in tails]
        found = at_once(*steppers, *[functools.partial(readings, fmt, state)] * 2)
        assert found[:THREADS] == expected
        assert [readings(fmt, one) for one in found[:THREADS]] == [readings(fmt, one) for one in expected]
        assert found[THREADS:] == [before] * 2


@both_formats
def test_one_state_for_everything(fmt: Format) -> None:
    """Law 2: stepping, reading, saving, comparing, and taking changes at once from one state that was never read."""
    events = line(fmt)
    middle = len(events) // 2
    tasks: list[Callable[[Any, Any], Any]] = [
        lambda _, state: functools.reduce(fmt.module.step, events[middle:], state).result(),
        lambda _, state: readings(fmt, state),
        lambda _, state: state.to_json(),
        lambda older, state: joined(fmt.module.changes(older, state)),
        lambda _, state: joined(fmt.module.changes(fmt.module.State(), state)),
        lambda older, state: (older == state, state == state.__copy__(), list(fmt.texts(older.snapshot))),
    ]
    for _ in range(ROUNDS):
        older = alone(fmt, events[: middle - 70])
        state = functools.reduce(fmt.module.step, events[middle - 70 : middle], older)
        found = at_once(*[functools.partial(task, older, state) for task in tasks])
        older = alone(fmt, events[: middle - 70])
        state = functools.reduce(fmt.module.step, events[middle - 70 : middle], older)
        assert found == [task(older, state) for task in tasks]


@both_formats
def test_read_while_it_grows(fmt: Format) -> None:
    """Law 2, J9: readers of all states of a line, newest and oldest, see what was there, while one thread steps on."""
    events = line(fmt)
    stops = range(30, len(events), 97)
    expected = [readings(fmt, alone(fmt, events[:at])) for at in stops]

    def write(states: list[Any]) -> None:
        for event in events[1:]:
            states.append(fmt.module.step(states[-1], event))

    def read(states: list[Any]) -> list[Any]:
        seen = []
        for at in stops:
            while len(states) < at:
                partial = [tool.partial_input for _, tool in fmt.inputs(states[-1].snapshot)]
                assert all(item is None or isinstance(item, dict) for item in partial)
            seen.append(readings(fmt, states[at - 1]))
        return seen

    for _ in range(ROUNDS):
        states = [alone(fmt, events[:1])]
        tasks = [functools.partial(task, states) for task in (write, read, read, read)]
        assert at_once(*tasks)[1:] == [expected] * 3


def joined(entries: list[Any]) -> list[Any]:
    """The entries of `changes`, neighbouring pieces of one string made one (their cuts are free, J10)."""
    found: list[Any] = []
    for path, kind, item in entries:
        if kind == "text" and found and found[-1][:2] == (path, "text"):
            found[-1] = (path, "text", found[-1][2] + item)
        else:
            found.append((path, kind, item))
    return found


@both_formats
def test_changes_taken_by_many(fmt: Format) -> None:
    """Law 2, J10: changes between states of one line are the same in each thread, whoever asks for which pair first."""
    events = line(fmt)
    states = [fmt.module.State()]
    for event in events:
        states.append(fmt.module.step(states[-1], event))
    pairs = [(at, at + 40) for at in range(0, len(states) - 40, 40)]

    def take(way: int) -> list[Any]:
        order = pairs if way % 2 else list(reversed(pairs))
        found = {pair: joined(fmt.module.changes(states[pair[0]], states[pair[1]])) for pair in order}
        return [found[pair] for pair in pairs]

    first, *others = at_once(*[functools.partial(take, way) for way in range(THREADS)])
    assert all(other == first for other in others)


def test_both_formats_at_once() -> None:
    """Law 2: streams of both formats side by side share nothing."""
    expected = {fmt.name: alone(fmt, line(fmt)).result().to_dict() for fmt in FORMATS}
    tasks = [lambda fmt=fmt: alone(fmt, line(fmt)).result().to_dict() for fmt in FORMATS * 3]
    assert at_once(*tasks) == [expected[fmt.name] for fmt in (MESSAGES, CHAT) * 3]


RESUME = """
import json, sys
from friendli_stream import chat, messages
for line in sys.stdin:
    name, saved, events = json.loads(line)
    module = {"chat": chat, "messages": messages}[name]
    state = module.State.from_json(saved)
    for event in events:
        state = module.step(state, event)
    sys.stdout.buffer.write(state.to_json() + b"\\n")
"""


@both_formats
def test_stop_at_every_event(fmt: Format) -> None:
    """Law 10: a stream may stop at every event, and go on from `to_json` in another process: same result."""
    streams = [line(fmt, 20), *(fmt.told(Random(seed)) for seed in range(6))]
    tasks, expected = [], []
    for events in streams:
        state, end = fmt.module.State(), alone(fmt, events)
        for at in range(len(events) + 1):
            tasks.append(json.dumps([fmt.name, state.to_json().decode(), events[at:]]))
            expected.append(end)
            state = fmt.module.step(state, events[at]) if at < len(events) else state
    run = subprocess.run(
        [sys.executable, "-c", RESUME], input="\n".join(tasks).encode(), capture_output=True, check=True, timeout=120
    )
    resumed = [fmt.module.State.from_json(saved) for saved in run.stdout.splitlines()]
    assert len(resumed) == len(expected) > 80
    assert resumed == expected
    assert [one.result() for one in resumed] == [one.result() for one in expected]
