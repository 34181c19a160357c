"""chat.completion.chunk, rule by rule (C1-C17, and what B1-B4 and J11-J12 say of completions)."""

import copy
import json
import pickle

import pytest

from friendli_stream import (
    IncompleteStream,
    InvalidInput,
    InvalidState,
    LimitExceeded,
    Limits,
    ServerError,
    chat,
    sse,
)


def chunk(*choices, **more):
    return {"id": "c1", "object": "chat.completion.chunk", "created": 5, "model": "m", "choices": list(choices), **more}


def choice(delta=None, index=0, finish=None, **more):
    return {"index": index, "delta": delta, "finish_reason": finish, "logprobs": None, **more}


def content(piece, index=0):
    return chunk(choice({"content": piece}, index))


def tool(index=None, ident=None, name=None, arguments=None, **more):
    entry = {"index": index, "id": ident, "function": {"name": name, "arguments": arguments}, **more}
    if index is None:
        del entry["index"]
    return entry


def tools(*entries, finish=None):
    return chunk(choice({"tool_calls": list(entries)}, finish=finish))


STOP = chunk(choice({}, finish="stop"))
DONE = "[DONE]"


def run(*events, **options):
    state = chat.State(**options)
    for event in events:
        state = chat.step(state, event)
    return state


def codes(state):
    return [note.code for note in state.diagnostics]


def calls(state):
    return [(call.id, call.name, call.arguments) for call in state.snapshot.tool_calls]


def test_whole_completion():
    """C1-C3, C9, C10, C15: the guide's stream is the completion that the API returns."""
    usage = {
        "prompt_tokens": 1,
        "completion_tokens": 2,
        "total_tokens": 3,
        "prompt_tokens_details": {"cached_tokens": 0},
    }
    state = run(chunk(choice({"role": "assistant", "content": "Hi"})), content("!"), STOP, chunk(usage=usage), DONE)
    assert state.diagnostics == ()
    assert state.result().to_dict() == {
        "id": "c1", "object": "chat.completion", "created": 5, "model": "m",
        "choices": [{"index": 0, "message": {"role": "assistant", "content": "Hi!"}, "finish_reason": "stop", "logprobs": None}],
        "usage": usage,
    }  # fmt: skip
    assert (state.result().text, state.usage.total_tokens, state.completion.usage.extra) == (
        "Hi!",
        3,
        {"prompt_tokens_details": {"cached_tokens": 0}},
    )
    assert chat.Completion().to_request() == {"role": "assistant", "content": None}


def test_head():
    """C1: first non-empty id, model, created; last non-empty fingerprint and tier; another id or model is noted."""
    state = run(
        {"id": "", "model": "", "created": 0, "choices": []},
        chunk(system_fingerprint="a", service_tier=None), chunk(system_fingerprint="b", service_tier=""),
        {**chunk(system_fingerprint=""), "id": "c2", "model": "n", "created": 9},
    )  # fmt: skip
    got = state.snapshot
    assert (got.id, got.model, got.created, got.system_fingerprint, got.service_tier) == ("c1", "m", 5, "b", "")
    assert codes(state) == ["id_changed", "model_changed"]


@pytest.mark.parametrize(
    ("first", "then"),
    [({"provider": "x"}, {"provider": "y"}), ({"service_tier": "a"}, {"service_tier": "b"}), ({"usage": None}, {"service_tier": "b"}),
     ({"usage": None}, {"obfuscation": "zz"}), ({"created": 5}, {"service_tier": "b"}), ({"obfuscation": "z"}, {"provider": "x"}), ({"p": 1}, {"p": True}), ({"p": 1}, {"p": 1.0})],
)  # fmt: skip
def test_envelope_is_remembered_exactly(first, then):
    """The happy path takes a chunk only if its envelope is the last one's, key by key and type by type."""
    one = {"id": "c1", "choices": [choice({"content": "a"})]}
    last = run({**one, **first}, {**one, **first}, {**one, **then}).snapshot
    same = {key: last.extra.get(key, getattr(last, key, None)) for key in then if key != "obfuscation"}
    assert {key: (type(value), value) for key, value in same.items()} == {
        key: (type(value), value) for key, value in then.items() if key != "obfuscation"
    }
    assert last.text == "aaa"
    assert "obfuscation" not in last.to_dict()


@pytest.mark.parametrize(
    "envelope", [{}, {"created": 5}, {"usage": None}, {"obfuscation": "z"}, {"usage": None, "created": 5}]
)
def test_chunk_without_fixed_fields(envelope):
    """The happy path takes chunks that have nothing to be alike in, but none with a field more."""
    bare = [{**envelope, "choices": [choice({"content": piece})]} for piece in "abcd"]
    first, state = run(bare[0]), run(*bare)
    assert chat.step(first, bare[1])._outline is first._outline, "it is to be on the happy path"
    assert chat.step(chat.step(state, {**bare[0], "id": "c9"}), bare[1]).snapshot.to_dict() == {
        **state.snapshot.to_dict(),
        "id": "c9",
        "choices": [{**state.snapshot.to_dict()["choices"][0], "message": {"role": "assistant", "content": "abcdab"}}],
    }
    assert state.snapshot.text == "abcd"


def test_no_name_outlives_its_stream():
    """Law 9: what is remembered from one stream to the next has no names but the format's own."""
    run(content("a"), content("b"))
    before = chat._getters.cache_info().currsize
    for odd in (
        chunk(choice({"content": "a"}), **{"x" * 1000: "y"}),
        chunk(choice({"content": "a"}, **{"x" * 1000: "y"})),
    ):
        first = run(odd)
        assert chat.step(first, odd)._outline is first._outline, "it is to be on the happy path"
        assert chat.step(first, odd).snapshot.text == "aa"
    assert chat._getters.cache_info().currsize == before


