"""Texts as one stream of words, cut into windows: what a model of the next word is trained on."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from workloads.data.dataset import DataSet, Split
from workloads.data.tokenizer import PADDING


def next_words(data: DataSet, length: int) -> DataSet:
    """The same texts, in their order, as windows of ``length`` words, each labelled with the words that follow its own.

    Inputs and labels are int32 ``(n, length)``. After each text stands one `PADDING`, which is a word to predict like
    any other; the rest of a split that fills no window is dropped.
    """
    return replace(data, train=_windows(data.train, length), test=_windows(data.test, length))


def _windows(split: Split, length: int) -> Split:
    tokens = np.asarray(split.inputs)
    ended = np.pad(tokens, ((0, 0), (0, 1)), constant_values=PADDING)
    chosen = ended != PADDING
    chosen[:, -1] = True
    stream = ended[chosen].astype(np.int32)
    end = (len(stream) - 1) // length * length
    return Split(stream[:end].reshape(-1, length), stream[1 : end + 1].reshape(-1, length))
