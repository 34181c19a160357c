"""The command `friendli-stream replay`: what it prints, where, when, and with which exit status."""

from __future__ import annotations

import errno
import fcntl
import importlib
import json
import os
import pty
import re
import runpy
import shlex
import signal
import subprocess
import sys
import termios
import time
from pathlib import Path

import pytest

import friendli_stream
from friendli_stream import cli, messages, recordings

OWN = Path(__file__).parent / "recordings"
SHARED = Path(__file__).parents[2] / "shared"
COMMAND = [sys.executable, "-m", "friendli_stream", "replay"]
GUARD = 20  # seconds after which a test that waits for a process gives up

TEXT = OWN / "messages_text.sse"
ERROR = OWN / "messages_error_midway.sse"
CUT = OWN / "messages_cancelled.sse"
CHAT = OWN / "chat_reasoning.sse"


class Input:
    """A standard input; `interrupted`: Ctrl-C where it ends."""

    def __init__(self, body, *, interrupted=False):
        self.parts = [body]
        self.interrupted = interrupted
        self.buffer = self

    def read(self, size):
        if not self.parts and self.interrupted:
            raise KeyboardInterrupt
        return self.parts.pop() if self.parts else b""


@pytest.fixture
def replay(capfdbinary, monkeypatch):
    """Run the command in this process: (exit status, lines of stdout, lines of stderr)."""

    def run(*arguments, stdin=None):
        monkeypatch.setattr(sys, "stdin", stdin)
        status = cli.main(["replay", *map(str, arguments)])
        sys.stdout.flush()
        sys.stderr.flush()
        out, err = capfdbinary.readouterr()
        return status, out.decode().split("\n")[:-1], err.decode().split("\n")[:-1]

    return run


def final(path):
    """The message of a recording, as one line of JSON."""
    return next(iter(recordings.read(path).states())).snapshot.to_json().decode()


def test_complete_messages(replay):
    """One line of JSON a message, in the order of the arguments, nothing on stderr, exit status 0."""
    status, out, err = replay(TEXT, CHAT, OWN / "messages_unicode.sse")
    assert (0, []) == (status, err)
    assert [final(TEXT), final(CHAT), final(OWN / "messages_unicode.sse")] == out


def test_incomplete_and_failed_messages(replay):
    """What is incomplete or failed is printed all the same, its reason on stderr behind the file's name; status 1."""
    status, out, err = replay(CUT, ERROR, TEXT)
    assert [final(CUT), final(ERROR), final(TEXT)] == out
    assert status == 1
    assert len(err) == 2
    assert err[0].startswith(f"{CUT}: IncompleteStream: ")
    assert err[1].startswith(f"{ERROR}: ServerError: overloaded_error: ")


def test_several_messages_in_one_file(replay, tmp_path):
    """A file with several messages prints each, also when one of them failed."""
    path = tmp_path / "many.sse"
    path.write_bytes(TEXT.read_bytes() + ERROR.read_bytes() + CUT.read_bytes())
    status, out, err = replay(path)
    # The cut message follows an error: its message_start begins the next one (M11).
    assert [final(TEXT), final(ERROR), final(CUT)] == out
    assert (1, 2) == (status, len(err))
    status, out, err = replay("--text", path)
    assert ["Hello, how can I help?", "The tide turns at ", "The tide "] == out
    assert (1, 2) == (status, len(err))


def test_error_on_several_lines(replay, tmp_path):
    """A reason is one line, whatever the server wrote; with nothing folded there is nothing to print."""
    path = tmp_path / "error.json"
    path.write_text(json.dumps({"type": "error", "error": {"type": "t", "message": "a\n  b\r\nc"}}))
    for options in ([], ["--text"]):
        assert (1, [], [f"{path}: ServerError: t: a b c"]) == replay(*options, path)


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (b"", "line 1: empty: expected"),
        (b"<html>gone</html>", "line 1: no event in it: expected"),
        (b'{"a":1}\n', "events of neither format; --format says which"),
        (None, "No such file or directory"),
    ],
)
def test_unreadable_files(replay, tmp_path, body, reason):
    """What cannot be read: the reason on stderr, exit status 2; the other files are read all the same."""
    path = tmp_path / "file"
    if body is not None:
        path.write_bytes(body)
    status, out, err = replay(path, TEXT)
    assert (2, [final(TEXT)], 1) == (status, out, len(err))
    assert err[0].startswith(f"{path}: {reason}")


