"""The synthetic twins: replacements for real data that is not available, for measuring speed only.

Same shapes, types, split sizes and label counts as the real data. The images are smooth random fields with a little
noise, with the real mean and deviation of each channel; the tokens have the real frequencies and lengths of reviews,
but no order. Labels are independent of the inputs, so there is nothing to learn.

All arithmetic is on integers drawn from Philox's raw output, which NumPy keeps stable, so that a twin is the same bytes
on every machine. (Zeros or constants would not do: they make a GPU draw less power and run faster.)
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from workloads.data.cache import with_digest
from workloads.data.dataset import Array, DataError, DataSet, Split
from workloads.data.progress import progress
from workloads.data.tokenizer import LENGTH, PADDING, VOCABULARY

SEED = 20211
CHUNK = 1000  # samples generated at once, which bounds the memory

# Mean of each channel (red, green, blue) over the CIFAR-100 training images: 129.30, 124.07, 112.43; deviation 68.17,
# 65.39, 70.42. The gains (in 1/16384) and offsets below give the fields that mean and deviation after clipping to a
# byte; they were chosen by trial.
GAINS = np.array([164, 155, 174], dtype=np.int32)
CENTRES = np.array([130, 125, 112], dtype=np.int32)
NODES = 5  # a field is drawn on 5x5 nodes, 8 pixels apart, and interpolated between them
CELL = 8

# Words per review of the IMDB training split (after `workloads.data.tokenizer`, cut at 500) at the quantiles 0, 1/25,
# 2/25, ... 1.
# fmt: off
LENGTHS = np.array([
    10, 59, 80, 100, 112, 120, 126, 131, 137, 144, 152, 160, 169,
    180, 192, 206, 222, 241, 263, 291, 324, 364, 421, 500, 500, 500,
])
# fmt: on
# How many of 2**20 tokens of the IMDB training split, padding left out, have an id up to this one. Between the ids the
# frequency is taken as constant.
# fmt: off
TOKENS_UP_TO = {
    1: 102876, 2: 163257, 3: 192824, 4: 222069, 6: 272317, 8: 308480, 11: 350965, 16: 396467, 23: 441811, 32: 482784,
    45: 526464, 64: 572147, 91: 618511, 128: 663746, 181: 706683, 256: 748757, 362: 789397, 512: 829078, 724: 867740,
    1024: 905628, 1448: 941102, 2048: 974339, 2896: 1005402, 4096: 1033536, 4999: 1048576,
}
# fmt: on


def generate(name: str, train: int | None = None, test: int | None = None) -> DataSet:
    """The twin of ``cifar100`` or ``imdb``, with the real number of samples in each split by default.

    Raises `DataError` for another name, and if the twin of real size differs from that on other machines.
    """
    if name not in TWINS:
        raise DataError(f"no synthetic twin of {name!r}; there are: {', '.join(TWINS)}")
    make, (real_train, real_test) = TWINS[name]
    splits = (make(real_train if train is None else train, 0), make(real_test if test is None else test, 1))
    data = with_digest(name, "synthetic", *splits)
    expected = DIGESTS.get((name, len(data.train), len(data.test)))
    if expected and data.digest != expected:
        raise DataError(
            f"the twin of {name} comes out with digest {data.digest[:16]}..., not {expected[:16]}...; "
            f"NumPy {np.__version__} draws differently here: install another version"
        )
    return data


def expected_digest(name: str, train: int, test: int) -> str | None:
    """The digest of the twin with so many samples; None if there is none: it is empty or larger than the real data.

    That of the real size is known. Smaller ones are for tests, and generated anew, which takes milliseconds for them.
    """
    if name not in TWINS or not 0 < train <= TWINS[name][1][0] or not 0 < test <= TWINS[name][1][1]:
        return None
    return DIGESTS.get((name, train, test)) or generate(name, train, test).digest


def images(count: int, stream: int) -> Split:
    """CIFAR-100's twin: images uint8 ``(count, 32, 32, 3)``, labels int32 ``(count,)``, as many of each class."""
    raw = np.random.Philox(key=[SEED, stream])
    labels = (np.arange(count, dtype=np.int32) % 100)[np.argsort(raw.random_raw(count), kind="stable")]
    inputs = np.empty((count, 32, 32, 3), dtype=np.uint8)
    for start in progress(range(0, count, CHUNK), "cifar100: generating", "thousand image"):
        size = min(CHUNK, count - start)
        light = _bytes(raw, (size, NODES, NODES, 1)).astype(np.int32)
        colour = _bytes(raw, (size, NODES, NODES, 3)).astype(np.int32)
        # The real channels go together (correlation 0.7 to 0.9): two parts of common light, one of own colour.
        field = _interpolate(_interpolate(2 * light + colour, 1), 2)
        field -= 3 * 255 * CELL * CELL // 2
        field *= GAINS
        field >>= 14
        field += CENTRES
        field += _bytes(raw, field.shape) >> 3
        field -= 16
        inputs[start : start + size] = np.clip(field, 0, 255)
    return Split(inputs, labels)