@pytest.mark.parametrize(
    ("odd", "notes"),
    [(chunk(x_groq=[1]), []), (chunk(x_groq="x"), []), (chunk(x_groq={"usage": 5}), ["malformed_event"]),
     (chunk(choice({"role": 5, "content": "a"})), ["malformed_event"]), (chunk(choice({"content": "a"}, usage="x")), ["malformed_event"]),
     (chunk(choice({"content": "a"}, finish_reason=5)), ["malformed_event"]), (chunk(choice([1])), ["malformed_event"])],
)  # fmt: skip
def test_fields_of_another_type(odd, notes):
    """C2, C10: a field that is not what it must be is noted and skipped where it is needed, and the rest counts."""
    state = run(content("x"), odd, content("y"))
    assert codes(state) == notes
    assert state.snapshot.text in {"xy", "xay"}


def test_head_that_says_nothing_new():
    """C1: an empty id or model, or a half of a pair sent again, is no other one; a created that is no number is noted."""
    state = run(content("a"), {**content("b"), "id": "", "model": ""}, {**content("c"), "created": 9.5})
    assert (state.snapshot.id, state.snapshot.created, state.diagnostics) == ("c1", 5, ())
    state = run(*[{"id": "i\ud83d", "model": "m", "choices": [], "created": when} for when in (True, "now", 1.5, 2)])
    assert (state.snapshot.id, state.snapshot.created) == ("i\ufffd", 1.5)
    assert [(note.code, note.count) for note in state.diagnostics] == [("malformed_event", 2)]


def test_choices():
    """C2: by index; missing index is noted; null delta still counts; malformed parts are skipped, not the chunk."""
    state = run(
        chunk(choice({"content": "b"}, 1), choice({"content": "a"}, 0)),
        {"choices": None, "id": "c1"}, chunk({"delta": {"content": "c"}}), chunk({"delta": {"content": "d"}}, {"delta": {"content": "e"}}),
        chunk(7, choice({"content": "f"}, -1), {"index": 0, "delta": 5, "finish_reason": "stop"}, choice(None, 1, "length")),
    )  # fmt: skip
    assert [c.message.content for c in state.result().choices] == ["acd", "be"]
    assert [c.finish_reason for c in state.result().choices] == ["stop", "length"]
    assert codes(state) == ["missing_index", "missing_index", "malformed_event", "malformed_event", "malformed_event"]


@pytest.mark.parametrize("index", [True, 1.0, [1], None])
def test_index_that_only_equals(index):
    """C2: `true` and `1.0` are no index, also where choice 1 is open; a missing one is 0 if alone."""
    state = run(content("a", 1), content("b", 1), content("c", index), content("d", 1))
    assert state.snapshot.choices[-1].message.content == "abd"
    assert codes(state) == ["missing_index" if index is None else "malformed_event"]


def test_whole_message_in_a_choice():
    """C2: `message` is folded as the delta where there is none, and ignored beside one."""
    whole = {"index": 0, "message": {"role": "assistant", "content": "all"}, "finish_reason": "stop"}
    assert run({**chunk(whole), "object": "chat.completion"}).result().text == "all"
    assert run(chunk(choice({"content": "d"}, message={"content": "all"}))).snapshot.text == "d"


def test_role_and_texts():
    """C3, C4: the first role; null appends nothing; content never sent stays null, "" does not."""
    state = run(chunk(choice({"role": "tool"})), chunk(choice({"role": "assistant", "content": None})))
    message = state.snapshot.choices[0].message
    assert (message.role, message.content, message.refusal) == ("tool", None, None)
    state = run(*[chunk(choice({"role": role, "new": 1})) for role in ("", "assistant", "user")])
    assert state.snapshot.choices[0].message.role == "assistant"
    state = run(chunk(choice({"content": ""})), chunk(choice({"refusal": "n"})), chunk(choice({"refusal": "o"})))
    assert (state.snapshot.choices[0].message.content, state.snapshot.choices[0].message.refusal) == ("", "no")
    assert state.snapshot.choices[0].message.to_dict()["refusal"] == "no"


def test_content_parts():
    """C4: text parts append, thinking goes to reasoning, others are kept."""
    parts = [{"type": "text", "text": "a"}, "b", {"type": "thinking", "thinking": [{"type": "text", "text": "t"}, 1]},
             {"type": "thinking", "thinking": "u"}, {"type": "image", "url": "x"}, 5]  # fmt: skip
    assert run(content("x"), content("y"), content(parts)).snapshot.text == "xyab"
    state = run(content(parts), content("c"))
    message = state.snapshot.choices[0].message
    assert (message.content, message.reasoning_content, message.extra) == (
        "abc",
        "tu",
        {"content_parts": [{"type": "image", "url": "x"}]},
    )
    assert codes(state) == ["malformed_event"]


@pytest.mark.parametrize(
    ("deltas", "text", "key"),
    [([{"reasoning": "a", "reasoning_content": "a"}] * 3, "aaa", "reasoning_content"),
     ([{"reasoning": "a"}, {"reasoning": "b"}, {"reasoning": "c"}], "abc", "reasoning"),
     ([{"reasoning_content": "", "reasoning": "a"}, {"reasoning_content": "", "reasoning": "b"}], "ab", "reasoning_content"),
     ([{"reasoning_content": "a"}, {"reasoning": "b", "reasoning_content": None}, {"reasoning": "c"}], "abc", "reasoning_content")],
)  # fmt: skip
def test_reasoning(deltas, text, key):
    """C5: one text, under `reasoning` only if that was the only key."""
    state = run(*[chunk(choice(delta)) for delta in deltas])
    assert state.snapshot.reasoning == text
    assert state.snapshot.choices[0].message.to_dict() == {"role": "assistant", "content": None, key: text}
    assert state.diagnostics == ()


def test_reasoning_differs():
    """C5: both present and different: noted, the other kept."""
    deltas = [{"reasoning": "a", "reasoning_content": "a"}, {"reasoning": "x", "reasoning_content": "b"}]
    state = run(*[chunk(choice(delta)) for delta in deltas])
    assert (state.snapshot.reasoning, state.snapshot.choices[0].message.extra) == ("ab", {"reasoning": "x"})
    assert codes(state) == ["reasoning_differs"]


