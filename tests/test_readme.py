"""README is the documentation, so it is run: each code block as it stands, against a server that replays a stream."""

import re
from pathlib import Path

import anthropic
import attrs
import pytest
from openai.lib.streaming.chat import ChatCompletionStreamState

import friendli_stream
from friendli_stream import Limits, sse
from tests.replay_server import ANSWER, MESSAGES, ReplayServer, Reply

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text("utf-8")
SERVER = "https://api.friendli.ai/serverless"

# The block after the heading that the quickstarts go on from, and the others by their line.
BLOCKS = [
    (README.count("\n", 0, block.start()) + 2, block[1])
    for block in re.finditer(r"^```python\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)
]
[SETUP] = [code for _, code in BLOCKS if "server = " in code]

LIMITS = dict(re.findall(r"^\| `(\w+)` \| (\d+)", README, re.MULTILINE))


@pytest.fixture
def server(monkeypatch):
    monkeypatch.setenv("FRIENDLIAI_API_KEY", "none")
    with ReplayServer() as server:
        yield server


@pytest.mark.parametrize(("line", "code"), BLOCKS, ids=[f"line{line}" for line, _ in BLOCKS])
def test_code_block(server, line, code, capsys):
    """Each Python block of README runs, and those that print print something."""
    setup = SETUP.replace(SERVER, server.url)
    assert setup != SETUP
    if "tool_result" in code:  # a second turn without a tool
        answer = MESSAGES.replace(b'"stop_reason":"tool_use"', b'"stop_reason":"end_turn"')
        server.replies += [Reply(MESSAGES), Reply(answer)]
    namespace = {"__name__": "readme"}
    exec(compile(setup, "README.md", "exec"), namespace)
    # Leading lines make tracebacks show README's line numbers.
    exec(compile("\n" * (line - 1) + code.replace(SERVER, server.url), "README.md", "exec"), namespace)
    printed = capsys.readouterr().out
    assert bool(printed.strip()) == ("print(" in code)
    for name in ("message", "accumulator"):  # whole: the text of the replayed stream, none of it lost
        value = namespace.get(name)
        if value is not None and "IncompleteStream" not in code:
            value = value.result() if name == "accumulator" else value
            assert value.text == ANSWER


def test_cancelled_block_keeps_the_beginning(server, capsys):
    """The cancel quickstart stops within the text, and shows what came and what is missing."""
    [code] = [code for _, code in BLOCKS if "break" in code]
    namespace = {}
    exec(SETUP.replace(SERVER, server.url), namespace)
    exec(code, namespace)
    text = namespace["accumulator"].snapshot.text
    assert ANSWER.startswith(text)
    assert 10 < len(text) < len(ANSWER)
    assert "incomplete" in capsys.readouterr().out


def test_tool_loop_block_sends_the_result(server):
    """The tool loop's second request holds the assistant's turn and the tool's result for its input."""
    [code] = [code for _, code in BLOCKS if "tool_result" in code]
    server.replies += [
        Reply(MESSAGES),
        Reply(MESSAGES.replace(b'"stop_reason":"tool_use"', b'"stop_reason":"end_turn"')),
    ]
    namespace = {"__name__": "readme"}
    exec(SETUP.replace(SERVER, server.url), namespace)
    exec(code, namespace)
    _, assistant, user = server.requests[1]["messages"]
    assert [block["type"] for block in assistant["content"]] == ["thinking", "text", "tool_use"]
    assert user["content"] == [
        {"type": "tool_result", "tool_use_id": assistant["content"][2]["id"], "content": "3 days of sun in São Paulo"}
    ]


def test_streamed_field_block(server, capsys):
    """The block that shows one field of a tool input prints that field and nothing else."""
    [code] = [code for _, code in BLOCKS if '"city")' in code]
    namespace = {}
    exec(SETUP.replace(SERVER, server.url), namespace)
    exec(code, namespace)
    assert capsys.readouterr().out == "São Paulo"


def test_six_lines():
    """The first block is imports and a loop of six lines."""
    loop = [line for line in BLOCKS[0][1].splitlines() if line and not line.startswith(("import ", "from "))]
    assert len(loop) <= 6


def test_quickstarts_are_short():
    """A quickstart has some ten lines of its own, imports and empty lines aside."""
    for line, code in BLOCKS:
        own = [text for text in code.splitlines() if text and not text.startswith(("import ", "from ", "#", " " * 12))]
        assert len(own) <= 18, f"README.md:{line}"


def test_limits():
    """The defaults that README names are those of Limits and of the decoder."""
    assert {field.name: str(field.default) for field in attrs.fields(Limits)} == LIMITS
    assert f"may have {sse.LIMIT} bytes" in README


def test_errors():
    """README's table of errors names each error of the package."""
    names = {name for name in friendli_stream.__all__ if isinstance(getattr(friendli_stream, name), type)}
    errors = {name for name in names if issubclass(getattr(friendli_stream, name), Exception)}
    section = README.partition("## When something is wrong")[2].partition("\n## ")[0]
    assert errors == {name for name in re.findall(r"`(\w+)`", section) if name in names}


def test_names_in_text_exist():
    """Each `messages.x`, `chat.x` or `sse.x` that README mentions exists."""
    mentioned = set(re.findall(r"\b(messages|chat|sse|recordings)\.([A-Za-z_]+)\b", README))
    for module, name in mentioned - {
        ("chat", "completion"),
        ("chat", "completions"),
        ("messages", "py"),
        ("chat", "py"),
    }:
        if (module, name) != ("messages", "create"):
            assert hasattr(getattr(friendli_stream, module), name), f"{module}.{name}"


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
    section = README.partition("## Coming from")[2].partition("\n## ")[0]
    origins = re.findall(r"^\| (anthropic|openai): `(.*?)`", section, re.MULTILINE)
    homes = {"anthropic": anthropic.MessageStream, "openai": ChatCompletionStreamState}
    assert {sdk for sdk, _ in origins} == set(homes)
    for sdk, origin in origins:
        for name in re.findall(r"\.(\w+)", origin):
            assert name in {*dir(homes[sdk]), *homes[sdk].__annotations__}, name
