"""A model that is split is the model, every device gets every sample, and no process has steps of its own."""

from __future__ import annotations

from importlib import import_module

import numpy as np
import pytest

from suite.plan.cell import Cell
from suite.plan.settings.strategies import STAGED
from suite.worker.distributed.process_group import ProcessGroup
from suite.worker.distributed.ranks import Ranks
from tests.frameworks import batches, module, narrow, needs_frameworks, training
from workloads.spec import WORKLOADS

each_staged = pytest.mark.parametrize("workload", STAGED)


@needs_frameworks
@pytest.mark.parametrize("framework", ["pytorch", "tensorflow"])
def test_the_workloads_that_can_be_split_name_their_stages(framework: str) -> None:
    assert [name for name in WORKLOADS if hasattr(module(name, framework), "stages")] == list(STAGED)


@needs_frameworks("pytorch")
@each_staged
def test_the_stages_of_pytorch_are_the_model(workload: str) -> None:
    import torch

    spec = narrow(workload)
    with training(workload, "pytorch", spec=spec) as running, torch.no_grad():
        inputs, _ = running.put(batches(spec, 4)[0])
        (first, begin), (second, end) = module(workload, "pytorch").stages(running.model)
        between = begin(inputs)
        assert between.is_contiguous(), "it is sent as it lies"
        assert torch.equal(end(between), running.model(inputs))
        owned = [parameter for layer in (*first, *second) for parameter in layer.parameters()]
        assert {id(each) for each in owned} == {id(each) for each in running.model.parameters()}
        assert len(owned) == len([*running.model.parameters()])


@needs_frameworks("tensorflow")
@each_staged
def test_the_stages_of_tensorflow_are_the_model_s_layers(workload: str) -> None:
    with training(workload, "tensorflow", spec=narrow(workload)) as running:
        first, second = module(workload, "tensorflow").stages(running.model)
        assert [*first, *second] == running.model.layers
        assert all(any(layer.trainable_variables for layer in stage) for stage in (first, second))


@pytest.mark.parametrize("framework", ["pytorch", "tensorflow", "jax"])
def test_every_process_takes_every_sample_and_trains_nothing_alone(framework: str) -> None:
    cell = Cell("imdb_lstm", framework, batch=4, accumulate=2, devices=2, strategy="split")
    team = ProcessGroup(cell, Ranks(1, 2))
    batch = np.arange(16), np.arange(16) % 2
    for found in (team.take_share(batch), team.take_share(batch, 2), team.join_shares(batch)):
        assert all(np.array_equal(mine, all_of_them) for mine, all_of_them in zip(found, batch, strict=True))
    assert team.alone() is None


@needs_frameworks
@pytest.mark.parametrize("framework", ["pytorch", "tensorflow", "jax"])
def test_the_file_of_the_strategy_has_what_a_team_asks_for(framework: str) -> None:
    team = ProcessGroup(Cell("imdb_lstm", framework, devices=2, strategy="split"), Ranks())
    assert team.devices is import_module(f"suite.worker.frameworks.{framework}.split")
    assert set(team.devices.__all__) == {"Training", "connect", "gradient_bytes", "loaders", "init_process_group"}
    assert "tuned" in team.devices.loaders(team.cell)
