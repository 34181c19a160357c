"""States of either format: saved, copied and compared at any size; what was saved and spoilt; texts by their ropes."""

import copy
import dataclasses
import functools
import json
import pickle

import cattrs
import pytest

from friendli_stream import (
    Diagnostic,
    IncompleteStream,
    InvalidInput,
    InvalidState,
    Limits,
    StreamError,
    chat,
    messages,
)

START = {"type": "message_start", "message": {"id": "m", "big": 2**80, "content": []}}
BLOCK = {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}
TOOL = {
    "type": "content_block_start",
    "index": 1,
    "content_block": {"type": "tool_use", "id": "t", "name": "n", "input": {}},
}


def delta(index, kind, **piece):
    return {"type": "content_block_delta", "index": index, "delta": {"type": kind, **piece}}


def chunk(piece, **more):
    return {"id": "c", "choices": [{"index": 0, "delta": piece, **more}]}


def call(arguments, **more):
    return chunk({"tool_calls": [{"index": 0, "function": {"arguments": arguments}, **more}]})


class Messages:
    """The format, a stream that is open, and the events that say the same in both formats."""

    module = messages
    opening = (START, BLOCK, TOOL)
    end = ({"type": "message_stop"},)
    wide = {"type": "message_delta", "delta": dict.fromkeys("abcd", 1)}

    @staticmethod
    def text(piece):
        return delta(0, "text_delta", text=piece)

    @staticmethod
    def arguments(piece):
        return delta(1, "input_json_delta", partial_json=piece)

    @staticmethod
    def entry(value):
        return delta(0, "citations_delta", citation=value)

    @staticmethod
    def extra(value):
        return {"type": "message_delta", "again": value}

    @staticmethod
    def tool(state):
        return state.snapshot.tool_uses[0]

    @staticmethod
    def raw(tool):
        return tool.input_json


class Chat:
    module = chat
    opening = ({**chunk({"content": ""}), "big": 2**80}, call("", id="t"))
    end = ("[DONE]",)
    wide = {"id": "c", "choices": [], **dict.fromkeys("abcd", 1)}

    @staticmethod
    def text(piece):
        return chunk({"content": piece})

    @staticmethod
    def arguments(piece):
        return call(piece)

    @staticmethod
    def entry(value):
        return chunk({"reasoning_details": [value]})

    @staticmethod
    def extra(value):
        return {"id": "c", "choices": [], "again": value}

    @staticmethod
    def tool(state):
        return state.snapshot.tool_calls[0]

    @staticmethod
    def raw(tool):
        return tool.arguments


FORMATS = pytest.mark.parametrize("form", [Messages, Chat], ids=["messages", "chat"])
ERROR = {"type": "error", "error": {"type": "t", "message": "m", "code": 3}}


def fold(form, events, state=None):
    return functools.reduce(form.module.step, events, form.module.State() if state is None else state)


# ------------------------------------------------------------------------------------------------ saved, copied, compared


@FORMATS
@pytest.mark.parametrize("strict", [False, True])
def test_a_hundred_thousand_fragments(form, strict):
    """Law 10: with 100,000 fragments pending a state is saved, pickled, copied, compared and shown, and folds on the same.

    It has notes, limits, a half of a pair and an 80-bit integer in it; nobody has read it before.
    """
    start = form.module.State(strict=strict, limits=Limits(text=10**6, diagnostics=3))
    notes = () if strict else ({"type": "a"}, {"type": "b"}, {"type": "a"})
    pieces = [form.text("ab"), form.arguments(" ")] * 50_000
    events = [*form.opening, *notes, *pieces, form.entry({"n": 2**80}), form.text("\ud83d")]
    state = fold(form, events, start)
    rest = [form.text("\ude00"), form.arguments('{"x":1}'), ERROR]
    expected = fold(form, rest, state)
    for other in (
        form.module.State.from_json(state.to_json()),
        pickle.loads(pickle.dumps(state)),
        copy.copy(state),
        copy.deepcopy(state),
        fold(form, events, start),
    ):
        assert (other == state, hash(other), repr(other)) == (True, hash(state), repr(state))
        assert other != form.module.step(other, form.text("x"))
        after = fold(form, rest, other)
        assert after == expected
        assert (after.snapshot.text, form.raw(form.tool(after))) == ("ab" * 50_000 + "😀", " " * 50_000 + '{"x":1}')
        assert (after.error.message, after.error.code) == ("m", 3)
        assert (
            [(note.code, note.count) for note in after.diagnostics] == []
            if strict
            else [("unknown_event", 2), ("unknown_event", 1)]
        )
        assert after.snapshot.extra["big"] == 2**80


