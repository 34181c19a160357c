"""Reading recorded streams: what a file holds is found out, in any layout; nothing but errors of ours comes out."""

from __future__ import annotations

import io
import itertools
import json
import tracemalloc
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from friendli_stream import chat, errors, messages, recordings, sse

OWN = Path(__file__).parent / "recordings"
SHARED = Path(__file__).parents[2] / "shared"

shared = pytest.mark.skipif(not SHARED.is_dir(), reason="the shared folder with references and recordings is absent")


class Pipe:
    """A file that gives the bytes `width` at a time and knows how many it gave; `read1` as a pipe, or only `read`."""

    def __init__(self, body, width=1, *, read1=True):
        self.body, self.width, self.at = body, width, 0
        if read1:
            self.read1 = self.read

    def read(self, size):
        self.at += min(self.width, size)
        return self.body[self.at - min(self.width, size) : self.at]


def events_of(body):
    """The events of a body, after a check that they are the same in chunks of 1 and 7 bytes."""
    whole = recordings.read(body).events
    for width in (1, 7):
        assert json.dumps(list(recordings.stream(Pipe(body, width)))) == json.dumps(whole)
    return whole


def outcome(body):
    """The events up to the end or an error, and the error's type and place: what must not depend on the cuts."""

    def of(file):
        found = []
        try:
            for event in recordings.stream(file):
                found.append(event)
        except (errors.UnreadableRecording, errors.LimitExceeded) as error:
            return json.dumps(found), type(error), getattr(error, "line", None)
        return json.dumps(found), None, None

    whole = of(io.BytesIO(body))
    assert whole == of(Pipe(body, 1)) == of(Pipe(body, 5, read1=False))
    return whole


# ------------------------------------------------------------------------------------------------ own recordings


FACTS = {
    "messages_text": ("complete", "Hello, how can I help?"),
    "messages_tool_use": ("complete", ""),
    "messages_thinking": ("complete", ""),
    "messages_error_midway": ("failed", "The tide turns at "),
    "messages_cancelled": ("open", "The tide "),
    "messages_interleaved": ("complete", "Looking."),
    "messages_unicode": ("complete", "aé조수🌊\u2028e\u0301🚢!"),
    "messages_pings": ("complete", "Low tide."),
    "messages_crlf": ("complete", "Windows\nlines."),
    "chat_reasoning": ("complete", "FriendliAI."),
    "chat_parallel_tools": ("complete", ""),
    "chat_two_choices": ("complete", "oak bark"),
    "chat_usage_each": ("complete", "Ebb and flow."),
    "chat_error_beside": ("failed", "Half a wave"),
    "chat_no_done": ("complete", "Calm."),
    "chat_content_filter_first": ("complete", "Fine."),
    "chat_cancelled": ("open", "The answer is roug"),
}


def test_own_recordings_are_all_known():
    """Each recording of ours has its outcome and text here, so that none is a file nobody looks at."""
    assert {path.stem for path in OWN.glob("*.sse")} == set(FACTS)


@pytest.mark.parametrize("name", FACTS)
def test_own_recordings(name):
    """Each recording of ours: its format, one message, outcome and text, in every layout that read() knows."""
    status, text = FACTS[name]
    body = (OWN / f"{name}.sse").read_bytes()
    recording = recordings.read(OWN / f"{name}.sse")
    assert recording.format == name.partition("_")[0]
    states = list(recording.states())
    assert [status] == [state.status for state in states]
    assert text == (states[0].snapshot.text or "")
    assert recording.events == events_of(body) == list(sse.events([body]))
    for layout in layouts(recording.events):
        assert recording == recordings.read(layout)
        assert recording.events == list(recordings.stream(Pipe(layout, 11)))
    module = {"messages": messages, "chat": chat}[recording.format]
    strict = list(module.states(recording.events, module.State(strict=True)))  # none of ours is an exception
    assert [(status, states[0].snapshot)] == [(state.status, state.snapshot) for state in strict]
    if status == "complete":
        assert recording.fold() == states[0].snapshot
    else:
        with pytest.raises(errors.StreamError):
            recording.fold()


