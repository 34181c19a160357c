"""JSON in and out, at one place (B2), the cattrs converter, and SDK objects -> events.

orjson is the fast road. It has four bends: integers beyond 64 bits come back as floats, and lone surrogates, numbers
such as 1e400 and deep nesting are refused. What it refuses or would change takes the standard library's road instead.
"""

from __future__ import annotations

import functools
import json
import re
from typing import TYPE_CHECKING, Any

import orjson

if TYPE_CHECKING:
    from collections.abc import Callable

    from cattrs import Converter

__all__ = [
    "clean",
    "converter",
    "decode",
    "decode_event",
    "depth_exceeds",
    "encode",
    "encode_exact",
    "event_of",
    "has_long_number",
    "paired",
    "whole",
]

# Every digit becomes "0": a run of nineteen, the fewest that can leave 64 bits, is then a substring. Five to twelve
# times faster than a regular expression.
_DIGITS = bytes(ord("0") if chr(byte) in "0123456789" else ord(" ") for byte in range(256))
_LONG = b"0" * 19
_SURROGATE = re.compile("[\ud800-\udfff]")

JSON = (dict, list, str, int, float)  # and None

# An SDK's enum or str subclass is written as its value; what JSON has no word for is refused, not guessed.
_PLAIN = orjson.OPT_PASSTHROUGH_DATACLASS | orjson.OPT_PASSTHROUGH_DATETIME


def decode(data: str | bytes | bytearray | memoryview) -> Any:
    """The JSON value of `data`, with integers of any size up to 4,300 digits (B2).

    Raises ValueError for anything else, NaN, Infinity, 1e400 and nesting beyond the interpreter's recursion included.
    A lone surrogate escape stays a lone surrogate: two of them may belong together (B1).
    """
    plain = data.encode(errors="replace") if isinstance(data, str) else bytes(data)
    if not has_long_number(plain):
        try:
            return orjson.loads(data)
        except orjson.JSONDecodeError:
            pass
    return decode_exact(data)


def has_long_number(data: bytes) -> bool:
    """Whether orjson may change a number in JSON text (B2). A float's long mantissa counts too: slower, never wrong."""
    return _LONG in data.translate(_DIGITS)


def decode_exact(data: str | bytes | bytearray | memoryview) -> Any:
    """`decode` on the standard library's road."""
    text = data if isinstance(data, str) else bytes(data).decode()
    try:
        return json.loads(text, parse_float=_finite, parse_constant=_refuse)
    except RecursionError:
        message = "nested too deep"
        raise ValueError(message) from None


def decode_event(data: str | bytes | bytearray | memoryview) -> Any:
    """The event that `data` is the JSON of; the text itself where it is no JSON ("[DONE]", S4)."""
    try:
        return decode(data)
    except ValueError:
        text = data if isinstance(data, str) else bytes(data).decode(errors="replace")
        return text.strip() if text.strip() == "[DONE]" else text


def _finite(digits: str) -> float:
    value = float(digits)
    if value - value != 0:  # an infinity
        message = f"{digits[:40]} is not representable"
        raise ValueError(message)
    return value


def _refuse(name: str) -> None:
    message = f"{name} is not JSON"
    raise ValueError(message)


def encode(value: Any) -> bytes:
    """Compact JSON of a value, UTF-8; a lone surrogate becomes U+FFFD (B1), a float that is no number null.

    Raises TypeError for what is no JSON value, RecursionError beyond the interpreter's depth.
    """
    try:
        return _fitted(orjson.dumps(value, option=_PLAIN))
    except TypeError:
        return _written(_plain(value, whole), ensure_ascii=False)


def encode_exact(value: Any) -> bytes:
    """`encode`, but a lone surrogate comes back from `decode` as it was."""
    try:
        return _fitted(orjson.dumps(value, option=_PLAIN))
    except TypeError:
        return _written(_plain(value, paired), ensure_ascii=True)


