"""Messages events, rule by rule (M1-M15, and what B1-B4 and J11-J12 say of messages)."""

import copy
import dataclasses
import json
import pickle
from typing import TypedDict

import attrs
import cattrs
import pytest

from friendli_stream import (
    IncompleteStream,
    InvalidInput,
    InvalidState,
    LimitExceeded,
    Limits,
    ProtocolError,
    ServerError,
    messages,
    sse,
)


def start(ident="msg_1", **more):
    message = {"id": ident, "type": "message", "role": "assistant", "model": "m", "content": [], "stop_reason": None,
               "stop_sequence": None, "usage": {"input_tokens": 3, "output_tokens": 1}, **more}  # fmt: skip
    return {"type": "message_start", "message": message}


def block(index, **head):
    return {"type": "content_block_start", "index": index, "content_block": head}


def delta(index, kind, **piece):
    return {"type": "content_block_delta", "index": index, "delta": {"type": kind, **piece}}


def text(index, piece):
    return delta(index, "text_delta", text=piece)


def args(index, piece):
    return delta(index, "input_json_delta", partial_json=piece)


def stop(index):
    return {"type": "content_block_stop", "index": index}


def finish(reason="end_turn", **usage):
    return {"type": "message_delta", "delta": {"stop_reason": reason, "stop_sequence": None}, "usage": usage}


END = {"type": "message_stop"}
TEXT = {"type": "text", "text": ""}
TOOL = {"type": "tool_use", "id": "toolu_1", "name": "tide", "input": {}}


def run(*events, **options):
    state = messages.State(**options)
    for event in events:
        state = messages.step(state, event)
    return state


def codes(state):
    return [(note.code, note.path) for note in state.diagnostics]


def test_whole_message():
    """M1-M3, M7-M9: a plain stream is the message that the API returns."""
    state = run(start(), block(0, **TEXT), text(0, "Hel"), text(0, "lo"), stop(0), finish(output_tokens=9), END)
    assert state.status == "complete"
    assert state.diagnostics == ()
    assert state.result().to_dict() == {
        "id": "msg_1", "type": "message", "role": "assistant", "model": "m",
        "content": [{"type": "text", "text": "Hello"}], "stop_reason": "end_turn", "stop_sequence": None,
        "usage": {"input_tokens": 3, "output_tokens": 9},
    }  # fmt: skip
    assert state.result().text == "Hello"


def test_prefilled_and_bare_head():
    """M1: content in message_start is closed blocks 0..k-1; model, role, usage may be missing; extras come out."""
    state = run(
        start(content=[{"type": "text", "text": "Once"}], container={"id": "c"}), block(1, **TEXT), text(1, "."), END
    )
    assert [b.text for b in state.result().content] == ["Once", "."]
    assert state.result().extra == {"container": {"id": "c"}}
    bare = run({"type": "message_start", "message": {}}, END).result()
    assert (bare.id, bare.model, bare.role, bare.usage) == (None, None, "assistant", None)


def test_start_block_content_is_kept():
    """M2: what the start block holds is kept, and the deltas are appended."""
    state = run(
        start(), block(0, type="text", text="A", citations=[{"n": 1}], mark=1), text(0, "B"),
        delta(0, "citations_delta", citation={"n": 2}), block(1, type="thinking", thinking="x", signature="s"),
        delta(1, "thinking_delta", thinking="y"), delta(1, "signature_delta", signature="t"),
    )  # fmt: skip
    first, second = state.snapshot.content
    assert (first.text, first.citations, first.extra) == ("AB", [{"n": 1}, {"n": 2}], {"mark": 1})
    assert (second.thinking, second.signature) == ("xy", "st")
    assert first.to_dict() == {"type": "text", "text": "AB", "citations": [{"n": 1}, {"n": 2}], "mark": 1}


def test_block_started_again():
    """M2: the first stays."""
    state = run(start(), block(0, **TEXT), text(0, "a"), block(0, **TOOL), text(0, "b"))
    assert state.snapshot.text == "ab"
    assert codes(state) == [("block_started_again", "content[0]")]


def test_index_gap():
    """M2: blocks come out by index, gaps closed, noted once at message_stop."""
    state = run(start(), block(4, **TEXT), text(4, "b"), block(1, **TEXT), text(1, "a"), END)
    assert state.result().text == "ab"
    assert codes(state) == [("index_gap", "content")]


def test_null_pieces_and_delta_extras():
    """M3: null or missing text is ""; other keys on a known delta: last non-null, in the block's extra."""
    state = run(
        start(), block(0, **TEXT), text(0, None), delta(0, "text_delta"), text(0, "x"),
        delta(0, "text_delta", text="y", mark=1), delta(0, "text_delta", text="", mark=None),
    )  # fmt: skip
    assert state.snapshot.text == "xy"
    assert state.snapshot.content[0].extra == {"mark": 1}


def test_compaction():
    """M3: compaction_delta appends to its block's content, null adds nothing."""
    events = [start(), block(0, type="compaction", content=None)]
    assert run(*events).snapshot.content[0].to_dict() == {"type": "compaction", "content": None}
    pieces = [delta(0, "compaction_delta", content=piece) for piece in ("a", None, "b")]
    assert run(*events, *pieces).snapshot.content[0].raw == {"type": "compaction", "content": "ab"}
    started = run(start(), block(0, type="compaction", content="so "), *pieces)  # M2: what the start holds is kept
    assert started.snapshot.content[0].raw == {"type": "compaction", "content": "so ab"}
    sealed = [delta(0, "compaction_delta", content="a", encrypted=secret) for secret in ("E1", "E2", None)]
    state = run(start(), block(0, type="compaction", content=None, encrypted=None), *sealed)
    assert state.snapshot.content[0].raw == {"type": "compaction", "content": "aaa", "encrypted": "E2"}