def layouts(events):
    """The same events as JSON lines, as arrays, as values one after another, and as the blocks of a reference."""
    yield b"".join(json.dumps(event).encode() + b"\n" for event in events)
    yield b"".join(json.dumps(event).encode() + b"\r\n" for event in events).rstrip()
    yield json.dumps(events).encode()
    yield b"\xef\xbb\xbf\n" + json.dumps(events, indent=2).encode() + b"\n"
    yield b"[\n" + b",\n".join(json.dumps(event).encode() for event in events) + b"\n]"
    yield b" ".join(json.dumps(event, indent=1).encode() for event in events)
    yield reference(events, "An *example*:\n\n```\n", "\n```\nAnd so on: it ends.\n", "...\n")
    yield reference(events, "Chunk object\n", "Its fields: none.\n", "").replace(b"\n\n", b"\n")
    if isinstance(events[0], dict):
        yield reference(events, "", "", "")


def reference(events, head, tail, between):
    def block(event):
        if isinstance(event, str):
            return f"data: {event}\n\n"
        return (f"event: {event['type']}\n" if "type" in event else "") + f"data: {json.dumps(event, indent=1)}\n\n"

    return (head + between.join(map(block, events)) + tail).encode()


# ------------------------------------------------------------------------------------------------ references


@shared
@pytest.mark.parametrize(
    ("name", "format_", "texts"),
    [
        ("dedicated-messages-chunk-object.txt", "messages", ["Hello, how can I help?", "", ""] * 2),
        ("messages-chunk-object.txt", "messages", ["Hello, how can I help?"]),
        ("streaming-guide.md", "chat", ["FriendliAI."]),
    ],
)
def test_references(name, format_, texts):
    """The pages of the API reference, read as they are, give the streams that they show, complete and without a note."""
    body = (SHARED / "formats" / name).read_bytes()
    for page in (body, body.replace(b"\n", b"\r\n")):
        recording = recordings.read(page)
        assert format_ == recording.format
        states = list(recording.states())
        assert texts == [state.snapshot.text for state in states]
        assert {("complete", ())} == {(state.status, state.diagnostics) for state in states}
        assert recording.events == list(recordings.stream(Pipe(page, 3)))


@shared
def test_streams_of_the_reference():
    """Recordings of ours hold the reference's three streams, event by event; the reference tells them twice."""
    own = [
        event
        for name in ("text", "tool_use", "thinking")
        for event in recordings.read(OWN / f"messages_{name}.sse").events
    ]
    page = recordings.read(SHARED / "formats" / "dedicated-messages-chunk-object.txt").events
    assert [event["type"] for event in own] * 2 == [event["type"] for event in page]
    assert own == page[: len(own)]


@shared
@pytest.mark.parametrize("folder", ["messages", "chat"])
def test_real_streams(folder):
    """Real streams: the format is recognised, and the events are those of the plain decoders."""
    paths = [*(SHARED / "recordings" / folder).glob("*.sse"), *(SHARED / "recordings" / folder).glob("*.jsonl")]
    assert paths
    for path in paths:
        body = path.read_bytes()
        recording = recordings.read(path)
        assert (path.name, folder) == (path.name, recording.format)
        if path.suffix == ".sse":
            assert list(sse.events([body])) == recording.events
        else:
            assert [json.loads(line) for line in body.decode().split("\n") if line.strip()] == recording.events