@pytest.mark.parametrize(
    ("deltas", "expected"),
    [
        ([tool(0, "a", "f", ""), tool(0, None, None, "{"), tool(0, None, None, "}")], [("a", "f", "{}")]),
        ([tool(0, "a", "f", "1"), tool(1, "b", "g", "2"), tool(0, None, None, "3"), tool(1, None, None, "4")], [("a", "f", "13"), ("b", "g", "24")]),
        ([tool(0, "a", "f", "1"), tool(0, "b", "f", "2"), tool(0, None, None, "3"), tool(0, "a", None, "4")], [("a", "f", "14"), ("b", "f", "23")]),
        ([tool(None, "a", "f", "1"), tool(None, None, None, "2"), tool(None, "b", "g", "3"), tool(None, "a", None, "4")], [("a", "f", "124"), ("b", "g", "3")]),
        ([tool(7, "a", "f", "1"), tool(9, "a", None, "2")], [("a", "f", "12")]),
        ([tool("0", "a", "f", "1"), tool(0, None, None, "2"), tool("0", None, None, "3")], [("a", "f", "123")]),
        ([tool(-1, "a", "f", "1"), tool(None, None, None, "2")], [("a", "f", "12")]),
        ([tool(0, None, "f", "1"), tool(0, "a", None, "2")], [("a", "f", "12")]),
        ([tool(0, None, "f", "1")], [(None, "f", "1")]),
        ([tool(1, "b", "g", "1"), tool(0, "a", "f", "2")], [("a", "f", "2"), ("b", "g", "1")]),
        ([tool(0, "a", "f", None), tool(0, "", "", "x")], [("a", "f", "x")]),
    ],
)  # fmt: skip
def test_tool_calls(deltas, expected):
    """C6: which call a delta belongs to; no phantom calls, none mixed up, in one chunk or in many."""
    assert calls(run(*[tools(entry) for entry in deltas])) == expected
    assert calls(run(tools(*deltas))) == expected


def test_tool_names_types_extras():
    """C7: name whole or in pieces before arguments; first type; other fields kept where they came."""
    state = run(
        tools(tool(0, "a", "get_")), tools(tool(0, None, "tide")), tools(tool(0, None, "tide", "{}", type="function", extra_content={"s": 1})),
        tools({"index": 0, "function": {"name": "tide", "strict": True}}),
    )  # fmt: skip
    call = state.snapshot.tool_calls[0]
    assert (call.name, call.type, call.extra) == (
        "get_tidetide",
        "function",
        {"extra_content": {"s": 1}, "function": {"strict": True}},
    )
    assert call.to_dict()["function"]["strict"] is True
    assert call.to_dict()["extra_content"] == {"s": 1}


def test_arguments_that_are_no_text():
    """C8: an object is written as JSON, noted; what is no call is skipped."""
    state = run(
        tools(tool(0, "a", "f", {"x": 1})), tools(tool(0, None, None, 5)), tools(3), chunk(choice({"tool_calls": 5}))
    )
    assert calls(state) == [("a", "f", '{"x":1}')]
    assert codes(state) == ["arguments_not_text", "malformed_event", "malformed_event", "malformed_event"]


def test_function_call():
    """C8: the legacy function_call: name once, arguments append."""
    state = run(
        *[
            chunk(choice({"function_call": call}))
            for call in ({"name": "f", "arguments": "{"}, {"name": "f", "arguments": "}"})
        ]
    )
    message = state.snapshot.choices[0].message
    assert message.function_call == chat.FunctionCall("f", "{}")
    assert message.to_dict()["function_call"] == {"name": "f", "arguments": "{}"}
    assert run(chunk(choice({"tool_calls": [], "function_call": None}))).snapshot.tool_calls == ()
    odd = [{"name": "f", "arguments": {"a": 1}, "sig": "S"}, {"sig": "T", "arguments": 5}]
    state = run(*[chunk(choice({"function_call": call})) for call in odd])
    assert codes(state) == ["arguments_not_text", "malformed_event"]
    assert state.snapshot.choices[0].message.function_call.extra == {"sig": "T"}
    expected = {"name": "f", "arguments": '{"a":1}', "sig": "T"}
    assert state.snapshot.choices[0].message.to_dict()["function_call"] == expected
    assert chat.State.from_json(state.to_json()).snapshot == state.snapshot


def test_finish_reason():
    """C9: "", null and "null" say nothing; the first stands, but a later one replaces "stop"; content still appends."""
    state = run(
        *[chunk(choice({"content": "a"}, finish=reason)) for reason in ("", None, "null", "length", "stop", "length")],
        content("b"),
    )
    assert (state.result().choices[0].finish_reason, state.result().text) == ("length", "aaaaaab")
    assert codes(state) == ["content_after_finish", "finish_reason_changed"]
    for late in ({"function_call": {"name": "f"}}, {"audio": {"data": "d"}}, {"reasoning": "r"}):
        assert codes(run(STOP, chunk(choice(late)))) == ["content_after_finish"]
    assert (
        run(STOP, tools(tool(0, "a", "f", "{}"), finish="tool_calls")).result().choices[0].finish_reason == "tool_calls"
    )


def test_usage():
    """C10: the last object as a whole; null never erases; also after [DONE], from a choice, from x_groq."""
    big = {"prompt_tokens": 9, "note": "x" * 900}
    state = run(
        chunk(choice({"content": "a"}), usage={"total_tokens": 1}),
        chunk(choice({"content": "a"}), usage=None),
        STOP,
        DONE,
        chunk(usage=big),
    )
    assert state.usage.to_dict() == big
    assert state.diagnostics == ()
    assert run(chunk(choice({}, usage={"total_tokens": 4}))).usage.total_tokens == 4
    assert run(chunk(x_groq={"usage": {"total_tokens": 5}})).usage.total_tokens == 5
    assert run(chunk(usage={"total_tokens": 6}), chunk(x_groq={"usage": {"total_tokens": 5}})).usage.total_tokens == 6
    assert run(chunk()).usage is None
    each = [chunk(choice({"content": "a"}), usage={"total_tokens": n}) for n in range(9)]
    assert run(*each).usage.total_tokens == 8
    assert run(*each, chunk(choice({"content": "a"}), usage=big)).usage.to_dict() == big
    assert codes(run(*each, chunk(choice({"content": "a"}), usage=[1]))) == ["malformed_event"]