def test_tool_input():
    """M4, J11: the text is the input; complete when it is a whole object."""
    state = run(start(), block(0, **TOOL))
    tool = state.snapshot.content[0]
    assert (tool.input_json, tool.input_state, tool.partial_input) == ("", "incomplete", None)
    state = run(start(), block(0, **TOOL), args(0, '{"pier": "No'), args(0, "r"))
    tool = state.snapshot.content[0]
    assert (tool.input_state, tool.partial_input) == ("incomplete", {"pier": "Nor"})
    assert tool.to_dict() == {
        "type": "tool_use",
        "id": "toolu_1",
        "name": "tide",
        "input": {"pier": "Nor"},
        "partial_json": '{"pier": "Nor',
    }
    with pytest.raises(InvalidInput, match=r"content\[0\].input is incomplete") as caught:
        _ = tool.input
    assert (caught.value.path, caught.value.state, caught.value.text) == (
        "content[0].input",
        "incomplete",
        '{"pier": "Nor',
    )
    with pytest.raises(InvalidInput):
        state.snapshot.to_request()
    tool = run(start(), block(0, **TOOL), args(0, '{"n": 100000000000000000000000}'), stop(0)).snapshot.tool_uses[0]
    assert (tool.input_state, tool.input) == ("complete", {"n": 10**23})
    assert tool.input is not tool.input


@pytest.mark.parametrize(
    ("pieces", "expected"),
    [([], ("complete", {})), (["", " \n"], ("complete", {})), (["[1]"], ("invalid", [1])), (["12"], ("invalid", 12)),
     (["nul"], ("incomplete", None)), (['{"a" 1}'], ("invalid", {}))],
)  # fmt: skip
def test_input_states(pieces, expected):
    """J11: no text is {}; a whole value that is no object is invalid; a text that ended early is incomplete."""
    tool = run(start(), block(0, **TOOL), *[args(0, piece) for piece in pieces], stop(0)).snapshot.content[0]
    assert (tool.input_state, tool.partial_input) == expected
    if expected[0] == "complete":
        assert (tool.input, tool.input_json) == ({}, "{}")
    else:
        with pytest.raises(InvalidInput, match=expected[0]):
            _ = tool.input


def test_start_input():
    """M4: without text the start's input becomes the input, with text the text does, noted."""
    head = {**TOOL, "input": {"a": [1]}, "caller": {"type": "direct"}}
    tool = run(start(), block(0, **head), args(0, " "), stop(0)).snapshot.content[0]
    assert (tool.input_json, tool.input, tool.extra) == ('{"a":[1]}', {"a": [1]}, {"caller": {"type": "direct"}})
    state = run(start(), block(0, **head), args(0, "{"), args(0, "}"), stop(0))
    assert state.snapshot.content[0].input == {}
    assert codes(state) == [("input_twice", "content[0].input")]
    other = run(start(), block(0, type="novel_use", input={"b": 2}), stop(0)).snapshot.content[0]
    assert (other.type, other.input, other.id) == ("novel_use", {"b": 2}, None)


def test_an_input_is_read_along_its_line(monkeypatch):
    """J8, J11: white space that may become an input is not joined at each reading, nor a start's input parsed again."""
    state = run(start(), block(0, **TOOL), block(1, **TOOL, caller=1), stop(1))
    whole = state.snapshot.content[1].partial_input
    with monkeypatch.context() as patch:
        patch.setattr("friendli_stream._inputs.Raw.get", None)
        for piece in (" ", "\n", " ", "1", "2"):
            state = messages.step(state, args(0, piece))
            assert (state.snapshot.content[0].input_state, state.snapshot.content[0].partial_input) == (
                "incomplete",
                None,
            )
    ended = messages.step(state, stop(0)).snapshot.content
    assert (ended[0].input_state, ended[0].partial_input) == ("invalid", 12)
    assert ended[1].partial_input is whole


@pytest.mark.parametrize("text", ["nul", "12", "-", "tr"])
def test_bare_beginning(text):
    """J4, J11: a number or literal that may go on is incomplete, with nothing certain in it, while the block is open."""
    tool = run(start(), block(0, **TOOL), args(0, text)).snapshot.content[0]
    assert (tool.input_state, tool.partial_input, tool.input_json) == ("incomplete", None, text)


@attrs.define
class Tide:
    pier: str
    days: int


@dataclasses.dataclass
class TideData:
    pier: str
    days: int


class TideDict(TypedDict):
    pier: str
    days: int


def test_input_as():
    """An input is structured into the caller's class, whatever its kind; a mismatch names the field."""
    tool = run(start(), block(0, **TOOL), args(0, '{"pier": "N", "days": 2}'), stop(0)).snapshot.content[0]
    assert tool.input_as(Tide) == Tide("N", 2)
    assert tool.input_as(TideData) == TideData("N", 2)
    assert tool.input_as(TideDict) == {"pier": "N", "days": 2}
    own = cattrs.Converter()
    own.register_structure_hook(int, lambda value, _: value * 24)
    assert tool.input_as(Tide, own) == Tide("N", 48)
    bad = run(start(), block(0, **TOOL), args(0, '{"pier": "N", "days": "soon"}'), stop(0)).snapshot.content[0]
    with pytest.raises(InvalidInput, match=r"does not fit Tide.*content\[0\].input.days") as caught:
        bad.input_as(Tide)
    assert caught.value.path == "content[0].input.days"

    class Refusing:
        def structure(self, value, cls):
            raise KeyError("pier")

    with pytest.raises(InvalidInput, match="KeyError"):
        tool.input_as(Tide, Refusing())

    class Broken:
        def structure(self, value, cls):
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        tool.input_as(Tide, Broken())