# ------------------------------------------------------------------------------------------------ event streams


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        pytest.param(b'data: {"a":\ndata: {"b":\ndata: 1}}\n\n', [{"a": {"b": 1}}], id="data on several lines"),
        pytest.param(b'data: [\ndata: {\ndata: }\ndata: ]\n\ndata: {"x":\n1}\n', [[{}], {"x": 1}], id="then a block"),
        pytest.param(b"data: {\nid: 1\ndata: {\nx\ndata: 1}}\n\n", ["{\n{\n1}}"], id="an id between lines"),
        pytest.param(b'data: {"a":1}\nevent: n\n\n', [{"type": "n", "a": 1}], id="a name behind its data"),
        pytest.param(b'prose\ndata: {"a":1}\nevent: n\ndata: {"b":2}\n', [{"a": 1}, {"type": "n", "b": 2}], id="no gaps"),
        pytest.param(b'data: {"a":1}\ndata:{"b":2}\ndata: [DONE]\n', [{"a": 1}, {"b": 2}, "[DONE]"], id="no gaps, no prose"),
        pytest.param(b'event: n\ndata: {"a":1}\nevent: m\ndata: {"b":2}\nid: 1\nevent: n\ndata: {}\n\n',
                     [{"type": "n", "a": 1}, {"type": "m", "b": 2}, {"type": "n"}], id="no gaps, but names"),
        pytest.param(b'data: {"a":1}\nevent: n\nid: 1\ndata: {"b":2}\n', [{"type": "n", "a": 1}, {"b": 2}], id="a name behind, no gap"),
        pytest.param(b'data: {"a":\n\nevent: n\ndata: {"b":2}\n\n', ['{"a":', {"type": "n", "b": 2}], id="cut by a gap"),
        pytest.param(b'data: {"a":\nid: 1\n\ndata: {"b":2}\n\n', ['{"a":', {"b": 2}], id="cut by a field"),
        pytest.param(b'data: {"a":\n1,\n"b":"x', ['{"a":\n1,\n"b":"x'], id="cut by the end"),
        pytest.param(b'data: {"a":\n"} ] \\" }"}\n\n', [{"a": '} ] " }'}], id="brackets in a string"),
        pytest.param(b'data: {"a":\n1}}\n\ndata: {"b":2}\n', ['{"a":\n1}}', {"b": 2}], id="too many brackets"),
        pytest.param(b'data: {"a":"\n}"}\n\n', ['{"a":"\n}"}'], id="no string goes over a line"),
        pytest.param(b'HTTP/1.1 200 OK\r\nx: y\r\n\r\ndata: {"a":1}\r\n\r\n', [{"a": 1}], id="with headers"),
        pytest.param(b'Its data:\ndata: a word\ndata\ndata: {"a":1}\n', [{"a": 1}], id="data that is prose"),
        pytest.param(b'data: a word\n\ndata: {"a":1}\n', ["a word", {"a": 1}], id="no prose in an event stream"),
        pytest.param(b'x\ndata: [DONE]\n```\ndata: "s"\n', ["[DONE]"], id="done in a document"),
        pytest.param(b'[a](b) [link]\n\ndata: {"a":1}\n', [{"a": 1}], id="a link first"),
        pytest.param(b': hi\n\n: hi\n\nevent: e\ndata: {"type":"e"}\n\n', [{"type": "e"}], id="comments first"),
        pytest.param(b"event: error\ndata: busy\n\n", [{"type": "error", "error": {"message": "busy"}}], id="error text"),
        pytest.param(b" " * 2000 + b'\ndata: {"a":1}\n\n', [{"a": 1}], id="white space first"),
        pytest.param(b"\n" * 70_000 + b'data: {"a":1}\n\n', [{"a": 1}], id="much nothing first"),
    ],
)  # fmt: skip
def test_blocks(body, expected):
    """S1, S4 and the blocks of references: what the liberties of documents are, and what they leave alone."""
    found = list(recordings.stream(io.BytesIO(body)))
    assert expected == found
    for width in (1, 7):
        assert expected == list(recordings.stream(Pipe(body, width)))


# ------------------------------------------------------------------------------------------------ JSON


