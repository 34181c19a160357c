"""Law 8 by force: whatever comes in is folded, noted, or one of our errors, and what comes out is whole.

Six doors, each with its own fuzzer: the two `step`s, `sse`, `recordings.read`, `State.from_json`, `PartialJSON`. An
input is made by a random number generator with a seed of its own. Quick in the suite; for a long run

    python -m tests.test_fuzz 1000000              # inputs, shared out among the doors
    python -m tests.test_fuzz 1 messages 12345     # one input again, by its door and seed

prints a line for each door, and for what it found the door, the seed, and the smallest stream of events that shows it.
"""

from __future__ import annotations

import copy
import functools
import itertools
import json
import math
import pickle
import subprocess
import sys
import time
import traceback
import tracemalloc
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import pytest

from friendli_stream import (
    InvalidInput,
    InvalidJSON,
    InvalidState,
    LimitExceeded,
    Limits,
    PartialJSON,
    StreamError,
    UnreadableRecording,
    recordings,
    sse,
)
from friendli_stream.wire import encode
from tests.tell import (
    CHAT,
    FORMATS,
    HOSTILE,
    MESSAGES,
    Event,
    Format,
    both_formats,
    cut,
    hostile,
    hurt,
    mend,
    nested,
    nullable,
    rare,
    same,
    wild,
    written,
)

HERE = Path(__file__).parent
RECORDED = (HERE / "recordings", HERE.parent.parent / "shared" / "recordings")
QUICK = 100  # inputs a door


# ------------------------------------------------------------------------------------------------ inputs


@functools.cache
def recorded() -> list[Path]:
    """Recorded streams: our own, and those beside the project where they are."""
    return sorted(
        path
        for folder in RECORDED
        for path in folder.rglob("*")
        if path.suffix in {".sse", ".jsonl"} and path.stat().st_size < 200_000
    )


@functools.cache
def events_of(path: Path) -> list[Event]:
    return list(recordings.read(path).events)


def recorded_events(rng: Random) -> list[Event]:
    """A stretch of a recorded stream, its beginning included."""
    events = events_of(rng.choice(recorded()))
    start = rng.randrange(len(events) + 1)
    return [*events[:3], *events[start : start + 20], *events[-3:]]


@functools.cache
def pooled(fmt: Format, number: int) -> list[Event]:
    """One of the told streams that are hurt again and again: to hurt is faster than to tell."""
    return fmt.told(Random(number))


def stream(rng: Random, fmt: Format) -> list[Event]:
    """A stream that nobody should send: told or recorded, then hurt, with pieces of another in it."""
    kind = rng.randrange(8)
    events = recorded_events(rng) if kind < 3 else pooled(fmt, rng.randrange(500)) if kind < 7 else wild(rng, fmt)
    for _ in range(rng.randrange(4)):
        events = hurt(rng, events, pooled(rng.choice(FORMATS), rng.randrange(500)))
    return events


def limits(rng: Random) -> Limits:
    """Limits as they are, or so low that they are met."""
    if rng.randrange(3):
        return Limits()
    names = ("content_blocks", "choices", "tool_calls", "extra_keys", "diagnostics", "unknown_deltas")
    low = {name: rng.randint(1, 3) for name in names if rare(rng, 2)}
    return Limits(**low, text=rng.choice((10, 200, 10**6)), depth=rng.choice((1, 3, 200, 250)))


# ------------------------------------------------------------------------------------------------ what must hold


def encodes(value: Any) -> None:
    """B1, B2: it can be written as UTF-8 by anybody's JSON."""
    json.dumps(value, ensure_ascii=False, allow_nan=False).encode()


def look(fmt: Format, state: Any) -> None:
    """Everything that can be asked of a state, none of which may raise."""
    value = state.snapshot
    assert state.status in ({"empty", "failed"} if value is None else {"open", "complete", "failed"})
    repr(state)
    try:
        assert state.result() == value
        assert state.status == "complete"
        assert state.error is None
    except StreamError as error:
        assert state.status != "complete"
        assert error.state is state
        assert str(error)
        assert (state.error is None) == (state.status != "failed")
        encodes(str(error))
    for note in state.diagnostics:
        assert note.count >= 1
        encodes([note.code, note.message, note.path])
    if state.usage is not None:
        encodes(state.usage.to_dict())
    if value is not None:
        look_at(fmt, value)


