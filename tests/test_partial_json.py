"""PartialJSON by example and exhaustively: rules J1-J10, B1, B2, B4. The properties are in test_partial_json_properties."""

import itertools
import json
import math
import subprocess
import sys

import orjson
import pytest

from friendli_stream import partial_json
from friendli_stream._fragments import Rope
from friendli_stream._inputs import Scan
from friendli_stream.errors import IncompleteJSON, InvalidJSON
from friendli_stream.partial_json import PartialJSON, parse
from tests import slow_json


def fed(*fragments, depth=200):
    partial = PartialJSON(depth=depth)
    for fragment in fragments:
        partial.feed(fragment)
        assert partial.snapshot() == partial.value
    return partial


def seen(partial):
    """All that a reader sees, comparable: types and order of keys count, the verdict's place too."""
    return partial.state, repr(partial.value), partial.error and partial.error.position


def expected(text, depth=200):
    state, value, position = slow_json.read(text, depth)
    return state, repr(value), position if state == "invalid" else None


def outcome(text, depth=200):
    """What parse makes of a whole text."""
    try:
        return "complete", repr(parse(text, depth)), None
    except IncompleteJSON as error:
        return "incomplete", None, error.position
    except InvalidJSON as error:
        return "invalid", None, error.position


def expected_outcome(text, depth=200):
    state, value, position = slow_json.finish(text, depth)
    return state, repr(value) if state == "complete" else None, None if state == "complete" else position


def check_everywhere(text, depth=200):
    """Against the slow reference: one character at a time after each, whole at once, and parsed."""
    one = PartialJSON(depth=depth)
    for end, char in enumerate(text, 1):
        one.feed(char)
        assert expected(text[:end], depth) == seen(one), text[:end]
    whole = PartialJSON(depth=depth)
    whole.feed(text)
    assert expected(text, depth) == seen(whole)
    assert expected_outcome(text, depth) == outcome(text, depth)


def rebuilt(changes, root=None):
    """The value that a list of changes tells, as a consumer would build it (J10)."""
    if root is None:
        root = []
    for path, kind, what in changes:
        *way, last = (0, *path)
        place = root
        for step in way:
            place = place[step]
        if kind == "text":
            what = place[last] + what
        elif kind == "open":
            what = {"object": {}, "array": [], "string": ""}[what]
        elif isinstance(what, (dict, list, str)):
            assert place[last] == what
            continue
        if isinstance(place, list):
            place[last:] = [what]
        else:
            place[last] = what
    return root


def merged(changes):
    """Changes with neighbouring pieces of one text joined: the form in which no cut shows (J10)."""
    out = []
    for path, kind, what in changes:
        if kind == "text" and out and out[-1][:2] == (path, kind):
            out[-1] = (path, kind, out[-1][2] + what)
        else:
            out.append((path, kind, what))
    return out


GRAMMAR = '{}[]:, "a\\nu1-.e0t\t'


def test_every_short_text_against_the_reference():
    """J1-J5: verdict, value and position of every text of four characters of the grammar, pruned where it is invalid."""
    level = [""]
    for _ in range(4):
        longer = []
        for start in level:
            for char in GRAMMAR:
                text = start + char
                partial = fed(start, char)
                assert expected(text) == seen(partial), text
                if partial.state != "invalid":
                    longer.append(text)
        level = longer
    assert len(level) > 500