def test_what_was_read_before_it_became_unreadable(replay, tmp_path):
    """A file that breaks off in what cannot be read prints what came before, and one reason; status 2."""
    path = tmp_path / "a.jsonl"
    events = recordings.read(TEXT).events
    lines = [json.dumps(event).encode() for event in events]
    path.write_bytes(b"\n".join([*lines[:4], b"oh no", *lines[4:]]))
    partial = messages.State()
    for event in events[:4]:
        partial = messages.step(partial, event)
    status, out, err = replay(path)
    assert (2, [partial.snapshot.to_json().decode()], 1) == (status, out, len(err))
    assert err[0].startswith(f"{path}: line 5: no JSON: 'oh'")
    path.write_bytes(b"\n".join([*lines, b"oh no"]))
    status, out, err = replay("--text", path)
    assert (2, ["Hello, how can I help?"], 1) == (status, out, len(err))


def test_event_over_the_limit(replay, tmp_path):
    """S5: an event over 16 MiB ends the reading; what came before is printed; status 2."""
    path = tmp_path / "a.sse"
    body = b"".join(CUT.read_bytes().partition(b"event: content_block_stop")[:1])
    path.write_bytes(body + b"data: " + b"x" * (16 * 1024 * 1024) + b"\n\n")
    status, out, err = replay("--text", path)
    assert (2, ["The tide "], 1) == (status, out, len(err))
    assert err[0].startswith(f"{path}: an event is larger than")


def test_text(replay):
    """--text prints the text of the message, not its thinking nor its tool inputs, and ends the line."""
    status, out, err = replay("--text", TEXT, CHAT, OWN / "messages_interleaved.sse", OWN / "chat_two_choices.sse")
    assert (0, ["Hello, how can I help?", "FriendliAI.", "Looking.", "oak bark"], []) == (status, out, err)
    for name in ("messages_thinking", "messages_tool_use", "chat_parallel_tools"):
        assert (0, [""], []) == replay("--text", OWN / f"{name}.sse")


def test_text_of_a_tool_input_is_no_text(replay, tmp_path):
    """A field named text in a tool input is not taken for the message's text."""
    tool = {"type": "tool_use", "id": "t", "name": "say", "input": {}}
    path = tmp_path / "a.sse"
    recordings.write(
        path,
        [
            {"type": "message_start", "message": {"id": "m", "content": []}},
            {"type": "content_block_start", "index": 0, "content_block": tool},
            {
                "type": "content_block_delta",
                "index": 0,
                "delta": {
                    "type": "input_json_delta",
                    "partial_json": '{"text": "not this", "content": {"text": "nor"}}',
                },
            },
            {"type": "message_stop"},
        ],
    )
    assert (0, [""], []) == replay("--text", path)


def test_text_is_the_text(replay):
    """--text prints what `.text` is, for every recording of ours: whole characters, halves of pairs joined (B1)."""
    for path in sorted(OWN.glob("*.sse")):
        _, out, _ = replay("--text", path)
        state = next(iter(recordings.read(path).states()))
        assert (path.name, state.snapshot.text or "") == (path.name, "\n".join(out))


def test_strict(replay, tmp_path):
    """--strict: what departs from the format fails the message; what follows it, passes."""
    path = tmp_path / "a.sse"
    path.write_bytes(TEXT.read_bytes().replace(b"event: message_delta", b"data: {}\n\nevent: message_delta"))
    assert replay(path)[::2] == (0, [])
    status, out, err = replay("--strict", path)
    assert (1, 1, 1) == (status, len(out), len(err))
    assert err[0].startswith(f"{path}: ProtocolError: ")
    complete = [CHAT, TEXT, OWN / "messages_pings.sse", OWN / "messages_unicode.sse", OWN / "chat_usage_each.sse"]
    assert (0, []) == replay("--strict", *complete)[::2]