def look_at(fmt: Format, value: Any) -> None:
    """The same of a message."""
    repr(value)
    plain = value.to_dict()
    encodes(plain)
    assert same(json.loads(value.to_json()), plain)
    assert value == pickle.loads(pickle.dumps(value))
    encodes(value.extra)
    for _, text in fmt.texts(value):
        text.encode()
    for _, tool in fmt.inputs(value):
        assert tool.input_state in {"complete", "incomplete", "invalid"}
        encodes(tool.partial_input)
        try:
            encodes(tool.input)
            assert tool.input_state == "complete"
            assert same(mend(tool.input), tool.input)
        except InvalidInput as error:
            assert tool.input_state == error.state != "complete"
            encodes([str(error), error.path, error.text])
        try:
            tool.input_as(dict)
        except InvalidInput:
            pass
    try:
        encodes(value.to_request())
    except InvalidInput:
        pass


def folds(rng: Random, fmt: Format, state: Any, events: list[Event]) -> Any:
    """Fold on from a state, looking, saving and loading now and then, which changes nothing (B4, laws 2 and 10)."""
    step, changes = fmt.module.step, fmt.module.changes
    plain, older = functools.reduce(step, events, state), state
    for event in events:
        before = state
        state = step(state, event)
        if rare(rng, 16):
            look(fmt, state)
        if rare(rng, 16):
            state = fmt.module.State.from_json(state.to_json())
        if rare(rng, 8):
            for entry in changes(older, state):
                assert len(entry) == 3
            older = state
        if before.status == "failed":
            assert state.status == "failed"
            assert state.snapshot == before.snapshot
    assert state == plain
    look(fmt, state)
    return state


def holds(rng: Random, fmt: Format, events: list[Event], start: Any) -> Any:
    """All that law 8 says of a stream of events."""
    state = folds(rng, fmt, start, events)
    again = fmt.module.State.from_json(state.to_json())
    assert again == state
    assert again.snapshot == state.snapshot
    more = stream(rng, fmt)[:6]
    assert functools.reduce(fmt.module.step, more, again) == functools.reduce(fmt.module.step, more, state)
    if rare(rng, 4):
        assert copy.deepcopy(state) == pickle.loads(pickle.dumps(state)) == state
        for one in fmt.module.states(events):
            look(fmt, one)
    return state


# ------------------------------------------------------------------------------------------------ the doors


CODES = {
    *("index_gap", "block_started_again", "block_not_started", "block_stopped_again", "delta_after_stop"),
    *("input_after_stop", "input_twice", "unknown_delta", "misplaced_delta", "unknown_event", "message_start_again"),
    *("missing_message_start", "late_message_start", "after_end", "malformed_event", "id_changed", "model_changed"),
    *("reasoning_differs", "arguments_not_text", "missing_index", "finish_reason_changed", "content_after_finish"),
    "missing_finish_reason",
}


def door_step(rng: Random, fmt: Format) -> None:
    """Law 8, B1, B2, B4, M15: any JSON in place of any event or field."""
    bounds = limits(rng)
    events = stream(rng, fmt)
    state = holds(rng, fmt, events, fmt.module.State(strict=rare(rng, 4), limits=bounds))
    assert len(state.diagnostics) <= bounds.diagnostics
    assert {note.code for note in state.diagnostics} <= CODES
    assert all(len(note.message) + len(note.path) < 1000 for note in state.diagnostics)