@pytest.mark.parametrize(
    "text",
    [
        # structure
        "{}", "[]", " [ ] ", '{"a":[]}', '{"":0}', "[[],{}]", '[{"a":{"b":[1,{"c":null}]}}, "x"]\n', '{"a" : 1 , "b" : 2}',
        "\t\r\n [1 ,\n\n  2]", '{ "a":\n"b"}',
        "[", "{", '{"a"', '{"a":', '{"a":1', '{"a":1,', "[1,", '["a', "[[",
        "]", "}", "[}", "{]", "[1}", '{"a":1]', "[,1]", "[1,]", "[1,,2]", '{"a":1,}', "{,}", '{"a"}', '{"a":}', '{"a":,}',
        "{1:2}", "{a:1}", "{[", '{"a" "b"}', '{"a":1 "b":2}', '"a",', '"ab",1', "1,2", "true,", "[],", "[1 2]", '["a" "b"]', '["a""b"]', "[1:2]", '["a":1]', "[] []", "{}x", "[]]", "{}}",
        '"a" 1', "1 2", "true false", ",", ":", ",1", ":1", "{:1}", '{"a"::1}', '{"a",', '["a",]', '{"a":[]"b"', "[{}1", '{"a":"b"1', '[true"a"',
        # literals
        "true", " false ", "null", "[true,false,null]", '{"a":true}', "tru", "[tru", "trux", "[truE]", "nul]", "[nan]", "[fale]", "True", "truefalse", "nulll",
        # not of JSON
        "NaN", "[NaN]", "Infinity", "[-Infinity]", "undefined", "// x\n1", "[1/**/]", "['a']", "\ufeff1", "\ufeff[]", "[\u00a01]", "[\x0c]", "[\x0b1]", "\x001", "[1]\x00",
        "\u2028[]",
        # numbers
        "0", "-0", "[0]", "[-0]", "[-0.0]", "[12]", "[-1.5e+3]", "[1E5]", "[1e05]", "[0e0]", "[0.1]", "[1e-5]", "12 ", "-1\n", "[123456]", "[123.456,7]",
        "[01]", "[-01]", "[00]", "[1.]", "[.5]", "[1.e5]", "[+1]", "[1e]", "[1e+]", "[-]", "[--1]", "[1-2]", "[1.2.3]", "[1e5e5]", "[1e5.5]", "[0x10]", "[1_000]", "[1,-]",
        "[\u0661]", "[1\u0661]", "-", "1.", "1e", "1e+", "01", "-a", "[1a]", "[1.5a]", "[12a]",
        "[9223372036854775807,9223372036854775808,18446744073709551616,-9223372036854775809]",
        "[123456789012345678901234567890]", "[0.1234567890123456789012345]", "123456789012345678901234567890",
        "[1e308]", "[1.7976931348623157e308]", "[1.7976931348623158e308]", "[1.7976931348623159e308]", "[-1e309]", "[1e999]", "[1e0000400]", "[1e00]", "[0e999]", "[0.0e99999]",
        "[1e-999]", "[0.0000000001e310]", "[0.0000000001e319]", "1e400", "[1e400", "[1E+400,1]", "[1e-99999]", "[" + "9" * 309 + "]", "[" + "9" * 309 + "e0]", "[" + "9" * 309 + "e00]",
        "[" + "9" * 309 + "e-5]", "[" + "9" * 309 + ".5]", "[" + "9" * 350 + ".5e-300]",
        # strings
        '""', '"a"', '["\\"\\\\\\/\\b\\f\\n\\r\\t"]', '"\\u0041\\u00e9\\u263a\\uABcd"', '"\\u0000"', '"\x7f"', '"\u2028\u2029"', '"é☺😀"', '["é","☺😀"]', '{"é😀":"é"}',
        '"\x00"', '"\n"', '"a\tb"', '["\x1f"]', '{"\n":1}', '"\\x"', '"\\"', '"\\u12"', '"\\u12G4"', '"\\U0041"', '"\\u 123"', '"\\u+123"', '"\\a"', '{"\\q":1}', '"ab\\', '"ab\\u00', '"ab\\u00zz"',
        '"a\\\\"', '"a\\\\\\"b"', '"\\\\u0041"', "\"'\"", '"a\\\n"', '["a\\', '["a\\u', '["\\u004', '["a\\n', '{"a\\n":1}', '{"\\u0061b":1}',
        # halves of a pair, in escapes (J2, J3)
        '"\\ud83d\\ude00"', '"x\\uD83D\\uDE00y"', '"\\ud83d"', '"\\ude00"', '"\\ude00\\ud83d"', '"\\ud83dx"', '"\\ud83d\\n"', '"\\ud83d\\u0041"', '"\\ud83d\\ud83d\\ude00"', '"\\ud83d\\ud83d"',
        '"\\ud83d\\\\ude00"', '{"\\ud83d":1}', '{"\\ud83d\\ude00":1,"\\ud83d":2}', '"ab\\ud83d\\x"', '"ab\\ud83d\n"', '["\\ud83d', '["\\ud83d\\', '["\\ud83d\\u', '["\\ud83d\\ude0', '["é\\ud83d\\ude00é"]',
        # and fed raw (B1)
        '"\ud83d\ude00"', '"\ud83d"', '"\ude00"', '"a\ud83db"', '["\ud83d\ude00\ud83d","\ude00"]', '{"\ud83d\ude00":"\ud83d\ude00","\ud83d":1}', '["\ud83d\ude00" x', '["\ud83d\ude00\\x', "[\ud83d", "\ude00",
        '"\\\ud83d', '"\\u\ud83d"', '"\ud83d\\ude00"', '"\\ud83d\ude00"', '"\ud83d\\', '"é\ud83d\n', '["\ud83d\ude00","\ud83d\ude00"}',
        # duplicate keys (J5)
        '{"a":1,"a":2}', '{"a":1,"b":2,"a":[3]}', '{"a":{"b":1},"a":{"c":2}}', '{"a":"x","b":1,"a":"yz"}', '{"a":1,"\\u0061":"x"}', '{"a":1,"b":1,"a":',
    ],
)  # fmt: skip
def test_each_category_against_the_reference(text):
    """J1-J7: the categories of a test suite of JSON, each at every prefix and cut, as the reference has it."""
    check_everywhere(text)
    for width in (2, 3, 5, 7):
        partial, one = PartialJSON(), fed(*text)
        changes = []
        for start in range(0, len(text), width):
            partial.feed(text[start : start + width])
            changes += partial.changes()
        assert expected(text) == seen(partial)
        assert [partial.value] == (rebuilt(changes) or [None])
        assert merged(one.changes()) == merged(changes)


