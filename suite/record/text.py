"""Text that came from elsewhere, as one printable line: of a worker, of a record, of a file's name."""

from __future__ import annotations

import unicodedata


def clean(value: object, limit: int = 300) -> str:
    """One printable line of at most ``limit`` characters: what controls a terminal or reverses a line becomes a space.

    Records hold text from other machines (device names, the last words of a crashed process), so it is never printed
    as it came. Lone surrogates, which JSON can carry and UTF-8 cannot, go the same way.
    """
    text = " ".join(printable(str(value)[: 4 * limit]).split())
    return text if len(text) <= limit else text[: limit - 1] + "…"


def printable(text: str) -> str:
    """The text with a space for each character that is not to be seen; its own spaces stay."""
    if text.isprintable():  # else it holds neither controls nor separators but plain spaces
        return text
    return "".join(" " if unicodedata.category(c)[0] in "CZ" else c for c in text)
