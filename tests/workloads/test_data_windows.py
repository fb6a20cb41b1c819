"""Texts as one stream, cut into windows, whose labels are the words that follow."""

from __future__ import annotations

import numpy as np

from tests.frameworks import data
from workloads.data.dataset import DataSet, Split
from workloads.data.tokenizer import PADDING
from workloads.data.windows import next_words
from workloads.gpt_small.spec import IGNORED, VOCABULARY
from workloads.spec import specification


def texts(*rows: list[int]) -> Split:
    return Split(np.array(rows, np.uint16), np.zeros(len(rows), np.int32))


def test_windows_follow_each_other_and_texts_end_with_padding() -> None:
    whole, short, long = [7, 8, 9, 4, 5], [0, 0, 0, 3, 2], [6, 6, 6, 6, 6]
    found = next_words(DataSet("imdb", "real", "", texts(whole, short, long), texts(whole, short)), 4)
    stream = [7, 8, 9, 4, 5, PADDING, 3, 2, PADDING, 6, 6, 6, 6]
    assert found.train.inputs.ravel().tolist() == stream[:-1]
    assert found.train.labels.ravel().tolist() == stream[1:]
    assert {array.dtype for array in (found.train.inputs, found.test.labels)} == {np.dtype(np.int32)}
    assert found.test.inputs.tolist() == [[7, 8, 9, 4], [5, PADDING, 3, 2]], "the rest of a split fills no window"
    assert found.batch_form == "tokens"


def test_no_label_is_the_one_that_does_not_count() -> None:
    spec = specification("gpt_small", "small")
    arranged = spec.arrange(data("imdb"))
    assert arranged.train.labels.min() > IGNORED
    assert arranged.train.labels.max() < VOCABULARY == spec.label_count
    assert arranged.digest == data("imdb").digest, "they are the same reviews"
