"""The cases and recorded streams in ../shared, where that folder is present."""

import csv
import importlib.util
import json
import sys
from pathlib import Path

import pytest

from friendli_stream import LimitExceeded, chat, messages, recordings, sse

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


# The codes that recorded streams are noted for: what servers do beside the format. In strict mode these fail.
NOT_STRICT = {
    "messages": {
        "block_started_again": "several messages in one file, cut in the middle of one",
        "index_gap": "as above",
        "after_end": "an event behind message_stop",
        "misplaced_delta": "a signature in a text block",
        "missing_message_start": "the stream begins late",
    },
    "chat": {
        "id_changed": "every chunk has an id of its own",
        "model_changed": "a gateway names the model in two ways",
        "content_after_finish": "content or tool calls after the finish_reason",
        "finish_reason_changed": "two finish chunks",
        "missing_finish_reason": "[DONE] without any finish_reason",
        "missing_index": "choices without index",
        "after_end": "a chunk after [DONE]",
        "reasoning_differs": "two reasoning fields that differ",
        "arguments_not_text": "arguments as an object",
        "malformed_event": "an event of no known shape",
        "unknown_event": "as above",
    },
}


@absent
@pytest.mark.parametrize("path", streams(), ids=lambda path: path.stem)
def test_strict_stream(path):
    """In strict mode a recorded stream gives the same, or fails for one of the named departures."""
    if "concatenated" in path.stem:
        pytest.skip("several messages in one stream: for states(), not for one strict fold")
    module = {"messages": messages, "chat": chat}[path.parent.name]
    events = recordings.read(path).events
    loose = strict = module.State()
    strict = module.State(strict=True)
    for event in events:
        loose, strict = module.step(loose, event), module.step(strict, event)
    codes = {note.code for note in loose.diagnostics}
    if codes:
        assert strict.status == "failed"
        assert codes <= NOT_STRICT[path.parent.name].keys(), codes
    else:
        assert strict.snapshot == loose.snapshot
        assert strict.status == loose.status


@absent
def test_manifest_is_whole():
    """No recorded stream is left out."""
    with (SHARED / "recordings" / "MANIFEST.tsv").open(newline="", encoding="utf-8") as rows:
        assert len(list(csv.DictReader(rows, delimiter="\t"))) == len(streams())


def test_sse_limit_is_met():
    """S5: an event over the limit raises LimitExceeded."""
    with pytest.raises(LimitExceeded):
        sse.EventDecoder(limit=64).feed(b"data: " + b"x" * 100)
