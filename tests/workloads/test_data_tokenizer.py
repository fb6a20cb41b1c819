"""The tokenizer does exactly what its text says."""

from __future__ import annotations

import numpy as np
import pytest

from workloads.data.tokenizer import LENGTH, UNKNOWN, encode, vocabulary, words


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
