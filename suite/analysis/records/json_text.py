"""JSON of a stranger's file, value by value, strictly."""

from __future__ import annotations

import re
from codecs import BOM_UTF8
from typing import Any

import msgspec
from msgspec import Raw

from suite.record.text import parse_json

_VALUE, _MEMBERS, _ITEMS = (msgspec.json.Decoder(kind) for kind in (Any, dict[str, Raw], list[Raw]))


def decode(text: bytes | Raw) -> Any:
    """The one value of a JSON text. Raises `ValueError`, also for numbers that no measurement gives."""
    try:
        return _VALUE.decode(text)
    except (msgspec.DecodeError, RecursionError):
        return parse_json(bytes(text))  # which names the place


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


#: Escapes one after another, so that neither an escaped backslash nor a pair of surrogates is taken for a lone one.
_ESCAPE = re.compile(
    rb"\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|(?P<lone>u[dD][89a-fA-F][0-9a-fA-F]{2})|.)",
    re.DOTALL,
)