def test_unknown_deltas():
    """M5: unknown and misplaced deltas are kept raw, noted, and write into nothing."""
    state = run(start(), block(0, **TOOL), text(0, "x"), delta(0, "new_delta", a=1), block(1, type="odd", z=1), text(1, "y"),
                delta(9, "new_delta"))  # fmt: skip
    tool, odd = state.snapshot.content
    assert tool.unknown_deltas == [{"type": "text_delta", "text": "x"}, {"type": "new_delta", "a": 1}]
    assert (odd.raw, odd.unknown_deltas) == ({"type": "odd", "z": 1}, [{"type": "text_delta", "text": "y"}])
    assert [code for code, _ in codes(state)] == [
        "misplaced_delta",
        "unknown_delta",
        "misplaced_delta",
        "unknown_delta",
    ]


@pytest.mark.parametrize(
    ("kind", "key", "implied"),
    [("text_delta", "text", "text"), ("thinking_delta", "thinking", "thinking"), ("signature_delta", "signature", "thinking"),
     ("input_json_delta", "partial_json", "tool_use"), ("compaction_delta", "content", "compaction")],
)  # fmt: skip
def test_implicit_block(kind, key, implied):
    """M6: a delta for a block that never started opens one of the type it implies."""
    state = run(start(), delta(2, kind, **{key: "{"}))
    assert state.snapshot.content[0].type == implied
    assert codes(state) == [("block_not_started", "content[2]")]


def test_after_stop():
    """M6: text still appends after the stop, tool input does not; stops without start or again are noted."""
    state = run(start(), block(0, **TEXT), text(0, "a\ud83d"), stop(0), text(0, "\ude00b"), text(0, "c"), block(1, **TOOL), stop(1),
                args(1, "{"), stop(1), stop(7))  # fmt: skip
    assert state.snapshot.text == "a\ufffd\ufffdbc"
    assert state.snapshot.content[1].input_json == "{}"
    assert [code for code, _ in codes(state)] == [
        "delta_after_stop",
        "input_after_stop",
        "block_stopped_again",
        "block_not_started",
    ]


def test_message_delta():
    """M7: null never erases; unknown fields are kept, and shadow nothing."""
    state = run(
        start(), finish("tool_use"),
        {"type": "message_delta", "delta": {"stop_reason": None, "stop_details": {"a": 1}, "id": "x"}, "context_management": {"b": 2}},
        {"type": "message_delta"}, {**END, "amazon": {"c": 3}},
    )  # fmt: skip
    message = state.result()
    assert (message.id, message.stop_reason) == ("msg_1", "tool_use")
    assert message.extra == {
        "stop_details": {"a": 1},
        "context_management": {"b": 2},
        "message_stop": {"amazon": {"c": 3}},
    }
    assert message.to_dict()["stop_details"] == {"a": 1}


@pytest.mark.parametrize(
    ("later", "expected"),
    [({"output_tokens": 7}, {"input_tokens": 5, "output_tokens": 7}), ({"input_tokens": None}, {"input_tokens": 5}),
     ({"input_tokens": 0}, {"input_tokens": 5}), ({"input_tokens": 2}, {"input_tokens": 2}),
     ({"input_tokens": 0, "cache_read_input_tokens": 5}, {"input_tokens": 0, "cache_read_input_tokens": 5}),
     ({"input_tokens": 0, "cache_creation": {"1h": 0}}, {"input_tokens": 5, "cache_creation": {"1h": 0}}),
     ({"input_tokens": 0, "cache_creation": {"1h": 5}}, {"input_tokens": 0, "cache_creation": {"1h": 5}}),
     ({"server_tool_use": {"web": 1}}, {"input_tokens": 5, "server_tool_use": {"web": 1}})],
)  # fmt: skip
def test_usage(later, expected):
    """M8: running totals, the last non-null stands; 0 does not replace input tokens unless they moved to the cache."""
    state = run(start(usage={"input_tokens": 5}), finish(**later))
    assert state.usage.to_dict() == expected


def test_nested_usage():
    """M8: nested objects follow the same rule."""
    state = run(start(usage={"cache": {"a": 1, "b": 2}}), finish(cache={"a": 3, "b": None}))
    assert state.usage.extra == {"cache": {"a": 3, "b": 2}}


USAGES = [
    {"output_tokens": 7, "server_tool_use": {"web": 1}},
    {"input_tokens": 0, "output_tokens": 8},
    {"output_tokens": None, "server_tool_use": {"web": None, "code": 2}},
    {"input_tokens": 0, "cache_read_input_tokens": 5, "note": "x" * 600},
    {"output_tokens": 10**30, "note": "y" * 1100},
    {"output_tokens": 1},
]