@FORMATS
def test_pickled_while_empty(form):
    """Law 10: a state that no event has touched is pickled and copied as any other, limits and strictness with it."""
    state = form.module.State(strict=True, limits=Limits(choices=3))
    assert state == pickle.loads(pickle.dumps(state)) == copy.deepcopy(state)
    assert fold(form, [{"type": "new"}], pickle.loads(pickle.dumps(state))).status == "failed"


@FORMATS
@pytest.mark.parametrize(
    ("options", "event", "facts"),
    [({}, ERROR, {"message": "m", "type": "t", "code": 3, "request_id": None, "raw": ERROR}),
     ({}, {"error": {"message": "m"}, "request_id": "r"}, {"message": "m", "type": None, "code": None, "request_id": "r"}),
     ({}, {"error": "gone\ud83d"}, {"message": "gone\ufffd", "type": None}),
     ({"strict": True}, {"type": "new"}, {"diagnostic": Diagnostic("unknown_event", 'unknown event "new"', 3, "new")}),
     ({"limits": Limits(text=1000)}, "long", {"limit": "text", "allowed": 1000}),
     ({"limits": Limits(extra_keys=3)}, "wide", {"limit": "extra_keys", "allowed": 3})],
    ids=["server", "request", "text", "protocol", "limit", "keys"],
)  # fmt: skip
def test_failure(form, options, event, facts):
    """M13, C14, B4: why a state failed is in its error, fresh each time and the same after saving; it takes nothing more."""
    before = fold(form, form.opening[:2], form.module.State(**options))
    event = {"long": form.text("x" * 2000), "wide": form.wide}.get(event, event) if isinstance(event, str) else event
    state = form.module.step(before, event)
    assert (state.status, state.snapshot) == ("failed", before.snapshot)
    assert form.module.step(state, form.text("x")) is state
    for failed in (state, form.module.State.from_json(state.to_json())):
        with pytest.raises(StreamError) as caught:
            failed.result()
        assert caught.value is not failed.error
        assert caught.value.state is failed
        assert (type(failed.error), str(failed.error)) == (type(state.error), str(state.error))
        assert {name: getattr(caught.value, name) for name in facts} == facts


@FORMATS
def test_malformed_in_strict_mode(form):
    """M15, C2: in strict mode an event that is none fails the state too, with what came before it kept."""
    before = fold(form, [*form.opening, form.text("a")], form.module.State(strict=True))
    for event in (5, None, [], "x", {"choices": 1, "type": "message_start"}):
        state = form.module.step(before, event)
        assert (state.status, state.error.diagnostic.code, state.snapshot) == (
            "failed",
            "malformed_event",
            before.snapshot,
        )


@FORMATS
def test_notes_are_counted(form):
    """B4: a note stands once for its code and path, later ones are counted; those beyond the limit are only counted."""
    events = [{"type": name} for name in "abacbcd"]
    state = fold(form, events, form.module.State(limits=Limits(diagnostics=2)))
    assert [(note.path, note.event_number, note.count) for note in state.diagnostics] == [("a", 1, 2), ("b", 2, 2)]
    assert state.diagnostics_omitted == 3
    assert form.module.State.from_json(state.to_json()).diagnostics_omitted == 3


@FORMATS
def test_said_again(form):
    """B4, C13, M7: an unknown field said again stands in place of what it was, and weighs in its place."""
    state = fold(form, form.opening, form.module.State(limits=Limits(text=2000, extra_keys=4)))
    for n in range(100):
        state = form.module.step(state, form.extra(str(n) * 100 if n % 2 else "x"))
    assert (state.error, state.snapshot.extra["again"]) == (None, "99" * 100)


@FORMATS
def test_long_names_weigh(form):
    """B4: an id counts for nothing while it is as short as honest ones are; what is beyond counts."""

    def head(length):
        ident = "i" * length
        return {**START, "message": {"id": ident}} if form is Messages else {**chunk({}), "id": ident}

    for length, limit, status in (
        (1024, 1, "open"),
        (1025, 1, "open"),
        (1026, 1, "failed"),
        (5000, 3976, "open"),
        (5000, 3975, "failed"),
    ):
        state = form.module.step(form.module.State(limits=Limits(text=limit)), head(length))
        assert (length, limit, state.status) == (length, limit, status)