ODD = [
    "x",
    "",
    "\ude00",
    5,
    True,
    None,
    [],
    ["x"],
    [5],
    {},
    {"index": 0},
    [{"index": 0}],
    [{"index": 0, "function": {"arguments": "1"}}],
]


@pytest.mark.parametrize("place", ["top", "choice", "delta", "call", "function"])
def test_happy_path_is_the_same_road(place):
    """Law 10: what the happy path takes it folds as the general road does, whatever value stands in whatever place."""
    body = {"role": "assistant", "content": "a", "refusal": "b", "reasoning": "c", "reasoning_content": "c"}
    call = {"index": 0, "function": {"arguments": "1"}}

    def chunks(key, value):
        event = copy.deepcopy(chunk(choice({**body, "tool_calls": [call]}), usage={"total_tokens": 1}))
        first = event["choices"][0]
        entry = first["delta"]["tool_calls"][0]
        places = {"top": event, "choice": first, "delta": first["delta"], "call": entry, "function": entry["function"]}
        places[place][key] = value
        return event

    start = chunk(choice({**body, "tool_calls": [tool(0, "i", "f", "1")]}))
    warm = run(start, *[chunk(choice({**body, "tool_calls": [call]}), usage={"total_tokens": 1})] * 3)
    cold = chat.State.from_json(warm.to_json())  # it has seen no chunk whose shape it could remember
    deep = {"d": "x"}
    for _ in range(210):
        deep = {"d": deep}
    keys = ("choices", "usage", "id", "index", "delta", "finish_reason", "logprobs", "role", "content", "refusal", "reasoning",
            "reasoning_content", "tool_calls", "function", "arguments", "name", "new")  # fmt: skip
    for key in keys:
        for value in [*ODD, deep]:
            expected = chat.step(cold, chunks(key, value))
            assert (key, value, chat.step(warm, chunks(key, value))) == (key, value, expected)


def test_usage_alone_behind_done():
    """C10, C15: usage is taken behind [DONE], also where nothing else came: open, for there is no choice."""
    state = run(DONE, chunk(usage={"total_tokens": 4}), chunk(usage={"total_tokens": 5}))
    assert (state.status, state.snapshot.usage.total_tokens, state.diagnostics) == ("open", 5, ())
    state = run(STOP, DONE, chunk(x_groq={"usage": {"total_tokens": 6}}))
    assert (state.result().usage.total_tokens, state.diagnostics) == (6, ())
    assert run(STOP, DONE, chunk(choice({}, usage={"total_tokens": 7}))).result().usage.total_tokens == 7


def test_what_is_no_chunk():
    """TypeError only for what is neither JSON nor an SDK's chunk, wherever in it that stands."""
    bad = [
        b"{}",
        {1},
        chunk(x=b"y"),
        chunk({1: 2}),
        chunk(choice({1: 2})),
        chunk(choice({"x": {1: 2}})),
        tools({1: 2}),
        tools(tool(0, more=1j)),
    ]
    for before in ([], [content("a"), content("b")]):
        for event in bad:
            with pytest.raises(TypeError):
                chat.step(run(*before), event)


def test_logprobs():
    """C11: lists concatenate, null adds nothing, absent stays null; fresh at each access."""
    state = run(
        *[
            chunk(choice({"content": "a"}) | {"logprobs": part})
            for part in ({"content": [1], "refusal": None, "v": 2}, None, {"content": [2], "refusal": [3]})
        ]
    )
    assert state.snapshot.choices[0].logprobs == {"content": [1, 2], "refusal": [3], "v": 2}
    assert run(content("a")).snapshot.choices[0].logprobs is None


def test_lists_in_deltas():
    """C12, C13: reasoning details merge by index and type, other lists are extended, audio appends."""
    details = [{"index": 0, "type": "t", "text": "a", "format": None}, {"index": 0, "type": "t", "text": "b", "format": "v"}, {"type": "t"}, 3,
               {"index": 0, "type": "t", "summary": "s", "format": "w"}, {"index": 1, "type": "t", "data": "d"}]  # fmt: skip
    state = run(
        *[chunk(choice({"reasoning_details": [entry], "annotations": [1]})) for entry in details],
        chunk(choice({"audio": {"data": "AA", "id": "x"}})), chunk(choice({"audio": {"data": "BB", "transcript": "hi", "expires_at": 3}})),
    )  # fmt: skip
    extra = state.snapshot.choices[0].message.extra
    assert extra["reasoning_details"] == [
        {"index": 0, "type": "t", "text": "ab", "format": "v", "summary": "s"},
        {"type": "t"},
        3,
        {"index": 1, "type": "t", "data": "d"},
    ]
    assert extra["annotations"] == [1] * 6
    spoken = run(chunk(choice({"audio": {"id": "x", "transcript": "hi", "data": 5}})))
    assert spoken.snapshot.choices[0].message.extra == {"audio": {"id": "x", "transcript": "hi"}}  # no data came
    assert extra["audio"] == {"id": "x", "expires_at": 3, "data": "AABB", "transcript": "hi"}


def test_unknown_fields():
    """C13: last non-null at each level; lists extended in a delta, last at the others; obfuscation dropped."""
    state = run(
        chunk(choice({"k": "a", "l": [1], "obfuscation": "zz"}, seed=1, tags=[1]), provider="p", cites=[1], obfuscation="zz"),
        chunk(choice({"k": None, "l": [2]}, seed=2, tags=[2]), provider=None, cites=[2]), chunk(choice({"l": "word"})), chunk(choice({"l": [3]})),
    )  # fmt: skip
    got = state.snapshot.to_dict()
    assert (got["provider"], got["cites"], got["choices"][0]["seed"], got["choices"][0]["tags"]) == ("p", [2], 2, [2])
    assert got["choices"][0]["message"] == {"role": "assistant", "content": None, "k": "a", "l": [1, 2, 3]}
    word = run(chunk(choice({"l": [1]})), chunk(choice({"l": "word"}))).snapshot.choices[0].message
    assert word.extra == {"l": "word"}


