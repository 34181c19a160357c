"""The tree of errors: who catches what, what each says, and that it travels."""

import copy
import pickle

import pytest

from friendli_stream import Diagnostic, Limits, errors

NOTE = Diagnostic("index_gap", "the block indexes are [1]", 7, "content")
ERRORS = [
    (errors.StreamError("m", state=1), errors.StreamError, "m"),
    (errors.ServerError("m", type="t", code=5, request_id="r", raw={"a": 1}, state=1), errors.StreamError, "t: m"),
    (errors.ServerError("m"), errors.StreamError, "m"),
    (errors.ProtocolError("m", diagnostic=NOTE), errors.StreamError, "m"),
    (errors.LimitExceeded("m", limit="text", allowed=5), errors.StreamError, "m"),
    (errors.IncompleteStream("m"), errors.StreamError, "m"),
    (errors.InvalidInput("m", path="p", state="invalid", text="x"), ValueError, "m"),
    (errors.InvalidJSON("reason", 17), ValueError, "reason at position 17"),
    (errors.IncompleteJSON("reason", 3), errors.InvalidJSON, "reason at position 3"),
    (errors.InvalidState("m"), ValueError, "m"),
    (errors.UnreadableRecording("m"), ValueError, "m"),
    (errors.UnreadableRecording("m", file="f", line=3), ValueError, "f:3: m"),
    (errors.UnreadableRecording("m", line=3), ValueError, "3: m"),
]  # fmt: skip


@pytest.mark.parametrize(("error", "base", "text"), ERRORS, ids=lambda value: type(value).__name__)
def test_errors(error, base, text):
    """Each error is what callers already catch, names its place, and survives pickling and copying whole."""
    assert isinstance(error, base)
    assert not (isinstance(error, ValueError) and isinstance(error, errors.StreamError))
    for other in (error, pickle.loads(pickle.dumps(error)), copy.copy(error)):
        assert (type(other), str(other), other.__dict__) == (type(error), text, error.__dict__)


@pytest.mark.parametrize("name", list(Limits.__annotations__))
def test_limits(name):
    """Limits are integers of at least 1, `depth` at most 250 (B4); they are values, given by name only."""
    for value in (0, -1, 1.5, True, None, "5"):
        with pytest.raises(ValueError, match=f"Limits.{name}"):
            Limits(**{name: value})
    assert getattr(Limits(**{name: 1}), name) == 1
    assert Limits(**{name: 1}) == Limits(**{name: 1}) != Limits(**{name: 2})
    if name == "depth":
        assert Limits(depth=250).depth == 250
        with pytest.raises(ValueError, match="at most 250"):
            Limits(depth=251)
    with pytest.raises(TypeError):
        Limits(5)


def test_default_limits():
    """B4: the defaults."""
    assert Limits() == Limits(
        content_blocks=1024, choices=1024, tool_calls=1024, text=2**28, extra_keys=1024, depth=200, diagnostics=64, unknown_deltas=1024
    )  # fmt: skip


def test_diagnostic():
    """A Diagnostic is a value: code, message, event number, path, count."""
    assert Diagnostic("c", "m", 1, "p") == Diagnostic("c", "m", 1, "p", 1) != Diagnostic("c", "m", 1, "p", 2)
    with pytest.raises(AttributeError):
        NOTE.count = 2
