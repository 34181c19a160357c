"""What PartialJSON must say of a text, written to be read: one character after the other, no state kept.

It shares nothing with the package: no pattern, no parser of the standard library, exact fractions where floats overflow.
`read(text)` judges a text that may go on, `finish(text)` one that has ended; both give (verdict, value, position).
"""

from fractions import Fraction
from typing import Any, NoReturn

NOTHING = object()
# The least number that rounds to infinity: half a step above the largest float.
INFINITE = Fraction(2**1024 - 2**970)
ESCAPES = {'"': '"', "\\": "\\", "/": "/", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}
HEX = "0123456789abcdefABCDEF"
# The grammar of numbers: what may follow a part, by the kind of character; the parts in ENDS are whole numbers.
NUMBER = {
    "start": {"-": "minus", "0": "zero", "1": "integer"},
    "minus": {"0": "zero", "1": "integer"},
    "zero": {".": "point", "e": "e"},
    "integer": {"0": "integer", "1": "integer", ".": "point", "e": "e"},
    "point": {"0": "fraction", "1": "fraction"},
    "fraction": {"0": "fraction", "1": "fraction", "e": "e"},
    "e": {"-": "sign", "+": "sign", "0": "exponent", "1": "exponent"},
    "sign": {"0": "exponent", "1": "exponent"},
    "exponent": {"0": "exponent", "1": "exponent"},
}
ENDS = ("zero", "integer", "fraction", "exponent")


class EndOfText(Exception):
    pass


class Wrong(Exception):
    pass


def read(text: str, depth: int = 200) -> tuple[str, Any, int]:
    return _Reader(text, depth, ended=False).result()


def finish(text: str, depth: int = 200) -> tuple[str, Any, int]:
    return _Reader(text, depth, ended=True).result()


def characters(units: list[str]) -> str:
    """Code units as text: halves side by side are one character, lone ones U+FFFD."""
    out: list[str] = []
    for unit in units:
        if "\udc00" <= unit <= "\udfff" and out and "\ud800" <= out[-1] <= "\udbff":
            out[-1] = chr(0x10000 + ((ord(out[-1]) - 0xD800) << 10) + ord(unit) - 0xDC00)
        else:
            out.append(unit)
    return "".join("\ufffd" if "\ud800" <= unit <= "\udfff" else unit for unit in out)


def joined(text: str) -> list[str]:
    """The characters of a fed text: raw halves side by side are one."""
    out: list[str] = []
    for char in text:
        if "\udc00" <= char <= "\udfff" and out and "\ud800" <= out[-1] <= "\udbff":
            out[-1] = chr(0x10000 + ((ord(out[-1]) - 0xD800) << 10) + ord(char) - 0xDC00)
        else:
            out.append(char)
    return out


class _Reader:
    def __init__(self, text: str, depth: int, *, ended: bool) -> None:
        self.text = joined(text)
        self.depth = depth
        self.ended = ended
        self.at = 0
        self.root = NOTHING

    def result(self) -> tuple[str, Any, int]:
        try:
            self.space()
            self.value(self.set_root, 1)
            while self.at < len(self.text):
                self.space(may_end=True)
                if self.at < len(self.text):
                    self.wrong()
            verdict = "complete"
        except EndOfText:
            verdict = "incomplete"
        except Wrong:
            verdict = "invalid"
        return verdict, None if self.root is NOTHING else self.root, self.at

    def set_root(self, value: Any) -> None:
        self.root = value

    def peek(self) -> str:
        if self.at == len(self.text):
            raise EndOfText
        return self.text[self.at]

    def wrong(self) -> NoReturn:
        raise Wrong

    def expect(self, chars: str) -> str:
        char = self.peek()
        if char not in chars:
            self.wrong()
        self.at += 1
        return char

    def space(self, *, may_end: bool = False) -> None:
        while not (may_end and self.at == len(self.text)) and self.peek() in " \t\n\r":
            self.at += 1

    def value(self, put: Any, level: int) -> None:
        """Read a value; `put` is called with it as soon as, and each time, more of it is certain."""
        char = self.peek()
        if char == '"':
            self.at += 1
            self.string(put)
        elif char in "{[":
            if level > self.depth:
                self.wrong()
            self.at += 1
            (self.object if char == "{" else self.array)(put, level)
        elif char in "tfn":
            for letter in {"t": "true", "f": "false", "n": "null"}[char]:
                self.expect(letter)
            put({"t": True, "f": False, "n": None}[char])
        else:
            put(self.number())

    def object(self, put: Any, level: int) -> None:
        value: dict[str, Any] = {}
        put(value)
        self.space()
        if self.peek() == "}":
            self.at += 1
            return
        while True:
            self.expect('"')
            keys: list[str] = []
            self.string(keys.append)
            self.space()
            self.expect(":")
            self.space()
            self.value(lambda item, key=keys[-1]: value.__setitem__(key, item), level + 1)
            self.space()
            if self.expect(",}") == "}":
                return
            self.space()

    def array(self, put: Any, level: int) -> None:
        value: list[Any] = []
        put(value)
        self.space()
        if self.peek() == "]":
            self.at += 1
            return
        while True:
            place = len(value)

            def put_item(item: Any, place: int = place) -> None:
                value[place:] = [item]

            self.value(put_item, level + 1)
            self.space()
            if self.expect(",]") == "]":
                return
            self.space()

    def string(self, put: Any) -> None:
        units: list[str] = []
        while True:
            waiting = bool(units) and "\ud800" <= units[-1] <= "\udbff"
            put(characters(units[:-1] if waiting else units))
            char = self.peek()
            if char == '"':
                self.at += 1
                put(characters(units))
                return
            if char < " ":
                self.wrong()
            self.at += 1
            if char == "\\":
                char = self.expect('"\\/bfnrtu')
                char = chr(int("".join(self.expect(HEX) for _ in range(4)), 16)) if char == "u" else ESCAPES[char]
            elif "\udc00" <= char <= "\udfff" or ("\ud800" <= char <= "\udbff" and self.at < len(self.text)):
                char = "\ufffd"  # a raw half that is alone: an escape is no other half for it
            units.append(char)

    def number(self) -> Any:
        part, number = "start", ""
        while True:
            if self.at == len(self.text):
                if self.ended and part in ENDS and self.root is NOTHING:
                    break
                raise EndOfText
            char = self.text[self.at]
            kind = "1" if char in "123456789" else "e" if char == "E" else char
            if kind not in NUMBER[part]:
                break
            part = NUMBER[part][kind]
            # A positive exponent only grows with more digits.
            if part == "exponent" and "-" not in number.lower().partition("e")[2] and _infinite(number + char):
                self.wrong()
            number += char
            self.at += 1
        if part not in ENDS:
            self.wrong()
        if part in ("zero", "integer"):
            if len(number.lstrip("-")) > 4300:
                self.wrong()
            value = 0
            for digit in number.lstrip("-"):
                value = 10 * value + int(digit)
            return -value if number[0] == "-" else value
        if _infinite(number):
            self.wrong()
        return float(number)


def _infinite(number: str) -> bool:
    return abs(Fraction(number)) >= INFINITE