@pytest.mark.parametrize(
    "event",
    [{"error": {"message": "m", "type": "t", "code": 5}}, {"error": "m"}, {"object": "error", "message": "m"}, {"type": "error", "error": {"message": "m"}},
     {"error_message": "m", "error_type": "t"}, chunk(choice({"content": "b"}), error={"message": "m"})],
    ids=repr,
)  # fmt: skip
def test_errors(event):
    """C14: the state fails; what the chunk carries besides is folded first."""
    state = run(content("a"), event, content("c"), DONE)
    assert state.status == "failed"
    assert state.snapshot.text == ("ab" if event.get("choices") else "a")
    with pytest.raises(ServerError) as caught:
        state.result()
    assert caught.value.message == "m"


@pytest.mark.parametrize(
    "beside",
    [{"x_groq": {"usage": {"total_tokens": 1}}}, {"system_fingerprint": "fp"}, {"service_tier": "s"}, {"created": 7},
     {"id": "c1"}, {"model": "n"}, {"usage": {"total_tokens": 1}}],
)  # fmt: skip
def test_what_an_error_chunk_carries_besides(beside):
    """C14: all of it is folded first."""
    chunk_of = {"error": {"message": "x"}, "provider": "P", **beside}
    state = run(content("a"), chunk_of)
    other = run(content("a"), {"provider": "P", "object": "chat.completion.chunk", **beside})
    assert isinstance(state.error, ServerError)
    assert state.snapshot == other.snapshot
    assert state.snapshot.extra["provider"] == "P"


def test_finish_reason_error():
    """C14: finish_reason "error" is one."""
    assert isinstance(run(chunk(choice({"content": "a"}, finish="error"))).error, ServerError)


def test_error_inside_of_a_choice():
    """C14: what the server says beside finish_reason "error", in the choice, is what the error says."""
    said = {"message": "Provider down", "code": 502}
    error = run(content("hi"), chunk(choice({"content": ""}, finish="error", error=said))).error
    assert isinstance(error, ServerError)
    assert ("Provider down", 502) == (error.args[0], error.code)
    assert error.raw["choices"][0]["error"] == said


@pytest.mark.parametrize(
    ("events", "outcome"),
    [([], "no event at all"), ([{"type": "ping"}], "no chunk"), ([DONE], "no chunk"), ([chunk()], "no choice"), ([chunk(), DONE], "no choice, though"),
     ([content("a")], "no finish_reason of choice 0"), ([STOP, content("b", 1)], "no finish_reason of choice 1")],
)  # fmt: skip
def test_incomplete(events, outcome):
    """C15: a cancelled stream keeps its snapshot, `.result()` says what is missing."""
    with pytest.raises(IncompleteStream, match=outcome):
        run(*events).result()


@pytest.mark.parametrize(
    "body", [b"<html>\n<b>502 Bad Gateway</b></html>", b"no healthy upstream", b'{"detail":"Not Found"}']
)
def test_error_shows_what_was_no_stream(body):
    """S4, C15: of a body that is no event stream the error shows the beginning."""
    for chunks in ([body], [body[i : i + 1] for i in range(len(body))]):
        with pytest.raises(IncompleteStream, match="no chunk.*(502 Bad Gateway|no healthy upstream|Not Found)"):
            chat.fold(sse.events(chunks))


@pytest.mark.parametrize(
    ("body", "said"),
    [(b'data: {"id":"c","choices":[{"index":0,"delta":{"content":"a"}}]}\n\nevent: error\ndata: upstream gone\n\n', "upstream gone"),
     (b'event: error\ndata: {"message":"boom","code":500}\n\n', "boom"), (b'data: {"error":"busy"}\n\ndata: [DONE]\n\n', "busy"),
     (b'{\n "error": {"message": "bad key", "type": "auth"}\n}\n', "bad key"), (b'{"object":"error","message":"too long","code":400}', "too long")],
)  # fmt: skip
def test_errors_in_bytes(body, said):
    """C14, S4: an error as an event of that name, as data, and as the body of an HTTP 200."""
    with pytest.raises(ServerError, match=said) as caught:
        chat.fold(sse.events([body]))
    assert caught.value.message == said


def test_done():
    """C15: [DONE] completes what has a choice; afterwards all but usage is noted."""
    state = run(content("a"), DONE, content("b"), DONE, {"type": "ping"}, chunk(choice({}), usage={"total_tokens": 1}))
    assert (state.result().text, state.result().choices[0].finish_reason, state.usage.total_tokens) == ("a", None, 1)
    assert codes(state) == ["missing_finish_reason", "after_end", "after_end"]


@pytest.mark.parametrize("late", ["bye", None, 5, ["x"], {"type": "x"}, content("b")], ids=repr)
def test_anything_after_done(late):
    """C15: whatever comes after [DONE] is noted as that, whether it is a chunk or not."""
    assert codes(run(content("a"), STOP, DONE, late)) == ["after_end"]


def test_unknown_event():
    """C16: what has none of the fields of a chunk is noted; a ping is nothing."""
    state = run({"type": "odd"}, {"x": 1}, {"type": "ping"}, 5)
    assert (state.status, state.snapshot) == ("empty", None)
    assert [(note.code, note.path) for note in state.diagnostics] == [
        ("unknown_event", "odd"),
        ("unknown_event", ""),
        ("malformed_event", ""),
    ]


def test_states():
    """C17: the next completion starts after [DONE] or an error, or with another id once complete."""
    other = {**content("z"), "id": "c2"}
    assert [
        s.snapshot.text
        for s in chat.states([content("a"), DONE, content("b"), STOP, other, {"error": "x"}, content("q")])
    ] == ["a", "b", "z", "q"]
    assert [s.snapshot.text for s in chat.states([other, content("b"), STOP, other])] == ["zbz"]
    assert [c.text for c in chat.fold_all([content("a"), STOP, DONE])] == ["a"]
    assert chat.fold([content("a"), STOP]).text == "a"