@FORMATS
def test_nothing_but_what_is_no_stream(form):
    """S4, M14, C15: the error of a state that has not begun shows the first thing that came instead."""
    state = fold(form, ["<html>502</html>", {"type": "new"}])
    with pytest.raises(IncompleteStream, match="event 1: .*<html>502"):
        state.result()


@FORMATS
def test_equal_by_value(form):
    """States are equal by what they are, whoever has read them; to nothing else but what says so itself."""
    events = [*form.opening, form.text("a"), form.text("b")]
    one, other = fold(form, events), fold(form, events)
    one.snapshot.to_dict()
    assert one == other
    assert one != fold(form, events[:-1])
    assert one != fold(form, [*events[:-1], form.text("c")])
    assert one != fold(form, events, form.module.State(strict=True))
    assert messages.State() != chat.State()
    assert one not in (None, 5, "x", one.to_json())

    class Anything:
        def __eq__(self, other):
            return True

        __hash__ = None

    assert one == Anything()


@pytest.mark.parametrize("values", [["é", 10**40], ["𝄞", "\ud83d"], [{"a": "é"}, 1.5, None]])
@FORMATS
def test_lists_are_saved_entry_by_entry(form, values):
    """Law 10: the entries of a list come back equal, by whichever road each was written (B2)."""
    state = fold(form, [*form.opening, *map(form.entry, values)])
    assert form.module.State.from_json(state.to_json()) == state


TOO_LONG = 10**5000
UNWRITABLE = [
    (Messages, {**START, "message": {"id": "m", "x": TOO_LONG}}),
    (Messages, {**START, "message": {"id": "m", "usage": {"n": TOO_LONG}}}),
    (Messages, {**BLOCK, "content_block": {"type": "tool_use", "input": {"n": TOO_LONG}}}),
    (Messages, {**BLOCK, "index": TOO_LONG}),
    (Messages, {"type": "message_delta", "usage": {"input_tokens": TOO_LONG}}),
    (Messages, {"error": {"message": "m", "code": TOO_LONG}}),
    (Messages, TOO_LONG),
    (Chat, {"id": "c", "choices": [{"index": 0, "delta": {}, "x": TOO_LONG}]}),
    (Chat, chunk({"x": [TOO_LONG]})),
    (Chat, call({"x": TOO_LONG})),
    (Chat, {**chunk({"content": "a"}), "created": TOO_LONG}),
    (Chat, {**chunk({"content": "a"}), "usage": {"n": TOO_LONG}}),
    (Chat, {"id": "c", "choices": [{"index": TOO_LONG}]}),
    (Chat, {"error": {"message": "m", "code": TOO_LONG}}),
]  # fmt: skip


@pytest.mark.parametrize(("form", "event"), UNWRITABLE, ids=range(len(UNWRITABLE)))
def test_integer_too_long_to_write(form, event):
    """Law 8: an integer of more than 4,300 digits, of which no JSON can be written, is noted, not raised, and never kept."""
    state = fold(form, [event])
    assert [note.code for note in state.diagnostics] == ["malformed_event"]
    assert form.module.State.from_json(state.to_json()) == state
    repr(state.snapshot)


# ------------------------------------------------------------------------------------------------ saved and spoilt


def spoilt(value, path, new):
    """A copy of a JSON value with another value at a path."""
    if not path:
        return new
    copied = value.copy()
    copied[path[0]] = spoilt(value[path[0]], path[1:], new)
    return copied


def paths(value):
    """The paths of everything in a JSON value."""
    yield ()
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in inner:
        yield from ((key, *rest) for rest in paths(item))


def read_all(form, state):
    """Read all that a state shows; what does not fit together, or raises, is seen."""
    snapshot, error = state.snapshot, state.error
    assert (state.status == "failed") == (error is not None)
    assert snapshot is not None if state.status in ("open", "complete") else snapshot is None or error is not None
    try:
        state.result()
        assert state.status == "complete"
    except StreamError as raised:
        assert state.status != "complete"
        str(raised).encode()
    if snapshot is not None:
        json.dumps(snapshot.to_dict(), ensure_ascii=False).encode()
        repr(snapshot).encode()
        try:
            snapshot.to_request()
        except InvalidInput:
            pass
    assert form.module.State.from_json(state.to_json()) == state
    form.module.changes(form.module.State(), state)


