"""The twins are like the real data where it matters for speed, and the same bytes everywhere."""

from __future__ import annotations

import numpy as np
import pytest

from workloads.data import synthetic
from workloads.data.dataset import DataError
from workloads.data.tokenizer import PADDING, UNKNOWN

# The real training images' mean and deviation by channel, from 0 to 255.
MEAN = (129.30, 124.07, 112.43)
DEVIATION = (68.17, 65.39, 70.42)


@pytest.fixture(scope="module")
def images():
    return synthetic.generate("cifar100", 4000, 200)


@pytest.fixture(scope="module")
def reviews():
    return synthetic.generate("imdb", 4000, 2000)


def test_golden_digests(images, reviews):
    assert images.digest == "83d4215bb1ff02b59581c69ae09e1b5d3ab81a872d6e75ffd3ad47c3cac7766b"
    assert reviews.digest == "bb261aa509f69cfef1b7d4a5c8e16c75df81d924d362c900c274356dc0aaf4d2"
    assert {images.kind, reviews.kind} == {"synthetic"}
    assert (images.name, reviews.name) == ("cifar100", "imdb")


def test_the_splits_have_the_real_sizes_and_differ(images):
    assert {name: sizes for name, (_, sizes) in synthetic.TWINS.items()} == {
        "cifar100": (50_000, 10_000),
        "imdb": (25_000, 25_000),
    }
    assert not np.array_equal(images.train.inputs[:200], images.test.inputs)


def test_images_have_the_real_mean_and_deviation_and_are_smooth(images):
    pixels = images.train.inputs[:2000].astype(np.float32)
    np.testing.assert_allclose(pixels.mean((0, 1, 2), dtype=np.float64), MEAN, atol=1.5)
    np.testing.assert_allclose(pixels.std((0, 1, 2), dtype=np.float64), DEVIATION, atol=1.5)
    assert pixels.std((1, 2)).min() > 20  # none is constant
    neighbours = np.abs(np.diff(pixels, axis=2)).mean()
    assert 10 < neighbours < 20  # 14 in the real ones, 80 in noise
    assert len({image.tobytes() for image in images.train.inputs}) == 4000


def test_reviews_have_the_real_lengths_and_frequencies(reviews):
    tokens = reviews.train.inputs
    lengths = (tokens != PADDING).sum(1)
    assert lengths.mean() == pytest.approx(218.3, rel=0.02)
    assert (lengths == 500).mean() == pytest.approx(0.080, abs=0.01)
    assert lengths.min() >= 10
    # Padding on the left only.
    assert all((tokens[np.arange(4000), -lengths + offset] != PADDING).all() for offset in range(10))
    counts = np.bincount(tokens.ravel(), minlength=5000)[1:]
    assert tokens.max() == 4999
    share = counts / counts.sum()
    np.testing.assert_allclose(share[:4], [0.0981, 0.0576, 0.0282, 0.0279], rtol=0.02)
    np.testing.assert_allclose(share.cumsum()[[31, 511, 2047]], [0.460, 0.791, 0.929], atol=0.005)
    assert share[UNKNOWN - 1] == share.max()


def test_an_unknown_name_is_an_error():
    with pytest.raises(DataError, match="no synthetic twin of 'mnist'; there are: cifar100, imdb"):
        synthetic.generate("mnist")