def _fitted(data: bytes) -> bytes:
    """A copy as large as it is long: what orjson returns may hold 4 KB for a few characters, 64 KB for 5,000."""
    return b"".join((data, b""))


def _written(plain: Any, *, ensure_ascii: bool) -> bytes:
    """By orjson, if it can: a float is then written in one way, with a lone surrogate beside it or without."""
    try:
        return _fitted(orjson.dumps(plain))
    except TypeError:
        return json.dumps(plain, ensure_ascii=ensure_ascii, separators=(",", ":")).encode()


def _plain(value: Any, text: Callable[[str], str]) -> Any:
    """A copy of JSON types only, its strings as `text` makes them."""
    if value is None or isinstance(value, (bool, int)):
        return value
    if isinstance(value, str):
        return text(str(value))
    if isinstance(value, float):
        return value if value - value == 0 else None
    if isinstance(value, dict):
        plain = {}
        for key, item in value.items():
            if not isinstance(key, str):
                message = f"a key of a JSON object is a string, not {type(key).__name__}"
                raise TypeError(message)
            plain[text(key)] = _plain(item, text)
        return plain
    if isinstance(value, (list, tuple)):
        return [_plain(item, text) for item in value]
    message = f"not a JSON value: {type(value).__name__}"
    raise TypeError(message)


def depth_exceeds(value: Any, limit: int) -> bool:
    """Whether containers are nested more than `limit` deep in a JSON value; never recurses."""
    try:
        data = orjson.dumps(value, option=_PLAIN)
    except TypeError:
        pass  # it may be the depth that orjson refuses
    else:
        if len(data) <= 2 * limit or data.count(b"[") + data.count(b"{") <= limit:  # each level has two brackets
            return False
    level, depth = [value], 0
    while level:
        inner: list[Any] = []
        for item in level:
            if isinstance(item, dict):
                inner += item.values()
            elif isinstance(item, (list, tuple)):
                inner += item
        depth += any(isinstance(item, (dict, list, tuple)) for item in level)
        if depth > limit:
            return True
        level = inner
    return False


def paired(text: str) -> str:
    """The text with halves of a surrogate pair joined, and lone ones as they are."""
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")


def whole(text: str) -> str:
    """The text with halves of a surrogate pair joined and lone ones replaced by U+FFFD (B1). TypeError for no str."""
    if str.isascii(text) or _SURROGATE.search(text) is None:
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def clean(value: Any) -> Any:
    """A copy of a JSON value whose strings and keys are all `whole`."""
    return decode(encode(value))


@functools.cache
def converter() -> Converter:
    """The cattrs converter behind `input_as`: JSON -> attrs classes, dataclasses, TypedDicts."""
    from cattrs.preconf.json import make_converter  # noqa: PLC0415  40 ms that most programs never need

    return make_converter(forbid_extra_keys=False)


def event_of(event: Any) -> Any:
    """The JSON value of an event: itself, or what an SDK's object says it is. Recognised by shape, no SDK imported.

    In this order: `.data` of a wrapper (an object with `data` and nothing of an event), `to_dict()`,
    `model_dump(by_alias=True, exclude_unset=True)`. Raises TypeError for anything else, bytes included: those are for
    sse.EventDecoder or step_json.
    """
    if event is None or isinstance(event, JSON):
        return event
    value = event
    if hasattr(value, "data") and not hasattr(value, "type") and not hasattr(value, "choices"):
        value = value.data
    if not isinstance(value, type):
        for name, options in (("to_dict", {}), ("model_dump", {"by_alias": True, "exclude_unset": True})):
            method = getattr(value, name, None)
            if callable(method):
                value = method(**options)
                break
    if value is None or isinstance(value, JSON):
        return value
    hint = " (decode bytes with sse.EventDecoder, or use step_json)" if isinstance(event, (bytes, bytearray)) else ""
    message = f"not an event: {type(event).__name__}{hint}"
    raise TypeError(message)