@pytest.mark.parametrize("extra_keys", [16, 60, 1024])
def test_usage_does_not_depend_on_who_reads(extra_keys):
    """M8, laws 1, 2 and 10: the same counts read at once, at the end, or from a saved state."""
    limits = Limits(extra_keys=extra_keys)
    unread = read = saved = run(start(usage={"input_tokens": 5, "output_tokens": 1}), limits=limits)
    assert unread.usage.to_dict() == {"input_tokens": 5, "output_tokens": 1}
    for count in range(1, len(USAGES) + 1):
        event = finish(**USAGES[count - 1])
        unread, read, saved = (messages.step(state, event) for state in (unread, read, saved))
        saved = messages.State.from_json(saved.to_json())
        named, tools, note = {"input_tokens": 5}, {}, {}
        for usage in USAGES[:count]:
            tools |= {key: value for key, value in usage.get("server_tool_use", {}).items() if value is not None}
            note |= {key: value for key, value in usage.items() if key == "note"}
            named |= {key: usage[key] for key in ("output_tokens", "cache_read_input_tokens") if usage.get(key)}
            named |= {"input_tokens": 0} if "cache_read_input_tokens" in usage else {}
        assert read.usage.to_dict() == saved.usage.to_dict() == {**named, "server_tool_use": tools, **note}
        assert unread == read == saved
    assert unread.to_json() == read.to_json() == saved.to_json()


def test_usages_alike_are_equal():
    """Law 10: states with the same counts are equal, whichever events brought them."""
    one, five = start(usage={"output_tokens": 1}), finish(output_tokens=5)
    assert run(one, five, five) == run(one, finish(), five)
    assert run(one, finish()) == run(one, finish(output_tokens=None))
    assert run(one, five) == run(start(usage={"output_tokens": 5}), finish())


def test_usage_is_not_the_events_own():
    """Law 1: what happens to an event afterwards changes no state, nor what is merged with it later."""
    first, second = {"input_tokens": 5}, {"output_tokens": 7}
    state = run(start(usage=first))
    first["input_tokens"] = 99
    state = messages.step(state, {"type": "message_delta", "usage": second})
    second["output_tokens"] = 99
    assert messages.step(state, finish(output_tokens=8)).usage.to_dict() == {"input_tokens": 5, "output_tokens": 8}


@pytest.mark.parametrize("later", [[], [finish(output_tokens=2)], [finish(note="x")]])
def test_usage_keys_that_become_one(later):
    """B1, M8: keys that differ in lone surrogates only are one key, and a null after a count says nothing."""
    state = run(start(usage={"a": 1}), finish(**{chr(0xD800): 1, chr(0xD801): None}), *later)
    assert state.usage.extra["\ufffd"] == 1
    state = run(start(usage={chr(0xD800): 1}), finish(a=2, **{chr(0xD801): None}), *later)
    assert state.usage.extra["\ufffd"] == 1


@pytest.mark.parametrize("sizes", [(1, 0, 0), (0, 1, 0), (0, 0, 1), (1, 1, 1)])
def test_usage_has_a_bound_whichever_brings_it(sizes):
    """B4: unknown counts of all usages together are bounded, and refused with the usage that is too much."""
    state = run(start(usage={}), limits=Limits(extra_keys=2))
    for number, size in enumerate(sizes):
        state = messages.step(state, finish(**{f"x{number}": 1}, **({f"y{number}": 1} if size else {})))
        known = sum(1 + before for before in sizes[: number + 1])
        assert (state.status == "failed") == (known > 2)
        if state.status == "failed":
            assert state.error.limit == "extra_keys"
            break
    for allowed in (190, 191):  # both as one object of JSON are 191 characters longer than 1,024
        state = run(start(usage={"x": "x" * 600}), finish(y="y" * 600), limits=Limits(text=allowed))
        assert (state.status == "failed") == (allowed == 190)


def test_ping_and_done_say_nothing():
    """M10: no effect anywhere; another unknown event is noted and changes nothing else (law 7)."""
    state = run({"type": "ping"}, "[DONE]", start(), {"type": "ping"}, END, {"type": "ping"}, "[DONE]")
    assert state.diagnostics == ()
    state = run({"type": "novel"}, start(), END)
    assert codes(state) == [("unknown_event", "novel")]


def test_second_start():
    """M11: the same id is ignored, another fails the state with the first message kept; after the end all is noted."""
    state = run(start(), block(0, **TEXT), text(0, "a"), start(), text(0, "b"))
    assert (state.snapshot.text, codes(state)) == ("ab", [("message_start_again", "message")])
    assert codes(run(start("m\ud83d"), start("m\ud83d"))) == [("message_start_again", "message")]
    state = run(start(), block(0, **TEXT), text(0, "a"), start("msg_2"), text(0, "b"))
    assert (state.status, state.snapshot.text) == ("failed", "a")
    with pytest.raises(ProtocolError, match="event 4") as caught:
        state.result()
    assert caught.value.state is state
    assert caught.value.diagnostic.code == "message_start_again"
    state = run(start(), END, text(0, "x"), {"type": "error", "error": {}})
    assert (state.status, codes(state)) == ("complete", [("after_end", "content_block_delta"), ("after_end", "error")])


def test_answer_inside_of_a_stream():
    """M11, M15: a whole answer with the id of the open message starts it again: ignored, and the message stays open."""
    answer = start(content=[{"type": "text", "text": "b"}])["message"]
    state = run(start(), block(0, **TEXT), text(0, "a"), answer)
    assert (state.status, state.snapshot.text) == ("open", "a")
    assert codes(state) == [("message_start_again", "message")]


