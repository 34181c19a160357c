"""A server on 127.0.0.1 that replays recorded bytes: in awkward pieces, compressed, stopped midway, or as an error.

    with ReplayServer() as server:
        server.replies.append(Reply(MESSAGES, pieces=1))
        ... a client with base_url=server.url ...
        assert server.dropped.wait(5)  # where the reply hangs: the client has closed its connection

Without replies a path ending in `messages` is answered with MESSAGES, any other with CHAT, and a request that brings
a tool's result with MESSAGES_ANSWER or CHAT_ANSWER. What is not sent as JSON is refused. By itself, for trying
something out by hand, it prints its URL:

    python tests/replay_server.py
"""

from __future__ import annotations

import contextlib
import gzip
import json
import select
import sys
import threading
from collections import deque
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any, Self

import attrs

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = [
    "ANSWER",
    "CHAT",
    "CHAT_ANSWER",
    "CHAT_EVENTS",
    "MESSAGES",
    "MESSAGES_ANSWER",
    "MESSAGES_EVENTS",
    "ReplayServer",
    "Reply",
    "as_sse",
]


def as_sse(events: list[Any], *, named: bool, end: str = "\n") -> bytes:
    """The events as a server sends them; `named`: with an `event:` line, as the Messages format has it."""
    lines: list[str] = []
    for event in events:
        if named:
            lines.append(f"event: {event['type']}")
        data = event if isinstance(event, str) else json.dumps(event, ensure_ascii=False, separators=(",", ":"))
        lines += [f"data: {data}", ""]
    return "".join(line + end for line in lines).encode()


@attrs.frozen
class Reply:
    """One response. Its body goes out in chunks of `pieces` bytes, each in a write of its own.

    `compressed`: by gzip, if the request accepts it. `hang_after`: bytes after which the server waits for the client to
    go away, at most ten seconds.
    """

    body: bytes
    pieces: int = 7  # no divisor of anything: UTF-8 and CRLF are cut
    status: int = 200
    content_type: str = "text/event-stream; charset=utf-8"
    compressed: bool = False
    hang_after: int | None = None

    def cut(self, *, compressed: bool) -> Iterator[bytes]:
        """The body as it goes out."""
        body = self.body if self.hang_after is None else self.body[: self.hang_after]
        body = gzip.compress(body) if compressed else body
        for start in range(0, len(body), self.pieces):
            yield body[start : start + self.pieces]


