"""Reads JSON value by value: a file takes the memory of its largest value, not of the whole."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator
from typing import Any, TextIO

#: Characters read at once. A value that is cut by the end of a piece is parsed again, so large pieces cost less.
PIECE = 1 << 22

_SPACE = re.compile(r"[ \t\n\r]*")
_AFTER = tuple(" \t\n\r,:]}")


class Text:
    """The rest of a JSON file. All methods raise `ValueError` for invalid JSON and for numbers that are not finite."""

    def __init__(self, file: TextIO) -> None:
        self._file = file
        self._text, self._at, self._offset = "", 0, 0

    def next(self) -> str:
        """The next character that is not white space, without taking it; empty at the end."""
        while True:
            space = _SPACE.match(self._text, self._at)
            self._at = space.end() if space else self._at
            if self._at < len(self._text):
                return self._text[self._at]
            if not self._more():
                return ""

    def take(self, *characters: str) -> str:
        """The next character, which must be one of these."""
        character = self.next()
        if character not in characters:
            words = " or ".join(map(repr, characters))
            raise ValueError(f"expected {words}: char {self._offset + self._at}")
        self._at += 1
        return character

    def value(self) -> Any:
        """The next value, whole."""
        self.next()
        while True:
            try:
                value, end = _DECODER.raw_decode(self._text, self._at)
            except json.JSONDecodeError as error:
                if self._more():  # the value may only be cut off here
                    continue
                raise ValueError(f"{error.msg}: char {self._offset + error.pos}") from None
            except RecursionError:
                raise ValueError("nested too deeply") from None
            if self._text[end : end + 1] not in _AFTER and self._more():  # so may a number
                continue
            self._at = end
            return value

    def items(self) -> Iterator[Any]:
        """The values of the next array, one after another."""
        self.take("[")
        if self.next() == "]":
            self.take("]")
            return
        while True:
            yield self.value()
            if self.take(",", "]") == "]":
                return

    def names(self) -> Iterator[str]:
        """The names in the next object; the caller must take each one's value before going on."""
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
        """Raises `ValueError` if anything is left."""
        if self.next():
            raise ValueError(f"more after its end: char {self._offset + self._at}")

    def _more(self) -> bool:
        """Reads the next piece, at least as long as the unread rest, and drops what was taken; False at the end."""
        rest = self._text[self._at :]
        piece = self._file.read(max(PIECE, len(rest)))
        self._offset += self._at
        self._text, self._at = rest + piece, 0
        return bool(piece)


def parse(text: str) -> Any:
    """The one value of a text. Raises `ValueError`, also for numbers that no measurement gives."""
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
