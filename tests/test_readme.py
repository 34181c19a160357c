"""README is the documentation, so it is run: each code block as it stands, against a server that replays a stream."""

import ast
import re
import tomllib
from pathlib import Path
from typing import NamedTuple

import anthropic
import attrs
import cattrs
import pytest
from openai.lib.streaming.chat import ChatCompletionStreamState

import friendli_stream
from friendli_stream import IncompleteStream, InvalidInput, LimitExceeded, Limits, StreamError, chat, messages, sse
from tests import test_http_clients, test_sdks
from tests.replay_server import ANSWER

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text("utf-8")
SERVER = "https://api.friendli.ai"
PATHS = {"/serverless/v1/messages", "/serverless/v1/chat/completions"}
GOES_ON = "# goes on from the block above\n"


class Block(NamedTuple):
    """A block of Python at its line of README, and the text block right behind it, which is what it prints."""

    line: int
    code: str
    shown: str | None


BLOCKS = [
    Block(README.count("\n", 0, found.start()) + 2, found[1], found[2])
    for found in re.finditer(r"^```python\n(.*?)^```$(?:\n\n^```text\n(.*?)^```$)?", README, re.MULTILINE | re.DOTALL)
]
[SETUP] = [block.code for block in BLOCKS if "server, key = " in block.code]
EACH = pytest.mark.parametrize("block", BLOCKS, ids=[f"line{block.line}" for block in BLOCKS])

LIMITS = dict(re.findall(r"^\| `(\w+)` \| (\d+)", README, re.MULTILINE))


def found(*words):
    """The one block that has all these words."""
    [block] = [block for block in BLOCKS if all(word in block.code for word in words)]
    return block


def section(heading):
    return README.partition(f"\n{heading}\n")[2].partition("\n## ")[0]


@pytest.fixture(autouse=True)
def key(monkeypatch):
    monkeypatch.setenv("FRIENDLIAI_API_KEY", "none")


def run(server, code, line=1):
    """Run a block behind the setup, and behind the one that it goes on from; its names."""
    namespace = {"__name__": "readme"}
    setup = SETUP.replace(SERVER, server.url)
    assert setup != SETUP
    exec(compile(setup, "README.md", "exec"), namespace)
    if code.startswith(GOES_ON):
        before = [block.code for block in BLOCKS if block.line < line][-1]
        exec(compile(before, "README.md", "exec"), namespace)
    # Leading lines make tracebacks show README's line numbers.
    exec(compile("\n" * (line - 1) + code, "README.md", "exec"), namespace)
    return namespace


# ------------------------------------------------------------------------------------------------ the blocks run


@EACH
def test_code_block(server, block, capsys):
    """Each block runs, prints what stands behind it, or something where it prints, and loses nothing of the stream."""
    names = run(server, block.code, block.line)
    printed = capsys.readouterr().out
    if block.shown is not None:
        assert block.shown == printed
    assert bool(printed.strip()) == ("print(" in block.code)
    assert PATHS.issuperset(server.paths)
    for name in ("message", "accumulator"):
        value = names.get(name)
        if value is not None and "IncompleteStream" not in block.code and "turns" not in names:
            value = value.result() if name == "accumulator" else value
            assert value.text == ANSWER


def test_requests(server):
    """The quickstarts' requests ask for a stream, its usage too, and offer the tool that their replies use."""
    names = run(server, "")
    for body in (names["body"], names["chat_body"]):
        assert body["stream"] is True
        assert "get_weather" in str(body["tools"])
    assert names["chat_body"]["stream_options"] == {"include_usage": True}
    run(server, found("EventDecoder").code)
    run(server, BLOCKS[0].code)
    assert [names["chat_body"], names["body"]] == server.requests


EXCHANGED = [
    block
    for block in BLOCKS
    if re.search(r"\burl, headers=headers, json=body\b|request.Request\(url", block.code)
    and "chat" not in block.code
    and "path[2:]" not in block.code
]