def test_format(replay, tmp_path):
    """--format overrules what the events look like, and helps where they look like nothing."""
    path = tmp_path / "a.jsonl"
    path.write_text('{"id": "x"}\n"[DONE]"\n')
    assert replay("--format", "chat", path)[1] == replay(path)[1]
    assert replay("--format", "messages", path)[2] != replay("--format", "chat", path)[2]
    path.write_text('{"a": 1}\n')
    status, out, err = replay("--format", "messages", path)
    assert (1, []) == (status, [line for line in out if '"a"' in line])
    assert err[0].startswith(f"{path}: IncompleteStream: ")


AZURE = {
    "id": "",
    "object": "",
    "created": 0,
    "model": "",
    "choices": [],
    "prompt_filter_results": [{"prompt_index": 0}],
}


@pytest.mark.parametrize(
    ("first", "alone"),
    [(b": OPENROUTER PROCESSING\n\n", 2), (b"retry: 300\n\n", 2), (b"data: {}\n\n", 2), (b'event: ping\ndata: {"type": "ping"}\n\n', 1),
     (b"data: %s\n\n" % json.dumps(AZURE).encode(), 1), (b'event: error\ndata: {"error":{"message":"full"}}\n\n', 1)],
    ids=["comment", "retry", "empty", "ping", "azure", "error"],
)  # fmt: skip
def test_format_is_found_behind_the_first_event(replay, first, alone):
    """The format is found in both, also where the first thing is a comment, a ping, an Azure filter chunk, an error."""
    for path in (TEXT, CHAT):
        if b"prompt_filter" in first and path == TEXT:
            continue
        status, out, err = replay("-", stdin=Input(first + path.read_bytes()))
        message = json.loads(out[-1])
        message.pop("prompt_filter_results", None)
        assert (json.loads(final(path)), 1) == (message, len(out))
        # An error is a stream of its own, the next one is complete (M11, C17).
        assert (status, err) == ((1, ["-: ServerError: full"]) if b"error" in first else (0, []))
    status, out, err = replay("-", stdin=Input(first))
    assert (alone, b"prompt_filter" in first, 1) == (status, len(out) == 1, len(err))


def test_stdin(replay):
    """`-` is standard input; where there is none, it cannot be read."""
    assert (0, [final(TEXT)], []) == replay("-", stdin=Input(TEXT.read_bytes()))
    assert (2, [], ["-: Bad file descriptor"]) == replay("-", stdin=None)
    status, out, err = replay("-", stdin=Input(CUT.read_bytes()))
    assert (1, [final(CUT)]) == (status, out)
    assert err[0].startswith("-: IncompleteStream")


def test_folder(replay, tmp_path):
    """A folder is read whole, in order, folders in it too: what has the name of a recording, nothing else."""
    inner = tmp_path / "inner"
    inner.mkdir()
    for path, source in ((tmp_path / "b.sse", TEXT), (inner / "c.sse", ERROR), (tmp_path / "README.md", TEXT)):
        path.write_bytes(source.read_bytes())
    (tmp_path / "a.jsonl").write_text("\n".join(map(json.dumps, recordings.read(CHAT).events)))
    (tmp_path / "a.expected.json").write_text("{}")
    status, out, err = replay(tmp_path)
    assert (1, [final(CHAT), final(TEXT), final(ERROR)]) == (status, out)
    assert [str(inner / "c.sse")] == [line.partition(":")[0] for line in err]
    empty = inner / "empty"
    empty.mkdir()
    status, out, err = replay(empty)
    assert (2, [], [f"{empty}: a folder without any recording: expected *.sse *.jsonl *.ndjson"]) == (status, out, err)