VALUES = [None, True, -1, 5, "\ud83d", [1], {"a": 1}]
STATUSES = ["empty", "open", "complete", "failed"]


@pytest.mark.parametrize("tail", ["open", "failed", "complete"])
@FORMATS
def test_spoilt_state(form, tail):
    """from_json gives InvalidState or a state that can be read and goes on, whatever value stands wherever in what was saved."""
    odd = (
        {"type": "content_block_start", "index": 2, "content_block": {"type": "odd"}}
        if form is Messages
        else chunk({"l": [1]})
    )
    usage = (
        {"type": "message_delta", "usage": {"n": 1}}
        if form is Messages
        else {"id": "c", "choices": [], "usage": {"n": 1}}
    )
    events = [
        *form.opening,
        {"type": "new"},
        form.text("a\ud83d"),
        form.arguments("{"),
        form.entry({"n": 1}),
        odd,
        usage,
    ]
    events += {"open": [], "failed": [ERROR], "complete": form.end}[tail]
    saved = json.loads(fold(form, events).to_json())
    rest = [form.text("x"), form.arguments("1"), form.entry(2), {"type": "new"}, usage, *form.end]
    loaded = 0
    for path in paths(saved):
        for value in STATUSES if path[-1:] == ("status",) else VALUES:
            data = json.dumps(spoilt(saved, path, value))
            try:
                state = form.module.State.from_json(data)
            except InvalidState:
                continue
            loaded += 1
            read_all(form, state)
            fold(form, rest, state).to_json()
    assert loaded > 100  # extras may hold anything


@FORMATS
def test_bytes_that_are_no_state(form):
    """from_json gives InvalidState for any other bytes: other JSON, another format's state, a cut, nesting too deep."""
    good = fold(form, [*form.opening, form.text("a"), form.entry({"n": 1})]).to_json()
    deep = b"[" * 271 + b"]" * 271
    other = (Chat if form is Messages else Messages).module.State().to_json()
    for data in (
        *(good[:cut] for cut in range(0, len(good), 7)),
        good.replace(b'"n":1', b'"n":' + deep),
        good.replace(b'"version":1', b'"version":2'),
        good.replace(b'["list",', b'["odd",'),
        good.replace(b'"event_number":', b'"event_number":-'),
        good + b"x",
        b"[" * 10**6,
        deep,
        other,
        b"\xff",
        "",
        "null",
    ):
        assert data != good
        with pytest.raises(InvalidState, match="not a state of"):
            form.module.State.from_json(data)
    assert form.module.State.from_json(good.decode()) == form.module.State.from_json(good)


# ------------------------------------------------------------------------------------------------ texts by their ropes


@FORMATS
def test_changes_without_reading(form):
    """`changes` asked after each event, nothing read: the pieces, however the rope has joined them; halves whole (B1)."""
    pieces = ["x" * 100, "a", "b", "cd" * 40, "", "e\ud83d", "", "\ude00f", "g", "\ud83d", "h", "y" * 200, "\ud83d"]
    for every in (1, 2, 3):
        state = seen = fold(form, form.opening)
        told = ""
        for number, piece in enumerate(pieces, 1):
            state = form.module.step(state, form.text(piece))
            if number % every == 0:
                told += "".join(value for _, kind, value in form.module.changes(seen, state) if kind == "text")
                seen = state
        for event in form.end:
            state = form.module.step(state, event)
        told += "".join(value for _, kind, value in form.module.changes(seen, state) if kind == "text")
        assert told == state.snapshot.text == "x" * 100 + "ab" + "cd" * 40 + "e😀fg\ufffdh" + "y" * 200 + "\ufffd"


@FORMATS
def test_changes_of_equal_texts_told_apart(form):
    """`changes` between branches whose texts begin alike, in other pieces, tells what is behind the older one."""
    root = fold(form, [*form.opening, form.text("x" * 100)])
    form.module.changes(form.module.State(), root)
    for left, right, added in (
        (["a", "b"], ["ab", "c"], "c"),
        (["ab"], ["a", "b", "c"], "c"),
        (["abc"], ["ab", "cd", "e"], "de"),
        (["a" * 50, "b"], ["a" * 50 + "bc", ""], "c"),
        ([""], ["", "z"], "z"),
    ):
        older, newer = fold(form, map(form.text, left), root), fold(form, map(form.text, right), root)
        ((*_, text),) = form.module.changes(older, newer)
        assert (left, right, text) == (left, right, added)
    for left, right in ((["abc"], ["ab", "dd"]), (["a", "b"], ["ac", "x"]), (["abc"], ["x", "y"])):
        older, newer = fold(form, map(form.text, left), root), fold(form, map(form.text, right), root)
        assert form.module.changes(older, newer) == form.module.changes(form.module.State(), newer)