@pytest.mark.parametrize("block", EXCHANGED, ids=[f"line{block.line}" for block in EXCHANGED])
def test_formats_can_be_exchanged(server, block, capsys):
    """A quickstart for `messages` is one for `chat` with `chat_url` and `chat_body`; the stream is the other format's."""
    code = re.sub(r"\bmessages\b", "chat", block.code)
    code = re.sub(r"\burl\b(?=, (headers=|json\.dumps))", "chat_url", code)
    code = re.sub(r"\bbody\b(?=\)|,? preload|, stream|, timeout)", "chat_body", code)
    names = run(server, code)
    assert bool(capsys.readouterr().out.strip()) == ("print(" in code)
    assert ["/serverless/v1/chat/completions"] == server.paths
    assert [names["chat_body"]] == server.requests


def test_httpx_on_trio(server, capsys):
    """The asynchronous quickstart for httpx runs on trio as it does on asyncio."""
    code = found("httpx, asynchronous").code
    run(server, code.replace("asyncio.run(main())", "trio.run(main)").replace("import asyncio", "import trio"))
    assert ANSWER in capsys.readouterr().out


@pytest.mark.parametrize("client", ["SyncFriendli", "AsyncFriendli"])
def test_four_ways_of_friendli(server, client, capsys):
    """The friendli SDK's other two ways differ in the line that makes the stream."""
    code = found(client, "accumulator").code
    ways = {
        "client.serverless.messages.messages(**body)": messages,
        "client.serverless.chat.complete(**chat_body)": chat,
    }
    [(here, module)] = [way for way in ways.items() if way[0] in code]
    [(there, other)] = [way for way in ways.items() if way[0] not in code]
    name, new = (each.__name__.rpartition(".")[2] for each in (module, other))
    code = code.replace(here, there).replace(f"import {name}", f"import {new}").replace(f"{name}.Acc", f"{new}.Acc")
    code = re.sub(r"print\(event\..*\)", "print(type(event).__name__)", code)
    assert f"`{there}`" in README or f"`await {there}`" in README
    run(server, code)
    assert f"_tokens={27 if other is chat else 21}" in capsys.readouterr().out


def test_cancel_blocks_keep_the_beginning(server, capsys):
    """The cancel quickstarts, synchronous or not, stop within the text, and show what came and what is missing."""
    blocks = [block for block in BLOCKS if "break" in block.code]
    assert ["async def" in block.code for block in blocks] == [False, True]
    for block in blocks:
        names = run(server, block.code)
        assert isinstance(names["IncompleteStream"], type)
        printed = capsys.readouterr().out
        text = ANSWER[: ANSWER.index("I")]
        assert re.match(rf"the stream is incomplete: cut in block 1 \(event \d+ was the last\) {text} Usage\(", printed)


def test_tool_loop_block_sends_the_result(server):
    """The tool loop's second request holds the assistant's turn and the tool's result for its input."""
    names = run(server, found("tool_result").code)
    question, assistant, user = server.requests[1]["messages"]
    assert [question] == server.requests[0]["messages"] == names["body"]["messages"]
    assert [block["type"] for block in assistant["content"]] == ["thinking", "text", "tool_use"]
    assert user["content"] == [
        {"type": "tool_result", "tool_use_id": assistant["content"][2]["id"], "content": "sun in São Paulo"}
    ]


def test_record_block(server, capsys):
    """The recorder has message, usage and time to first token of each call."""
    [call] = run(server, (block := found("calls.append")).code, block.line)["calls"]
    assert call.result() == chat.fold(sse.events([test_sdks.CHAT]))
    assert 0 < call.first_token < 60
    assert f"................{call.result().usage} {call.first_token}\n" == capsys.readouterr().out


def test_streamed_blocks(server, capsys):
    """The blocks that show what is added print the thinking and the text, or one field of a tool input, and no more."""
    run(server, found('("thinking",)').code)
    assert capsys.readouterr().out == "The weather\u2028is asked for." + ANSWER
    run(server, found('"city")').code)
    assert capsys.readouterr().out == 2 * "São Paulo\n"


