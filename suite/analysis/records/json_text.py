"""JSON of a stranger's file, value by value, strictly."""

from __future__ import annotations

import json
import math
import re
from codecs import BOM_UTF8
from typing import Any

import msgspec
from msgspec import Raw

_VALUE, _MEMBERS, _ITEMS = (msgspec.json.Decoder(kind) for kind in (Any, dict[str, Raw], list[Raw]))


def decode(text: bytes | Raw) -> Any:
    """The one value of a JSON text. Raises `ValueError`, also for numbers that no measurement gives."""
    try:
        try:
            return _VALUE.decode(text)
        except msgspec.DecodeError:  # the standard library names the place
            return _STRICT.decode(str(text, "utf-8"))
    except json.JSONDecodeError as error:
        raise ValueError(f"{error.msg}: char {error.pos}") from None
    except RecursionError:
        raise ValueError("nested too deeply") from None


def members(text: bytes | Raw) -> dict[str, Raw]:
    """The values of a JSON object by name, undecoded; none for any other value. Raises `ValueError` for bad JSON."""
    found: dict[str, Raw] = _split(_MEMBERS, text) or {}
    return found


def items(text: bytes | Raw) -> list[Raw] | None:
    """The values of a JSON list, undecoded; None for any other value. Raises `ValueError` for bad JSON."""
    found: list[Raw] | None = _split(_ITEMS, text)
    return found


def without_surrogates(text: bytes) -> bytes:
    """The JSON text with spaces for a byte order mark and for lone surrogates, which UTF-8 lacks; as long as it was."""
    text = text.replace(BOM_UTF8, b"   ", 1) if text.startswith(BOM_UTF8) else text
    return _ESCAPE.sub(lambda match: rb"\u0020" if match["lone"] else match[0], text) if rb"\u" in text else text


def _split(decoder: Any, text: bytes | Raw) -> Any:
    try:
        return decoder.decode(text)
    except msgspec.ValidationError:
        decode(text)  # which may be no JSON further on
        return None
    except (msgspec.DecodeError, RecursionError) as error:
        decode(text)  # which names the place
        raise ValueError(str(error)) from None


def _number(text: str) -> float:
    if not math.isfinite(value := float(text)):
        raise ValueError(f"the number {text[:40]} is not finite")
    return value


def _integer(text: str) -> int:
    if len(text) > 25:
        raise ValueError(f"the number {text[:25]}... is too large")
    return int(text)


#: Escapes one after another, so that neither an escaped backslash nor a pair of surrogates is taken for a lone one.
_ESCAPE = re.compile(
    rb"\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|(?P<lone>u[dD][89a-fA-F][0-9a-fA-F]{2})|.)",
    re.DOTALL,
)
_STRICT = json.JSONDecoder(parse_constant=_number, parse_float=_number, parse_int=_integer)