def junk(rng: Random, data: bytes) -> bytes:
    """The bytes with some dropped, doubled, changed or moved."""
    data = bytearray(data)
    for _ in range(rng.randint(1, 6)):
        at, length = rng.randrange(len(data) + 1), rng.randint(1, 9)
        what = rng.randrange(5)
        if what == 0:
            del data[at : at + length]
        elif what == 1:
            data[at:at] = data[at : at + length] * rng.randint(1, 3)
        elif what == 2:
            data[at : at + 1] = rng.randbytes(1)
        elif what == 3:
            data[at:at] = rng.choice(TOKENS)
        else:
            data[at:at] = data[: rng.randint(1, 40)]
    return bytes(data)


TOKENS = (
    *(
        b"\n",
        b"\r",
        b"\r\n",
        b"\n\n",
        b":",
        b"data:",
        b"data: ",
        b"data",
        b"event: error\n",
        b"event: ping\n",
        b"id: 1\n",
    ),
    *(
        b"retry: 5\n",
        b"\xef\xbb\xbf",
        b"\x00",
        b"\xff",
        b"\xf0\x9f",
        b"\xed\xa0\xbd",
        b"\xe2\x80\xa8",
        b"[DONE]",
        b"null",
    ),
    *(
        b"{",
        b"}",
        b"[",
        b"]",
        b'"',
        b",",
        b"\\",
        b"\\ud83d",
        b"1e999",
        b"NaN",
        b"-",
        b"0",
        b"9" * 30,
        b"true",
        b"<html>",
    ),
    *(b"[" * 300, b'{"a":' * 300, b"9" * 5000, b"```json\n", b"...\n", b"data: [DONE]\n\n"),
)


def body(rng: Random) -> bytes:
    """The bytes of a stream: recorded or told, hurt or not; or out of nothing."""
    kind = rng.randrange(4)
    if kind == 0:
        return b"".join(rng.choice(TOKENS) for _ in range(rng.randint(0, 12)))
    if kind == 1:
        data = rng.choice(recorded()).read_bytes()
        start = rng.randrange(len(data))
        data = data[:200] + data[start : start + 2000]
    else:
        end = rng.choice(("\n", "\r\n", "\r"))
        lines = [text for event in stream(rng, rng.choice(FORMATS)) if (text := as_json(event)) is not None]
        data = "".join(f"data: {line}{end}{end}" if kind == 2 else f"{line}{end}" for line in lines).encode()
    return junk(rng, data) if rng.randrange(4) else data


def as_json(event: Event) -> str | None:
    """The JSON text of an event; None for one that has none."""
    try:
        return json.dumps(event)
    except ValueError:  # a number of 5,000 digits
        return None


def pieces_of(rng: Random, data: bytes) -> list[bytes]:
    edges = sorted(rng.randint(0, len(data)) for _ in range(rng.choice((0, 1, 5, 30))))
    return [data[a:b] for a, b in itertools.pairwise((0, *edges, len(data)))]


def decoded(decoder: Any, chunks: list[bytes]) -> Any:
    """What a decoder makes of the chunks, or the name of the error that is its own."""
    try:
        return [event for chunk in chunks for event in decoder.feed(chunk)] + decoder.close()
    except LimitExceeded as error:
        encodes(str(error))
        return "LimitExceeded"


def door_sse(rng: Random) -> None:
    """S1-S5: arbitrary bytes in arbitrary cuts are events, the same ones for each cut, or LimitExceeded."""
    data = body(rng)
    limit = rng.choice((16 * 2**20, 16 * 2**20, 200, 20))
    for kind in (sse.Decoder, sse.EventDecoder):
        first = decoded(kind(limit=limit), pieces_of(rng, data))
        second = decoded(kind(limit=limit), pieces_of(rng, data))
        assert first == second or "LimitExceeded" in (first, second)
    if isinstance(first, list):
        for fmt in FORMATS:
            look(fmt, functools.reduce(fmt.module.step, first, fmt.module.State()))
    state = rng.choice(FORMATS).module.State()
    for line in data.splitlines()[:5]:
        state = (MESSAGES if isinstance(state, MESSAGES.module.State) else CHAT).module.step_json(state, line)


