"""The words of a command as a record may have them: without values that may be secrets, and without folders."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

from suite.record.parts.environment import PRIVATE

#: Stands for a value that may be a secret.
HIDDEN = "<set>"
#: Of a name, what makes its value none: tokenizers, and numbers of tokens.
_NO_SECRET = re.compile(r"TOKENIZ|MAX_\w*TOKENS|NUM_\w*TOKENS")
#: A user and a password in an address, and a value inside a word, as of `sh -c 'TOKEN=... python train.py'`.
_LOGIN = re.compile(r"(?<=://)[^/\s@]*@")
_INSIDE = re.compile(r"(?<![\w-])(-[\w-]+(?==|\s)|\w+(?==))(=|\s+)(?!-)(\"[^\"]*\"|'[^']*'|\S+)")


def is_private(name: str) -> bool:
    """Whether the value of this variable or option may be a secret or a host, so that nothing may show it."""
    plain = f"_{re.sub(r'[^A-Za-z0-9]+', '_', name.lstrip('-'))}".upper()
    return bool(PRIVATE.match(plain)) and not _NO_SECRET.search(plain)


def hide(words: Sequence[str]) -> list[str]:
    """The words of a command without values that may be secrets, and without the folders of absolute paths."""
    return [HIDDEN if asks(before) else hide_word(word) for before, word in pairwise(["", *words])]


def asks(word: str) -> bool:
    """Whether the word after this one may be a secret."""
    return word.startswith("-") and "=" not in word and " " not in word and is_private(word)


def hide_word(word: str) -> str:
    """One word of a command by the same rules."""
    name, equals, value = word.partition("=")
    if equals and is_private(name) and " " not in name:
        return f"{name}={HIDDEN}"
    place = value if equals and value.startswith(("/", "~/")) else word
    if place.startswith(("/", "~/")) and not re.search(r"\s-", place):
        return f"{word[: len(word) - len(place)]}.../{Path(place).name}"
    shown = _LOGIN.sub("", word)
    return _INSIDE.sub(_hide_inside, shown) if " " in shown else shown


def _hide_inside(match: re.Match[str]) -> str:
    name, between, _ = match.groups()
    return f"{name}{between}{HIDDEN}" if is_private(name) else match[0]
