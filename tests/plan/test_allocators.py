from __future__ import annotations

import pytest

from suite.plan.cell import ALLOCATORS, FRAMEWORKS, Cell
from suite.plan.settings.allocators import CHOSEN_BY, LACKING, ON_A_CPU, lacking, list_variables, variables
from suite.record.job import Job
from suite.session.launches import launch


@pytest.mark.parametrize("framework", FRAMEWORKS)
@pytest.mark.parametrize("allocator", ALLOCATORS)
def test_each_framework_has_an_allocator_or_a_reason_and_a_cpu_has_none(framework: str, allocator: str) -> None:
    cell = Cell("imdb_lstm", framework, allocator=allocator)
    assert (allocator in CHOSEN_BY[framework]) != ((framework, allocator) in LACKING)
    assert bool(lacking(cell, "cuda")) == (allocator not in CHOSEN_BY[framework])
    assert lacking(cell, "cpu") == ("" if allocator == "default" else ON_A_CPU)


def test_a_choice_replaces_the_user_s_variables_and_the_default_leaves_them() -> None:
    own = {"PYTORCH_CUDA_ALLOC_CONF": "max_split_size_mb:64", "PATH": "/bin"}
    cell = Cell("imdb_lstm", "pytorch", allocator="cudaMallocAsync")
    assert variables(cell, own) == {"PATH": "/bin", "PYTORCH_ALLOC_CONF": "backend:cudaMallocAsync"}
    assert variables(cell.but(allocator="default"), own) == own
    assert "PYTORCH_ALLOC_CONF" in list_variables(cell)
    assert not list_variables(cell.but(allocator="default"))


def test_a_worker_starts_with_the_variables_of_its_allocator(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XLA_PYTHON_CLIENT_ALLOCATOR", "platform")
    cell = Cell("imdb_lstm", "jax", allocator="preallocated")
    found = launch.variables(Job(cell, ""), "")
    assert (found["XLA_PYTHON_CLIENT_PREALLOCATE"], found["XLA_PYTHON_CLIENT_ALLOCATOR"]) == ("true", "bfc")
    usual = launch.variables(Job(cell.but(allocator="default"), ""), "")
    assert (usual["XLA_PYTHON_CLIENT_PREALLOCATE"], usual["XLA_PYTHON_CLIENT_ALLOCATOR"]) == ("false", "platform")
