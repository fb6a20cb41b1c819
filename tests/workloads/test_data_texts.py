"""Texts: their words by the tokenizer's own text, and one stream of them cut into windows."""

from __future__ import annotations

import numpy as np
import pytest

from tests.frameworks import data
from workloads.data.dataset import DataSet, Split
from workloads.data.tokenizer import LENGTH, PADDING, UNKNOWN, encode, vocabulary, words
from workloads.data.windows import next_words
from workloads.gpt_small.spec import IGNORED, VOCABULARY
from workloads.spec import specification


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("This movie was GREAT!!!", ["this", "movie", "was", "great"]),
        ("Don't.<br /><br />Watch", ["don't", "watch"]),
        ("one<br />two", ["one", "two"]),
        ("'quoted' rock'n'roll the boys' '90s", ["quoted", "rock'n'roll", "the", "boys", "90s"]),
        ("well-made, 10/10 snake_case", ["well", "made", "10", "10", "snake", "case"]),
        ("Amélie İ ÅNGSTRÖM", ["amélie", "i", "ångström"]),
        ("it''s <i>so</i>", ["it", "s", "i", "so", "i"]),
        ("so… \u2013 \x96 “good” & bad", ["so", "good", "bad"]),
        ("", []),
        ("?!", []),
    ],
)
def test_words(text, expected):
    assert words(text) == expected


def test_ids_go_by_frequency_and_then_by_code_point():
    assert vocabulary(["b a c", "c b", "é z c"]) == {"c": 2, "b": 3, "a": 4, "z": 5, "é": 6}


def test_the_vocabulary_counts_padding_and_unknown():
    ids = vocabulary([" ".join(f"w{number}" for number in range(100))], size=10)
    assert sorted(ids.values()) == list(range(2, 10))


def test_short_reviews_are_padded_and_long_ones_cut_on_the_left():
    ids = {"a": 2, "b": 3, "c": 4}
    rows = encode(["a b", "a a b x c", "", "c"], ids, length=3)
    assert rows.tolist() == [[0, 2, 3], [3, UNKNOWN, 4], [0, 0, 0], [0, 0, 4]]
    assert rows.dtype == np.uint16
    assert encode([], ids).shape == (0, LENGTH)
    assert encode(["a"], ids).shape == (1, LENGTH)


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