def test_paths_of_chat():
    """In chat the text's and the reasoning's paths are those that README names."""
    accumulator = chat.Accumulator()
    for event in test_sdks.CHAT_EVENTS:
        accumulator.feed(event)
    texts = {path[2:] for path, kind, _ in accumulator.changes() if kind == "text" and "input" not in path}
    assert texts == {("message", "reasoning_content"), ("message", "content")}
    for path in texts:
        assert "`" + str(path).replace("'", '"') + "`" in section("## Quickstarts")


def test_misspelt_field_with_a_default():
    """A misspelt field that has a default goes unseen, but for a converter that forbids unknown keys."""

    @attrs.define
    class GetWeather:
        days: int = 1

    block = {"type": "tool_use", "id": "toolu_1", "name": "get_weather", "input": {"day": 3}}
    [call] = messages.fold([{"type": "message", "content": [block]}]).tool_uses
    assert GetWeather() == call.input_as(GetWeather)
    with pytest.raises(InvalidInput, match="day"):
        call.input_as(GetWeather, cattrs.Converter(forbid_extra_keys=True))


@pytest.mark.parametrize("module", [messages, chat])
@pytest.mark.parametrize("body", [b'{"detail": "Not Found"}', b"Unauthorized", b"<html>502</html>"])
def test_foreign_bodies(module, body):
    """S4: a body that is no stream and has no `error` is IncompleteStream, which shows its beginning."""
    with pytest.raises(IncompleteStream) as caught:
        module.fold(sse.events([body]))
    assert body.decode().strip('{}" ').split('"')[0] in str(caught.value)


def test_whole_answers():
    """S4: the JSON of an answer that was not streamed is its message."""
    for module, events in ((messages, test_sdks.MESSAGES_EVENTS), (chat, test_sdks.CHAT_EVENTS)):
        answer = module.fold(events)
        assert answer.to_dict() == module.fold(sse.events([answer.to_json()])).to_dict()


# ------------------------------------------------------------------------------------------------ its shape


def own_lines(code):
    """The lines of a block, but for blank lines, imports and comments."""
    return [line for line in code.splitlines() if not re.match(r"\s*(#|import |from |$)", line)]


def test_opening():
    """README opens with the promise in two sentences, the pain in two, a six-line loop, and the guarantees as numbers."""
    title, promise, pain, _ = README.split("\n\n")[:4]
    assert title.startswith("# ")
    assert [2, 2] == [len(re.findall(r"\.(?=\s|$)", paragraph)) for paragraph in (promise, pain)]
    first = BLOCKS[0]
    assert README.index(pain) < README.index(first.code) < README.index("\n* 10 laws")
    assert len([line for line in first.code.splitlines() if line]) - 2 <= 5
    assert len(own_lines(first.code)) <= 6


@EACH
def test_quickstarts_are_short(block):
    """A block has at most ten lines, blank ones, imports and comments not counted, and no two statements on a line."""
    assert len(own_lines(block.code)) <= 10
    assert max(map(len, block.code.splitlines())) <= 120
    starts = [node.lineno for node in ast.walk(ast.parse(block.code)) if isinstance(node, ast.stmt)]
    assert len(starts) == len(set(starts))


def test_numbers():
    """The numbers of the opening are those of the laws, the limits, the clients that the tests run and pyproject."""
    opening = README.partition("\n* [Quickstarts]")[0]
    laws = re.findall(r"^(\d+)\. \*", section("## What it guarantees"), re.MULTILINE)
    assert f"\n* {len(laws)} laws" in opening
    clients = {client.__name__.removesuffix("_async").removesuffix("_on_trio") for client in test_http_clients.CLIENTS}
    sdks = {sdk.name for sdk in test_sdks.SDKS}
    assert f"\n* {len(clients)} HTTP clients and {len(sdks)} SDKs" in opening
    limits = Limits()
    assert f"At most {limits.text} characters, {limits.content_blocks} blocks and {limits.depth} nested" in opening
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    names = [re.match(r"\w+", dependency)[0] for dependency in project["dependencies"]]
    assert f"\n* {len(names)} dependencies: {', '.join(names)}. Python {project['requires-python'][2:]} or" in opening


