"""JSON in and out at one place (B1, B2), and SDK objects as events."""

import dataclasses
import datetime as dt
import enum
import json
import math
import tracemalloc

import attrs
import cattrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from friendli_stream import wire

VALUES = [
    None, True, 0, -1, 2**53 + 1, 2**63, 2**64 - 1, 2**64, -(2**63) - 1, 10**40, 10**4299, 1.5, 1e300, 0.1234567890123456789, "", "é🌊", [], {},
    {"a": [1, {"b": None}]}, {"n": 10**30, "f": 1.0}, "\u2028", "12345678901234567890",
]  # fmt: skip


def nested(depth, *, key=None):
    value = 1
    for _ in range(depth):
        value = [value] if key is None else {key: value}
    return value


@pytest.mark.parametrize("value", VALUES, ids=lambda value: repr(value)[:30])
def test_decode_is_exact(value):
    """B2: every JSON value comes back with its type, from text, bytes, bytearray and memoryview."""
    text = json.dumps(value)
    for data in (text, text.encode(), bytearray(text.encode()), memoryview(text.encode())):
        found = wire.decode(data)
        assert (type(value), value) == (type(found), found)
    for data in (wire.encode(value), wire.encode_exact(value)):
        found = wire.decode(data)
        assert (type(value), value) == (type(found), found)


@pytest.mark.parametrize(
    "data",
    ["", "{", "NaN", "[Infinity]", "-Infinity", "1e400", "-1e999", "[12345678901234567890, NaN]", "'a'", "{}x", "[1,]", "1" * 5000,
     "[" * 10**6, '{"a":' * 10**5, b"\xff", b'"\xed\xa0\xbd"', b"\xef\xbb\xbf{}"],
    ids=lambda data: repr(data)[:20],
)  # fmt: skip
def test_decode_refuses(data):
    """B2: what is no JSON, and what no float can hold, is a ValueError, whatever its depth and length."""
    with pytest.raises(ValueError):
        wire.decode(data)


def test_decode_event():
    """S4: what is no JSON is the text itself; [DONE] is stripped."""
    assert wire.decode_event('{"a":1}') == wire.decode_event(b'{"a":1}') == {"a": 1}
    assert wire.decode_event(" [DONE]\n") == wire.decode_event(bytearray(b"[DONE]")) == "[DONE]"
    assert wire.decode_event(" oops ") == " oops "
    assert wire.decode_event(memoryview(b"\xffa")) == "\ufffda"


def test_half_surrogates():
    """B1: `encode` makes halves whole or U+FFFD, in keys too; `encode_exact` keeps them for a join later on."""
    value = {"\ud83d": ["a\ud83d\ude00", {"\ude00": "\ud83d", "n": 10**30, "t": (1, True, None, 1.5)}]}
    assert wire.clean(value) == {"\ufffd": ["a😀", {"\ufffd": "\ufffd", "n": 10**30, "t": [1, True, None, 1.5]}]}
    assert wire.decode(wire.encode_exact(["\ud83d"])) == ["\ud83d"]
    assert [wire.whole(text) for text in ("a", "é", "\ud83d\ude00", "\ud83dx\ude00")] == [
        "a",
        "é",
        "😀",
        "\ufffdx\ufffd",
    ]


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(10**25), 10**25)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.floats(1e-12, 1e-3)  # where the standard library and orjson write differently
    | st.text("a\ud83d\ude00é", max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("b\ud83d", max_size=2), inner, max_size=3),
)


@given(JSON)
def test_a_value_is_written_in_one_way(value):
    """B1, law 10: what was read back is written as before, half surrogates or not: states are equal by their bytes."""
    for write in (wire.encode, wire.encode_exact):
        for told in (value, ["\ud83d", value], [10**30, value]):
            data = write(told)
            assert write(wire.decode(data)) == data


