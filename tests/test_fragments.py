"""The chain of fragments: exact in whatever order it is read, saved, branched and settled, and it holds little."""

import gc
import itertools
import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from friendli_stream import Limits, _state, chat, messages
from friendli_stream._fragments import PENDING, Settled

START = {"type": "message_start", "message": {"id": "m", "content": []}}
PING = {"type": "ping"}


def block(index):
    return {"type": "content_block_start", "index": index, "content_block": {"type": "text", "text": ""}}


def text(index, piece):
    return {
        "type": "content_block_delta",
        "index": index,
        "delta": {"type": "text_delta", "text": piece},
    }


def call(index, piece):
    return {"index": index, "function": {"arguments": piece}}


def chunk(delta, **more):
    return {"id": "c", "choices": [{"index": 0, "delta": delta}], **more}


def one_piece(form, index, piece):
    """An event with one piece, for one of two texts."""
    if form is messages:
        return text(index, piece)
    return chunk({"content": piece}) if index else chunk({"tool_calls": [call(0, piece)]})


def opened(form, **options):
    events = [START, block(0), block(1)]
    if form is chat:
        events = [chunk({"content": "", "tool_calls": [{**call(i, ""), "id": f"t{i}"}]}) for i in (1, 0)]
    state = form.State(**options)
    for event in events:
        state = form.step(state, event)
    assert not state.diagnostics
    return state


def texts(form, state):
    """The two texts that `one_piece` adds to."""
    if form is messages:
        return [each.text for each in state.snapshot.content]
    return [state.snapshot.tool_calls[0].arguments, state.snapshot.choices[0].message.content]


FORMATS = pytest.mark.parametrize("form", [messages, chat], ids=["messages", "chat"])
IN_BETWEEN = ["", "", "", "read", "save", "ping", "branch", "other road"]


def disturbed(form, state, how):
    """The state after something that must not show."""
    if how == "read":
        texts(form, state)
    elif how == "save":
        return form.State.from_json(state.to_json())
    elif how == "ping":
        return form.step(state, PING)
    elif how == "branch":
        form.step(form.step(state, one_piece(form, 1, "?")), PING)
    return state


@FORMATS
@given(
    limit=st.integers(1, 3_000),
    told=st.lists(
        st.tuples(st.integers(0, 1), st.integers(0, 3) | st.integers(0, 300), st.sampled_from(IN_BETWEEN)), max_size=200
    ),
)
def test_the_room_is_exact(form, limit, told):
    """B4: the event that is one character too much is refused, wherever the chain was counted last."""
    head = opened(form)
    state = opened(form, limits=Limits(text=limit))
    kept = ["", ""]
    for number, (index, size, how) in enumerate(told):
        piece = chr(97 + number % 26) * size
        event = one_piece(form, index, piece)
        if how == "other road":
            event |= {"x": None}  # says nothing, but no happy path takes it
        state = form.step(disturbed(form, state, how), event)
        if sum(map(len, kept)) + size > limit:
            assert state.status == "failed"
            assert state.error.limit == "text"
            break
        kept[index] += piece
        assert state.status == head.status
    assert texts(form, state) == kept


@given(
    st.lists(
        st.tuples(
            st.none() | st.sampled_from(["", "a", "bc"]),
            st.lists(st.tuples(st.sampled_from([0, 1]), st.sampled_from(["", "x", "yz"])), max_size=3),
            st.none() | st.integers(0, 9),
            st.sampled_from(IN_BETWEEN),
        ),
        max_size=150,
    )
)
def test_many_pieces_in_one_chunk(told):
    """Law 10: a chunk with content, arguments and usage adds each in its order, among chunks with one or none."""
    state = opened(chat)
    content, arguments, usage = "", {0: "", 1: ""}, None
    for events, (piece, calls, tokens, how) in enumerate(told):
        # Both calls go on side by side only in one chunk; else the last one touched is the one that goes on (C6).
        event = chunk(
            {"content": piece, "tool_calls": [call(index, part) for index, part in calls]},
            usage=None if tokens is None else {"completion_tokens": tokens},
        )
        state = chat.step(disturbed(chat, state, how), event)
        content += piece or ""
        for index, part in calls:
            arguments[index] += part
        usage = usage if tokens is None else tokens
        if events % 7 == 0:
            assert [each.arguments for each in state.snapshot.tool_calls] == [arguments[0], arguments[1]]
    assert state.snapshot.choices[0].message.content == content
    assert [each.arguments for each in state.snapshot.tool_calls] == [arguments[0], arguments[1]]
    assert (state.usage and state.usage.completion_tokens) == usage


@FORMATS
def test_a_chain_holds_no_older_outline(form):
    """An open stream costs one outline, however its rare events and its fragments take turns."""

    def outlines():
        gc.collect()
        return sum(isinstance(thing, _state.Outline) for thing in gc.get_objects())

    before = outlines()
    state = opened(form)
    for number in range(2 * PENDING - 3):
        state = form.step(state, PING if number % 3 == 0 else one_piece(form, 1, "a"))
    assert outlines() == before + 1
    assert texts(form, state)[1] == "a" * sum(number % 3 != 0 for number in range(2 * PENDING - 3))


@FORMATS
def test_branches_share_what_is_long(form):
    """Law 9: rare events that go on from one state have what came before it in common."""
    state = opened(form)
    for _ in range(PENDING - 14):
        state = form.step(state, one_piece(form, 1, "a" * 60_000))
    tracemalloc.start()
    branches = [form.step(state, PING) for _ in range(20)]
    held, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert held < 4_000_000
    assert all(texts(form, branch)[1] == "a" * 3_000_000 for branch in branches)