@pytest.mark.parametrize(
    "text",
    [
        '{"a":[1,"b\\u263ac\\ud83d\\ude00\\n",true],"d\\u00e9":-1.5e3,"e":{"f":""},"a":null} ',
        '["\\ud83d\\ud83d\\ude00\\\\ud83d\ud83d\ude00",1e5,[]]',
        '["a\\\\u12\\"b\\\\","\\u00e9\\\\\\u0041\\n",{"c\\\\":"d\\"\\u263"}]',
    ],
)
def test_every_pair_of_cuts(text):
    """J1: an escape, a pair, a number, a literal or a key cut anywhere, twice, reads as if it were whole."""
    wanted = expected(text)
    for first, second in itertools.combinations(range(len(text) + 1), 2):
        assert wanted == seen(fed(text[:first], text[first:second], text[second:]))


def test_position_is_the_longest_beginning_of_json():
    """J1: the text up to the position can go on to be JSON, one character more cannot, and no cut moves it."""
    for text in ["[1,2,]", '{"a":1e999}', '["abc\\x"]', '["\ud83d\ude00\\u12G4"]', "[[[]}", "nulx", '{"a" 1}']:
        position = fed(text).error.position
        chars = slow_json.joined(text)
        assert "invalid" != slow_json.read("".join(chars[:position]))[0]
        assert "invalid" == slow_json.read("".join(chars[: position + 1]))[0]


def test_feed_only_remembers(monkeypatch):
    """J1: nothing is scanned until somebody looks, and then only what is new."""
    scanned = []

    def scan(new, old, *_):
        while True:
            yield None
            scanned.append("".join(new))
            old += new
            new.clear()

    monkeypatch.setattr(partial_json, "_scan", scan)
    partial = PartialJSON()
    for fragment in ("[1,", "", "2", ""):
        partial.feed(fragment)
    assert [] == scanned
    assert None is partial.value
    partial.feed("]")
    assert "incomplete" == partial.state
    assert ["[1,2", "]"] == scanned
    assert "[1,2]" == partial.text


def test_fragments_are_text():
    """J1: what is no str is a TypeError at each look, and a str subclass is its text."""

    class Name(str):
        __slots__ = ()

    assert [1] == fed(Name("[1]")).value
    for wrong in (b"]", None, 1, ["]"]):
        for partial in (PartialJSON(), fed("[2")):
            partial.feed(wrong)
            for _ in range(2):
                for read in (
                    lambda p=partial: p.value,
                    partial.snapshot,
                    partial.changes,
                    lambda p=partial: p.state,
                    partial.finish,
                ):
                    with pytest.raises(TypeError, match="expected str instance"):
                        read()