def test_words_that_are_off(capsys):
    """A command that is not understood: its usage on stderr, exit status 2."""
    for words in ([], ["replay"], ["replay", "--format", "x", "a"], ["play", "a"], ["replay", "--bold", "a"]):
        with pytest.raises(SystemExit) as caught:
            cli.main(words)
        assert caught.value.code == 2
        assert "usage: friendli-stream" in capsys.readouterr().err


def test_help_and_version(capsys):
    """--help says what a folder holds and what the exit status means; --version is the package's."""
    for words, expected in (
        (["--version"], f"^friendli-stream {friendli_stream.__version__} $"),
        (["--help"], "replay"),
        (["replay", "--help"], r"\*\.sse.*0 all complete, 1 some incomplete or failed, 2 unreadable"),
    ):
        with pytest.raises(SystemExit) as caught:
            cli.main(words)
        assert caught.value.code == 0
        assert re.search(expected, re.sub(r"\s+", " ", capsys.readouterr().out))


@pytest.mark.skipif(not SHARED.is_dir(), reason="the shared folder with references and recordings is absent")
def test_references(replay):
    """The pages of the API reference, as they are, print their messages, and nothing on stderr."""
    status, out, err = replay(SHARED / "formats" / "streaming-guide.md")
    assert (0, 1, []) == (status, len(out), err)
    completion = json.loads(out[0])
    assert completion["choices"][0]["message"] == {
        "role": "assistant",
        "content": "FriendliAI.",
        "reasoning_content": "Hmm.",
    }
    assert completion["usage"]["total_tokens"] == 369
    status, out, err = replay(*sorted((SHARED / "formats").glob("*.txt")))
    assert (0, 7, []) == (status, len(out), err)
    # Messages with one and the same id are told apart (M11).
    _, out, _ = replay("--text", SHARED / "formats" / "dedicated-messages-chunk-object.txt")
    assert ["Hello, how can I help?", "", ""] * 2 == out


# ------------------------------------------------------------------------------------------------ live


def start(*arguments, **options):
    return subprocess.Popen(
        [*COMMAND, *map(str, arguments)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, "PYTHONIOENCODING": "ascii"},
        preexec_fn=heed_interrupts,  # noqa: PLW1509  it calls one function, and no thread holds a lock of it
        **options,
    )


def heed_interrupts():
    """A shell has what it runs in the background, this suite perhaps, ignore Ctrl-C, and that is inherited."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def delta(text):
    """A delta of text, as a block of an event stream."""
    event = {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": text}}
    return b"data: %s\n\n" % json.dumps(event).encode()


HEAD = (
    b'data: {"type":"message_start","message":{"id":"m","content":[]}}\n\n'
    b'data: {"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}\n\n'
)


def test_text_from_a_pipe_is_live():
    """--text shows each piece before the next one comes, in UTF-8 whatever the terminal's encoding is."""
    with start("-", "--text") as process:
        process.stdin.write(HEAD)
        for piece in ("潮", " é", " 🌊"):
            process.stdin.write(delta(piece))
            process.stdin.flush()
            assert piece.encode() == os.read(process.stdout.fileno(), 100)
        out, err = process.communicate(b'data: {"type":"message_stop"}\n\n', timeout=GUARD)
    assert (b"\n", b"", 0) == (out, err, process.returncode)


def test_interrupt():
    """Ctrl-C ends it quietly, with what there is."""
    with start("-", "--text") as process:
        process.stdin.write(HEAD + delta("so far"))
        process.stdin.flush()
        assert os.read(process.stdout.fileno(), 100) == b"so far"
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=GUARD)
    assert (b"\n", b"", 1) == (out, err, process.returncode)


def test_interrupt_prints_the_message(replay):
    """Ctrl-C while waiting for more: the message so far as JSON, no reason, and no further file."""
    for path in (CUT, TEXT):
        assert (1, [final(path)], []) == replay("-", TEXT, stdin=Input(path.read_bytes(), interrupted=True))
    assert (1, [], []) == replay("-", TEXT, stdin=Input(b" ", interrupted=True))


