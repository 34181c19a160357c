"""The house: what the package exports, who imports whom, and what importing it costs others."""

import ast
import importlib.metadata
import subprocess
import sys
from pathlib import Path

import pytest

import friendli_stream

PACKAGE = Path(friendli_stream.__file__).parent
MODULES = sorted(path.stem for path in PACKAGE.glob("*.py"))

# Whom each module may import: the rooms below it. The two formats do not know each other, and nothing below a format
# knows a format.
GROUND = {"errors"}
SHARED = GROUND | {"wire", "_fragments", "partial_json", "_values", "_inputs", "_state", "_accumulator"}
MAY_IMPORT = {
    "errors": set(),
    "wire": GROUND,
    "_fragments": GROUND | {"wire"},
    "partial_json": GROUND | {"wire"},
    "sse": GROUND | {"wire"},
    "_values": GROUND | {"wire", "_fragments"},
    "_inputs": GROUND | {"wire", "_fragments", "partial_json", "_values"},
    "_state": GROUND | {"wire", "_fragments", "_values"},
    "_accumulator": GROUND | {"_inputs"},
    "messages": SHARED,
    "chat": SHARED,
    "recordings": SHARED | {"messages", "chat", "sse"},
    "cli": SHARED | {"messages", "chat", "sse", "recordings"},
    "__main__": {"cli"},
    "__init__": GROUND | {"messages", "chat", "sse", "recordings", "partial_json"},
}

# Network, event loops, their clients; and cattrs, which takes 40 ms and is loaded when a class is asked for.
FORBIDDEN = {
    "aiohttp", "anthropic", "anyio", "asyncio", "cattr", "cattrs", "friendli", "http", "httpcore", "httpx", "openai",
    "pydantic", "requests", "rich", "select", "selectors", "socket", "ssl", "trio", "urllib.request", "urllib3",
}  # fmt: skip


def internal_imports(module):
    """The modules of the package that `module` names in any import, guarded and local ones included."""
    found = set()
    for node in ast.walk(ast.parse((PACKAGE / f"{module}.py").read_text("utf-8"))):
        if isinstance(node, ast.Import):
            found.update(alias.name.split(".")[1] for alias in node.names if alias.name.startswith("friendli_stream."))
        elif isinstance(node, ast.ImportFrom) and node.module == "friendli_stream":
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("friendli_stream."):
            found.add(node.module.split(".")[1])
    return found & set(MODULES)


def python(code):
    return subprocess.run(
        [sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, check=True
    ).stdout


def test_exported_names():
    """The public names are these and no others."""
    assert friendli_stream.__all__ == [
        "Diagnostic",
        "IncompleteJSON",
        "IncompleteStream",
        "InvalidInput",
        "InvalidJSON",
        "InvalidState",
        "LimitExceeded",
        "Limits",
        "PartialJSON",
        "ProtocolError",
        "ServerError",
        "StreamError",
        "UnreadableRecording",
        "chat",
        "messages",
        "recordings",
        "sse",
    ]


def test_both_formats_have_one_surface():
    """Both formats export the same functions and classes to drive a stream."""
    for module in (friendli_stream.messages, friendli_stream.chat):
        assert set(module.__all__) >= {
            "Accumulator", "State", "Usage", "changes", "fold", "fold_all", "states", "step", "step_json",
        }  # fmt: skip


@pytest.mark.parametrize("module", MODULES)
def test_exported_names_exist(module):
    """Every name of every `__all__` exists; so a star import shows what tools show."""
    loaded = importlib.import_module("friendli_stream" if module == "__init__" else f"friendli_stream.{module}")
    exported = getattr(loaded, "__all__", [])
    assert [name for name in exported if not hasattr(loaded, name)] == []
    assert sorted(set(exported)) == sorted(exported)


def test_version():
    """The version that the package says is the one that is installed."""
    assert importlib.metadata.version("friendli-stream") == friendli_stream.__version__


def test_runtime_dependencies():
    """Without extras the package needs attrs, cattrs and orjson, and nothing else."""
    needs = importlib.metadata.requires("friendli-stream") or []
    assert {"attrs", "cattrs", "orjson"} == {need.split(">=")[0] for need in needs if "extra ==" not in need}


@pytest.mark.parametrize(
    "word", ["Anthropic Messages", "chat.completion.chunk", "accumulator", "streaming", "SSE"], ids=lambda word: word
)
def test_summary_has_the_words_people_search(word):
    """The package is found by the words that its users have for it."""
    assert word.lower() in importlib.metadata.metadata("friendli-stream")["Summary"].lower()


def test_extras():
    """Who needs progress, tests or benchmarks asks for an extra."""
    assert {"cli", "test", "bench"} <= set(importlib.metadata.metadata("friendli-stream").get_all("Provides-Extra"))
    rich = [need for need in importlib.metadata.requires("friendli-stream") if need.startswith("rich")]
    assert any("cli" in need for need in rich)


def test_command():
    """`friendli-stream` is the command."""
    (command,) = importlib.metadata.entry_points(group="console_scripts", name="friendli-stream")
    assert command.value == "friendli_stream.cli:main"


def test_typed():
    """Type checkers are told that the package has types."""
    assert (PACKAGE / "py.typed").exists()


@pytest.mark.parametrize("module", MODULES)
def test_import_directions(module):
    """A module imports only those below it; messages and chat do not know each other."""
    assert set() == internal_imports(module) - MAY_IMPORT[module]


def test_import_directions_are_seen():
    """The reader of imports finds what is there: the package's own, and a guarded one."""
    assert {"errors", "messages", "sse"} <= internal_imports("__init__")
    assert "_inputs" in internal_imports("_accumulator")


def test_importing_pulls_in_no_network():
    """Importing the package loads no module of network, event loop, HTTP client or SDK, nor cattrs."""
    loaded = set(python("import sys, friendli_stream; print('\\n'.join(sys.modules))").split())
    assert "orjson" in loaded
    assert set() == {name for name in loaded if name in FORBIDDEN or name.split(".")[0] in FORBIDDEN}


def test_importing_opens_nothing():
    """Importing the package opens no socket and starts no thread or process."""
    code = """
import sys
seen = []
sys.addaudithook(lambda event, _: seen.append(event))
import friendli_stream, threading
assert "import" in seen
print(*[name for name in seen if name.startswith(("socket.", "subprocess.", "os.fork", "os.exec", "_thread.start"))])
print(threading.active_count())
"""
    assert python(code).split() == ["1"]
