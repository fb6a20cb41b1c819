"""Makes text from elsewhere (a worker, a record, a file's name) one printable line."""

from __future__ import annotations

import unicodedata


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