def test_interrupt_outside_of_reading(replay, monkeypatch):
    """Ctrl-C while folding or printing: the last whole state is printed."""
    changes = messages.changes
    calls = []

    def interrupted(older, newer):
        calls.append(newer)
        if len(calls) == 4:
            raise KeyboardInterrupt
        return changes(older, newer)

    monkeypatch.setattr(messages, "changes", interrupted)
    status, out, err = replay("--text", TEXT, TEXT)
    assert (1, ["Hello"], []) == (status, out, err)

    def at_once(events, start):
        raise KeyboardInterrupt

    monkeypatch.setattr(messages, "running", at_once)
    assert (1, [], []) == replay(TEXT, TEXT)


@pytest.mark.parametrize("options", [[], ["--text"]])
def test_closed_pipe(options, tmp_path):
    """A reader that has seen enough ends it quietly."""
    path = tmp_path / "a.sse"
    path.write_bytes(HEAD + delta("x" * 1000) * 200 + b'data: {"type":"message_stop"}\n\n')
    with start(*options, *[path] * 3) as process:
        os.read(process.stdout.fileno(), 1)
        process.stdout.close()
        err = process.stderr.read()
        assert (b"", 1) == (err, process.wait(GUARD))


def test_closed_pipe_in_this_process(replay, monkeypatch, tmp_path):
    """Where the reader is gone, nothing is written any more, at exit neither."""

    def gone(data):
        raise BrokenPipeError

    monkeypatch.setattr(cli, "_write", gone)
    with (tmp_path / "out").open("wb") as out:
        monkeypatch.setattr(sys, "stdout", out)
        assert cli.main(["replay", str(TEXT), str(CHAT)]) == 1
        out.write(b"at exit")
    assert (tmp_path / "out").read_bytes() == b""


def test_output_that_takes_nothing(replay, monkeypatch, tmp_path):
    """A full disk: the reason on stderr, status 2; without any standard output there is nobody to tell: status 1."""

    def full(data):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with (tmp_path / "out").open("wb") as out, monkeypatch.context() as patch:
        patch.setattr(cli, "_write", full)
        patch.setattr(sys, "stdout", out)
        status, _, err = replay(TEXT, CHAT)
    assert (2, ["standard output: No space left on device"]) == (status, err)
    monkeypatch.setattr(sys, "stdout", None)
    assert cli.main(["replay", str(TEXT)]) == 1
    monkeypatch.setattr(sys, "stderr", None)
    assert cli.main(["replay", "nowhere"]) == 2


@pytest.mark.parametrize(
    ("redirected", "expected"),
    [
        ("- <&-", (2, b"", b"-: Bad file descriptor\n")),
        (f"{TEXT} >&-", (1, b"", b"")),
        ("nowhere 2>&-", (2, b"", b"")),
        (f"{TEXT} {TEXT} 2>&-", (0, 2 * (final(TEXT).encode() + b"\n"), b"")),
        (f"{TEXT} >/dev/full", (2, b"", b"standard output: No space left on device\n")),
        (f"{TEXT} {TEXT} | head -1", (0, final(TEXT).encode() + b"\n", b"")),
    ],
)
def test_redirected(redirected, expected):
    """Streams that are closed, full, or read no further end the command without a traceback."""
    if "/dev/full" in redirected and not Path("/dev/full").exists():
        pytest.skip("no /dev/full on this system")
    command = f"{shlex.join(COMMAND)} {redirected}"
    done = subprocess.run(["sh", "-c", command], capture_output=True, timeout=GUARD, check=False)
    assert expected == (done.returncode, done.stdout, done.stderr)


def test_interrupt_of_a_message(tmp_path):
    """Ctrl-C in a real process, at any time after its start: what there is as JSON, nothing on stderr, status 1."""
    for body, expected in ((b"", b""), (b": waiting\n\n", b""), (HEAD + delta("so far"), b'"text":"so far"')):
        pipe = tmp_path / f"pipe{len(body)}"
        os.mkfifo(pipe)
        with start(pipe) as process, pipe.open("wb", buffering=0) as writer:  # it has opened its end by now
            writer.write(body)
            while unread(writer):
                time.sleep(0.01)
            time.sleep(0.3)  # to fold what it has read
            process.send_signal(signal.SIGINT)
            out, err = process.communicate(timeout=GUARD)
        assert (b"", 1) == (err, process.returncode)
        assert expected in out


