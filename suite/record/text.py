"""Text from elsewhere (a worker, a record, a file's name): as one printable line, and as strict JSON."""

from __future__ import annotations

import json
import math
import unicodedata
from typing import Any

#: Digits of a whole number, at most.
DIGITS_MOST = 25
#: Bytes of memory that a byte of JSON, a further value, an object and a list take at most once they are decoded.
BYTE, COSTS = 4, {b",": 120, b"{": 290, b"[": 120}


def clean(value: object, limit: int = 300) -> str:
    """One printable line of at most ``limit`` characters: what controls a terminal or reverses a line becomes a space.

    Records hold text from other machines (device names, the last words of a crashed process), so it is never printed
    unchanged. Lone surrogates, which JSON can carry and UTF-8 cannot, become spaces too.
    """
    text = " ".join(make_printable(str(value)[: 4 * limit]).split())
    return text if len(text) <= limit else text[: limit - 1] + "…"


def make_printable(text: str) -> str:
    """The text with a space for each unprintable character; its own spaces stay."""
    if text.isprintable():  # it has no control characters, and no separators but plain spaces
        return text
    return "".join(" " if unicodedata.category(c)[0] in "CZ" else c for c in text)


def estimate_memory(text: bytes) -> int:
    """How many bytes of memory the values of a JSON text take at most."""
    return BYTE * len(text) + sum(cost * text.count(mark) for mark, cost in COSTS.items())


def parse_json(text: bytes) -> Any:
    """The one value of a JSON text in which all numbers are such as a measurement gives, and no name stands twice.

    Raises `ValueError`.
    """
    try:
        return _STRICT.decode(str(text, "utf-8"))
    except json.JSONDecodeError as error:
        raise ValueError(f"{error.msg}: char {error.pos}") from None
    except RecursionError:
        raise ValueError("nested too deeply") from None


def _number(text: str) -> float:
    if not math.isfinite(value := float(text)):
        raise ValueError(f"the number {text[:40]} is not finite")
    return value


def _integer(text: str) -> int:
    if len(text) > DIGITS_MOST:
        raise ValueError(f"the number {text[:DIGITS_MOST]}... is too large")
    return int(text)


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if len(made := dict(pairs)) < len(pairs):
        raise ValueError("a name stands twice in an object")
    return made


_STRICT = json.JSONDecoder(parse_constant=_number, parse_float=_number, parse_int=_integer, object_pairs_hook=_object)