BIG = 2**80


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        pytest.param(b'{"a":1}', [{"a": 1}], id="one object"),
        pytest.param(b'{\n "error": {\n  "message": "no"\n }\n}\n', [{"error": {"message": "no"}}], id="pretty"),
        pytest.param(b'{"a":1}{"b":2} {"c":3}\n', [{"a": 1}, {"b": 2}, {"c": 3}], id="on one line"),
        pytest.param(b'{"a":1}\n\n"[DONE]"\n[DONE]\n', [{"a": 1}, "[DONE]", "[DONE]"], id="done, quoted or not"),
        pytest.param(b'[{"a":1},null,-1.5e3,"x",[2],true]', [{"a": 1}, None, -1500.0, "x", [2], True], id="any values"),
        pytest.param(b'{"a":1}\nnull\n-15\n12', [{"a": 1}, None, -15, 12], id="bare values"),
        pytest.param(b'{"a":1}\n1"x"2[3]4{}5', [{"a": 1}, 1, "x", 2, [3], 4, {}, 5], id="values without gaps"),
        pytest.param(b'[ {"a":1} , \n', [{"a": 1}], id="an array that was cut"),
        pytest.param(b'[]\n[\n]\n[{"a":1}]\n', [{"a": 1}], id="empty arrays first"),
        pytest.param(b'[{"a":1}]\n{"b":2}', [{"a": 1}, {"b": 2}], id="a value behind the array"),
        pytest.param(b'{"a":"\\"}{\\\\","b":["]"]}\n{"c":"\\u00e9"}', [{"a": '"}{\\', "b": ["]"]}, {"c": "é"}], id="strings"),
        pytest.param(b'{"n":%d}\n[%d]' % (BIG, -BIG), [{"n": BIG}, [-BIG]], id="big numbers"),
        pytest.param(b'{"a":"\xff\xe6\xbd"}\n', [{"a": "\ufffd\ufffd"}], id="bad bytes"),
        pytest.param(b'{"a":1}\n{"b": "cut', [{"a": 1}, '{"b": "cut'], id="the last value was cut"),
        pytest.param(b'\xef\xbb\xbf \r\n {"a":1}', [{"a": 1}], id="bom and white space first"),
        pytest.param(b'"[DONE]"\n{"a":1}', ["[DONE]", {"a": 1}], id="a string first"),
    ],
)  # fmt: skip
def test_values(body, expected):
    """JSON in any layout: the values one by one, exact (B2), for every cut."""
    for width in (len(body), 1, 3):
        found = list(recordings.stream(Pipe(body, width)))
        assert expected == found
        assert [type(event) for event in expected] == [type(event) for event in found]


BOM, OBJECT = b"\xef\xbb\xbf", b'{"type":"ping"}'
MARGIN = recordings.MARGIN


@pytest.mark.parametrize(
    ("body", "events"),
    [
        (BOM + OBJECT, 1),
        (BOM + b"\r\n\n" + OBJECT, 1),
        (BOM + b"data:" + OBJECT, 1),
        (BOM + BOM + OBJECT, 0),
        (b"\n" + BOM + OBJECT, 0),
        (BOM + BOM + b"data:" + OBJECT, 0),
        (b"\n" + BOM + b"data:" + OBJECT, 0),
        (b"\n" * 2 * MARGIN + OBJECT, 1),
        (b" " * (MARGIN - 1) + OBJECT, 1),
        (b" " * MARGIN + OBJECT, 0),
        (b"\t" * 2 * MARGIN + OBJECT, 0),
        (b"[" + b" " * (MARGIN - 2) + OBJECT + b"]", 1),
        (b"[" + b" " * (MARGIN - 1) + OBJECT + b"]", 0),
        (b" " * 2 * MARGIN + b"\ndata:" + OBJECT, 1),
    ],
)
def test_beginning(body, events):
    """What a file is shows within its first bytes behind one BOM and blank lines, wherever the bytes are cut."""
    assert json.dumps([json.loads(OBJECT)] * events) == outcome(body)[0]