@FORMATS
def test_any_state_of_a_line_is_read(form):
    """Law 2: read in every order, each state of two chains' length has what had come."""
    count = 2 * PENDING + 5
    for order in (range(count), reversed(range(count)), range(0, count, 7), reversed(range(3, count, PENDING))):
        states = list(
            itertools.accumulate(
                (one_piece(form, n % 2, "ab"[n % 2]) for n in range(count)), form.step, initial=opened(form)
            )
        )
        for at in order:
            assert texts(form, states[at]) == ["a" * ((at + 1) // 2), "b" * (at // 2)]


@FORMATS
@pytest.mark.parametrize("size", [1, 3, 40])
def test_the_room_shrinks_on_the_happy_path(form, size):
    """B4: a stream of nothing but small pieces is refused at the character that is too much, as far as it may go."""
    limit = 10_000
    state = opened(form, limits=Limits(text=limit))
    for _ in range(limit // size):
        state = form.step(state, one_piece(form, 1, "a" * size))
    assert state.status == "open"
    assert form.step(state, one_piece(form, 1, "a" * (limit % size))).status == "open"
    assert form.step(state, one_piece(form, 1, "a" * (limit % size + 1))).error.limit == "text"


@FORMATS
def test_changes_backwards(form):
    """A pair that is told backwards is of no line, even where nothing but a ping lies between."""
    older = form.step(opened(form), one_piece(form, 1, "a"))
    newer = form.step(older, PING)
    assert form.changes(older, newer) == []
    assert form.changes(newer, older) == form.changes(form.State(), older)


@FORMATS
def test_saved_alike_whoever_read(form):
    """Law 10: equal states are saved as equal bytes."""
    events = [one_piece(form, number % 2, "ab") if number % 3 else PING for number in range(PENDING + 9)]
    read, unread = opened(form), opened(form)
    for event in events:
        unread = form.step(unread, event)
        read = form.step(read, event)
        texts(form, read)
    assert read == unread
    assert read.to_json() == unread.to_json()


@FORMATS
def test_a_chain_is_short(form):
    """Law 9: what a state holds unsettled is bounded, whatever its events are, in whatever order."""

    def length(state):
        found, older = 0, state._older
        while not isinstance(older, Settled):
            found += 1
            older = older[0] if isinstance(older, tuple) else older._older
        return found

    roads = [one_piece(form, 1, "a"), one_piece(form, 1, "a") | {"x": None}]
    for pattern in ((0,), (1,), (0, 1), (0, 0, 1), (0,) * 63 + (1,), (0,) * 20 + (1,) * 20):
        state = opened(form)
        for at in itertools.islice(itertools.cycle(pattern), 5 * PENDING):
            state = form.step(state, roads[at])
            assert length(state) <= PENDING + 4  # the head brought several


def test_many_pieces_are_refused_together():
    """B4: the pieces of one chunk count together, in a hot chunk as in any other."""
    for limit in (9, 10, 11):
        state = opened(chat, limits=Limits(text=limit))
        state = chat.step(state, chunk({"content": "", "refusal": ""}))
        state = chat.step(state, chunk({"content": "abcd", "tool_calls": [call(0, "1")], "refusal": "efghi"}))
        assert (state.status == "failed") == (limit < 10)
        assert texts(chat, state) == (["1", "abcd"] if limit >= 10 else ["", ""])
    keys = ("content", "refusal", "reasoning_content")
    state = chat.step(opened(chat, limits=Limits(text=1280)), chunk(dict.fromkeys(keys, "")))
    for _ in range(1280 // 30):
        state = chat.step(state, chunk(dict.fromkeys(keys, "0123456789")))
    assert state.status == "open"
    assert chat.step(state, chunk(dict.fromkeys(keys, "0123456789"))).error.limit == "text"


def test_changes_of_many_pieces():
    """`changes` between two states with a chunk of several pieces, one of none and one of usage between them."""
    older = chat.step(opened(chat), chunk({"content": "a", "tool_calls": [call(0, '"')]}, usage={"total_tokens": 1}))
    newer = chat.step(older, chunk({"content": "b", "tool_calls": [call(0, "x")]}, usage=None))
    newer = chat.step(newer, chunk({}, usage=None))
    newer = chat.step(newer, chunk({"content": "c"}, usage={"total_tokens": 2}))
    assert older._outline is newer._outline, "they are to be on the happy path"
    message = ("choices", 0, "message")
    assert chat.changes(older, newer) == [
        ((*message, "content"), "text", "bc"),
        ((*message, "tool_calls", 0, "input"), "text", "x"),
    ]


@FORMATS
def test_changes_between_branches(form):
    """Two states that went on from one are of no line: all of the newer is told."""
    head = opened(form)
    one, other = (form.step(head, one_piece(form, 1, piece)) for piece in ("ab", "cd"))
    assert form.changes(one, other) == form.changes(form.State(), other)


def test_a_saved_state_has_no_empty_slot():
    """A chunk that brings nothing leaves nothing in the state."""
    state = opened(chat)
    for _ in range(3):
        state = chat.step(state, chunk({"content": None}))
    assert chat.State.from_json(state.to_json()) == state


@FORMATS
def test_a_loaded_state_knows_its_room(form):
    """B4: of what is left in it, not a character more is taken."""
    state = form.State.from_json(opened(form, limits=Limits(text=5)).to_json())
    assert form.step(state, one_piece(form, 1, "abcde")).status == "open"
    assert form.step(state, one_piece(form, 1, "abcdef")).status == "failed"