@FORMATS
def test_an_older_state_is_read_after_a_newer_one(form):
    """J8, law 2: a tool input is scanned on by the newest reader; an older state still reads its own part."""
    states = [fold(form, form.opening)]
    for piece in ('{"a": "x', 'y", "b"', ": 12", "}"):
        states.append(form.module.step(states[-1], form.arguments(piece)))
    expected = [None, {"a": "x"}, {"a": "xy"}, {"a": "xy"}, {"a": "xy", "b": 12}]
    for order in ([4, 3, 2, 1, 0], [0, 4, 1, 3, 2], [2, 2, 0, 4, 4]):
        assert [expected[at] for at in order] == [form.tool(states[at]).partial_input for at in order]
    assert [form.tool(state).input_state for state in states] == ["incomplete"] * 4 + ["complete"]


# ------------------------------------------------------------------------------------------------ tool inputs, values


@dataclasses.dataclass
class Tide:
    pier: str
    days: int = 1


@FORMATS
def test_readings_of_an_input(form):
    """J11, J12: an input in its four readings, open and ended: complete, not yet, never, no object, nothing."""
    cases = [
        ('{"pier": "N"}', ("complete", {"pier": "N"}), ("complete", {"pier": "N"})),
        ('{"pier": "N', ("incomplete", {"pier": "N"}), ("incomplete", {"pier": "N"})),
        ('{"pier" "N"}', ("invalid", {}), ("invalid", {})),
        ("[1]", ("invalid", [1]), ("invalid", [1])),
        ("12", ("incomplete", None), ("invalid", 12)),
        ("tru", ("incomplete", None), ("incomplete", None)),
        (" ", ("incomplete", None), ("complete", {})),
        ("", ("incomplete", None), ("complete", {})),
    ]
    for text, *expected in cases:
        state = fold(form, [*form.opening, form.arguments(text)])
        for now, (status, value) in zip((state, fold(form, form.end, state)), expected, strict=True):
            tool = form.tool(now)
            assert (text, tool.input_state, tool.partial_input) == (text, status, value)
            if status == "complete":
                assert tool.input == value
                assert tool.input is not tool.input
            else:
                with pytest.raises(InvalidInput, match=status) as caught:
                    _ = tool.input
                assert (caught.value.state, caught.value.text) == (status, text)


@FORMATS
def test_input_as(form):
    """An input is structured into the caller's class, by the caller's converter if there is one; a mismatch names the field."""
    tool = form.tool(fold(form, [*form.opening, form.arguments('{"pier": "N", "days": "x"}'), *form.end]))
    with pytest.raises(InvalidInput, match="days") as caught:
        tool.input_as(Tide)
    assert caught.value.path.endswith(".days")
    assert tool.input_as(dict) == {"pier": "N", "days": "x"}
    plain = cattrs.Converter(detailed_validation=False)
    with pytest.raises(InvalidInput, match="ValueError: invalid literal"):
        tool.input_as(Tide, plain)
    plain.register_structure_hook(int, lambda value, _: len(value))
    assert tool.input_as(Tide, plain) == Tide("N", 1)

    def broken(value, _):
        raise ZeroDivisionError

    plain.register_structure_hook(int, broken)
    with pytest.raises(ZeroDivisionError):
        tool.input_as(Tide, plain)


@FORMATS
def test_snapshots_are_values(form):
    """A snapshot is pickled, copied and equal by value, read before or not; strings given by hand come out whole (B1)."""
    state = fold(form, [*form.opening, form.text("a\ud83d"), form.entry({"n": [1]}), form.arguments("{}"), *form.end])
    snapshot = state.snapshot
    for other in (pickle.loads(pickle.dumps(snapshot)), copy.deepcopy(snapshot), copy.copy(snapshot), state.snapshot):
        assert (other == snapshot, repr(other), other.to_json()) == (True, repr(snapshot), snapshot.to_json())
    assert snapshot != fold(form, form.opening).snapshot
    assert messages.TextBlock(0, "a\ud83d").text == chat.ChatMessage(content="a\ud83d").content == "a\ufffd"