@pytest.mark.parametrize(
    ("body", "line", "before", "word"),
    [
        (b"", 1, 0, "empty"),
        (b" \n\n", 1, 0, "empty|begins"),
        (b"\xef\xbb\xbf", 1, 0, "empty"),
        (b"\xef\xbb", 1, 0, "begins"),
        (b"Just a text.\n", 1, 0, "begins with 'Just a text"),
        (b"<html>\n", 1, 0, "begins with '<html>"),
        (b": only\n\n: comments\n\n", 1, 0, "server-sent events, JSON lines"),
        (b"[", 1, 0, "begins"),
        (b"[]", 1, 0, "begins"),
        (b"\xff\xfe\x00", 1, 0, "begins"),
        (b'\n{"a":\n\n', 2, 0, "does not end"),
        (b'{"a":1}\n{"b":2}\noh no {}\n', 3, 2, "'oh'; expected JSON values"),
        (b'{"a":1}\n\n{"b":\n\n2\n:}\n', 3, 1, "no JSON"),
        (b'{"a":1}}\n', 1, 1, "no JSON: '}'"),
        (b'[{"a":1}]\n\n]', 3, 1, "no JSON"),
        (b'{"a":NaN}', 1, 0, "NaN"),
        (b'{"a":1}\n' + b"[" * 200_000 + b"]" * 200_000, 2, 1, "no JSON"),
        (b'{"a":1}\n' + b"7" * 5000, 2, 1, "no JSON"),
    ],
)
def test_unreadable(body, line, before, word, tmp_path):
    """What cannot be read: UnreadableRecording with file, line and what was expected, behind the events before it."""
    path = tmp_path / "some.file"
    path.write_bytes(body)
    found = []
    with pytest.raises(errors.UnreadableRecording, match=word) as caught:
        for event in recordings.stream(path):
            found.append(event)
    assert (str(path), line, before) == (caught.value.file, caught.value.line, len(found))
    assert "expected" in str(caught.value)
    assert str(caught.value).startswith(f"{path}:{line}: ")
    assert outcome(body)[1:] == (errors.UnreadableRecording, line)


def test_events_of_neither_format():
    """A file that can be read, but holds no stream that anybody here knows."""
    for body in (b'{"a":1}\n{"b":2}\n', b"data: hello\n\n", b"[[1],2]"):
        with pytest.raises(errors.UnreadableRecording, match="neither format; expected Messages") as caught:
            recordings.read(body)
        assert caught.value.line == 1


def test_file_that_is_not_there(tmp_path):
    """What the file system says comes out as it is."""
    with pytest.raises(FileNotFoundError):
        recordings.read(tmp_path / "none.sse")
    with pytest.raises(IsADirectoryError):
        recordings.read(str(tmp_path))


def test_file_that_reads_text():
    """A file that was opened as text is a mistake of the caller."""
    with pytest.raises(TypeError):
        recordings.read(io.StringIO("data: 1\n\n"))


def test_an_open_file_stays_open(tmp_path):
    """A file that the caller opened is theirs to close; its name is in the error."""
    path = tmp_path / "a.sse"
    path.write_bytes(b'data: {"choices":[]}\n\n')
    with path.open("rb") as file:
        assert recordings.read(file).format == "chat"
        assert not file.closed
        with pytest.raises(errors.UnreadableRecording) as caught:
            recordings.read(file)
    assert str(path) == caught.value.file
    for kind in (bytearray, memoryview):
        assert [{"choices": []}] == recordings.read(kind(path.read_bytes())).events


# ------------------------------------------------------------------------------------------------ detection


@pytest.mark.parametrize(
    ("event", "expected"),
    [
        ({"type": "message_start", "message": {}}, "messages"),
        ({"type": "content_block_delta"}, "messages"),
        ({"type": "message_stop"}, "messages"),
        ({"type": "message", "content": []}, "messages"),
        ({"id": "", "model": "", "object": "", "created": 0, "choices": [], "prompt_filter_results": []}, "chat"),
        ({"object": "chat.completion.chunk"}, "chat"),
        ({"object": "chat.completion", "choices": [{}]}, "chat"),
        ({"type": "ping"}, None),
        ({"type": "error", "error": {}}, None),
        ({"error": {"message": "x"}}, None),
        ({"object": ["chat.completion"], "type": ["message"]}, None),
        ({"type": {"a": 1}}, None),
        ("[DONE]", None),
        (None, None),
        ([], None),
    ],
)
def test_detect(event, expected):
    """An event shows its format, or is no sign of either."""
    assert expected == recordings.detect(event)