def test_states():
    """M11: a message_start after the end starts the next, and so does the one that made it fail."""
    events = [start(), END, start(), block(0, **TEXT), start("msg_2"), {"type": "ping"}, END]
    found = list(messages.states(events))
    assert [(s.status, s.snapshot.id) for s in found] == [
        ("complete", "msg_1"),
        ("failed", "msg_1"),
        ("complete", "msg_2"),
    ]
    assert [s.status for s in messages.states([])] == ["empty"]
    assert [m.id for m in messages.fold_all([start(), END, start("b"), END])] == ["msg_1", "b"]


def test_late_start():
    """M12: events before message_start are kept, it supplies the head; without it message_stop fails the state."""
    late = [block(0, **TEXT), text(0, "a"), finish(output_tokens=4)]
    state = run(*late, start(), END)
    assert (state.result().id, state.result().text, state.usage.output_tokens) == ("msg_1", "a", 4)
    assert [code for code, _ in codes(state)] == ["missing_message_start", "late_message_start"]
    assert run(*late, start(stop_reason="other"), END).result().stop_reason == "end_turn"  # the delta's is newer (M7)
    prefilled = run(*late, start(content=[{"type": "text", "text": "head"}, {"type": "text", "text": "b"}]), END)
    assert [part.text for part in prefilled.result().content] == ["a", "b"]  # what came first stays (M2)
    state = run(*late, END)
    assert (state.status, state.snapshot.text) == ("failed", "a")
    with pytest.raises(ProtocolError, match="without any message_start"):
        state.result()


def test_server_error():
    """M13: what came before stays, nothing after is folded."""
    error = {"type": "error", "error": {"type": "overloaded_error", "message": "full"}, "request_id": "req_1"}
    state = run(start(), block(0, **TEXT), text(0, "a"), error, text(0, "b"), END)
    assert state.message == state.snapshot
    assert (state.status, state.snapshot.text) == ("failed", "a")
    with pytest.raises(ServerError, match="overloaded_error: full") as caught:
        state.result()
    got = caught.value
    assert (got.message, got.type, got.code, got.request_id, got.raw) == (
        "full",
        "overloaded_error",
        None,
        "req_1",
        error,
    )
    for kind in ("", None, 5):
        assert run({"type": kind, "error": "gone"}).error.message == "gone"
    assert run({"error": {"message": "m", "code": 7}}).error.code == 7
    assert run({"error": "gone"}).snapshot is None
    assert pickle.loads(pickle.dumps(got)).message == "full"


@pytest.mark.parametrize(
    ("events", "words"),
    [([], "no event at all"), ([{"type": "ping"}], "no message_start"), ([start()], "before the first content block"),
     ([start(), block(2, **TEXT)], "cut in block 2"), ([start(), block(2, **TEXT), stop(2)], "cut after block 2"),
     ([start(), finish()], "stop_reason end_turn seen, message_stop missing")],
)  # fmt: skip
def test_incomplete(events, words):
    """M14: the text says what is missing, and the state is in hand."""
    state = run(*events)
    with pytest.raises(IncompleteStream, match=words) as caught:
        state.result()
    assert caught.value.state is state


@pytest.mark.parametrize(
    "body", [b"<html>\n<b>502 Bad Gateway</b></html>", b"no healthy upstream", b'{"detail":"Not Found"}']
)
def test_error_shows_what_was_no_stream(body):
    """S4, M14: of a body that is no event stream the error shows the beginning."""
    for chunks in ([body], [body[i : i + 1] for i in range(len(body))]):
        with pytest.raises(IncompleteStream, match="no message_start.*(502 Bad Gateway|no healthy upstream|Not Found)"):
            messages.fold(sse.events(chunks))


MALFORMED = [
    None, True, 1, 1.5, "text", [], {}, {"type": 1}, {"type": "message_start"}, {"type": "message_start", "message": {"id": 1}},
    {"type": "message_start", "message": {"content": {}}}, {"type": "message_start", "message": {"content": [1]}},
    block(0), block(-1, **TEXT), block(10**18, **TEXT), text(10**18, "x"), stop(10**30), block(True, **TEXT), block(0, type="text", text=1), block(0, type="text", citations=1),
    {"type": "content_block_start", "index": 0}, {"type": "content_block_delta", "index": 0}, delta(0, None), text(0, 5), text("0", "x"),
    {"type": "content_block_stop"}, {"type": "message_delta", "delta": 1}, {"type": "message_delta", "usage": []},
    {"type": "message_delta", "delta": {"stop_reason": 1}}, text(True, "x"), text(1.0, "x"),
]  # fmt: skip


@pytest.mark.parametrize("event", MALFORMED, ids=repr)
def test_malformed(event):
    """M15: what is not what the format says is noted, and nothing of it is folded."""
    before = run(start(), block(1, **TEXT), text(1, "a"))
    after = messages.step(before, event)
    assert [note.code for note in after.diagnostics] == ["malformed_event"]
    assert after.snapshot == before.snapshot
    strict = messages.step(run(start(), block(1, **TEXT), text(1, "a"), strict=True), event)
    assert strict.status == "failed"
    assert strict.snapshot == before.snapshot


def test_deep_event():
    """M15, B4: an event nested deeper than Limits.depth is malformed."""
    deep = "x"
    for _ in range(199):
        deep = [deep]
    assert run(start(extra=deep[0])).status == "open"
    assert codes(run(start(extra=[deep]))) == [("malformed_event", "")]
    assert codes(run(start(), block(0, **TEXT), {**text(0, "a"), "x": [deep]})) == [("malformed_event", "")]