def door_recordings(rng: Random) -> None:
    """B1, S1-S4: arbitrary bytes are a recording, or UnreadableRecording; folding it gives a message or our error."""
    data = body(rng)
    try:
        recording = recordings.read(data)
    except UnreadableRecording as error:
        encodes(str(error))
        return
    assert recording.format in {"messages", "chat"}
    try:
        encodes(recording.fold().to_dict())
    except StreamError as error:
        encodes(str(error))


def door_state(rng: Random) -> None:
    """State.from_json of anything is InvalidState or a state that works; no other exception, no code run."""
    fmt = rng.choice(FORMATS)
    state = functools.reduce(fmt.module.step, stream(rng, fmt), fmt.module.State(limits=limits(rng)))
    data = state.to_json()
    kind = rng.randrange(5)
    if kind == 0:
        data = junk(rng, data)
    elif kind == 1:
        data = body(rng)
    else:
        saved = json.loads(data)
        for _ in range(rng.randint(1, 3)):
            saved = hurt(rng, [saved], [hostile(rng)])[-1:] or [None]
            saved = saved[0]
        text = as_json(saved)
        data = text.encode() if text is not None else data
    try:
        loaded = fmt.module.State.from_json(data)
    except InvalidState as error:
        encodes(str(error))
        return
    holds(rng, fmt, stream(rng, fmt)[-12:], loaded)


def door_json(rng: Random) -> None:
    """J1-J10: any text in any cut is a value or InvalidJSON, as json.loads says, and never another exception."""
    text = written(rng, nullable(rng, 4))
    for _ in range(rng.randrange(4)):
        at = rng.randrange(len(text) + 1)
        token = rng.choice(TOKENS).decode("utf-8", "replace")
        text = text[:at] + rng.choice(("", token, text[:at])) + text[at + rng.randrange(3) :]
    parser = PartialJSON()
    for piece in cut(rng, text):
        parser.feed(piece)
        if rare(rng, 2):
            encodes(parser.value)
            encodes(parser.snapshot())
            parser.changes()
    state, error = parser.state, parser.error
    assert (error is None) == (state != "invalid")
    try:
        value = parser.finish()
    except InvalidJSON as problem:
        assert state != "complete"
        assert 0 <= problem.position <= len(text)
        encodes(str(problem))
        assert _deep(text) or _loads(text) is None
        return
    encodes(value)
    assert state != "invalid"
    assert same(value, mend(_loads(text)[0]))


def _deep(text: str) -> bool:
    return text.count("[") + text.count("{") > 200


def _loads(text: str) -> Any:
    """The value that the text is by RFC 8259, in a list; None if it is none."""

    def refuse(constant: str) -> Any:
        raise ValueError(constant)

    def finite(digits: str) -> float:
        number = float(digits)
        return number if math.isfinite(number) else refuse(digits)

    try:
        return [json.loads(text, parse_constant=refuse, parse_float=finite)]
    except (ValueError, RecursionError):
        return None


DOORS: dict[str, Callable[[Random], None]] = {
    "messages": lambda rng: door_step(rng, MESSAGES),
    "chat": lambda rng: door_step(rng, CHAT),
    "sse": door_sse,
    "recordings": door_recordings,
    "state": door_state,
    "json": door_json,
}


@pytest.mark.parametrize("door", DOORS)
def test_any_input(door: str) -> None:
    """Law 8: nothing but diagnostics and our own errors, whatever comes in through this door."""
    for seed in range(QUICK):
        try:
            DOORS[door](Random(seed))
        except Exception as error:
            message = f"{error!r}; to see it: python -m tests.test_fuzz 1 {door} {seed}"
            raise AssertionError(message) from error


def places_in(event: Any) -> list[tuple[Any, ...]]:
    """The paths to the event itself and to all that is in it."""
    inner = event.items() if isinstance(event, dict) else enumerate(event) if isinstance(event, list) else ()
    return [(), *((key, *path) for key, item in inner for path in places_in(item))]


