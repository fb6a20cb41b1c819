"""JSON text taken in value by value: a file costs the memory of its largest value, not of the whole."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator
from typing import Any, TextIO

#: Characters taken in at once. A value that the end of a piece cuts is read again, so that large pieces cost less.
PIECE = 1 << 22

_SPACE = re.compile(r"[ \t\n\r]*")
_AFTER = tuple(" \t\n\r,:]}")


class Text:
    """What is left of a file of JSON. All methods raise `ValueError` for what is none, or holds impossible numbers."""

    def __init__(self, file: TextIO) -> None:
        self._file = file
        self._text, self._at, self._gone = "", 0, 0

    def next(self) -> str:
        """The next character that is no white space, which stays; empty at the end."""
        while True:
            found = _SPACE.match(self._text, self._at)
            self._at = found.end() if found else self._at
            if self._at < len(self._text):
                return self._text[self._at]
            if not self._more():
                return ""

    def take(self, *characters: str) -> str:
        """The next character, which must be one of these."""
        found = self.next()
        if found not in characters:
            words = " or ".join(map(repr, characters))
            raise ValueError(f"expected {words}: char {self._gone + self._at}")
        self._at += 1
        return found

    def value(self) -> Any:
        """The next value, whole."""
        self.next()
        while True:
            try:
                value, end = _DECODER.raw_decode(self._text, self._at)
            except json.JSONDecodeError as error:
                if self._more():  # it may only be cut
                    continue
                raise ValueError(f"{error.msg}: char {self._gone + error.pos}") from None
            except RecursionError:
                raise ValueError("nested too deeply") from None
            if self._text[end : end + 1] not in _AFTER and self._more():  # so may be a number
                continue
            self._at = end
            return value

    def items(self) -> Iterator[Any]:
        """The values of the array that comes next, one after another."""
        self.take("[")
        if self.next() == "]":
            self.take("]")
            return
        while True:
            yield self.value()
            if self.take(",", "]") == "]":
                return

    def names(self) -> Iterator[str]:
        """The names in the object that comes next; after each, its value must be taken."""
        self.take("{")
        if self.next() == "}":
            self.take("}")
            return
        while True:
            if self.next() != '"':
                self.take('"')
            name = self.value()
            self.take(":")
            yield str(name)
            if self.take(",", "}") == "}":
                return

    def end(self) -> None:
        """Nothing may come any more."""
        if self.next():
            raise ValueError(f"more after its end: char {self._gone + self._at}")

    def _more(self) -> bool:
        """Take in the next piece, at least as long as what is left of the last; what was taken goes."""
        rest = self._text[self._at :]
        piece = self._file.read(max(PIECE, len(rest)))
        self._gone += self._at
        self._text, self._at = rest + piece, 0
        return bool(piece)


def parse(text: str) -> Any:
    """One value. Raises `ValueError`, for numbers too that no measurement gives."""
    try:
        return _DECODER.decode(text)
    except RecursionError:
        raise ValueError("nested too deeply") from None


def _number(text: str) -> float:
    if not math.isfinite(value := float(text)):
        raise ValueError(f"the number {text[:40]} is not finite")
    return value


def _whole(text: str) -> int:
    if len(text) > 25:
        raise ValueError(f"the number {text[:25]}... is too large")
    return int(text)


_DECODER = json.JSONDecoder(parse_constant=_number, parse_float=_number, parse_int=_whole)