@pytest.mark.parametrize("name", ["id", "model", "role", "stop_reason", "stop_sequence", "type", "content", "usage"])
def test_malformed_head(name):
    """M15: a message whose named field is of another type is not taken, and the field is named."""
    state = run(start(**{name: 5}))
    assert (state.status, codes(state)) == ("empty", [("malformed_event", f"message.{name}")])


def test_type_error():
    """M15: TypeError only for what is neither JSON nor an SDK's event, bytes included."""
    for event in (b"{}", object(), {1}):
        with pytest.raises(TypeError, match="not an event"):
            messages.step(messages.State(), event)
    for event in ({"type": "message_start", "message": {1: 2}}, start(x=b"y"), start(x={"y": {1: 2}}), start(x=1j)):
        with pytest.raises(TypeError):
            messages.step(messages.State(), event)


def test_answer_that_was_not_streamed():
    """M15: an event of type message is that message, complete."""
    content = [{"type": "text", "text": "hi"}, {**TOOL, "input": {"a": 1}}]
    message = start(content=content, stop_reason="tool_use")["message"]
    assert run(message).result().to_dict() == message


@pytest.mark.parametrize(
    ("head", "kind", "key"),
    [(TEXT, "text_delta", "text"), ({"type": "thinking", "thinking": ""}, "thinking_delta", "thinking"), (TOOL, "input_json_delta", "partial_json"),
     ({**TOOL, "type": "server_tool_use"}, "input_json_delta", "partial_json")],
)  # fmt: skip
def test_what_comes_by_the_thousand_takes_the_happy_path(head, kind, key, monkeypatch):
    """A delta of text, thinking or tool input never falls into the general road, read or not, in whatever block."""
    state = run(start(), block(7, **TEXT), block(1, **head))

    def general(state, event):
        raise AssertionError(event)

    monkeypatch.setattr(messages, "_step", general)
    for n in range(200):
        state = messages.step(state, json.loads(json.dumps(delta(1, kind, **{key: f"é{n}"}))))
        state = messages.step(state, json.loads(json.dumps(text(7, "x"))))
        assert state.snapshot.text.count("x") == n + 1
    expected = "".join(f"é{n}" for n in range(200))
    assert expected in str(state.snapshot)


def test_events_of_an_sdk():
    """An SDK's objects are their events, as they are and in `fold`, the accumulator and its `changes`."""

    class Event:
        def __init__(self, event):
            self.event = event

        def to_dict(self):
            return self.event

    events = [start(), block(0, **TEXT), text(0, "a"), {"type": "ping"}, text(0, "b"), stop(0), finish(), END]
    expected = run(*events)
    assert run(*map(Event, events)) == expected
    assert messages.fold(map(Event, events)) == expected.result()
    accumulator = messages.Accumulator()
    for event in map(Event, events):
        accumulator.feed(event)
    assert accumulator.state == expected
    assert accumulator.changes() == messages.changes(messages.State(), expected)


def test_step_json():
    """B2: the same from JSON; what is no JSON is malformed."""
    state = messages.step_json(
        messages.State(), '{"type": "message_start", "message": {"n": 123456789012345678901234567890}}'
    )
    assert state.snapshot.extra == {"n": 123456789012345678901234567890}
    assert codes(messages.step_json(state, b"{oops")) == [("malformed_event", "")]
    assert messages.step_json(state, b"[DONE]").diagnostics == ()


def test_half_surrogates():
    """B1: a first half is withheld while the text may go on; a lone one is U+FFFD."""
    seen = [
        run(start(), block(0, **TEXT), *map(lambda p: text(0, p), pieces)).snapshot.text
        for pieces in (["a\ud83d"], ["a\ud83d", "\ude00"], ["a\ud83d", "b"], ["\ude00"])
    ]
    assert seen == ["a", "a😀", "a\ufffdb", "\ufffd"]
    assert run(start(), block(0, **TEXT), text(0, "a\ud83d"), stop(0)).snapshot.text == "a\ufffd"


@pytest.mark.parametrize(
    ("limits", "events"),
    [(Limits(content_blocks=1), [block(1, **TEXT)]), (Limits(text=60), [text(0, "x" * 60)]),
     (Limits(extra_keys=1), [delta(0, "text_delta", text="", a=1, b=2)]), (Limits(extra_keys=1), [finish(a=1, b=2)]),
     (Limits(extra_keys=1), [finish(a={"b": {str(n): n for n in range(300)}})])],
)  # fmt: skip
def test_limits(limits, events):
    """B4: exceeding a limit fails the state, nothing of that event folded, the rest kept."""
    state = run(start(), block(0, **TEXT), text(0, "a"), *events, limits=limits)
    assert state.snapshot.text == "a"
    with pytest.raises(LimitExceeded) as caught:
        state.result()
    assert caught.value.allowed == getattr(limits, caught.value.limit)


def test_dropped_and_counted():
    """B4: diagnostics and unknown deltas beyond their limits are dropped and counted."""
    limits = Limits(diagnostics=2, unknown_deltas=1)
    state = run(
        start(), block(0, **TEXT), *[delta(0, "odd")] * 3, *[{"type": f"e{n}"} for n in range(3)], limits=limits
    )
    assert [note.count for note in state.diagnostics] == [3, 1]
    assert state.diagnostics_omitted == 2
    assert state.snapshot.content[0].unknown_deltas == [{"type": "odd"}]


