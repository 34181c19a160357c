"""The cases and recorded streams in ../shared, where that folder is present."""

import csv
import importlib.util
import json
import sys
from pathlib import Path

import pytest

from friendli_stream import ProtocolError, chat, messages, recordings

SHARED = Path(__file__).parents[2] / "shared"
absent = pytest.mark.skipif(not SHARED.is_dir(), reason="../shared is not here: its cases and recordings are not run")


def tool(name):
    spec = importlib.util.spec_from_file_location(name, SHARED / "tools" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def case_files():
    return [
        path for path in sorted((SHARED / "cases").glob("*.json")) if "scale" not in json.loads(path.read_text("utf-8"))
    ]


def streams():
    return sorted([*(SHARED / "recordings").glob("*/*.sse"), *(SHARED / "recordings").glob("*/*.jsonl")])


@absent
@pytest.mark.parametrize("path", case_files(), ids=lambda path: path.stem)
def test_case(path):
    """Each public bug report's condition gives the right result (timings are for the benchmarks)."""
    assert tool("check_cases").check(json.loads(path.read_text("utf-8"))) == []


@absent
@pytest.mark.parametrize("path", streams(), ids=lambda path: path.stem)
def test_recorded_stream(path):
    """Each recorded stream gives the final message that its vendor's accumulator gives, where that is right."""
    assert tool("check_recordings").check(path) == []


# The recorded streams that strict mode refuses: for which note, and what the server did.
NOT_STRICT = {
    "avian-openaicompatiblecommon-avian-kimi-tool-streaming-2": (
        "id_changed",
        "a gateway: the last chunk has its own id",
    ),
    "avian-openaicompatiblethinking-avian-kimi-thinking-streaming": ("id_changed", "as above"),
    "perplexity-vercelinline-should-stream-raw-chunks": ("id_changed", "every chunk has an id of its own"),
    "openai-vercelinline-should-stream-annotations-citations": (
        "missing_finish_reason",
        "[DONE], and choice 1 never finished",
    ),
    "openrouter-tools-streaming-variant-a": ("missing_finish_reason", "[DONE] without any finish_reason"),
    "snowflake-thinking-streaming": ("missing_finish_reason", "as above"),
    "anthropic-vercelinline-should-ignore-signatures-on-text-deltas": (
        "misplaced_delta",
        "a signature in a text block",
    ),
}


@absent
@pytest.mark.parametrize("path", streams(), ids=lambda path: path.stem)
def test_strict_stream(path):
    """In strict mode a recorded stream gives the same, but for those that are named here with the reason."""
    module = {"messages": messages, "chat": chat}[path.parent.name]
    events = recordings.read(path).events
    loose, strict = list(module.states(events)), list(module.states(events, module.State(strict=True)))
    if path.stem in NOT_STRICT:
        code, _ = NOT_STRICT[path.stem]
        assert code in [note.code for state in loose for note in state.diagnostics]
        assert isinstance(strict[0].error, ProtocolError)
        assert strict[0].error.diagnostic.code == code
    else:
        assert [state.snapshot for state in strict] == [state.snapshot for state in loose]
        assert [state.status for state in strict] == [state.status for state in loose]
        assert [state.diagnostics for state in loose] == [()] * len(loose)


@absent
def test_named_streams_are_there():
    """No reason stands for a stream that is gone."""
    assert NOT_STRICT.keys() <= {path.stem for path in streams()}


@absent
def test_manifest_is_whole():
    """No recorded stream is left out."""
    with (SHARED / "recordings" / "MANIFEST.tsv").open(newline="", encoding="utf-8") as rows:
        assert len(list(csv.DictReader(rows, delimiter="\t"))) == len(streams())