@pytest.mark.parametrize("record", [False, True])
def test_interrupted(monkeypatch, record):
    """J1: who interrupts a look (Ctrl-C) loses nothing: the next one reads all of the text."""
    partial = fed('{"a": "b')
    if record:
        partial.changes()
    kept = partial.snapshot()

    def interrupted(*_):
        raise KeyboardInterrupt

    partial.feed('c", "d": "e')
    with monkeypatch.context() as patch:
        patch.setattr(partial_json, "scanstring", interrupted)
        with pytest.raises(KeyboardInterrupt):
            partial.changes() if record else partial.value
    assert ({"a": "bc", "d": "e"}, {"a": "b"}) == (partial.value, kept)
    assert [partial.value] == rebuilt(partial.changes())
    partial.feed('"}')
    assert ("complete", {"a": "bc", "d": "e"}) == (partial.state, partial.finish())
    assert [(("d",), "done", "e"), ((), "done", partial.value)] == partial.changes()


def test_reading_again_keeps_nothing():
    """J8: to look where nothing came costs no memory, whatever the text ended in."""
    for text in ('["ab', '["ab\\u12', "[12", "[1", "]", "[]", '{"a', ""):
        partial = fed(text)
        held = len(partial._old), len(partial._new)
        for _ in range(5):
            partial.value, partial.state, partial.snapshot(), partial.changes()
        assert held == (len(partial._old), len(partial._new))
        assert text == partial.text


def test_nothing_yet():
    """J1: no text and white space alone are the beginning of JSON, with nothing certain in it."""
    for text in ("", " \n\t\r"):
        partial = fed(text)
        assert ("incomplete", None, None, None, [], text) == (
            partial.state, partial.value, partial.snapshot(), partial.error, partial.changes(), partial.text,
        )  # fmt: skip
        with pytest.raises(IncompleteJSON) as caught:
            partial.finish()
        assert len(text) == caught.value.position


def test_number_at_the_root_waits_for_the_end():
    """J1: 12 may become 123, so a bare number is shown only once something ends it, or by finish."""
    partial = fed("1", "2")
    assert ("incomplete", None, 12) == (partial.state, partial.value, partial.finish())
    partial.feed("\n")
    assert ("complete", 12) == (partial.state, partial.value)
    for text, position in (("-", 1), ("1.", 2), (" 1e", 3)):
        with pytest.raises(IncompleteJSON) as caught:
            fed(text).finish()
        assert position == caught.value.position


def test_error_stays_and_the_value_keeps_what_was_good():
    """J1: after an error everything is ignored, and reading never raises."""
    partial = fed('{"a": ["x", tru', "x", '"y"]}', "\x00")
    assert ("invalid", {"a": ["x"]}, 15) == (partial.state, partial.value, partial.error.position)
    assert '{"a": ["x", trux"y"]}\x00' == partial.text
    for _ in range(2):
        with pytest.raises(InvalidJSON, match="malformed literal at position 15") as caught:
            partial.finish()
        assert not isinstance(caught.value, IncompleteJSON)
    assert partial.error is not caught.value


def test_reasons_are_words():
    """J2: an error says what is wrong."""
    reasons = {
        "[1}": "expected ',' or ']'", '{"a":1]': "expected ',' or '}'", "[}": "expected a value or ']'", "{1": "expected a key or '}'", '{"a":1,}': "expected a key",
        "[1,]": "expected a value", '{"a"1': "expected ':'", "[]1": "expected nothing more", "[x": "expected a value or ']'", '"\n': "control character in a string", '"\\x': "invalid escape",
        "[1e999": "number too large", "[" + "9" * 400 + ".5,": "number too large", "[-x": "malformed number", "[tx": "malformed literal", "[" + "1" * 4301 + "]": "integer too long",
    }  # fmt: skip
    for text, reason in reasons.items():
        assert reason == fed(text).error.reason
    assert "nested deeper than 1" == fed("[[", depth=1).error.reason


@pytest.mark.parametrize("opening", ["[", '{"a":'])
def test_depth_limit(opening):
    """J7: at the limit it is fine, one more is invalid at that bracket, however it comes."""
    closing = "]" if opening == "[" else "}"
    for depth in (1, 2, 3, 200, 250):
        for levels in (depth - 1, depth):
            text = opening * levels + "1 " + closing * levels
            assert "complete" == outcome(text, depth)[0]
            assert "complete" == fed(text, depth=depth).state == fed(*text, depth=depth).state
        text = opening * (depth + 1) + "1" + closing * (depth + 1)
        position = depth * len(opening) + 0
        for partial in (fed(text, depth=depth), fed(*text, depth=depth)):
            assert ("invalid", position) == (partial.state, partial.error.position)
        assert ("invalid", None, position) == outcome(text, depth)


