"""The command `friendli-stream`: recorded or live streams to their final messages.

Exit status: 0 all messages complete; 1 some incomplete or failed (still printed, the reason on stderr); 2 unreadable
input, or the command's words are off.
"""

from __future__ import annotations

import argparse
import contextlib
import errno
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import friendli_stream
from friendli_stream import recordings
from friendli_stream.errors import LimitExceeded, StreamError, UnreadableRecording

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from friendli_stream import chat, messages

    State = messages.State | chat.State

__all__ = ["main"]

SUFFIXES = (".sse", ".jsonl", ".ndjson")  # what is read of a folder
FILES = " ".join(f"*{suffix}" for suffix in SUFFIXES)


def main(arguments: list[str] | None = None) -> int:
    """Run the command; its exit status."""
    options = _parser().parse_args(arguments)
    status = 0
    try:
        for name in _progress([file for given in options.files for file in _files(given)]):
            status = max(status, _Replay(name, options).run())
    except KeyboardInterrupt:
        status = max(status, 1)
    except BrokenPipeError:  # whoever reads has seen enough
        _abandon_output()
        status = max(status, 1)
    except OSError as error:  # a full disk, say
        _say("standard output", _reason(error))
        _abandon_output()
        status = 2
    return status


def _abandon_output() -> None:
    """Nothing more is to be written, nor said about it at exit."""
    if sys.stdout is not None:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


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
    replay.add_argument(
        "files",
        nargs="+",
        metavar="FILE",
        help=f"a recording, - for stdin, or a folder: all {FILES} in it",
    )
    replay.add_argument("--text", action="store_true", help="print the text instead, as it arrives (of choice 0)")
    replay.add_argument("--format", choices=sorted(recordings.MODULES), help="default: what the events look like")
    replay.add_argument("--strict", action="store_true", help="what departs from the format fails the message")
    return parser


def _files(name: str) -> list[str]:
    if name == "-" or not Path(name).is_dir():
        return [name]
    return [str(path) for path in sorted(Path(name).rglob("*")) if path.suffix in SUFFIXES] or [name]


def _progress(names: list[str]) -> Iterable[str]:
    """The names; for several, behind a bar where rich can draw one and the messages go elsewhere."""
    if len(names) > 1 and sys.stderr is not None and sys.stderr.isatty() and not sys.stdout.isatty():
        with contextlib.suppress(ImportError):
            from rich.console import Console  # noqa: PLC0415  optional
            from rich.progress import track  # noqa: PLC0415

            return track(names, "replay", console=Console(stderr=True), transient=True)
    return names


class _Replay:
    """One file on its way through the command. `status` as the command's; `fault`: why it could not be read on."""

    def __init__(self, name: str, options: argparse.Namespace) -> None:
        self.name = name
        self.options = options
        self.status = 0
        self.fault: BaseException | None = None

    def run(self) -> int:
        """Print each message as it ends, or its text as it arrives. Raises KeyboardInterrupt behind what there was."""
        found, events = recordings.recognised(self._events())
        found = self.options.format or found
        if found is not None:
            self._print(recordings.MODULES[found], events)
        elif self.fault is None:
            self.fault = UnreadableRecording("events of neither format; --format says which it is")
        if isinstance(self.fault, KeyboardInterrupt):
            raise self.fault
        if self.fault is not None:
            _say(self.name, _reason(self.fault))
            self.status = 2
        return self.status

    def _events(self) -> Iterator[Any]:
        """The events, up to the end or to what makes reading on impossible: what came before it is to be printed."""
        try:
            with self._opened() as file:
                yield from recordings.stream(file)
        except (OSError, UnreadableRecording, LimitExceeded, KeyboardInterrupt) as error:
            self.fault = error

    def _opened(self) -> contextlib.AbstractContextManager[BinaryIO]:
        if self.name != "-":
            return Path(self.name).open("rb")
        if sys.stdin is None:  # closed by whoever started the command
            raise OSError(errno.EBADF, os.strerror(errno.EBADF))
        return contextlib.nullcontext(sys.stdin.buffer)

    def _print(self, module: Any, events: Iterator[Any]) -> None:
        start = before = state = module.State(strict=self.options.strict)
        ended = True
        try:
            for state, ended in module.running(events, start):
                if self.options.text:
                    for path, kind, value in module.changes(before, state):
                        if kind == "text" and _is_text(path):
                            _write(value.encode())
                    before = start if ended else state
                if ended:
                    self._print_end(state)
        except KeyboardInterrupt as error:
            self.fault = error
            if not ended:
                self._print_end(state)

    def _print_end(self, state: State) -> None:
        snapshot = state.snapshot
        if snapshot is not None:
            _write(b"\n" if self.options.text else snapshot.to_json() + b"\n")
        if self.fault is not None and state.status != "failed":
            return  # the fault says why there is no more
        try:
            state.result()
        except StreamError as error:
            _say(self.name, f"{type(error).__name__}: {error}")
            self.status = max(self.status, 1)


def _say(name: str, reason: str) -> None:
    if sys.stderr is not None:  # None: closed by whoever started the command
        sys.stderr.write(f"{name}: {' '.join(reason.split())}\n")


def _reason(fault: BaseException) -> str:
    """Why a file could not be read on, without its name."""
    if isinstance(fault, IsADirectoryError):
        return f"a folder without any recording: expected {FILES}"
    if isinstance(fault, UnreadableRecording) and fault.line is not None:
        return f"line {fault.line}: {fault.message}"
    return str(getattr(fault, "strerror", None) or getattr(fault, "message", fault))


def _is_text(path: tuple[Any, ...]) -> bool:
    """Whether a path of `changes` is of the text that is meant for the reader, not of thinking or tool inputs."""
    return path == ("choices", 0, "message", "content") or (path[0] == "content" and path[2:] == ("text",))


def _write(data: bytes) -> None:
    if sys.stdout is None:
        raise BrokenPipeError
    sys.stdout.buffer.write(data)
    sys.stdout.buffer.flush()