def test_a_failure_that_no_server_sent_ends_no_completion():
    """C17: each recorded stream is one: what strict mode or a limit refused goes on to its [DONE]."""
    stream = [content("aaa"), chunk(choice({"content": "b"}, index=None)), content("ccc"), content("ddd"), STOP, DONE]
    for options in ({"strict": True}, {"limits": Limits(text=5)}):
        start = chat.State(**options)
        assert [state.status for state in chat.states(stream, start)] == ["failed"]
        assert [state.status for state in chat.states([*stream, *stream], start)] == ["failed", "failed"]
        first, second = chat.states([*stream, content("x"), STOP], start)
        assert (first.status, second.result().text) == ("failed", "x")


def test_a_reason_that_says_nothing_begins_the_next_one():
    """C9, C17: "null" and "" are no finish_reason where the next completion begins either."""
    for nothing in (None, "", "null"):
        first, second = ([chunk(choice({"content": "a"}, finish=nothing), id=name), chunk(choice({}, finish="stop"), id=name)]
                         for name in "xy")  # fmt: skip
        assert [state.result().id for state in chat.states([*first, *second])] == ["x", "y"]


def test_inputs():
    """J11, J12: empty arguments are {} once the choice has finished; `arguments` is raw in any case."""
    state = run(tools(tool(0, "a", "f", "")))
    assert (state.snapshot.tool_calls[0].input_state, state.snapshot.tool_calls[0].partial_input) == (
        "incomplete",
        None,
    )
    with pytest.raises(InvalidInput, match=r"choices\[0\].message.tool_calls\[0\].function.arguments is incomplete"):
        state.snapshot.to_request()
    call = chat.step(state, STOP).snapshot.tool_calls[0]
    assert (call.input_state, call.input, call.arguments) == ("complete", {}, "")
    request = chat.step(state, STOP).snapshot.to_request()
    assert request == {
        "role": "assistant",
        "content": None,
        "tool_calls": [{"id": "a", "type": "function", "function": {"name": "f", "arguments": "{}"}}],
    }
    cut = run(tools(tool(0, "a", "f", '{"x": "y')), DONE).snapshot
    assert cut.tool_calls[0].partial_input == {"x": "y"}
    assert cut.to_dict()["choices"][0]["message"]["tool_calls"][0]["function"]["arguments"] == '{"x": "y'


def test_first_choice():
    """Completion's conveniences are of the choice that comes first by index; without any they are empty."""
    state = run(
        chunk(choice({"content": "b", "reasoning": "q", "tool_calls": [tool(0, "y", "g", "{}")]}, 1)),
        chunk(choice({"content": "a", "reasoning": "p", "tool_calls": [tool(0, "x", "f", "{}")]}, 0)),
    )
    got = state.snapshot
    assert (got.text, got.reasoning, [call.id for call in got.tool_calls]) == ("a", "p", ["x"])
    assert (chat.Completion().text, chat.Completion().reasoning, chat.Completion().tool_calls) == ("", "", ())
    assert run(chunk(choice({"role": "assistant"}))).snapshot.text == ""
    assert json.loads(got.to_json()) == got.to_dict()


def test_to_request():
    """J12: each choice's message for the next request: one reasoning field, "{}" for no input, the others' errors not its own."""
    state = run(
        chunk(
            choice(
                {"content": "", "reasoning": "p", "reasoning_content": "p", "tool_calls": [tool(0, "x", "f", " ")]}, 0
            )
        ),
        chunk(choice({"content": "b"}, 1), choice({"content": ""}, 2)),
        chunk(choice({"tool_calls": [tool(0, "z", "f", "{")]}, 3)),
        *[chunk(choice({}, number, "stop")) for number in range(4)],
    )
    choices = state.result().choices
    assert choices[0].message.to_request() == {
        "role": "assistant", "content": None, "reasoning_content": "p",
        "tool_calls": [{"id": "x", "type": "function", "function": {"name": "f", "arguments": "{}"}}],
    }  # fmt: skip
    assert state.result().to_request() == choices[0].message.to_request()
    assert choices[1].message.to_request() == {"role": "assistant", "content": "b"}
    assert choices[2].message.to_request() == {"role": "assistant", "content": ""}
    with pytest.raises(InvalidInput, match=r"choices\[3\]"):
        choices[3].message.to_request()


def test_to_request_says_reasoning_once_and_nothing_empty():
    """design.md: one reasoning field, empty texts dropped."""
    both = run(chunk(choice({"reasoning": "a", "reasoning_content": "b", "content": "x"}, finish="stop"))).result()
    assert both.to_request() == {"role": "assistant", "content": "x", "reasoning_content": "b"}
    assert both.to_dict()["choices"][0]["message"]["reasoning"] == "a"
    empty = {"reasoning_content": "", "refusal": "", "content": "x"}
    assert run(chunk(choice(empty, finish="stop"))).result().to_request() == {"role": "assistant", "content": "x"}
    other = run(chunk(choice({"reasoning": "a", "content": ""}, finish="stop"))).result()
    assert other.to_request() == {"role": "assistant", "content": None, "reasoning": "a"}


def test_names_with_half_a_character():
    """C6, C7, C9, B1: an equal repeat is a repeat, whatever it is made of."""
    name = {"index": 0, "function": {"name": "f\ud83d"}}
    assert calls(run(tools(name), tools(name))) == [(None, "f\ufffd", "")]
    same = tool(0, "i\ud83d", "f", "{")
    assert calls(run(tools(same), tools(same))) == [("i\ufffd", "f", "{{")]
    end = chunk(choice({}, finish="x\ud83d"))
    assert codes(run(end, end)) == []


def test_padding_is_dropped_everywhere():
    """C13: obfuscation comes out nowhere."""
    entry = tool(0, "i", "f", "{}", obfuscation="q")
    entry["function"]["obfuscation"] = "k"
    delta = {"tool_calls": [entry], "function_call": {"name": "g", "obfuscation": "j"}, "obfuscation": "d"}
    state = run(chunk(choice(delta, obfuscation="y"), obfuscation="z"))
    assert b"obfuscation" not in state.snapshot.to_json()


def test_events_of_an_sdk():
    """An SDK's objects are their chunks, as they are and in `fold`."""

    class Chunk:
        def __init__(self, value):
            self.value = value

        def model_dump(self, **options):
            assert options == {"by_alias": True, "exclude_unset": True}
            return self.value

    chunks = [content("a"), content("b"), content("c"), STOP]
    assert run(*map(Chunk, chunks), DONE) == run(*chunks, DONE)
    assert chat.fold([*map(Chunk, chunks), DONE]).text == "abc"