@pytest.mark.parametrize("bad", [{"depth": 251}, {"text": 0}, {"choices": True}])
def test_bad_limits(bad):
    """Limits are positive integers, the depth at most 250."""
    with pytest.raises(ValueError, match="Limits"):
        Limits(**bad)


@pytest.mark.parametrize("strict", [False, True])
def test_state_saved_anywhere(strict):
    """Law 10: to_json, pickle and copies at every point of a stream give the same state and the same end."""
    events = [
        start(big=2**80), block(0, **TEXT), text(0, "a\ud83d"), text(0, "\ude00"), block(1, **TOOL), args(1, '{"a":'), args(1, "1}"), stop(1),
        delta(0, "citations_delta", citation={"n": 2**70}), {"type": "odd"}, {"type": "error", "error": {"message": "m"}},
    ]  # fmt: skip
    options = {"strict": strict, "limits": Limits(text=5000)}
    end = run(*events, **options)
    assert isinstance(end.error, ProtocolError if strict else ServerError)
    for cut in range(len(events) + 1):
        state = run(*events[:cut], **options)
        for other in (
            messages.State.from_json(state.to_json()),
            pickle.loads(pickle.dumps(state)),
            copy.deepcopy(state),
            copy.copy(state),
        ):
            assert other == state
            assert repr(other) == repr(state)
            assert hash(other) == hash(state)
            for event in events[cut:]:
                other = messages.step(other, event)
            assert other == end


@pytest.mark.parametrize(
    "data", [b"", b"{}", b"[]", b"null", b'{"friendli_stream":"chat","version":1}', b"\xff", b"[" * 5000]
)
def test_invalid_state(data):
    """State.from_json raises InvalidState for anything else."""
    with pytest.raises(InvalidState):
        messages.State.from_json(data)


@pytest.mark.parametrize(
    "spoil",
    [(b'"raw":{', b'"raw":[],"z":{'), (b'"raw":{"type":"odd"}', b'"raw":[1]'), (b'"raw":{"type":"odd"}', b'"raw":null'),
     (b'["text",0,"text"]', b'["text",7,"text"]'), (b'["text",0,"text"]', b'["text",0,"odd"]'), (b'"usage":{"input_tokens":3,"output_tokens":1}', b'"usage":[3]')],
)  # fmt: skip
def test_state_that_no_stream_has(spoil):
    """State.from_json raises InvalidState for a state whose parts do not fit together."""
    good = run(start(), block(0, **TEXT), text(0, "a"), block(1, type="odd")).to_json()
    assert spoil[0] in good
    with pytest.raises(InvalidState):
        messages.State.from_json(good.replace(*spoil))


def test_changes():
    """`changes` tells opens, texts, inputs and stops, and rebuilds the text; an unrelated pair starts from nothing."""
    events = [
        start(),
        block(0, **TEXT),
        text(0, "a\ud83d"),
        text(0, "\ude00"),
        block(1, **TOOL),
        args(1, '{"pier": "No'),
        args(1, 'r"}'),
        stop(1),
        stop(0),
        END,
    ]
    state, seen = messages.State(), []
    for event in events:
        after = messages.step(state, event)
        seen += messages.changes(state, after)
        state = after
    assert seen == [
        (("content", 0), "open", "text"), (("content", 0, "text"), "text", "a"), (("content", 0, "text"), "text", "😀"),
        (("content", 1), "open", "tool_use"), (("content", 1, "input"), "open", "object"),
        (("content", 1, "input", "pier"), "open", "string"), (("content", 1, "input", "pier"), "text", "No"),
        (("content", 1, "input", "pier"), "text", "r"), (("content", 1, "input", "pier"), "done", "Nor"),
        (("content", 1, "input"), "done", {"pier": "Nor"}), (("content", 1), "done", None), (("content", 0), "done", None),
    ]  # fmt: skip
    other = run(start("x"), block(0, **TEXT), text(0, "zz"))
    assert messages.changes(state, other) == messages.changes(messages.State(), other)
    assert messages.changes(state, state) == []
    resumed = messages.State.from_json(run(*events[:6]).to_json())
    assert messages.changes(run(*events[:6]), messages.step(resumed, events[6]))[0][1] == "text"


@pytest.mark.parametrize(
    ("left", "right"),
    [([text(0, "one")], [text(0, "two"), text(0, "!")]), ([args(1, '{"a"')], [args(1, '{"b":1'), args(1, "}")]),
     ([block(2, **TOOL)], [block(2, **TEXT), text(2, "x")]), ([block(2, **TEXT)], [text(0, "x"), text(0, "y")]),
     ([text(0, "longer"), text(0, "text")], [text(0, "t"), {"type": "ping"}]), ([text(0, "x")], [{"type": "ping"}])],
)  # fmt: skip
def test_changes_between_branches(left, right):
    """`changes` for two branches of one state, neither a beginning of the other: all of the newer one."""
    root = run(start(), block(0, **TEXT), block(1, **TOOL))
    for read in (False, True):
        older, newer = (root, root)
        for event in left:
            older = messages.step(older, event)
        for event in right:
            newer = messages.step(newer, event)
        if read:
            older.snapshot.to_dict(), newer.snapshot.to_dict()
        assert messages.changes(older, newer) == messages.changes(messages.State(), newer)


