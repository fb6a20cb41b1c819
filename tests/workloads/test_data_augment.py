"""One order and one set of draws for all frameworks, owned by samples; an evaluation is once over the test split."""

from __future__ import annotations

import hashlib

import numpy as np
import pytest

from suite.worker.launch.training import evaluate
from workloads.data import synthetic
from workloads.data.augment import PAD, Batches, Share, batches_digest, crop_and_flip, epoch, evaluation_batches
from workloads.data.dataset import Array, DataError, DataSet, contiguous_bytes


@pytest.fixture(scope="module")
def images():
    return synthetic.generate("cifar100", 300, 100)


@pytest.fixture(scope="module")
def reviews():
    return synthetic.generate("imdb", 100, 20)


def test_golden_epoch():
    plan = epoch(seed=1, number=2, samples=1000)
    total = hashlib.sha256()
    for array in (plan.order, plan.rows, plan.columns, plan.flips):
        total.update(contiguous_bytes(array))
    assert [array.dtype.str for array in (plan.order, plan.rows, plan.columns, plan.flips)] == [
        "<i8",
        "<i4",
        "<i4",
        "|b1",
    ]
    assert total.hexdigest() == "96b346f1109c0e00c7b24a8054f8f89c20626184e2f5fa0a5fa82b0c788fb4a5"


def test_crop_and_flip_against_the_plain_definition(images):
    inputs = images.train.inputs[:40]
    plan = epoch(5, 0, 40)
    out = crop_and_flip(inputs, plan.rows, plan.columns, plan.flips)
    assert out.dtype == np.uint8
    assert out.shape == inputs.shape
    for index, image in enumerate(inputs):
        padded = np.zeros((32 + 2 * PAD, 32 + 2 * PAD, 3), np.uint8)
        padded[PAD:-PAD, PAD:-PAD] = image
        row, column = plan.rows[index], plan.columns[index]
        expected = padded[row : row + 32, column : column + 32]
        np.testing.assert_array_equal(out[index], expected[:, ::-1] if plan.flips[index] else expected)


def test_draws_belong_to_samples_whatever_the_batch(images):
    def by_sample(batch):
        plan, batches = epoch(9, 1, 300), Batches(images, batch, 9)
        rows = np.concatenate([batches[batches.per_epoch + i][0] for i in range(300 // batch)])
        return dict(zip(plan.order.tolist(), rows, strict=True))

    small, large = by_sample(10), by_sample(75)
    assert all(np.array_equal(small[sample], large[sample]) for sample in range(300))


def test_batches_run_through_the_epochs_and_drop_the_rest(images):
    batches = Batches(images, 128, 4)
    assert batches.per_epoch == 2
    labels = images.train.labels
    for number, (plan, start) in enumerate([(0, 0), (0, 128), (1, 0)]):
        chosen = epoch(4, plan, 300).order[start : start + 128]
        np.testing.assert_array_equal(batches[number][1], labels[chosen])
    with pytest.raises(DataError, match="batch 301 is larger than cifar100's 300"):
        Batches(images, 301, 4)


def test_token_batches_are_the_ends_of_the_reviews(reviews):
    whole, short = Batches(reviews, 10, 2)[3][0], Batches(reviews, 10, 2, length=80)[3][0]
    assert whole.shape == (10, 500)
    assert whole.dtype == short.dtype == np.int32
    np.testing.assert_array_equal(short, whole[:, -80:])
    np.testing.assert_array_equal(whole, reviews.train.inputs[epoch(2, 0, 100).order[30:40]])


def test_batches_digest_sees_bytes_types_and_order(images, reviews):
    batches = [Batches(images, 10, 1)[i] for i in range(2)]
    changed = [(batches[0][0], batches[0][1].astype(np.int64)), batches[1]]
    digests = [batches_digest(list_) for list_ in (batches, batches[::-1], batches[:1], changed)]
    assert len(set(digests)) == 4
    assert batches_digest(batches) == digests[0]


@pytest.mark.parametrize("parts", [1, 2])
@pytest.mark.parametrize("devices", [2, 4])
def test_the_shares_of_all_processes_are_the_global_batch_bit_for_bit(devices: int, parts: int) -> None:
    data = synthetic.generate("cifar100", 200, 100)
    whole = Batches(data, 32, seed=3)
    shares = [Batches(data, 32, seed=3, share=Share(devices, parts, first, 1)) for first in range(devices)]
    for number in (0, 5, 6, 13):  # in three epochs
        pieces = [share[number] for share in shares]
        for at in (0, 1):
            assert np.array_equal(Share(devices, parts).whole([piece[at] for piece in pieces]), whole[number][at])
            for first, piece in enumerate(pieces):
                assert np.array_equal(Share(devices, parts, first, 1).of(whole[number][at]), piece[at])
    assert np.array_equal(shares[1].in_memory()[3][0], shares[1][3][0])
    one_process = Batches(data, 32, seed=3, share=Share(devices, 1, 0, devices))
    assert np.array_equal(one_process[6][0], whole[6][0])


BATCHES = [1, 7, 23, 500]  # of 23 samples: each, some with a rest, all, more than all


@pytest.fixture(scope="module", params=["cifar100", "imdb"])
def data(request: pytest.FixtureRequest) -> DataSet:
    """Fewer test samples than training samples, and no sample of one that is in the other."""
    made = synthetic.generate(request.param, 60, 23)
    test = {sample.tobytes() for sample in made.test.inputs}
    assert len(test) == 23
    assert not test & {sample.tobytes() for sample in made.train.inputs}
    return made


def counted(data: DataSet, batch: int) -> tuple[Array, Array]:
    """Inputs and labels of all samples that count."""
    inputs, labels = [], []
    for some, their_labels, count in evaluation_batches(data, batch):
        assert len(some) == len(their_labels) == batch, "a last batch of another size would be compiled anew"
        inputs.append(some[:count])
        labels.append(their_labels[:count])
    return np.concatenate(inputs), np.concatenate(labels)


@pytest.mark.parametrize("batch", BATCHES)
def test_every_sample_of_the_test_split_comes_once_in_order_as_it_is(data: DataSet, batch: int) -> None:
    inputs, labels = counted(data, batch)
    np.testing.assert_array_equal(inputs, data.test.inputs)
    np.testing.assert_array_equal(labels, data.test.labels)
    assert inputs.dtype == (np.uint8 if data.name == "cifar100" else np.int32)


class Scored:
    """A `Training` whose loss of a sample is the sum of its input, and which is right about even labels."""

    def put(self, batch: tuple[Array, Array]) -> tuple[Array, Array]:
        return batch

    get = put

    def evaluate(self, batch: tuple[Array, Array]) -> tuple[Array, Array]:
        inputs, labels = batch
        return inputs.reshape(len(inputs), -1).sum(1, dtype=np.float64), labels % 2 == 0


@pytest.mark.parametrize("batch", BATCHES)
def test_loss_and_accuracy_are_means_over_the_test_split(data: DataSet, batch: int) -> None:
    loss, accuracy = evaluate(Scored(), data, None, batch)
    assert loss == pytest.approx(data.test.inputs.reshape(23, -1).sum(1, dtype=np.float64).mean(), rel=1e-12)
    assert accuracy == pytest.approx(np.mean(data.test.labels % 2 == 0))