def test_events_are_not_kept():
    """Law 1, B3: what is done to a chunk after it was folded, or to what a snapshot gives out, changes nothing."""
    chunks = [
        chunk(choice({"content": "a", "list": [[1]], "object": {"x": [1]}, "audio": {"id": "u", "y": [1]}}, tags=[[1]]), top={"z": [1]}),
        chunk(choice({"tool_calls": [tool(0, "a", "f", {"v": [1]}, more={"w": [1]})], "reasoning_details": [{"index": 0, "q": [1]}]})),
        chunk(choice({}, finish="stop") | {"logprobs": {"content": [{"top": [1]}]}}, usage={"details": {"n": 1}}),
    ]  # fmt: skip
    expected = run(*copy.deepcopy(chunks)).snapshot.to_dict()
    state = chat.State()
    for event in chunks:
        state = chat.step(state, event)
        spoil(event)
    got = state.snapshot
    first = got.choices[0]
    for fresh in (got.to_dict(), got.extra, got.usage.extra, first.extra, first.logprobs, first.message.extra,
                  got.tool_calls[0].extra, got.tool_calls[0].input, got.to_request()):  # fmt: skip
        spoil(fresh)
    assert expected == state.snapshot.to_dict() == got.to_dict()


def spoil(value):
    """Change every container in a value."""
    for inner in list(value.values() if isinstance(value, dict) else value):
        if isinstance(inner, (dict, list)):
            spoil(inner)
    value.clear()


@pytest.mark.parametrize(
    ("limits", "event"),
    [(Limits(choices=1), content("b", 1)), (Limits(tool_calls=1), tools(tool(0, "a", "f"), tool(1, "b", "g"))), (Limits(text=10), content("b" * 10)),
     (Limits(extra_keys=1), chunk(x=1, y=2)), (Limits(extra_keys=1), chunk(choice({"x": [1], "y": [2]}))), (Limits(extra_keys=1), chunk(usage={"x": 1, "y": 2}))],
)  # fmt: skip
def test_limits(limits, event):
    """B4: exceeding a limit fails the state, nothing of that event folded, the rest kept."""
    state = run(content("a"), event, limits=limits)
    assert state.snapshot.text == "a"
    with pytest.raises(LimitExceeded):
        state.result()


def deep(levels):
    value = 1
    for _ in range(levels):
        value = {"a": value}
    return value


@pytest.mark.parametrize("levels", [201, 300, 1010])
@pytest.mark.parametrize("like_before", [False, True])
def test_too_deep_wherever_it_stands(levels, like_before):
    """C2, B4, law 8: what is nested too deep is noted and dropped, the rest is folded, and the state can be saved."""
    for place in ("usage", "x", "choice", "logprobs", "delta", "call", "function", "function_call", "audio", "details"):
        call = tool(0, "i", "f", "{")
        top, inner, more = {}, {"content": "a"}, {}
        if place in {"usage", "x"}:
            top[place] = {"x": deep(levels)}
        elif place == "choice":
            more["x"] = deep(levels)
        elif place == "logprobs":
            more["logprobs"] = {"m": deep(levels)}
        elif place in {"call", "function"}:
            inner["tool_calls"] = [call]
            (call if place == "call" else call["function"])["x"] = deep(levels)
        elif place == "details":
            inner["reasoning_details"] = [deep(levels)]
        else:
            inner["x" if place == "delta" else place] = {"name": "n", "x": deep(levels)}
        usual = chunk(choice({"content": "b"}), usage={"total_tokens": 1})
        state = run(*[usual] * (3 * like_before), chunk(choice(inner, **more), **top))
        assert codes(state) == ["malformed_event"], place
        assert state.snapshot.text.endswith("a")
        assert chat.State.from_json(state.to_json()) == state
        state.snapshot.to_json()


def test_usage_keys_are_counted_on_either_road():
    """B4, law 10: whether usage has too many keys never depends on what came before it, or on who saved the state."""
    first, more = (chunk(choice({"content": "a"}), usage=usage) for usage in ({"a": 1}, {"a": 1, "b": 2, "d": 3}))
    state = run(first, first, limits=Limits(extra_keys=2))
    for one in (state, chat.State.from_json(state.to_json())):
        assert chat.step(one, more).error.limit == "extra_keys"


def test_too_deep():
    """B4, C2: of a chunk only the part that is nested too deep is left out."""
    deep = 1
    for _ in range(201):
        deep = [deep]
    event = chunk(
        choice({"content": "a", "x": {"d": deep}, "l": [deep]}) | {"logprobs": {"content": [deep]}},
        y=deep,
        usage={"d": deep},
    )
    state = run(event)
    assert (state.snapshot.text, state.snapshot.extra, state.usage) == ("a", {}, None)
    assert set(codes(state)) == {"malformed_event"}


def test_half_surrogates():
    """B1: a pair may come in two chunks; a half is never shown."""
    assert [
        run(*map(content, pieces)).snapshot.text for pieces in (["a\ud83d"], ["a\ud83d", "\ude00"], ["a\ud83d", "b"])
    ] == ["a", "a😀", "a\ufffdb"]
    for key in ("content", "refusal", "reasoning", "reasoning_content"):
        first, second = chunk(choice({key: "a\ud83d"})), chunk(choice({key: "\ude00b"}))
        assert run(first, second).snapshot.choices[0].message.to_dict()[key] == "a😀b"
        # What was shown as U+FFFD when the choice finished stays so (law 6).
        assert run(first, STOP, second).snapshot.choices[0].message.to_dict()[key] == "a\ufffd\ufffdb"
    halves = [tools(tool(0, "a", "f", '"\ud83d')), STOP, tools(tool(0, None, None, '\ude00"'))]
    assert calls(run(*halves)) == [("a", "f", '"\ufffd\ufffd"')]
    audio = [chunk(choice({"audio": {"transcript": half}})) for half in ("a\ud83d", "\ude00")]
    assert run(*audio).snapshot.choices[0].message.extra["audio"]["transcript"] == "a😀"
    assert run(audio[0], STOP, audio[1]).snapshot.choices[0].message.extra["audio"]["transcript"] == "a\ufffd\ufffd"
    details = [
        chunk(choice({"reasoning_details": [{"index": 0, "type": "t", "text": half}]})) for half in ("\ud83d", "\ude00")
    ]
    assert run(*details).snapshot.choices[0].message.extra["reasoning_details"][0]["text"] == "😀"
    assert run(details[0]).snapshot.choices[0].message.extra["reasoning_details"][0]["text"] == ""