class ReplayServer(ThreadingHTTPServer):
    """Serves `replies` in order, each once.

    `requests` are the JSON bodies that came, `paths` where they were sent, `dropped` that a client left.
    """

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.replies: deque[Reply] = deque()
        self.requests: list[Any] = []
        self.paths: list[str] = []
        self.dropped = threading.Event()

    @property
    def url(self) -> str:
        """Where it listens, without a slash at the end."""
        return f"http://127.0.0.1:{self.server_port}"

    def __enter__(self) -> Self:
        threading.Thread(target=self.serve_forever, args=(0.02,), daemon=True).start()
        return self

    def __exit__(self, *error: object) -> None:
        self.shutdown()
        self.server_close()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing of a client that has left."""
        if not isinstance(sys.exception(), OSError):
            super().handle_error(request, client_address)

    def next_reply(self, path: str, content_type: str, body: Any) -> Reply:
        """The reply to a request for `path`."""
        if content_type.partition(";")[0] != "application/json":
            return Reply(b'{"error": {"message": "no JSON"}}', status=415, content_type="application/json")
        if self.replies:
            return self.replies.popleft()
        first, second = (MESSAGES, MESSAGES_ANSWER) if path.endswith("/messages") else (CHAT, CHAT_ANSWER)
        last = (body or {}).get("messages", [{}])[-1]
        answers = last.get("role") == "tool" or any("tool_use_id" in part for part in last.get("content", ()))
        return Reply(second if answers else first)


class _Handler(BaseHTTPRequestHandler):
    server: ReplayServer
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def do_POST(self) -> None:
        length = int(self.headers.get("content-length") or 0)
        body = json.loads(self.rfile.read(length) or b"null")
        path = self.path.partition("?")[0]
        self.server.requests.append(body)
        self.server.paths.append(path)
        reply = self.server.next_reply(path, self.headers.get("content-type", ""), body)
        compressed = reply.compressed and "gzip" in self.headers.get("accept-encoding", "")
        self.send_response(reply.status)
        self.send_header("content-type", reply.content_type)
        self.send_header("transfer-encoding", "chunked")
        if compressed:
            self.send_header("content-encoding", "gzip")
        self.end_headers()
        try:
            for piece in reply.cut(compressed=compressed):
                self.wfile.write(b"%x\r\n%s\r\n" % (len(piece), piece))
            if reply.hang_after is None:
                self.wfile.write(b"0\r\n\r\n")
            else:
                self._wait_for_the_client_to_leave()
        except OSError:
            self.server.dropped.set()
            self.close_connection = True

    def _wait_for_the_client_to_leave(self) -> None:
        self.close_connection = True
        readable, _, _ = select.select([self.connection], [], [], 10)
        if readable and not self.connection.recv(1):
            self.server.dropped.set()

    def log_message(self, *_: object) -> None:
        pass


_EVERY_WIDTH = ["Ol\u00e1! ", "I look it up: \uc0c1", "\ud30c\uc6b8\ub8e8", " \U0001f642", "."]

MESSAGES_EVENTS: list[Any] = [
    {
        "type": "message_start",
        "message": {
            "id": "msg_replay1",
            "type": "message",
            "role": "assistant",
            "model": "replayed-model",
            "content": [],
            "stop_reason": None,
            "stop_sequence": None,
            "usage": {"input_tokens": 21, "output_tokens": 1, "cache_read_input_tokens": 4},
        },
    },
    {"type": "content_block_start", "index": 0, "content_block": {"type": "thinking", "thinking": "", "signature": ""}},
    {"type": "content_block_delta", "index": 0, "delta": {"type": "thinking_delta", "thinking": "The weather\u2028"}},
    {"type": "content_block_delta", "index": 0, "delta": {"type": "thinking_delta", "thinking": "is asked for."}},
    {"type": "content_block_delta", "index": 0, "delta": {"type": "signature_delta", "signature": "c2lnbmF0dXJl"}},
    {"type": "content_block_stop", "index": 0},
    {"type": "content_block_start", "index": 1, "content_block": {"type": "text", "text": ""}},
    *(
        {"type": "content_block_delta", "index": 1, "delta": {"type": "text_delta", "text": text}}
        for text in _EVERY_WIDTH
    ),
    {"type": "content_block_stop", "index": 1},
    {
        "type": "content_block_start",
        "index": 2,
        "content_block": {"type": "tool_use", "id": "toolu_replay1", "name": "get_weather", "input": {}},
    },
    *(
        {"type": "content_block_delta", "index": 2, "delta": {"type": "input_json_delta", "partial_json": text}}
        for text in ("", '{"city": "S\u00e3o', ' Paulo", "days', '": 3}')
    ),
    {"type": "content_block_stop", "index": 2},
    {
        "type": "message_delta",
        "delta": {"stop_reason": "tool_use", "stop_sequence": None},
        "usage": {"input_tokens": 21, "output_tokens": 43, "cache_read_input_tokens": 4},
    },
    {"type": "message_stop"},
]


def _chunk(delta: dict[str, Any], finish: str | None = None) -> dict[str, Any]:
    return {
        "id": "chatcmpl-replay1",
        "object": "chat.completion.chunk",
        "created": 1790718391,
        "model": "replayed-model",
        "choices": [{"index": 0, "delta": delta, "finish_reason": finish, "logprobs": None}],
        "usage": None,
    }


def _call(index: int, **function: Any) -> dict[str, Any]:
    head = {"id": f"call_{index}", "type": "function"} if "name" in function else {}
    return {"index": index, **head, "function": function}


CHAT_EVENTS: list[Any] = [
    _chunk({"role": "assistant", "content": ""}),
    *(_chunk({"reasoning": text, "reasoning_content": text}) for text in ("The weather\u2028", "is asked for.")),
    *(_chunk({"content": text}) for text in _EVERY_WIDTH),
    _chunk({"tool_calls": [_call(0, name="get_weather", arguments="")]}),
    _chunk({"tool_calls": [_call(1, name="get_time", arguments="")]}),
    _chunk({"tool_calls": [_call(0, arguments='{"city": "S\u00e3o')]}),
    _chunk({"tool_calls": [_call(1, arguments='{"zone": ')]}),
    _chunk({"tool_calls": [_call(0, arguments=' Paulo", "days": 3}')]}),
    _chunk({"tool_calls": [_call(1, arguments='"BRT"}')]}),
    _chunk({}, "tool_calls"),
    {
        **_chunk({}),
        "choices": [],
        "usage": {
            "prompt_tokens": 27,
            "completion_tokens": 42,
            "total_tokens": 69,
            "prompt_tokens_details": {"cached_tokens": 5},
        },
    },
    "[DONE]",
]

_SECOND_MESSAGES_EVENTS: list[Any] = [
    {**MESSAGES_EVENTS[0], "message": {**MESSAGES_EVENTS[0]["message"], "id": "msg_replay2"}},
    {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
    {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "Sunny."}},
    {"type": "content_block_stop", "index": 0},
    {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 3}},
    {"type": "message_stop"},
]
_SECOND_CHAT_EVENTS: list[Any] = [
    {**_chunk({"content": "Sunny."}), "id": "chatcmpl-replay2"},
    {**_chunk({}, "stop"), "id": "chatcmpl-replay2"},
    "[DONE]",
]

MESSAGES = as_sse(MESSAGES_EVENTS, named=True)
MESSAGES_ANSWER = as_sse(_SECOND_MESSAGES_EVENTS, named=True)
CHAT = as_sse(CHAT_EVENTS, named=False)
CHAT_ANSWER = as_sse(_SECOND_CHAT_EVENTS, named=False)
ANSWER = "".join(_EVERY_WIDTH)


def main() -> None:
    """Serve until Ctrl-C."""
    with ReplayServer() as server, contextlib.suppress(KeyboardInterrupt):
        print(server.url, flush=True)
        threading.Event().wait()


if __name__ == "__main__":
    main()