def reviews(count: int, stream: int) -> Split:
    """IMDB's twin: tokens uint16 ``(count, 500)``, labels int32 ``(count,)``, first the zeros, then as many ones."""
    raw = np.random.Philox(key=[SEED, 2 + stream])
    labels = (np.arange(count, dtype=np.int32) >= count // 2).astype(np.int32)
    slots = _slots()
    inputs = np.empty((count, LENGTH), dtype=np.uint16)
    for start in progress(range(0, count, CHUNK), "imdb: generating", "thousand review"):
        size = min(CHUNK, count - start)
        place = _bytes(raw, (size, 2)).view("<u2")[:, 0].astype(np.int64) * (len(LENGTHS) - 1)
        below, part = place >> 16, place & 0xFFFF
        lengths = LENGTHS[below] + ((LENGTHS[below + 1] - LENGTHS[below]) * part >> 16)
        tokens = slots[_bytes(raw, (size, 4 * LENGTH)).view("<u4") >> 12]
        inputs[start : start + size] = np.where(np.arange(LENGTH) < LENGTH - lengths[:, None], PADDING, tokens)
    return Split(inputs, labels)


# By data set: what makes one split, and how many samples the real splits have.
TWINS: dict[str, tuple[Callable[[int, int], Split], tuple[int, int]]] = {
    "cifar100": (images, (50_000, 10_000)),
    "imdb": (reviews, (25_000, 25_000)),
}
# The digests of the twins of real size, by data set and numbers of samples.
DIGESTS = {
    ("cifar100", 50_000, 10_000): "7d79421e8c4c0cb963996b042971af23547a41ebd314abb767f0cc80b450afe4",
    ("imdb", 25_000, 25_000): "0e3a6317f77c4306279bc1997236ecc05c17f6ea54462de64d30f404b402f019",
}


def _bytes(raw: np.random.Philox, shape: tuple[int, ...]) -> Array:
    """Uniform bytes of this shape, the same on little-endian and big-endian machines."""
    count = int(np.prod(shape))
    words = raw.random_raw(-(-count // 8)).astype("<u8", copy=False)
    return words.view(np.uint8)[:count].reshape(shape)


def _interpolate(nodes: Array, axis: int) -> Array:
    """Linear between the nodes along an axis: from 5 nodes to 32 points, times `CELL` so as to stay in integers."""
    points = np.arange((NODES - 1) * CELL)
    shape = [1] * nodes.ndim
    shape[axis] = len(points)
    right = (points % CELL).astype(nodes.dtype).reshape(shape)
    below = points // CELL
    interpolated: Array = nodes.take(below, axis) * (CELL - right) + nodes.take(below + 1, axis) * right
    return interpolated


def _slots() -> Array:
    """A table of 2**20 token ids in which each id stands as often as its frequency asks, uint16."""
    known = np.array([0, *TOKENS_UP_TO], dtype=np.int64)
    counts = np.array([0, *TOKENS_UP_TO.values()], dtype=np.int64)
    ids = np.arange(VOCABULARY)
    segment = np.clip(np.searchsorted(known, ids, "right") - 1, 0, len(known) - 2)
    width, height = known[segment + 1] - known[segment], counts[segment + 1] - counts[segment]
    up_to = counts[segment] + (ids - known[segment]) * height // width
    return np.repeat(ids[1:].astype(np.uint16), np.diff(up_to))