EVENTS = [
    chunk(choice({"role": "assistant", "content": "a\ud83d"}), big=2**80), content("\ude00"), chunk(choice({"reasoning": "r", "reasoning_content": "r"})),
    tools(tool(0, "a", "f", '{"x":')), tools({"index": 0, "function": {"arguments": " 1"}}), tools({"index": 0, "function": {"arguments": "}"}}),
    content("b", 1), {"type": "odd"}, chunk(choice({"l": [1]}) | {"logprobs": {"content": [{"t": 1}]}}, usage={"total_tokens": 3}), STOP,
    chunk(choice({}, 1, "length")), DONE,
]  # fmt: skip


@pytest.mark.parametrize("strict", [False, True])
def test_state_saved_anywhere(strict):
    """Law 10: to_json, pickle and copies at every point of a stream give the same state and the same end."""
    options = {"strict": strict, "limits": Limits(text=5000)}
    for events in (EVENTS, [*EVENTS[:9], {"error": {"message": "m", "code": 2}}]):
        end = run(*events, **options)
        for cut in range(len(events) + 1):
            state = run(*events[:cut], **options)
            for other in (
                chat.State.from_json(state.to_json()),
                pickle.loads(pickle.dumps(state)),
                copy.deepcopy(state),
                copy.copy(state),
            ):
                assert other == state
                assert repr(other) == repr(state)
                assert hash(other) == hash(state)
                for event in events[cut:]:
                    other = chat.step(other, event)
                assert other == end
        assert end.status == "failed" if strict or events is not EVENTS else "complete"
        assert pickle.loads(pickle.dumps(end.snapshot)) == end.snapshot
        assert "a😀" in repr(end.snapshot)


@pytest.mark.parametrize(
    ("slot", "other", "value"),
    [(["text", 0, "content"], ["text", 7, "content"], "x"), (["last", "usage"], ["last", "usage"], [1]), (["last", "usage"], ["last", "usage"], "x"),
     (["last", "usage"], ["last", "odd"], {}), (["last", "usage"], ["odd", "usage"], {}), (["last", "usage"], ["list", 0, "x"], {})],
)  # fmt: skip
def test_fragments_that_no_state_has(slot, other, value):
    """State.from_json raises InvalidState for a fragment of another kind or place."""
    saved = json.loads(run(*EVENTS).to_json())
    at = [slot for slot, _ in saved["fragments"]].index(slot)
    saved["fragments"][at] = [other, value]
    with pytest.raises(InvalidState):
        chat.State.from_json(json.dumps(saved))


@pytest.mark.parametrize(
    "spoil", [(b'"key":0', b'"key":4'), (b'"touched":0', b'"touched":9'), (b'"touched":0', b'"touched":-1')]
)
def test_invalid_state(spoil):
    """State.from_json raises InvalidState for a state whose calls are not those of a stream."""
    good = run(*EVENTS).to_json()
    assert spoil[0] in good
    with pytest.raises(InvalidState):
        chat.State.from_json(good.replace(*spoil))


def test_changes():
    """`changes` tells choices, texts, calls and their inputs, and the end; an unrelated pair starts from nothing."""
    state, seen = chat.State(), []
    for event in EVENTS:
        after = chat.step(state, event)
        seen += chat.changes(state, after)
        state = after
    message = ("choices", 0, "message")
    arguments = (*message, "tool_calls", 0, "input")
    assert seen == [
        (("choices", 0), "open", "choice"), ((*message, "content"), "text", "a"), ((*message, "content"), "text", "😀"),
        ((*message, "reasoning_content"), "text", "r"), ((*message, "tool_calls", 0), "open", "function"), (arguments, "open", "object"),
        ((*arguments, "x"), "done", 1), (arguments, "done", {"x": 1}), (("choices", 1), "open", "choice"),
        (("choices", 1, "message", "content"), "text", "b"), (("choices", 0), "done", None), (("choices", 1), "done", None),
    ]  # fmt: skip
    other = run({**content("q"), "id": "zz"})
    assert chat.changes(state, other) == chat.changes(chat.State(), other)
    assert chat.changes(state, state) == []


@pytest.mark.parametrize(
    ("left", "right"),
    [([content("one")], [content("two"), content("!")]), ([content("longer"), content("one")], [content("l"), {"type": "ping"}]),
     ([tools(tool(1, "b", "g", "{}"))], [tools(tool(1, "c", "g", "{}"))]), ([tools(tool(1, "b", "g", "{}"))], [content("x")]),
     ([tools({"index": 0, "function": {"arguments": "1"}})], [tools({"index": 0, "function": {"arguments": "2"}}), content("x")]),
     ([content("x", 1)], [content("x"), content("y")]), ([chunk(choice({"reasoning": "x"}))], [content("x"), content("y")])],
)  # fmt: skip
def test_changes_between_branches(left, right):
    """`changes` for two branches of one state, neither a beginning of the other: all of the newer one."""
    root = run(content("a"), tools(tool(0, "a", "f", '{"x":')))
    for read in (False, True):
        older, newer = root, root
        for event in left:
            older = chat.step(older, event)
        for event in right:
            newer = chat.step(newer, event)
        if read:
            older.snapshot.to_dict(), newer.snapshot.to_dict()
        assert chat.changes(older, newer) == chat.changes(chat.State(), newer)


def test_accumulator():
    """Law 10: the accumulator gives what reduce gives."""
    accumulator = chat.Accumulator()
    for event in EVENTS:
        accumulator.feed(event)
    assert accumulator.state == run(*EVENTS)
    assert chat.step_json(chat.State(), b'{"id":"x"').status == "empty"