def test_changes_of_an_input_without_text():
    """M4: an input that never came as text is told at the stop."""
    before = run(start(), block(0, **{**TOOL, "input": {"a": 1}}))
    kinds = [(path, kind) for path, kind, _ in messages.changes(before, messages.step(before, stop(0)))]
    assert kinds == [
        (("content", 0, "input"), "open"),
        (("content", 0, "input", "a"), "done"),
        (("content", 0, "input"), "done"),
        (("content", 0), "done"),
    ]


def test_old_snapshots_keep_their_value():
    """Law 2: steps from one state are independent, read or not."""
    root = run(start(), block(0, **TOOL), args(0, '{"a": "x'))
    left, right = messages.step(root, args(0, 'L"}')), messages.step(root, args(0, 'R"}'))
    assert left.snapshot.content[0].partial_input == {"a": "xL"}
    assert right.snapshot.content[0].partial_input == {"a": "xR"}
    assert root.snapshot.content[0].partial_input == {"a": "x"}
    assert left.snapshot.content[0].partial_input == {"a": "xL"}


def test_events_are_not_kept():
    """Law 1, B3: what is done to an event after it was folded, or to what a snapshot gives out, changes nothing."""
    events = [
        start(container={"a": [1]}, usage={"x": {"y": 1}}), block(0, **TEXT, mark=[1]), delta(0, "citations_delta", citation={"n": [1]}),
        block(1, **{**TOOL, "input": {"a": [1]}}), stop(1), block(2, type="odd", z=[1]), delta(2, "new", z=[1]), finish(y=[1]),
    ]  # fmt: skip
    expected = run(*copy.deepcopy(events)).snapshot.to_dict()
    state = messages.State()
    for event in events:
        state = messages.step(state, event)
        spoil(event)
    message = state.snapshot
    first, tool, odd = message.content
    for fresh in (message.to_dict(), message.extra, message.usage.extra, first.citations, first.extra, tool.input, odd.raw,
                  odd.unknown_deltas, message.to_request()):  # fmt: skip
        spoil(fresh)
    assert expected == state.snapshot.to_dict() == message.to_dict()


def spoil(value):
    """Change every container in a value."""
    for inner in list(value.values() if isinstance(value, dict) else value):
        if isinstance(inner, (dict, list)):
            spoil(inner)
    value.clear()


def test_every_unknown_field_comes_out():
    """M1, M3, M7-M9: unknown fields on every level are in the final message at the place where the API has them."""
    state = run(
        start(in_head=1), block(0, **TEXT, in_block=2), delta(0, "text_delta", text="a", in_delta=3), delta(0, "citations_delta", citation={"in": 4}),
        stop(0), block(1, **TOOL, in_tool=5), args(1, '{"in_input": 6}'), stop(1), block(2, type="odd", in_odd=7), stop(2),
        {**finish(in_usage=8), "beside": 9, "delta": {"stop_reason": "tool_use", "in_end": 10}}, {**END, "in_stop": 11},
    )  # fmt: skip
    assert state.result().to_dict() == {
        "id": "msg_1", "type": "message", "role": "assistant", "model": "m",
        "content": [{"type": "text", "text": "a", "citations": [{"in": 4}], "in_block": 2, "in_delta": 3},
                    {**TOOL, "input": {"in_input": 6}, "in_tool": 5}, {"type": "odd", "in_odd": 7}],
        "stop_reason": "tool_use", "stop_sequence": None, "usage": {"input_tokens": 3, "output_tokens": 1, "in_usage": 8},
        "in_head": 1, "beside": 9, "in_end": 10, "message_stop": {"in_stop": 11},
    }  # fmt: skip
    assert json.loads(state.result().to_json()) == state.result().to_dict()


def test_long_chain():
    """B4: a hundred thousand pending fragments are read, saved and compared without recursion."""
    state = run(start(), block(0, **TEXT))
    for n in range(100_000):
        state = messages.step(state, text(0, str(n % 10)))
    again = messages.State.from_json(state.to_json())
    assert again == state
    assert again.snapshot.text == "0123456789" * 10_000


def test_values_by_hand():
    """Values built by hand equal folded ones, and nothing outside is kept by reference (B3)."""
    extra = {"a": [1]}
    message = messages.Message(
        "msg_1", "m", "assistant", (messages.TextBlock(0, "hi", None, extra),), None, None, messages.Usage(3, 1)
    )
    extra["a"].append(2)
    folded = run(start(), block(0, type="text", text="hi", a=[1])).snapshot
    assert message == folded
    assert pickle.loads(pickle.dumps(folded)) == copy.deepcopy(message) == message
    assert "hi" in repr(folded)
    assert message != run(start(), block(0, **TEXT)).snapshot
    unsigned = messages.ThinkingBlock(0, "why")
    assert unsigned.to_dict() == {"type": "thinking", "thinking": "why"}
    tool = messages.ToolUseBlock(0, "tool_use", "t", "n", '{"a":1}')
    assert tool.input == {"a": 1}
    assert messages.ToolUseBlock(0, input_json="", stopped=False).input_state == "incomplete"


def test_to_request():
    """The turn for the next request: signatures kept, empty texts dropped."""
    state = run(
        start(), block(0, type="thinking", thinking="t", signature="s"), block(1, **TEXT), block(2, **TOOL), END
    )
    assert state.result().to_request() == {
        "role": "assistant",
        "content": [{"type": "thinking", "thinking": "t", "signature": "s"}, {**TOOL}],
    }
    assert state.result().thinking == "t"
    assert b'"thinking":"t"' in state.result().to_json()