def test_detect_takes_what_step_takes():
    """The objects of SDKs are known to detect, and what is no event is refused, as by step."""

    class Wrapper:
        event = "message_stop"
        data = {"type": "message_stop"}  # noqa: RUF012

    assert recordings.detect(Wrapper()) == "messages"
    with pytest.raises(TypeError):
        recordings.detect(b'{"type":"message_stop"}')


CHAT = {"choices": [{"index": 0, "delta": {"content": "x"}}]}
START = {"type": "message_start", "message": {"id": "m"}}
FIRST = [{"type": "ping"}, "[DONE]", {"error": "x"}, {"type": "error", "error": {}}, "text", None, {"a": 1}]


@pytest.mark.parametrize("first", FIRST)
def test_format_behind_events_that_say_nothing(first):
    """A ping, an error, [DONE], anything else in front does not decide; the first event that can does."""
    for event, expected in ((CHAT, "chat"), (START, "messages")):
        recording = recordings.read(json.dumps([{"b": 2}, first, first, event]).encode())
        assert expected == recording.format
        assert [{"b": 2}, first, first, event] == recording.events


@pytest.mark.parametrize(
    ("events", "expected"),
    [
        ([{"type": "error", "error": {"message": "x"}}], "messages"),
        ([{"a": 1}, {"type": "ping"}], "messages"),
        ([{"error": {"message": "x"}}, "[DONE]"], "chat"),
        ([{"object": "error", "message": "x"}], "chat"),
        ([{"error_message": "x"}], "chat"),
        (["[DONE]"], "chat"),
    ],
)
def test_format_where_no_event_decides(events, expected):
    """Of a stream that is only an error, a ping or [DONE], the shape says what it is likely to be."""
    assert expected == recordings.read(json.dumps(events).encode()).format


def test_format_is_not_looked_for_without_end():
    """An endless stream of pings is given up as the format of pings, and no event is lost or held."""
    events = iter(itertools.repeat({"type": "ping"}))
    found, rest = recordings.recognised(events)
    assert found == "messages"
    assert len(list(itertools.islice(rest, 5000))) == 5000


# ------------------------------------------------------------------------------------------------ live, bounded


@pytest.mark.parametrize(
    "unit",
    [
        b'data: {"a":"%d"}\n\n',
        b'data: {\n"a":"%d"\n}\n',
        b'{"a":"%d"}\n',
        b'{\n  "a":"%d"\n}\n',
    ],
)
def test_stream_is_live(unit):
    """An event comes out as soon as its last byte is there, before the next one is read."""
    body = b"".join(unit % i for i in range(5))
    pipe = Pipe(body)
    for i, event in enumerate(recordings.stream(pipe)):
        assert {"a": str(i)} == event
        assert pipe.at <= len(unit % 0) * (i + 1)


@pytest.mark.parametrize("head", [b'[{"a":"', b'{"a":"', b'data: {"a":"', b"data: {\n"])
def test_limit(head, monkeypatch):
    """S5: no event grows beyond the limit, whatever the layout; what came before it is kept."""
    monkeypatch.setattr(sse, "LIMIT", 30_000)
    fed = itertools.chain([head], itertools.repeat(b"x" * 999 + (b"\n" if head.endswith(b"\n") else b"x")))
    tracemalloc.start()
    try:
        with pytest.raises(errors.LimitExceeded):
            list(recordings.stream(Endless(fed)))
        assert tracemalloc.get_traced_memory()[1] < 500_000
    finally:
        tracemalloc.stop()
    value = b'{"a":"%s"}' % (b"x" * 30_001)
    for body in (b'{"a":1}\n' + value + b"\n", b'data: {"a":1}\n\ndata: ' + value + b"\n\n"):
        assert outcome(body) == ('[{"a": 1}]', errors.LimitExceeded, None)


