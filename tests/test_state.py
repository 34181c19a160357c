"""States of either format: what is saved comes back, whatever it holds."""

import pytest

from friendli_stream import chat, messages

START = {"type": "message_start", "message": {"id": "m", "content": [{"type": "text", "text": ""}]}}


def citation(value):
    return {"type": "content_block_delta", "index": 0, "delta": {"type": "citations_delta", "citation": value}}


def details(value):
    return {"id": "c", "choices": [{"index": 0, "delta": {"reasoning_details": [value]}}]}


@pytest.mark.parametrize("values", [["é", 10**40], ["𝄞", "\ud83d"], [{"a": "é"}, 1.5, None]])
def test_lists_are_saved_entry_by_entry(values):
    """Law 10: the entries of a list come back equal, by whichever road each was written (B2)."""
    state, other = messages.step(messages.State(), START), chat.State()
    for value in values:
        state, other = messages.step(state, citation(value)), chat.step(other, details(value))
    assert messages.State.from_json(state.to_json()) == state
    assert chat.State.from_json(other.to_json()) == other


def test_integer_too_long_to_write():
    """Law 8: an integer of more than 4,300 digits is noted, not raised."""
    for state, event in (
        (messages.State(), {**START, "message": {"id": "m", "x": 10**5000}}),
        (chat.State(), {"id": "c", "choices": [{"index": 0, "delta": {}, "x": 10**5000}]}),
    ):
        after = type(state)  # the module's own step
        step = messages.step if after is messages.State else chat.step
        assert [note.code for note in step(state, event).diagnostics] == ["malformed_event"]
