"""Which cores a launch gets, on machines of other shapes than this one."""

from __future__ import annotations

from pathlib import Path

import pytest

from suite.plan.cell import Cell
from suite.session.launches import ranks
from suite.session.launches.ranks import place

#: The socket and the core of each hardware thread: two sockets of two cores, whose second threads come last.
MACHINE = [(0, 0), (0, 1), (1, 0), (1, 1), (0, 0), (0, 1), (1, 0), (1, 1)]
ALL = list(range(len(MACHINE)))


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for number, (socket, core) in enumerate(MACHINE):
        folder = tmp_path / f"cpu{number}" / "topology"
        folder.mkdir(parents=True)
        (folder / "physical_package_id").write_text(f"{socket}\n")
        (folder / "core_id").write_text(f"{core}\n")
    monkeypatch.setattr(ranks, "TOPOLOGY", tmp_path)
    monkeypatch.setattr(ranks, "own_cores", lambda: ALL)
    monkeypatch.setattr(ranks, "usable_cores", lambda: len(ALL))
    monkeypatch.setattr(ranks, "has_gpu", lambda: False)


@pytest.mark.usefixtures("machine")
@pytest.mark.parametrize(
    ("bind", "count", "cores"),
    [
        ("", 0, ALL),
        ("compact", 0, [0, 4, 1, 5, 2, 6, 3, 7]),
        ("spread", 0, [0, 2, 1, 3]),
        ("spread", 4, [0, 2, 1, 3]),
        ("spread", 5, [0, 2, 1, 3, 4, 6, 5, 7]),
    ],
)
def test_cores_are_taken_in_order(bind: str, count: int, cores: list[int]) -> None:
    assert place(ALL, bind, count) == cores


def test_without_a_topology_each_core_is_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ranks, "TOPOLOGY", tmp_path)
    assert place([3, 1], "compact") == place([3, 1], "spread") == [1, 3]


@pytest.mark.usefixtures("machine")
@pytest.mark.parametrize(
    ("settings", "cores"),
    [
        ({}, [None]),
        ({"cores": 2}, ["0,1"]),
        ({"cores": 2, "bind": "compact"}, ["0,4"]),
        ({"cores": 2, "bind": "spread"}, ["0,2"]),
        ({"bind": "spread"}, ["0,2,1,3"]),
        ({"devices": 2, "cores": 2, "bind": "compact"}, ["0,4", "1,5"]),
        ({"devices": 2, "bind": "spread"}, ["0,2", "1,3"]),
    ],
)
def test_each_process_gets_its_cores(settings: dict[str, int | str], cores: list[str | None]) -> None:
    cell = Cell("imdb_lstm", "pytorch").but(**settings)
    assert [each.get("SUITE_CORES") for each in ranks.environments(cell, "cpu")] == cores


@pytest.mark.usefixtures("machine")
def test_more_cores_than_there_are_cannot_be_had() -> None:
    assert (
        ranks.impossible(Cell("imdb_lstm", "jax", cores=9), "cpu") == "the cell needs 9 cores, and 8 can be used here"
    )
    assert not ranks.impossible(Cell("imdb_lstm", "jax", cores=8), "cpu")
