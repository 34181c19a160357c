"""Fold the stream of an LLM into its final message: Anthropic Messages events and chat.completion.chunk deltas.

`messages` and `chat` are the two formats, `sse` decodes bytes, `recordings` reads files, `PartialJSON` reads JSON that
is still arriving.
"""

from friendli_stream import chat, messages, recordings, sse
from friendli_stream.errors import (
    Diagnostic,
    IncompleteJSON,
    IncompleteStream,
    InvalidInput,
    InvalidJSON,
    InvalidState,
    LimitExceeded,
    Limits,
    ProtocolError,
    ServerError,
    StreamError,
    UnreadableRecording,
)
from friendli_stream.partial_json import PartialJSON

__all__ = [
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

__version__ = "0.1.0"