def test_depth_counts_levels_not_brackets():
    """J7: many brackets side by side, or inside strings, are no depth."""
    for text in ("[" + "[],{}," * 300 + "1]", '["' + "[{" * 300 + '"]'):
        assert repr(json.loads(text)) == outcome(text, 2)[1]
        assert repr(json.loads(text)) == repr(fed(*text, depth=2).value)
    assert ("invalid", None, 2 + 6 * 300) == outcome("[" + "[],{}," * 300 + "[[]]]", 2)


@pytest.mark.parametrize("opening", ["[", '{"a":', '[{"a":'])
def test_a_million_brackets(opening):
    """J7: never RecursionError, in no reading."""
    text = opening * (1_000_000 // len(opening))
    partial = fed(text)
    assert "invalid" == partial.state
    assert partial.changes()
    with pytest.raises(InvalidJSON):
        partial.finish()
    for closing in ("]", "}"):
        assert "invalid" == outcome(text + closing)[0]


def test_depth_beyond_what_the_standard_library_recurses():
    """J7: the scanner needs no stack, so a limit far above the interpreter's is kept as well."""
    levels = 5000
    value = parse("[" * levels + "]" * levels, levels)
    for _ in range(levels - 1):
        (value,) = value
    assert [] == value
    assert "invalid" == outcome("[" * levels + "12345678901234567890" + "]" * levels, 200)[0]


@pytest.mark.parametrize("dumped", [254, 20])
def test_depth_of_a_whole_text(monkeypatch, dumped):
    """J7: with hundreds of brackets side by side, at the limit and one more, however deep orjson.dumps goes."""
    monkeypatch.setattr(partial_json, "DUMPED", dumped)
    partial_json._dumps_refuses_more.cache_clear()
    for limit, item in itertools.product((2, 3, 200, 253, 254, 255, 300), ("1", str(2**70))):
        for levels in (limit, limit + 1):
            text = "[" + "[]," * 400 + "[" * (levels - 1) + item + "]" * levels
            wanted = ("invalid", None, 1200 + limit) if levels > limit else ("complete", repr(json.loads(text)), None)
            assert wanted == outcome(text, limit)
    partial_json._dumps_refuses_more.cache_clear()


def test_integers_up_to_4300_digits():
    """J2, J6: integers are exact up to 4,300 digits; one digit more is invalid where it ends, a float is not meant."""
    for sign in ("", "-"):
        digits = sign + "7" * 4300
        for text in (digits + "7", f"[{digits}7]"):
            end = text.find("]") if "]" in text else len(text)
            assert ("invalid", None, end) == outcome(text)
        assert int(digits) == parse(digits)
        for text in (f"[{digits}]", f'{{"a":{digits} }}'):
            assert json.loads(text) == parse(text) == fed(*text).value
        assert "incomplete" == fed(f"[{digits}7").state == fed(*f"[{digits}7").state
        assert [float(f"{digits}7e-4200")] == parse(f"[{digits}7e-4200]") == fed(*f"[{digits}7e-4200]").value


def test_long_floats():
    """J6: a float may have any number of digits, and its exponent any number of zeros."""
    for number in (
        "0." + "1" * 10_000,
        "-" + "1" * 200 + "." + "0" * 5000 + "1",
        "1e" + "0" * 5000 + "12",
        "1e-" + "9" * 5000,
        "0e" + "9" * 5000,
        "0." + "0" * 5000 + "1e5000",
    ):
        text = f"[{number},{number}]"
        assert [float(number)] * 2 == parse(text) == fed(*text).value == fed(text[:100], text[100:]).value
    for number, stop in (
        ("1e" + "0" * 5000 + "999", 5005),
        ("1" * 310 + ".5e" + "0" * 80, 314),
        ("0." + "0" * 500 + "1e99999", 507),
    ):
        for partial in (fed(f"[{number}"), fed(*f"[{number}"), fed(f"[{number[:200]}", number[200:])):
            assert ("invalid", stop) == (partial.state, partial.error.position)


def test_floats_are_those_of_the_standard_library():
    """J6: every float and integer as json.loads gives it, with its type."""
    for number in (
        "0.1",
        "1.7976931348623157e308",
        "5e-324",
        "2.2250738585072011e-308",
        "1e22",
        "123456789.123456789",
        "9007199254740993",
        "-0.0",
        "1E0",
        "9" * 30 + ".0",
    ):
        (value,) = json.loads(f"[{number}]")
        for got in (*parse(f"[{number}]"), *fed(*f"[{number}]").value, parse(number)):
            assert (type(value), repr(value)) == (type(got), repr(got))


def test_halves_fed_one_by_one_are_one_character():
    """B1: a pair cut in two is withheld until it is whole, counts as one in positions, and everything encodes."""
    partial = fed('["a\ud83d')
    assert ["a"] == partial.value
    partial.feed("\ude00\ud83d")
    assert ["a😀"] == partial.value
    partial.feed('x"')
    assert ["a😀\ufffdx"] == partial.value
    partial.feed("x")
    assert 7 == partial.error.position
    assert '["a😀\ufffdx"x' == partial.text
    for text in ('"\ud83d', "\ud83d", '["\ude00\ud83d"]', '{"\ud83d": "\ude00"}'):
        partial = fed(text)
        partial.text.encode()
        orjson.dumps([partial.value, partial.snapshot(), [what for *_, what in partial.changes()]])
    with pytest.raises(IncompleteJSON) as caught:
        fed('["\ud83d', "\ude00").finish()
    assert 3 == caught.value.position


HALVES = ["\ud83d", "\ude00", "\\ud83d", "\\ude00", "a"]


@pytest.mark.parametrize("units", list(itertools.product(HALVES, repeat=3)), ids=lambda units: ascii("".join(units)))
def test_raw_halves_and_escaped_ones(units):
    """B1, J3: halves join raw with raw and escaped with escaped, as in the text that comes out, however it is cut."""
    text = '{"' + "".join(units) + '": "' + "".join(units) + '"}'
    whole = fed(text).text
    expected = PartialJSON()
    expected.feed(whole)
    assert fed(text).finish() == fed(text).value == expected.finish() == expected.value
    for at in range(len(text)):
        parts = fed(text[:at])
        parts.value  # noqa: B018  scans
        parts.feed(text[at:])
        assert expected.value == parts.value
        assert [expected.value] == rebuilt(fed(text[:at], text[at:]).changes())


def test_lone_surrogate_escapes_beside_long_integers():
    """J2, B2: neither is lost where the other sends the text another way."""
    for escape in ("\\ud83d", "\\uDE00"):
        assert ["\ufffd", 2**70] == parse(f'["{escape}",{2**70}]')
    assert ["😀", 2**70] == parse(f'["\\ud83d\\ude00",{2**70}]')
    assert ["😀", 2**64 - 1, -(2**63)] == parse(f'["\\ud83d\\ude00",{2**64 - 1},{-(2**63)}]')


def test_value_is_live_and_snapshots_are_not():
    """J9: value is the same containers, growing; a snapshot never changes, and shares what is closed."""
    partial = fed('{"a": {"b": [1, [2], "x')
    live, kept = partial.value, partial.snapshot()
    assert {"a": {"b": [1, [2], "x"]}} == kept == live
    assert kept["a"]["b"][1] is live["a"]["b"][1]
    partial.feed('y", {"c": 3}], "d": "e')
    assert partial.value is live
    assert {"a": {"b": [1, [2], "xy", {"c": 3}], "d": "e"}} == live
    assert {"a": {"b": [1, [2], "x"]}} == kept
    text = fed('"ab')
    kept = text.snapshot()
    text.feed("c")
    assert ("ab", "abc") == (kept, text.value)
    again = fed('{"a": 1, "b": 2, "a": [')
    kept = again.snapshot()
    again.feed("3")
    again.feed("]")
    assert ({"a": [], "b": 2}, {"a": [3], "b": 2}) == (kept, again.value)


def test_finish_is_fresh():
    """J9: finish shares nothing with a preview nor with another finish."""
    partial = fed('{"a": [{}], "b": "\\ud83d"}')
    first, second = partial.finish(), partial.finish()
    first["a"][0]["x"] = 1
    assert {"a": [{}], "b": "\ufffd"} == second == partial.value


GROWN_IN_PLACE = """
import tracemalloc
from friendli_stream.partial_json import PartialJSON

for opening, piece in (('["', "a" * 60_000), ('{"k":"', "é" * 60_000), ('{"', "k" * 60_000), ('"', "a" * 60_000 + "\\\\n")):
    partial = PartialJSON()
    partial.feed(opening)
    partial.value
    tracemalloc.start()
    for _ in range(60):
        partial.feed(piece)
        partial.value
    size, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 1.4 * size, (opening, size, peak)
"""


def test_strings_grow_in_place():
    """J8: a long string is not copied at each fragment, so there are never two of it.

    In a process of its own: a tracer, as for coverage, takes the interpreter's short ways away.
    """
    done = subprocess.run([sys.executable, "-c", GROWN_IN_PLACE], check=False, capture_output=True, text=True)
    assert (0, "") == (done.returncode, done.stderr)


def test_work_is_linear_in_the_text(monkeypatch):
    """J8: the characters that any part of the scanner is given are a small multiple of the text, whatever the cuts."""
    work = [0]

    def counted(function):
        def wrapper(text, *args):
            start = args[0] if args else 0
            work[0] += len(text) - start  # read to the end, if it raises
            result = function(text, *args)
            if isinstance(result, tuple):  # read to there
                work[0] -= len(text) - result[1]
            return result

        return wrapper

    class Pattern:
        def __init__(self, pattern):
            self.pattern = pattern

        def match(self, text, start=0, end=sys.maxsize):
            found = self.pattern.match(text, start, end)
            work[0] += found.end() - start
            return found

        def fullmatch(self, text, start=0):
            work[0] += len(text) - start
            return self.pattern.fullmatch(text, start)

    for name in ("scanstring", "_scan_once", "_loads"):
        monkeypatch.setattr(partial_json, name, counted(getattr(partial_json, name)))
    for builtin in (float, int):
        monkeypatch.setattr(partial_json, builtin.__name__, counted(builtin), raising=False)
    for name in ("NUMBER", "BEGINNING_OF_NUMBER", "TEXT_UNITS", "BEGINNING_OF_ESCAPE", "SPACES"):
        monkeypatch.setattr(partial_json, name, Pattern(getattr(partial_json, name)))
    size = 6_000
    texts = {
        "string": '["' + "a" * size + '"]', "escapes": '["' + "\\n\\u263a" * (size // 8) + '"]', "pairs": '["' + "\\ud83d\\ude00" * (size // 12) + '"]', "key": '{"' + "k" * size + '":1}',
        "integers": "[" + "123," * (size // 4), "integer": "[" + "9" * 4000 + "]", "mantissa": "[0." + "1" * size + "]", "exponent": "[1e-" + "1" * size + "]",
        "zeros": "[1e" + "0" * size + "]", "small": "[0." + "0" * size + "1e" + "0" * size + "5]", "spaces": " " * size, "deep": ("[" * 100 + "1" + "]" * 100 + ",").join("[]") * 50,
    }  # fmt: skip
    for name, text in texts.items():
        for width in (1, 3, 64, size):
            work[0] = 0
            fed(*(text[start : start + width] for start in range(0, len(text), width)))
            assert work[0] <= 40 * len(text), (name, width, work[0] / len(text))


def test_changes_are_what_came():
    """J10: each entry once, the values of numbers and literals only when they are final."""
    partial = PartialJSON()
    assert [] == partial.changes()
    partial.feed('{"path": "a.p')
    assert [((), "open", "object"), (("path",), "open", "string"), (("path",), "text", "a.p")] == partial.changes()
    assert [] == partial.changes()
    partial.feed("y\\u26")
    assert [(("path",), "text", "y")] == partial.changes()
    partial.feed('3a", "lines": [1')
    assert [(("path",), "text", "☺"), (("path",), "done", "a.py☺"), (("lines",), "open", "array")] == partial.changes()
    partial.feed('2, "x", "", {}], "last": true')
    assert [
        (("lines", 0), "done", 12),
        (("lines", 1), "open", "string"), (("lines", 1), "text", "x"), (("lines", 1), "done", "x"),
        (("lines", 2), "open", "string"), (("lines", 2), "done", ""),
        (("lines", 3), "open", "object"), (("lines", 3), "done", {}),
        (("lines",), "done", [12, "x", "", {}]),
        (("last",), "done", True),
    ] == partial.changes()  # fmt: skip
    partial.feed("}")
    assert [((), "done", partial.value)] == partial.changes()
    partial.feed("x")
    assert ([], "invalid") == (partial.changes(), partial.state)


def test_changes_begin_at_the_beginning_whenever_first_asked():
    """J10: the first call tells everything, also in the middle of a string, and values go on being the same containers."""
    text = '{"a": "bc", "d": ["\\ud83d\\ude00f"], "a": 2}'
    for start, end in itertools.combinations(range(len(text) + 1), 2):
        partial = fed(text[:start])
        live = partial.value
        changes = [] if start % 2 else partial.changes()
        partial.feed(text[start:end])
        changes += partial.changes()
        partial.feed(text[end:])
        changes += partial.changes()
        assert live is None or partial.value is live
        assert merged(changes) == merged(fed(*text).changes())
        assert [partial.value] == rebuilt(changes)


def test_duplicate_key_replaces():
    """J5, J10: the last value of a key wins, in its first place, and is opened or done at the same path again."""
    text = '{"a":1,"b":{"c":"x"},"a":"y","b":[2]}'
    partial = fed(*text)
    assert ["a", "b"] == list(partial.value)
    assert {"a": "y", "b": [2]} == partial.value == partial.finish() == rebuilt(partial.changes())[0]
    assert 2 == sum(path == ("a",) and kind == "done" for path, kind, _ in fed(text).changes())


def test_a_whole_text_and_what_follows_it():
    """J1, J2: white space after a whole text is fine, in any later fragment; anything else is invalid there."""
    for whole in ("[1]", '{"a": {}}', "true", '"x"'):
        partial = fed(whole)
        assert "complete" == partial.state
        value = partial.value
        partial.feed(" \n")
        assert ("complete", value) == (partial.state, partial.value)
        partial.feed(" ]")
        assert ("invalid", len(whole) + 3, value) == (partial.state, partial.error.position, partial.value)


def test_floats_that_are_not_finite_never_come_out():
    """J2: no infinity, no NaN, by any road."""
    for text in (
        "[1e999]",
        "[-1e999]",
        f"[1e999,{2**70}]",
        f"[NaN,{2**70}]",
        f"[Infinity,{2**70}]",
        f"[-Infinity,{2**70}]",
        "1e999 ",
        "-1e999",
    ):
        assert "invalid" == outcome(text)[0]
        partial = fed(*text)
        assert "invalid" == partial.state or "1e999" in text
        assert all(math.isfinite(item) for item in partial.value or [])


def test_a_tool_input_is_scanned_along_its_line():
    """J9, J11: the scanner of a line goes on from the last reading, keeps none of the text, and survives Ctrl-C."""
    text, wanted = '{"a": "bc", "d": [1, 2], "e": "f"}', {"a": "bc", "d": [1, 2], "e": "f"}
    scan, rope, ropes = Scan(), None, []
    for start in range(0, len(text), 5):
        rope = Rope(text[: start + 5] if rope is None else (rope, text[start : start + 5]), len(text[: start + 5]))
        ropes.append(rope)
    halves = ropes[3]
    assert ("incomplete", {"a": "bc", "d": [1]}) == scan.read(halves, 200)
    scanner = scan._value[0]
    assert ("incomplete", {"a": "bc"}) == scan.read(ropes[2], 200)
    assert scan._value == (scanner, halves)
    changes = scan.changes(None, ropes[2], 200) + scan.changes(ropes[2], halves, 200)
    assert ("complete", wanted) == scan.read(rope, 200)
    assert scan._value == (scanner, rope)
    changes += scan.changes(halves, rope, 200)
    assert [wanted] == rebuilt(changes)
    assert [] == scanner._old == scan._changes[0]._old

    def interrupted(*_):
        raise KeyboardInterrupt

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(partial_json, "scanstring", interrupted)
        for read in (lambda: scan.read(halves, 200), lambda: scan.changes(None, halves, 200)):
            with pytest.raises(KeyboardInterrupt):
                read()
    assert ("complete", wanted) == scan.read(rope, 200)
    assert merged(changes) == merged(scan.changes(None, rope, 200))
