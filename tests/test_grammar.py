"""Every sequence of events up to length 8, against a small grammar of its own (M1-M14, C1-C17).

The grammar is a second writing of the rules that shares nothing with the package: after each event it says the status,
what `.result()` does, what is in the message, and which notes the event may have caused. The sequences are walked as a
tree: a state stays valid however many steps are taken from it (law 2).

Twelve kinds of event to length 8 are 430 million sequences. Those of one length that lead to one state of the grammar
and to states that are equal but for what was noted are one from there on, so only one of them is gone on from: that
covers them all. Cut off is what has failed, once it is seen that it takes nothing more, and what says more of the same:
a third piece of one text, the other of two ids.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import pytest

from friendli_stream import IncompleteStream, ProtocolError, ServerError, StreamError
from tests.tell import CHAT, MESSAGES, Format, both_formats

LENGTH = 8
MORE = 3

ERRORS = {"server": ServerError, "protocol": ProtocolError, None: IncompleteStream}
NOTHING = frozenset({None})


# ------------------------------------------------------------------------------------------------ Messages


@dataclass(frozen=True)
class Block:
    pieces: int = 0
    stopped: bool = False
    named: bool = False  # it had a start


@dataclass(frozen=True)
class Message:
    """`head`: None before any event, "late" when others came first (M12), else the id."""

    head: str | None = None
    text: Block | None = None
    tool: Block | None = None
    reason: bool = False
    stopped: bool = False
    failed: str | None = None
    events: bool = False

    @property
    def status(self) -> str:
        if self.failed:
            return "failed"
        return "complete" if self.stopped else "open" if self.head else "empty"

    @property
    def tedious(self) -> bool:
        return self.head == "n" or any(block is not None and block.pieces >= MORE for block in (self.text, self.tool))

    def view(self) -> Any:
        """What the snapshot must show."""
        if self.head is None:
            return None
        blocks: list[Any] = []
        if self.text is not None:
            blocks.append((0, "text", "a" * self.text.pieces))
        if self.tool is not None:
            closed = self.tool.stopped or self.stopped
            raw = "{}" * self.tool.pieces or ("{}" if closed else "")
            state = {"": "incomplete", "{}": "complete"}.get(raw, "invalid")
            blocks.append((1, "toolu" if self.tool.named else None, raw, state))
        return None if self.head == "late" else self.head, "end_turn" if self.reason else None, blocks

    def missing(self) -> str:
        """A word of what an IncompleteStream must say (M14)."""
        if self.reason:
            return "message_stop"
        going = [i for i, block in enumerate((self.text, self.tool)) if block is not None and not block.stopped]
        return f"block {going[0]}" if going else "" if self.events else "no event"


MESSAGE_KINDS: dict[str, Any] = {
    "start": {"type": "message_start", "message": {"id": "m", "content": []}},
    "other start": {"type": "message_start", "message": {"id": "n", "content": []}},
    "text start": {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
    "text delta": {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "a"}},
    "text stop": {"type": "content_block_stop", "index": 0},
    "tool start": {
        "type": "content_block_start",
        "index": 1,
        "content_block": {"type": "tool_use", "id": "toolu", "name": "f", "input": {}},
    },
    "tool delta": {
        "type": "content_block_delta",
        "index": 1,
        "delta": {"type": "input_json_delta", "partial_json": "{}"},
    },
    "tool stop": {"type": "content_block_stop", "index": 1},
    "message delta": {"type": "message_delta", "delta": {"stop_reason": "end_turn"}},
    "message stop": {"type": "message_stop"},
    "error": {"type": "error", "error": {"type": "overloaded_error", "message": "no"}},
    "ping": {"type": "ping"},
}


def follow_message(now: Message, kind: str) -> tuple[Message, frozenset[Any]]:
    """The grammar: the next state, and the notes that the event may cause (None: no note)."""
    now = replace(now, events=True)
    if now.failed or kind == "ping":  # M13, M10
        return now, NOTHING
    if now.stopped:  # M11
        return now, frozenset({"after_end"})
    if kind == "error":  # M13
        return replace(now, failed="server"), NOTHING
    if kind in {"start", "other start"}:  # M1, M11, M12
        name = "m" if kind == "start" else "n"
        if now.head is None:
            return replace(now, head=name), NOTHING
        if now.head == "late":
            return replace(now, head=name), frozenset({"late_message_start"})
        if now.head == name:
            return now, frozenset({"message_start_again"})
        return replace(now, failed="protocol"), NOTHING
    notes = set()
    if now.head is None:  # M12
        notes.add("missing_message_start")
        now = replace(now, head="late")
    if kind == "message delta":  # M7
        return replace(now, reason=True), frozenset(notes or {None})
    if kind == "message stop":  # M9, M12, M2
        if now.head == "late":
            return replace(now, failed="protocol"), frozenset(notes or {None})
        notes |= {"index_gap"} if now.tool is not None and now.text is None else set()
        return replace(now, stopped=True), frozenset(notes or {None})
    which, what = kind.split()
    block = now.text if which == "text" else now.tool
    if what == "start":  # M2
        notes |= {"block_started_again"} if block is not None else set()
        block = block or Block(named=True)
    elif what == "delta":  # M3, M4, M6
        if block is None:
            notes.add("block_not_started")
            block = Block()
        if not block.stopped or which == "text":
            notes |= {"delta_after_stop"} if block.stopped else set()
            block = replace(block, pieces=block.pieces + 1)
        else:
            notes.add("input_after_stop")
    elif block is None:
        notes.add("block_not_started")
    else:
        notes |= {"block_stopped_again"} if block.stopped else set()
        block = replace(block, stopped=True)
    now = replace(now, text=block) if which == "text" else replace(now, tool=block)
    return now, frozenset(notes or {None})


def view_message(message: Any) -> Any:
    """What the snapshot shows."""
    if message is None:
        return None
    blocks = [
        (block.index, "text", block.text)
        if block.type == "text"
        else (block.index, block.id, block.input_json, block.input_state)
        for block in message.content
    ]
    return message.id, message.stop_reason, blocks


# ------------------------------------------------------------------------------------------------ chat


@dataclass(frozen=True)
class Choice:
    content: int = 0
    calls: int = 0
    finish: str | None = None


@dataclass(frozen=True)
class Completion:
    choices: tuple[Choice | None, Choice | None] = (None, None)
    usage: bool = False
    begun: bool = False
    done: bool = False
    failed: str | None = None

    @property
    def status(self) -> str:
        if self.failed:
            return "failed"
        seen = [choice for choice in self.choices if choice is not None]
        if seen and (self.done or all(choice.finish for choice in seen)):
            return "complete"
        return "open" if self.begun else "empty"

    @property
    def tedious(self) -> bool:
        return any(choice is not None and max(choice.content, choice.calls) >= MORE for choice in self.choices)

    def view(self) -> Any:
        """What the snapshot must show."""
        if not self.begun:
            return None
        choices = [
            (i, "a" * choice.content or None, "{}" * choice.calls or None, choice.finish)
            for i, choice in enumerate(self.choices)
            if choice is not None
        ]
        return self.usage, choices

    def missing(self) -> str:
        """Nothing is asked of the words of a chat's IncompleteStream."""
        return ""


