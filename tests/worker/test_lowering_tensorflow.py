"""What TensorFlow would do on CUDA, as far as a CPU can tell: the graphs are traced as they are for a GPU.

Without a GPU, TensorFlow computes on the CPU what is asked of ``/GPU:0``, so that the code for CUDA runs here.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from importlib import import_module
from typing import Any

import numpy as np
import pytest

from suite.plan.cell import WORKLOADS, Cell, Loader
from suite.worker.evidence.fingerprint import at_proof_rate
from tests.frameworks import batches, each_workload, framework_of, module, needs_frameworks
from workloads.spec import specification

pytestmark = needs_frameworks("tensorflow")

BATCH = 8


@contextmanager
def training(workload: str, device: str = "cuda", accumulate: int = 1) -> Iterator[Any]:
    """`Training` for a device; the LSTM with the kernel that needs none."""
    code = framework_of("tensorflow")
    kernel = "scan" if workload == "imdb_lstm" else "auto"
    cell = Cell(workload, "tensorflow", batch=BATCH, accumulate=accumulate, size="small", kernel=kernel)
    spec = at_proof_rate(specification(workload, "small"))
    code.prepare(cell, "cpu", 0)
    yield code.Training(cell, spec, module(workload, "tensorflow"), spec.reference_weights(0), device, dropout=False)


@cache
def traced(workload: str, accumulate: int) -> tuple[Any, Any]:
    """The graphs of a step and of its scores."""
    with training(workload, accumulate=accumulate) as running:
        batch = running.put(batches(specification(workload, "small"), accumulate * BATCH)[0])
        return running.function.get_concrete_function(*batch), running.scores.get_concrete_function(*batch)


#: A batch is cut by the framework's own file, whatever the workload.
each_traced = pytest.mark.parametrize(
    ("workload", "accumulate"), [*((name, 1) for name in WORKLOADS), ("imdb_lstm", 2)]
)


@each_traced
def test_no_integer_of_a_batch_leaves_the_gpu_inside_a_step(workload: str, accumulate: int) -> None:
    from tests.gpu_kernels import on_the_host

    assert [on_the_host(each.graph.inputs) for each in traced(workload, accumulate)] == [set(), set()]


@pytest.mark.parametrize("workload", ["cifar100_resnet18", "gpt_small", "imdb_lstm"])
def test_no_integer_leaves_the_gpu_in_what_serves(workload: str) -> None:
    import tensorflow as tf

    from tests.gpu_kernels import WHOLE, on_the_host

    spec = specification(workload, "small")
    with training(workload) as running:
        model = import_module("suite.worker.frameworks.tensorflow.inference").Model(running)
        inputs, _ = running.put(batches(spec, BATCH)[0])
        graphs = [model.forward.get_concrete_function(inputs)]
        if spec.decodes:
            prompts = inputs[:, : inputs.shape[1] // 2]
            graphs.append(model.prefilled.get_concrete_function(prompts))
            logits, caches, at = model.prefill(prompts)
            graph = model.decoded.get_concrete_function(logits, caches, tf.constant(at)).graph
            # The place alone comes from the host, as int32; the words, which come from the logits, stay.
            assert [each.name for each in graph.inputs if each.dtype in WHOLE] == ["at:0"]
            words = [each.outputs[0] for each in graph.get_operations() if each.type == "ArgMax"]
            assert len(words) == 1
            assert on_the_host(words) == set()
        assert [on_the_host(each.graph.inputs) for each in graphs] == [set() for _ in graphs]


def test_a_split_and_int32_are_noticed() -> None:
    import tensorflow as tf

    from tests.gpu_kernels import on_the_host

    def halves(tokens: Any, labels: Any) -> Any:
        return tf.split(tokens, 2), tf.cast(tf.cast(labels, tf.int32) + 1, tf.float32)

    found = tf.function(halves).get_concrete_function(tf.TensorSpec([4], tf.int32), tf.TensorSpec([4], tf.int64))
    assert on_the_host(found.graph.inputs) == {
        "argument tokens:0: int32",
        "Split: int32",
        "AddV2: int32",
        "Identity: int32",
    }


@each_workload
def test_a_step_without_accumulation_cuts_nothing(workload: str) -> None:
    graph = traced(workload, 1)[0].graph
    of_the_batch = {consumer.type for tensor in graph.inputs[:2] for consumer in tensor.consumers()}
    assert not of_the_batch & {"Split", "SplitV", "StridedSlice", "Slice"}


@pytest.mark.parametrize("workload", ["imdb_lstm"])
def test_the_gpu_s_types_change_no_number(workload: str) -> None:
    source = batches(specification(workload, "small"), BATCH)
    found = []
    for device in ("cpu", "cuda"):
        with training(workload, device) as running:
            put = [running.put(source[number]) for number in range(3)]
            losses = running.read([running.step(batch) for batch in put])
            scores = [array.tolist() for array in running.get(running.evaluate(put[0]))]
        found.append((losses, scores))
    assert found[0] == found[1]


@pytest.mark.parametrize("workload", ["imdb_lstm"])
@pytest.mark.parametrize("kind", ["naive", "workers", "tuned", "resident"])
def test_loaders_deliver_int64_to_a_gpu_and_the_same_batches(workload: str, kind: str) -> None:
    source = batches(specification(workload, "small"), BATCH)
    loader = Loader(kind, 1) if kind == "workers" else Loader(kind)
    cell = Cell(workload, "tensorflow", batch=BATCH, loader=loader, size="small")
    with training(workload) as running:
        delivered = import_module("suite.worker.loaders.tensorflow").batches(cell, source, "cuda", running.put)
        for number in range(source.per_epoch + 1):
            batch = next(delivered)
            assert "int32" not in {tensor.dtype.name for tensor in batch}
            for array, expected in zip(running.get(batch), source[number], strict=True):
                assert array.dtype == expected.dtype
                np.testing.assert_array_equal(array, expected)
        if kind == "resident":
            assert "int32" not in {tensor.dtype.name for tensor in delivered.plan}
        delivered.close()


def test_a_gpu_s_budget_is_recorded_as_it_comes(monkeypatch: pytest.MonkeyPatch) -> None:
    code = framework_of("tensorflow")
    import tensorflow as tf

    monkeypatch.setattr(tf.config, "list_physical_devices", lambda _: ["card"])
    monkeypatch.setattr(code, "other_accelerator", str)  # which this build, for a CPU, would take the card for
    monkeypatch.setattr(tf.config.experimental, "get_device_details", lambda _: {"device_name": "A GPU"})
    grown = []
    monkeypatch.setattr(tf.config.experimental, "set_memory_growth", lambda card, on: grown.append((card, on)))
    device, settings = code.prepare(Cell("cifar100_cnn", "tensorflow"), "auto", 0)
    assert (device, settings["device_name"], settings["memory_fraction"]) == ("cuda", "A GPU", None)
    assert settings["cuda_graphs"] is False
    assert grown == [("card", True)]