def replaced(event: Any, path: tuple[Any, ...], value: Any) -> Any:
    """The event with another value at a path."""
    if not path:
        return value
    copied = copy.copy(event)
    copied[path[0]] = replaced(event[path[0]], path[1:], value)
    return copied


@both_formats
def test_any_json_in_place_of_any_field(fmt: Format) -> None:
    """Law 8: each awkward value in place of each event and each field: told of, saved, and folded on from."""
    rng = Random(0)
    tried = 0
    for seed in range(4):
        events = fmt.told(Random(seed))[:8]
        state = fmt.module.State()
        for at, event in enumerate(events):
            for path in places_in(event):
                for value in (*HOSTILE, nested(1010)):
                    new = fmt.module.step(state, replaced(event, path, value))
                    tried += 1
                    if rare(rng, 12):
                        look(fmt, new)
                        assert fmt.module.State.from_json(new.to_json()) == new
                        look(fmt, functools.reduce(fmt.module.step, events[at + 1 : at + 4], new))
            state = fmt.module.step(state, event)
    assert tried > 1_000


def test_deep_and_wide() -> None:
    """Law 8, M15, J7: nesting beyond any recursion limit is noted, in an event, a line, a saved state, a tool input."""
    deep: Any = []
    for _ in range(100_000):
        deep = [deep]
    for fmt in FORMATS:
        state = fmt.module.State()
        for event in (deep, {"type": "x", "x": deep}, {"choices": deep}, {"choices": [{"delta": deep, "index": 0}]}):
            state = fmt.module.step(state, event)
            look(fmt, state)
        for text in ("[" * 10**5, '{"a":' * 10**5, "[" * 10**5 + "]" * 10**5):
            assert fmt.module.step_json(state, text).diagnostics
            with pytest.raises(InvalidState):
                fmt.module.State.from_json(text)
            with pytest.raises(UnreadableRecording):
                recordings.read(text.encode())


def hoards(fmt: Format) -> dict[str, bytes]:
    """JSON that is much larger decoded than written, or that says it stands for much."""
    saved = json.loads(fmt.module.State().to_json())
    notes = [{"code": "a", "message": "b", "event_number": 1}] * 5_000
    lies = {
        "a version": saved | {"version": 10**4000},
        "events": saved | {"event_number": -(10**4000)},
        "keys": saved | {str(i): 0 for i in range(20_000)} | {"outline": 0},
        "notes": saved | {"outline": saved["outline"] | {"notes": [*notes, 0]}},
        "fragments": saved | {"fragments": [*[[["text", 0, "text"], "a"]] * 10_000, 0]},
        "a slot of every kind": saved | {"fragments": [[["text", i], "a"] for i in range(10_000)]},
    }
    texts = {"deep": b"[" * 10**6, "closed": b"[" * 10**5 + b"]" * 10**5, "digits": b"9" * 10**6}
    return texts | {"objects": b"[" + b"{}," * 60_000 + b"{}]"} | {name: encode(lie) for name, lie in lies.items()}


@both_formats
def test_saved_state_memory(fmt: Format) -> None:
    """Law 8: what State.from_json takes to refuse untrusted bytes is bounded by their number."""
    for name, data in hoards(fmt).items():
        tracemalloc.start()
        try:
            with pytest.raises(InvalidState):
                fmt.module.State.from_json(data)
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
        # an empty object takes a hundred times its two bytes once decoded
        assert peak < 150 * len(data) + 2**20, name


def test_saved_state_runs_nothing() -> None:
    """Law 8: State.from_json opens, imports, compiles and runs nothing, whatever the bytes say."""
    # In a process of its own: a hook cannot be taken out, and with one in Python threads cannot start under coverage.
    code = "from tests.test_fuzz import load_watched; load_watched()"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=Path(__file__).parent.parent, capture_output=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, b"")