def _chunk(index: int, delta: dict[str, Any], finish: str | None = None) -> dict[str, Any]:
    return {"id": "c", "choices": [{"index": index, "delta": delta, "finish_reason": finish}], "usage": None}


CALL = {"index": 0, "id": "call", "type": "function", "function": {"name": "f", "arguments": "{}"}}
CHAT_KINDS: dict[str, Any] = {
    "0 role": _chunk(0, {"role": "assistant"}),
    "0 content": _chunk(0, {"content": "a"}),
    "0 call": _chunk(0, {"tool_calls": [CALL]}),
    "0 stop": _chunk(0, {}, "stop"),
    "0 length": _chunk(0, {}, "length"),
    "1 content": _chunk(1, {"content": "a"}),
    "1 stop": _chunk(1, {}, "stop"),
    "usage": {"id": "c", "choices": [], "usage": {"total_tokens": 1}},
    "done": "[DONE]",
    "error": {"error": {"message": "no", "type": "server_error"}},
    "ping": {"type": "ping"},
    "unknown": {"type": "x_event"},
}


def follow_completion(now: Completion, kind: str) -> tuple[Completion, frozenset[Any]]:
    """The grammar: the next state, and the notes that the event may cause (None: no note)."""
    if now.failed or kind == "ping":  # C14, C16
        return now, NOTHING
    if now.done:  # C15
        return (replace(now, usage=True, begun=True), NOTHING) if kind == "usage" else (now, frozenset({"after_end"}))
    if kind == "error":  # C14
        return replace(now, failed="server"), NOTHING
    if kind == "unknown":  # C16
        return now, frozenset({"unknown_event"})
    if kind == "usage":  # C10
        return replace(now, usage=True, begun=True), NOTHING
    if kind == "done":  # C15
        open_ones = any(choice is not None and choice.finish is None for choice in now.choices)
        return replace(now, done=True), frozenset({"missing_finish_reason"} if open_ones else NOTHING)
    index, what = int(kind[0]), kind[2:]
    choice = now.choices[index] or Choice()
    notes: frozenset[Any] = NOTHING
    if what in {"content", "call"}:  # C4, C8, C9
        notes = frozenset({"content_after_finish"}) if choice.finish else NOTHING
        choice = (
            replace(choice, content=choice.content + 1)
            if what == "content"
            else replace(choice, calls=choice.calls + 1)
        )
    elif what != "role":  # C9
        if choice.finish not in (None, what):
            notes = frozenset({"finish_reason_changed"})
        choice = replace(choice, finish=what if choice.finish in (None, "stop") else choice.finish)
    choices = (choice, now.choices[1]) if index == 0 else (now.choices[0], choice)
    return replace(now, choices=choices, begun=True), notes


