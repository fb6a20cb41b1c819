"""The allocator of a GPU's memory: chosen by variables, and read back. No GPU needed."""

from __future__ import annotations

from importlib import import_module
from types import SimpleNamespace
from typing import Any

import pytest

from suite.plan.cell import Cell
from suite.worker.frameworks import UnsupportedError
from tests.frameworks import each_framework, framework_of, needs_frameworks

pytestmark = needs_frameworks


def cell_of(framework: str, allocator: str) -> Cell:
    return Cell("imdb_lstm", framework, allocator=allocator)


@each_framework
@pytest.mark.parametrize("allocator", ["cudaMallocAsync", "preallocated"])
def test_a_cpu_has_no_allocator_to_choose(framework: str, allocator: str) -> None:
    with pytest.raises(UnsupportedError, match="no allocator of GPU memory to choose"):
        framework_of(framework).prepare(cell_of(framework, allocator), "cpu", 0)


@needs_frameworks("pytorch")
@pytest.mark.parametrize(
    ("backend", "expandable", "found"),
    [("native", False, "default"), ("native", True, "expandable"), ("cudaMallocAsync", False, "cudaMallocAsync")],
)
def test_pytorch_names_its_allocator(
    monkeypatch: pytest.MonkeyPatch, backend: str, expandable: bool, found: str
) -> None:
    import torch

    monkeypatch.setattr(torch.cuda, "get_allocator_backend", lambda: backend)
    monkeypatch.setattr(torch.cuda, "memory_snapshot", lambda: [{"is_expandable": expandable}])
    monkeypatch.setattr(torch, "empty", lambda *shape, device: (shape, device))
    assert device_of("pytorch").allocator() == found


@needs_frameworks("tensorflow")
@pytest.mark.parametrize(
    ("variables", "found"),
    [
        ({}, "default"),
        ({"TF_GPU_ALLOCATOR": "cuda_malloc_async"}, "cudaMallocAsync"),
        ({"TF_FORCE_GPU_ALLOW_GROWTH": "false"}, "preallocated"),
        ({"TF_FORCE_UNIFIED_MEMORY": "1"}, "unified"),
    ],
)
def test_tensorflow_s_allocator_is_that_of_its_variables(
    monkeypatch: pytest.MonkeyPatch, variables: dict[str, str], found: str
) -> None:
    set_only(monkeypatch, variables)
    assert device_of("tensorflow").allocator() == found


@needs_frameworks("jax")
@pytest.mark.parametrize(
    ("variables", "pool", "found"),
    [
        ({}, 2, "default"),
        ({"XLA_PYTHON_CLIENT_ALLOCATOR": "cuda_async"}, 0, "cudaMallocAsync"),
        ({"XLA_PYTHON_CLIENT_ALLOCATOR": "bfc"}, 100, "preallocated"),
        ({"XLA_PYTHON_CLIENT_ALLOCATOR": "bfc", "TF_FORCE_UNIFIED_MEMORY": "1"}, 2, "unified"),
    ],
)
def test_jax_s_allocator_is_that_of_its_variables_and_its_pool(
    monkeypatch: pytest.MonkeyPatch, variables: dict[str, str], pool: int, found: str
) -> None:
    set_only(monkeypatch, variables)
    card = SimpleNamespace(memory_stats=lambda: {"pool_bytes": pool, "bytes_limit": 100})
    stand_in = SimpleNamespace(
        local_devices=lambda backend: [card],
        device_put=lambda value, place: SimpleNamespace(block_until_ready=lambda: value),
    )
    monkeypatch.setattr(device_of("jax"), "jax", stand_in)
    assert device_of("jax").allocator() == found


def device_of(framework: str) -> Any:
    framework_of(framework)
    return import_module(f"suite.worker.frameworks.{framework}.device")


def set_only(monkeypatch: pytest.MonkeyPatch, variables: dict[str, str]) -> None:
    from suite.plan.settings.allocators import REPLACED

    for name in REPLACED:
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)


#: 1 PiB of float32, more than an address space has.
TOO_MUCH = (1 << 24, 1 << 24)
ALLOCATIONS = {
    "pytorch": lambda: import_module("torch").ones(TOO_MUCH),
    "tensorflow": lambda: import_module("tensorflow").ones(TOO_MUCH),
    "jax": lambda: import_module("jax").numpy.ones(TOO_MUCH).block_until_ready(),
}


# TensorFlow tries again for ten seconds.
@pytest.mark.parametrize("framework", ["pytorch", pytest.param("tensorflow", marks=pytest.mark.slow), "jax"])
def test_an_allocation_that_fails_is_told_from_other_errors(framework: str) -> None:
    code = framework_of(framework)
    with pytest.raises(Exception) as raised:  # noqa: PT011 - each framework's own
        ALLOCATIONS[framework]()
    assert code.out_of_memory(raised.value), raised.value
    assert not code.out_of_memory(ValueError("another"))
