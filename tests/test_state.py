"""States of either format: saved, copied and compared at any size; what was saved and spoilt; texts by their ropes."""

import copy
import functools
import json
import pickle

import pytest

from friendli_stream import InvalidInput, InvalidState, Limits, StreamError, chat, messages

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
    def tool(state):
        return state.snapshot.tool_uses[0]

    @staticmethod
    def raw(tool):
        return tool.input_json


class Chat:
    module = chat
    opening = ({**chunk({"content": ""}), "big": 2**80}, call("", id="t"))
    end = ("[DONE]",)

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


VALUES = [None, True, -1, 5, 1.5, "x", "\ud83d", "failed", "complete", "empty", [], [1], {}, {"a": 1}]


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
        for value in VALUES:
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
