"""Reviews to token ids, the same on every machine.

A text is put in lower case (`str.lower`), each ``<br />`` becomes a space, and its words are the matches of `WORD`:
runs of letters and digits of any script, in which single apostrophes may stand (``don't`` is one word, ``'quoted'``
loses its quotes, ``well-made`` is two words, an underscore or any other sign separates).

The vocabulary has `VOCABULARY` ids: 0 is padding, 1 an unknown word, and from 2 on the words of the *training* split by
falling frequency, equally frequent ones in the order of their code points. A review becomes exactly `LENGTH` ids: the
last `LENGTH` words of a longer one, padding on the left of a shorter one, so that the last step is always a word.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from workloads.data.dataset import Array

VOCABULARY = 5000
LENGTH = 500
PADDING, UNKNOWN, FIRST_WORD = 0, 1, 2

WORD = re.compile(r"[^\W_]+(?:'[^\W_]+)*")


def words(text: str) -> list[str]:
    """The words of a text in their order; see the module's text for what a word is."""
    return WORD.findall(text.lower().replace("<br />", " "))


def vocabulary(texts: Iterable[str], size: int = VOCABULARY) -> dict[str, int]:
    """Word to id, for the ``size - 2`` most frequent words of the training texts."""
    counts: Counter[str] = Counter()
    for text in texts:
        counts.update(words(text))
    ranked = sorted(counts, key=lambda word: (-counts[word], word))
    return {word: number for number, word in enumerate(ranked[: size - FIRST_WORD], FIRST_WORD)}


def encode(texts: Iterable[str], ids: dict[str, int], length: int = LENGTH) -> Array:
    """Token ids, uint16 ``(n, length)``, padded on the left and cut on the left."""
    import numpy as np  # here, since a spec reads the constants above and needs no arrays

    rows = []
    for text in texts:
        row = np.full(length, PADDING, dtype=np.uint16)
        tokens = [ids.get(word, UNKNOWN) for word in words(text)[-length:]]
        row[length - len(tokens) :] = tokens
        rows.append(row)
    return np.array(rows, dtype=np.uint16).reshape(-1, length)