@pytest.mark.parametrize("write", [wire.encode, wire.encode_exact])
@pytest.mark.parametrize("length", [1, 900, 5_000])
def test_what_is_written_holds_no_more_than_its_text(write, length):
    """B4: a kept value takes the memory of its characters, not of the room it was written in."""
    kept = []
    tracemalloc.start()
    try:
        for _ in range(200):
            kept.append(write(["a" * length]))  # noqa: PERF401  as they arrive
        held = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    assert held < len(kept) * (length + 150)


def test_encode_floats_that_are_none():
    """B1, B2: a float that no JSON has is null, on either road."""
    assert wire.encode([math.nan, math.inf]) == b"[null,null]"
    assert wire.encode([math.nan, -math.inf, 10**30]) == b"[null,null,%d]" % 10**30


class Color(enum.StrEnum):
    RED = "red"


class Text(str):
    __slots__ = ()


@dataclasses.dataclass
class Data:
    a: int = 1


@pytest.mark.parametrize(
    "value", [{1: 2}, {"a": {2: 3}, "b": 10**30}, b"x", {1, 2}, object(), Data(), dt.date(2020, 1, 1), 1j]
)
def test_encode_refuses(value):
    """What JSON has no word for is a TypeError, not a guess; a str of another class is written as its text."""
    for inner in (value, [value], {"a": [value, 10**30]}):
        with pytest.raises(TypeError):
            wire.encode(inner)
    assert wire.encode([Color.RED, Text("x")]) == b'["red","x"]'
    assert wire.encode([Color.RED, Text("x\ud83d"), 10**30]) == '["red","x\ufffd",%d]'.encode() % 10**30


@pytest.mark.parametrize("key", [None, "k"])
def test_depth(key):
    """B4: depth counts nested containers, at any depth without recursion; brackets in strings are none."""
    for depth in (0, 1, 5, 254, 255, 300, 20_000):
        value = nested(depth, key=key)
        assert (depth, wire.depth_exceeds(value, depth), wire.depth_exceeds(value, depth - 1)) == (depth, False, True)
    assert not wire.depth_exceeds(["[" * 1000, ("{" * 1000,)], 2)
    assert wire.depth_exceeds([(1,), 10**30], 1)


class Dumped:
    def __init__(self, value):
        self.value = value

    def model_dump(self, **options):
        assert options == {"by_alias": True, "exclude_unset": True}
        return self.value


class Both(Dumped):
    def to_dict(self):
        return {"from": "to_dict"}


class Wrapper:
    event = "x"

    def __init__(self, data):
        self.data = data


class Typed(Dumped):
    """An event with a field named data is no wrapper."""

    type = "redacted"
    data = "ENC"


def test_events_of_sdks():
    """Recognised by shape: `.data` of a wrapper first, then to_dict(), then model_dump()."""
    plain = {"type": "ping"}
    for event in (plain, [plain], "[DONE]", 1, 1.5, True, None):
        assert wire.event_of(event) is event
    assert wire.event_of(Dumped(plain)) is plain
    assert wire.event_of(Both(plain)) == {"from": "to_dict"}
    assert wire.event_of(Typed(plain)) is plain
    for data in (plain, "[DONE]", None):
        assert wire.event_of(Wrapper(data)) is data
    assert wire.event_of(Wrapper(Both(plain))) == {"from": "to_dict"}


@pytest.mark.parametrize(
    "event", [b"{}", bytearray(b"{}"), object(), Dumped, Dumped(b"x"), Wrapper({1}), {1}, 1j, dict]
)
def test_no_events(event):
    """TypeError for what is neither JSON nor an SDK's object, classes included; for bytes it says where they belong."""
    with pytest.raises(TypeError, match="use step_json" if isinstance(event, (bytes, bytearray)) else "not an event"):
        wire.event_of(event)


@attrs.define
class Place:
    pier: str


def test_converter():
    """The converter takes attrs classes, ignores fields they do not have, and is made once."""
    assert isinstance(wire.converter(), cattrs.Converter)
    assert wire.converter() is wire.converter()
    assert wire.converter().structure({"pier": "N", "more": 1}, Place) == Place("N")
