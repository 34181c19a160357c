"""The command `friendli-stream`: recorded or live streams to their final messages.

Exit status: 0 all messages complete; 1 some incomplete or failed (still printed, the reason on stderr); 2 unreadable
input, or the command's words are off.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import friendli_stream
from friendli_stream import chat, messages, recordings
from friendli_stream.errors import LimitExceeded, StreamError, UnreadableRecording

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    State = messages.State | chat.State

__all__ = ["main"]

SUFFIXES = {".sse", ".jsonl", ".ndjson"}  # what is read of a folder
MODULES: dict[str, Any] = {"messages": messages, "chat": chat}


def main(arguments: list[str] | None = None) -> int:
    """Run the command; its exit status."""
    options = _parser().parse_args(arguments)
    status = 0
    try:
        for name in _progress(list(_files(options.files))):
            status = max(status, _replay(name, options))
        sys.stdout.flush()
    except BrokenPipeError:  # whoever reads has seen enough; nothing more can be said, at exit neither
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return status


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="friendli-stream", description="Fold streams of LLMs into final messages.")
    parser.add_argument("--version", action="version", version=f"%(prog)s {friendli_stream.__version__}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    replay = commands.add_parser(
        "replay",
        help="print the final message of each stream",
        description="Print the final message(s) of recorded or live streams as JSON, one a line.",
        epilog="exit status: 0 all complete, 1 some incomplete or failed, 2 unreadable input",
    )
    replay.add_argument("files", nargs="+", metavar="FILE", help="a recording, a folder of them, or - for stdin")
    replay.add_argument("--text", action="store_true", help="print the text, as it arrives")
    replay.add_argument("--format", choices=sorted(MODULES), help="default: what the events look like")
    replay.add_argument("--strict", action="store_true", help="what departs from the format fails the message")
    return parser


def _files(names: Iterable[str]) -> Iterator[str]:
    for name in names:
        if name != "-" and Path(name).is_dir():
            yield from (str(path) for path in sorted(Path(name).rglob("*")) if path.suffix in SUFFIXES)
        else:
            yield name


def _progress(names: list[str]) -> Iterable[str]:
    """The names; for several, behind a progress bar where there is a terminal and rich to draw it."""
    if len(names) > 1 and sys.stderr.isatty():
        with contextlib.suppress(ImportError):
            from rich.console import Console  # noqa: PLC0415  optional
            from rich.progress import track  # noqa: PLC0415

            return track(names, "replay", console=Console(stderr=True), transient=True)
    return names


def _replay(name: str, options: argparse.Namespace) -> int:
    try:
        with _opened(name) as file:
            return _print_all(name, recordings.stream(file), options)
    except (OSError, UnreadableRecording, LimitExceeded) as error:
        if isinstance(error, BrokenPipeError):
            raise
        _say(name, str(error.strerror if isinstance(error, OSError) else error))
        return 2


def _opened(name: str) -> contextlib.AbstractContextManager[BinaryIO]:
    return contextlib.nullcontext(sys.stdin.buffer) if name == "-" else Path(name).open("rb")


def _print_all(name: str, events: Iterator[Any], options: argparse.Namespace) -> int:
    """Print each message of one stream, as soon as it ended or while it arrives."""
    format_, events = _detected(_until_interrupt(events), options.format)
    module = MODULES[format_]
    start = module.State(strict=options.strict)
    status, before = 0, start
    for state, ended in module.running(events, start):
        if options.text and not ended:
            _print_text(module.changes(before, state))
            before = state
        elif ended:
            status = max(status, _print_end(name, state, text=options.text))
            before = start
    return status


def _until_interrupt(events: Iterator[Any]) -> Iterator[Any]:
    """The events; Ctrl-C ends them like the end of the file."""
    with contextlib.suppress(KeyboardInterrupt):
        yield from events


def _detected(events: Iterator[Any], wanted: str | None) -> tuple[str, Iterator[Any]]:
    """The format that the first telling event has, and all events; Messages where none tells."""
    seen = []
    for event in events if wanted is None else ():
        seen.append(event)
        wanted = recordings.detect(event)
        if wanted is not None:
            break
    return wanted or "messages", itertools.chain(seen, events)


def _print_text(changes: Iterable[tuple[tuple[Any, ...], str, Any]]) -> None:
    for path, kind, value in changes:
        if kind == "text" and (path[-1] == "text" or path == ("choices", 0, "message", "content")):
            _write(value.encode())


def _print_end(name: str, state: State, *, text: bool) -> int:
    """Print the message that ended, or the line end behind its text; 0 if it is complete."""
    snapshot = state.snapshot
    if snapshot is not None:
        _write(b"\n" if text else snapshot.to_json() + b"\n")
    try:
        state.result()
    except StreamError as error:
        _say(name, f"{type(error).__name__}: {error}")
        return 1
    return 0


def _write(data: bytes) -> None:
    sys.stdout.buffer.write(data)
    sys.stdout.buffer.flush()


def _say(name: str, reason: str) -> None:
    sys.stderr.write(f"friendli-stream: {'<stdin>' if name == '-' else name}: {reason}\n")