class Endless:
    """A file that gives chunk after chunk."""

    def __init__(self, chunks):
        self.chunks = iter(chunks)

    def read(self, size):
        return next(self.chunks)


def test_memory_of_a_long_array():
    """An array on one line of any length needs the memory of one event."""
    event = json.dumps({"type": "ping", "padding": "x" * 5000}).encode()
    chunks = itertools.chain([b"["], itertools.repeat(event + b", ", 2000), [event + b"]"], itertools.repeat(b""))
    tracemalloc.start()
    try:
        assert sum(1 for _ in recordings.stream(Endless(chunks))) == 2001
        assert tracemalloc.get_traced_memory()[1] < 500_000
    finally:
        tracemalloc.stop()


def outcome_of_one(text):
    try:
        for _ in recordings.stream(io.BytesIO(text)):
            pass
    except errors.UnreadableRecording:
        pass


# ------------------------------------------------------------------------------------------------ laws


PIECES = st.sampled_from(
    [
        b"data: ", b"event: a", b"\n", b"\n\n", b"\r\n", b"\r", b'{"type":"ping"}', b"{", b"}", b"[", b"]", b'"', b"\\",
        b'"a":', b",", b"[DONE]", b"null", b"12", b"prose ", b"```", b": c", b" ", b"\xef\xbb\xbf", b"\xff", b"\xe6\xbd",
        b'{"choices":[]}', b'{\n"a":1\n}', b'data: {"a":\n1}\n', b" " * 999,
    ]
)  # fmt: skip


@given(st.lists(PIECES | st.binary(max_size=3), max_size=25).map(b"".join))
def test_any_bytes(body):
    """Law 8 for files: accepted, or our error, never another; and the cuts of the bytes change neither."""
    outcome(body)
    try:
        recording = recordings.read(body)
    except errors.UnreadableRecording:
        return
    assert recording.events == list(recordings.stream(Pipe(body)))
    assert list(recording.states())


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
EVENTS = st.lists(JSON | st.sampled_from([CHAT, START, "[DONE]", {"type": "a\nb"}, {"type": "error"}]), min_size=1)


@given(EVENTS)
def test_written_events_read_back(events):
    """read(write(events)) gives the events, whatever JSON they are."""
    file = io.BytesIO()
    recordings.write(file, events)
    assert json.dumps(events) == json.dumps(list(recordings.stream(io.BytesIO(file.getvalue()))))
    assert json.dumps(events) == json.dumps(list(recordings.stream(Pipe(file.getvalue()))))


def test_written_file(tmp_path):
    """A path to write to gets server-sent events, named by their type."""
    path = tmp_path / "a.sse"
    recordings.write(
        path, [{"type": "message_start", "n": 2**70}, CHAT, "[DONE]", {"type": "x y"}, "busy", {"type": 1}]
    )
    assert [
        "event: message_start",
        f'data: {{"type":"message_start","n":{2**70}}}',
        "",
        'data: {"choices":[{"index":0,"delta":{"content":"x"}}]}',
        "",
        "data: [DONE]",
        "",
        'data: {"type":"x y"}',
        "",
        'data: "busy"',
        "",
        'data: {"type":1}',
        "",
        "",
    ] == path.read_text().split("\n")


def test_recording_of_several_messages():
    """A recording of several messages: each has a state."""
    body = b"".join((OWN / f"messages_{name}.sse").read_bytes() for name in ("text", "error_midway", "pings"))
    assert ["complete", "failed", "complete"] == [state.status for state in recordings.read(body).states()]
    body = b"".join((OWN / f"chat_{name}.sse").read_bytes() for name in ("reasoning", "usage_each"))
    recording = recordings.read(body)
    assert ["complete", "complete"] == [state.status for state in recording.states()]
    assert recording == recordings.Recording("chat", recording.events)
    assert isinstance(next(iter(recording.states())), chat.State)
    assert isinstance(recordings.read(OWN / "messages_text.sse").fold(), messages.Message)