def unread(pipe):
    """How many bytes nobody has read from a pipe."""
    return int.from_bytes(fcntl.ioctl(pipe, termios.FIONREAD, b"\0" * 4), sys.byteorder)


def test_module(monkeypatch, capsys):
    """`python -m friendli_stream` is the command; importing the module runs nothing."""
    importlib.import_module("friendli_stream.__main__")
    monkeypatch.delitem(sys.modules, "friendli_stream.__main__")
    monkeypatch.setattr(sys, "argv", ["friendli-stream", "replay", "nowhere"])
    with pytest.raises(SystemExit) as caught:
        runpy.run_module("friendli_stream", run_name="__main__")
    assert (2, "nowhere: No such file or directory\n") == (caught.value.code, capsys.readouterr().err)


def test_memory_of_a_long_stream():
    """A long stream from a pipe needs no more memory than its message, whatever came besides."""
    code = (
        "import resource, sys; from friendli_stream.cli import main; status = main(['replay', '-', *sys.argv[1:]]);"
        "sys.stderr.write(str(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)); sys.exit(status)"
    )
    ping = b'event: ping\ndata: {"type":"ping","padding":"%s"}\n\n' % (b"x" * 4000)

    def peak(*options, pings):
        command = [sys.executable, "-c", code, *options]
        body = HEAD + delta("short") + ping * pings + b'data: {"type":"message_stop"}\n\n'
        done = subprocess.run(command, input=body, capture_output=True, check=True, timeout=60)
        return int(done.stderr)  # KiB

    for options in ([], ["--text"]):
        assert peak(*options, pings=10_000) - peak(*options, pings=10) < 8_000  # of 40 MB


# ------------------------------------------------------------------------------------------------ progress


def through_terminal(*arguments, hide):
    """The exit status, stdout, and what a terminal on stderr shows."""
    ours, theirs = pty.openpty()
    code = f"import sys; {hide}; from friendli_stream.cli import main; sys.exit(main(sys.argv[1:]))"
    command = [sys.executable, "-c", code, "replay", *map(str, arguments)]
    env = {**os.environ, "TERM": "xterm", "COLUMNS": "80"}
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=theirs, env=env, timeout=GUARD, check=False)
    os.close(theirs)
    shown = b""
    while True:
        try:
            part = os.read(ours, 4096)
        except OSError:
            break
        if not part:
            break
        shown += part
    os.close(ours)
    return done.returncode, done.stdout.decode().split("\n")[:-1], shown


@pytest.mark.parametrize(
    ("arguments", "hide", "bar"),
    [
        ([TEXT, CHAT], "pass", True),
        ([TEXT], "pass", False),
        ([TEXT, CHAT], "sys.modules['rich.progress'] = None", False),
    ],
)
def test_progress(arguments, hide, bar):
    """Several files on a terminal have a progress bar on stderr, if rich is there; stdout is the same in any case."""
    pytest.importorskip("rich", reason="rich, of the extra cli, is not installed")
    status, out, shown = through_terminal(*arguments, hide=hide)
    assert (0, [final(path) for path in arguments]) == (status, out)
    assert bar == (b"replay" in shown)


def test_progress_in_this_process(replay, monkeypatch):
    """The bar is drawn for a terminal only, and not where the messages go to the terminal themselves."""
    pytest.importorskip("rich", reason="rich, of the extra cli, is not installed")
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    status, out, err = replay(TEXT, CHAT)
    assert (0, [final(TEXT), final(CHAT)]) == (status, out)
    assert "replay" in "".join(err)
    monkeypatch.setitem(sys.modules, "rich.progress", None)
    assert replay(TEXT, CHAT)[::2] == (0, [])