def test_limits():
    """The defaults that README names are those of Limits and of the decoder; integers are exact to the last digit."""
    assert {field.name: str(field.default) for field in attrs.fields(Limits)} == LIMITS
    assert f"may have {sse.LIMIT} bytes" in README
    for digits in map(int, re.findall(r"exact\s+up to (\d+) digits", README)):
        number = int("9" * digits)
        [message] = messages.fold_all([{"type": "message", "id": "msg_1", "content": [], "number": number}])
        assert number == messages.Message.to_dict(message)["number"]


def test_errors():
    """README's table of errors names each error of the package with attributes that it has, the StreamErrors first."""
    names = {name for name in friendli_stream.__all__ if isinstance(getattr(friendli_stream, name), type)}
    errors = {name for name in names if issubclass(getattr(friendli_stream, name), Exception)}
    rows = re.findall(r"^\| (`\w+`(?:, `\w+`)*) \| (.*?) \|", section("## When something is wrong"), re.MULTILINE)
    listed = [getattr(friendli_stream, name) for row, _ in rows for name in re.findall(r"\w+", row)]
    assert errors - {"StreamError"} == {error.__name__ for error in listed}
    assert [issubclass(error, StreamError) for error in listed] == [True] * 4 + [False] * (len(listed) - 4)
    assert all(issubclass(error, ValueError) for error in listed[4:])
    for row, when in rows:
        for name in re.findall(r"`\.(\w+)`", when):
            assert hasattr(getattr(friendli_stream, re.search(r"\w+", row)[0])("what is wrong"), name)


def test_limit_of_the_decoder():
    """S5: the decoder's LimitExceeded has no state; the events in front of it came out, for an accumulator to keep."""
    accumulator = messages.Accumulator()
    with pytest.raises(LimitExceeded) as caught:
        for event in sse.events([test_sdks.MESSAGES, b"data: " + b"x" * 4000], limit=4000):
            accumulator.feed(event)
    assert caught.value.state is None
    assert ANSWER == accumulator.result().text


def test_names_in_text_exist():
    """Each `messages.x`, `chat.x` or `sse.x` that README mentions exists, but for names of SDKs and files."""
    theirs = {"completion", "completions", "complete", "create", "messages", "stream", "py"}
    for module, name in set(re.findall(r"\b(messages|chat|sse|recordings)\.([A-Za-z_]+)\b", README)):
        assert name in theirs or hasattr(getattr(friendli_stream, module), name), f"{module}.{name}"


def test_links_within():
    """Each link to a heading or a file of the repository leads somewhere."""
    headings = {
        re.sub(r"[^\w -]", "", text).strip().lower().replace(" ", "-")
        for text in re.findall(r"^#+ (.*)$", README, re.MULTILINE)
    }
    targets = [target for target in re.findall(r"\]\(([^)]+)\)", README) if "://" not in target]
    assert targets
    for target in targets:
        assert target[1:] in headings if target.startswith("#") else (ROOT / target).exists(), target


def test_commands():
    """README shows the two commands, and .ci/run runs the second one as it stands."""
    test = "pip install '.[test]' && pytest"
    assert f"\n{test}\n" in README
    assert re.search(r"^ *" + re.escape(test) + "$", (ROOT / ".ci" / "run").read_text("utf-8"), re.MULTILINE)
    replay = re.search(r"^pip install \. && friendli-stream replay (\S+)$", README, re.MULTILINE)
    assert replay
    assert (ROOT / replay[1]).exists()


def test_coming_from_names_what_sdks_have():
    """The names of the SDKs in README's table of origins are names that those SDKs have."""
    origins = re.findall(r"^\| (anthropic|openai): `(.*?)`", section("## Coming from"), re.MULTILINE)
    homes = {"anthropic": anthropic.MessageStream, "openai": ChatCompletionStreamState}
    assert {sdk for sdk, _ in origins} == set(homes)
    for sdk, origin in origins:
        for name in re.findall(r"\.(\w+)", origin):
            assert name in {*dir(homes[sdk]), *homes[sdk].__annotations__}, name