def view_completion(completion: Any) -> Any:
    """What the snapshot shows."""
    if completion is None:
        return None
    choices = [
        (
            choice.index,
            choice.message.content,
            "".join(call.arguments for call in choice.message.tool_calls or ()) or None,
            choice.finish_reason,
        )
        for choice in completion.choices
    ]
    return completion.usage is not None, choices


# ------------------------------------------------------------------------------------------------ the walk


@dataclass(frozen=True)
class Grammar:
    fmt: Format
    kinds: dict[str, Any]
    empty: Any
    follow: Callable[[Any, str], tuple[Any, frozenset[Any]]]
    view: Callable[[Any], Any]


GRAMMARS = {
    MESSAGES: Grammar(MESSAGES, MESSAGE_KINDS, Message(), follow_message, view_message),
    CHAT: Grammar(CHAT, CHAT_KINDS, Completion(), follow_completion, view_completion),
}


def noted(state: Any) -> dict[str, int]:
    """How often each code was noted."""
    counts: dict[str, int] = {}
    for note in state.diagnostics:
        counts[note.code] = counts.get(note.code, 0) + note.count
    return counts


def agrees(grammar: Grammar, told: Any, state: Any, *, strict: bool) -> str:
    """How the state departs from what the grammar says; "" if it does not."""
    if state.status != told.status:
        return f"status {state.status}, not {told.status}"
    try:
        shown = state.result()
        if told.status != "complete":
            return "result() returns"
    except StreamError as error:
        expected = ERRORS[told.failed]
        if told.status == "complete" or type(error) is not expected:
            return f"result() raises {error!r}"
        if error.state is not state:
            return "an error without its state"
        if expected is IncompleteStream and not strict and told.missing() not in str(error):
            return f"{str(error)!r} does not say {told.missing()!r}"
        shown = state.snapshot
    view = grammar.view(shown)
    return "" if view == told.view() else f"shows {view}, not {told.view()}"


def inside(state: Any) -> Any:
    """All of a state that decides what follows, besides the texts (which are looked at) and what was noted."""
    outline = copy.copy(state._outline)
    outline.notes, outline.omitted = (), 0
    return outline


@pytest.mark.parametrize("strict", [False, True], ids=["tolerant", "strict"])
@both_formats
def test_every_sequence(fmt: Format, strict: bool) -> None:
    """M1-M14, C1-C17: status, snapshot, notes and result after each sequence of events to length 8; strict ones fail."""
    grammar = GRAMMARS[fmt]
    step = fmt.module.step
    level: dict[Any, list[Any]] = {grammar.empty: [((), fmt.module.State(strict=strict), None)]}
    steps = 0
    for _ in range(LENGTH):
        following: dict[Any, list[Any]] = {}
        for told, ways in level.items():
            for kind, event in grammar.kinds.items():
                after, codes = grammar.follow(told, kind)
                if strict and None not in codes:
                    after = replace(told, failed="protocol")
                    codes = NOTHING
                kept = following.setdefault(after, [])
                for path, state, _ in ways:
                    new = step(state, event)
                    steps += 1
                    where = (*path, kind)
                    wrong = agrees(grammar, after, new, strict=strict)
                    assert not wrong, f"{where}: {wrong}"
                    before, now = noted(state), noted(new)
                    added = frozenset(code for code in now if now[code] != before.get(code, 0)) or NOTHING
                    assert added == codes, f"{where}: noted {added}, not {codes}"
                    outline = inside(new)
                    if not any(outline == other for *_, other in kept):
                        kept.append((where, new, outline))
                        if after.failed:
                            assert all(step(new, more) == new for more in grammar.kinds.values()), f"{where}, and on"
        level = {told: ways for told, ways in following.items() if not told.failed and not told.tedious}
    assert steps > (2_000 if strict else 10_000), "the walk reached less than it should"