def load_watched() -> None:
    """Load states that ask for code to be run, under an audit hook."""
    seen: list[str] = []
    watching = False

    def watch(event: str, _: Any) -> None:
        if watching and event.split(".", maxsplit=1)[0] in {
            "exec",
            "compile",
            "import",
            "open",
            "os",
            "subprocess",
            "pickle",
            "socket",
        }:
            seen.append(event)

    sys.addaudithook(watch)
    for fmt in FORMATS:
        saved = json.loads(functools.reduce(fmt.module.step, pooled(fmt, 1), fmt.module.State()).to_json())
        evil = {"__reduce__": ["os.system", ["true"]], "py/object": "os.system", "_type": "os.system", "!": "exec"}
        lies = [saved | {key: evil} for key in saved] + [saved | {"outline": saved["outline"] | evil}, evil]
        lies += [saved | {"outline": saved["outline"] | {key: "os.system"}} for key in saved["outline"]]
        for at, lie in enumerate(lies * 2):
            text = json.dumps(lie)
            watching = at >= len(lies)  # what a class needs is compiled when it is first asked for
            try:
                fmt.module.State.from_json(text)
            except InvalidState:
                pass
            finally:
                watching = False
    assert seen == []
    watching = True
    compile("0", "proof", "eval")
    watching = False
    assert seen == ["compile"], "the watch sees nothing"


def test_what_is_no_json() -> None:
    """`step` raises TypeError, and nothing else, for what is neither JSON nor an SDK's event."""
    for fmt in FORMATS:
        state = fmt.module.State()
        for thing in (b"{}", bytearray(), {1, 2}, object(), 1j, len, int):
            with pytest.raises(TypeError):
                fmt.module.step(state, thing)
        for inner in (b"", {1}, object(), {1: 2}, (1,), math.nan, math.inf):
            for event in ({"type": "x", "x": inner}, {"choices": [{"index": 0, "delta": {"x": inner}}]}, inner):
                try:
                    look(fmt, fmt.module.step(state, event))
                except TypeError:
                    assert isinstance(inner, (bytes, set, dict)) or type(inner) is object or inner == (1,)


# ------------------------------------------------------------------------------------------------ the long run


def smallest(fmt: Format, seed: int) -> list[Event]:
    """The events of a failing input with all dropped that it fails without."""
    rng = Random(seed)
    bounds = limits(rng)
    events = stream(rng, fmt)
    start = fmt.module.State(strict=rare(rng, 4), limits=bounds)
    after = rng.getstate()

    def fails(some: list[Event]) -> bool:
        rng.setstate(after)
        try:
            holds(rng, fmt, some, start)
        except Exception:
            return True
        return False

    at = 0
    while at < len(events):
        if fails(events[:at] + events[at + 1 :]):
            del events[at]
        else:
            at += 1
    return events


def main(count: int, doors: list[str], seed: int) -> int:
    """Fuzz; the number of inputs that failed."""
    failed = 0
    for door in doors:
        began, found = time.perf_counter(), Counter[str]()
        for number in range(seed, seed + max(1, count // len(doors))):
            try:
                DOORS[door](Random(number))
            except Exception as error:
                place = traceback.extract_tb(error.__traceback__)[-1]
                kind = f"{type(error).__name__} at {Path(place.filename).name}:{place.lineno}"
                found[kind] += 1
                if found[kind] == 1:
                    print(f"{door}, seed {number}: {kind}: {str(error)[:200]}")  # noqa: T201  a command
                    for event in smallest(FORMATS[door == "chat"], number) if door in {"messages", "chat"} else ():
                        print(f"    {(as_json(event) or 'an event with a number of 5,000 digits')[:500]}")  # noqa: T201  a command
        seconds = time.perf_counter() - began
        print(f"{door}: {number - seed + 1:,} inputs in {seconds:.0f} s, {found.total()} failed", flush=True)  # noqa: T201  a command
        failed += found.total()
    return failed


if __name__ == "__main__":
    arguments = sys.argv[1:]
    number_of_inputs = int(arguments[0]) if arguments else 60_000
    chosen = [arguments[1]] if len(arguments) > 1 else list(DOORS)
    sys.exit(main(number_of_inputs, chosen, int(arguments[2]) if len(arguments) > 2 else 0) > 0)
