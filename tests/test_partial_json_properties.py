"""PartialJSON's laws over generated documents: J1-J10."""

import json

from hypothesis import assume, example, given
from hypothesis import strategies as st

from friendli_stream.partial_json import PartialJSON
from tests import slow_json
from tests.test_partial_json import check_everywhere, expected, fed, merged, outcome, rebuilt, seen

SPACES = st.sampled_from(["", "", "", " ", "\n  ", "\t\r "])
RAW = st.characters(min_codepoint=0x20, exclude_characters='"\\', exclude_categories=())
ESCAPES = st.sampled_from(
    ['\\"', "\\\\", "\\/", "\\b", "\\n", "\\u0041", "\\u263A", "\\ud83d\\ude00", "\\ud83d", "\\uDE00", "\\u0000"]
)
STRINGS = st.lists(RAW | ESCAPES | st.sampled_from("abc "), max_size=12).map(lambda parts: f'"{"".join(parts)}"')
KEYS = st.sampled_from(['"a"', '"b"', '"\\u0061"', '""']) | STRINGS
NUMBERS = (
    st.integers().map(str)
    | st.integers(-(2**90), 2**90).map(str)
    | st.floats(allow_nan=False, allow_infinity=False).map(repr)
    | st.from_regex(
        r"-?(0|[1-9][0-9]{0,24})(\.[0-9]{1,24})?([eE][-+]?[0-9]{1,3})?", fullmatch=True, alphabet="0123456789.eE+-"
    )
)
SCALARS = NUMBERS | STRINGS | st.sampled_from(["true", "false", "null"])


def spaced(*parts):
    return st.tuples(*(part for each in parts for part in (SPACES, each)), SPACES).map("".join)


def arrays(values):
    return st.lists(spaced(values), max_size=4).map(",".join).map(lambda inner: f"[{inner}]")


def objects(values):
    return st.lists(spaced(KEYS, st.just(":"), values), max_size=4).map(",".join).map(lambda inner: f"{{{inner}}}")


DOCUMENTS = spaced(st.recursive(SCALARS, lambda values: arrays(values) | objects(values), max_leaves=12))


@st.composite
def damaged(draw):
    """A document with a character or two dropped, doubled, put in or replaced, or its end cut off."""
    text = draw(DOCUMENTS)
    for _ in range(draw(st.integers(0, 2))):
        at = draw(st.integers(0, len(text)))
        what = draw(st.sampled_from(["", *'{}[]:,"\\ \n\x00u0-.eE9tfna', "\ud83d", "\ude00", "1e999", "\\ud83d"]))
        text = text[:at] + what + text[at + draw(st.integers(0, 2)) :]
    return text[: draw(st.integers(0, len(text)))] if draw(st.booleans()) else text


@st.composite
def cuts(draw, texts):
    """A text and its fragments."""
    text = draw(texts)
    places = sorted(draw(st.lists(st.integers(0, len(text)), max_size=8)))
    return text, [text[start:end] for start, end in zip([0, *places], [*places, len(text)], strict=True)]


def in_order(value):
    """A value with the order of its keys, and types that == would not tell apart."""
    if isinstance(value, dict):
        return [(key, in_order(item)) for key, item in value.items()]
    if isinstance(value, list):
        return ["list", *map(in_order, value)]
    return type(value), repr(value)


def grows(older, newer):
    """J5: whether `newer` can have grown out of `older`: only the last item of each container may change."""
    if isinstance(older, str) and isinstance(newer, str):
        return newer.startswith(older)
    if isinstance(older, list) and isinstance(newer, list):
        old, new = list(enumerate(older)), list(enumerate(newer))
    elif isinstance(older, dict) and isinstance(newer, dict):
        old, new = list(older.items()), list(newer.items())
    else:
        return older == newer
    if not old:
        return True
    *same, (key, last) = old
    return (
        same == new[: len(same)]
        and len(old) <= len(new)
        and key == new[len(same)][0]
        and grows(last, new[len(same)][1])
    )


@given(damaged())
def test_agrees_with_the_reference_at_every_prefix(text):
    """J1-J7: verdict, value and position after each character, at once, and at the end, as the slow reference has them."""
    check_everywhere(text)


@given(cuts(damaged()))
def test_cuts_change_nothing(text_and_fragments):
    """J1, J10: verdict, value, position and changes are the same for every cut, read at any of them or only at the end."""
    text, fragments = text_and_fragments
    one, read, unread = fed(*text), PartialJSON(), PartialJSON()
    changes = []
    for fragment in fragments:
        read.feed(fragment)
        unread.feed(fragment)
        changes += read.changes()
        assert [read.value] == (rebuilt(changes) or [None])
        assert read.snapshot() == read.value
    assert expected(text) == seen(one) == seen(read) == seen(unread)
    wanted = merged(one.changes())
    assert wanted == merged(changes) == merged(unread.changes())


@given(DOCUMENTS)
@example('{"\\ud83d\udc00": 0}')
@example('["\ud83d\\udc00"]')
def test_agrees_with_the_standard_library(text):
    """J2, J6: a whole document is what json.loads makes of it, types and order of keys included, lone halves replaced."""
    assume("complete" == slow_json.finish(text)[0])  # not 1e999
    value = PartialJSON()
    value.feed(text)
    # B1: a raw half and an escaped one are no pair, as they would be for json.loads.
    chars = ("\ufffd" if "\ud800" <= char <= "\udfff" else char for char in slow_json.joined(text))
    wanted = json.loads("".join(chars))
    assert in_order(_whole(wanted)) == in_order(value.finish())
    assert outcome(text)[0] == "complete"


def _whole(value):
    if isinstance(value, str):
        return slow_json.characters(list(value))
    if isinstance(value, list):
        return [_whole(item) for item in value]
    return {_whole(key): _whole(item) for key, item in value.items()} if isinstance(value, dict) else value


@given(cuts(DOCUMENTS))
@example(('{"a":"x\\ud83d', ['{"a":"x\\ud8', "3d"]))
def test_growing(text_and_fragments):
    """J5, law 6: keys appear in order, strings grow by prefix, all else appears only final; but for a duplicate key."""
    text, fragments = text_and_fragments
    assume(all("duplicate" != mark for mark in _marks(text)))
    partial = PartialJSON()
    before = None
    for fragment in fragments:
        partial.feed(fragment)
        after = partial.snapshot()
        assert before is None or grows(before, after)
        assert before is None or partial.state != "incomplete" or after is not None
        before = after


def _marks(text):
    """One "duplicate" for each object of a text with a key twice."""
    marks = []

    def pairs(items):
        keys = [_whole(key) for key, _ in items]
        if len(set(keys)) < len(keys):
            marks.append("duplicate")

    try:
        json.loads(text, object_pairs_hook=pairs)
    except ValueError:
        pass
    return marks


@given(cuts(damaged()))
def test_everything_encodes(text_and_fragments):
    """B1: no string, key, change or text that comes out holds half a character."""
    partial = PartialJSON()
    for fragment in text_and_fragments[1]:
        partial.feed(fragment)
        for out in (partial.value, partial.snapshot(), partial.changes(), partial.text):
            repr(out).encode()
            json.dumps(out, ensure_ascii=False).encode()
