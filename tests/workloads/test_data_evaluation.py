"""An evaluation is over the whole test split, over nothing else, and over each sample once."""

from __future__ import annotations

import numpy as np
import pytest

from suite.worker.launch.training import evaluate
from workloads.data import synthetic
from workloads.data.augment import evaluation_batches
from workloads.data.dataset import Array, DataSet

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


def test_a_length_cuts_reviews_at_their_ends() -> None:
    data = synthetic.generate("imdb", 10, 5)
    ((inputs, _, _),) = evaluation_batches(data, 5, length=80)
    np.testing.assert_array_equal(inputs, data.test.inputs[:, -80:])


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
