"""A stored result's releases are built again from their locks, and a stranger's lock installs nothing by itself."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import Any

import pytest

from suite.analysis.records.load import LoadError
from suite.plan.cell import Cell
from suite.record.record import Record
from suite.releases.environments import build
from suite.releases.uv import ReleaseError
from suite.reproduce.install import rebuild
from tests import records
from tests.releases.conftest import MINOR

pytestmark = pytest.mark.launches

NAMES = ("flax", "grain", "jax", "keras", "msgspec", "numpy", "optax", "psutil")
HEAD = f"# CPython 3.{MINOR}\n"
LOCK = HEAD + "".join(f"{name}==1.0 --hash=sha256:{'a' * 64}\n" for name in NAMES)


def stored(lock: str) -> dict[Cell, list[Record]]:
    digest = hashlib.sha256(lock.encode()).hexdigest()
    record = records.record("jax", workload="imdb_lstm", release="0.9.2", environment={"lock": digest})
    usual = records.record("jax", workload="imdb_lstm")
    return {record.cell: [record], usual.cell: [usual]}


def again(lock: str, folder: Path | None, answer: str = "y", **runs: Any) -> list[str]:
    told: list[str] = []
    runs = runs or {"run-a": {"locks": {"jax 0.9.2": lock}}}
    rebuild(stored(lock), runs, folder, agreed=False, ask=lambda _: answer, say=told.append)
    return told


@pytest.fixture(autouse=True)
def _own(tool: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SUITE_PYTHON_JAX_0_9_2", "")


def test_the_same_environment_is_built_again(tmp_path: Path) -> None:
    told = again(LOCK, tmp_path / "again")
    assert told[0] == f"jax 0.9.2: 8 packages of its lock, into {tmp_path / 'again'}"
    assert told[-1] == "jax 0.9.2: the same files as stored, to the hash"
    python = str(tmp_path / "again" / "jax-0.9.2" / "bin" / "python")
    assert os.environ["SUITE_PYTHON_JAX_0_9_2"] == python
    asked = Path(os.environ["ASKED"]).read_text()
    assert asked.splitlines().count("jax==1.0") == 1, "its versions are constraints"


def test_what_differs_from_the_lock_is_named(tmp_path: Path) -> None:
    other = LOCK.replace(f"flax==1.0 --hash=sha256:{'a' * 64}", f"flax==1.0 --hash=sha256:{'b' * 64}")
    more = other + f"evil==6.6 --hash=sha256:{'c' * 64}\n"
    told = again(more, tmp_path / "again")
    assert told[-1].startswith(
        "jax 0.9.2: differs from the stored lock (evil nothing, not 6.6; another file of flax 1.0"
    )
    installed = (tmp_path / "again" / "jax-0.9.2" / "suite-lock.txt").read_text()
    assert "evil" not in installed, "a constraint installs nothing"


def test_without_an_environment_and_without_a_folder_the_way_out_is_named(tool: Path) -> None:
    with pytest.raises(LoadError, match=r"jax 0\.9\.2 is not built here; add --install DIR"):
        again(LOCK, None)
    build("jax", "0.9.2", lambda _: None)
    assert again(LOCK, None) == ["jax 0.9.2: the same files as stored, to the hash"]


def test_nothing_is_built_unless_somebody_says_yes(tmp_path: Path) -> None:
    with pytest.raises(LoadError, match="nothing was installed"):
        again(LOCK, tmp_path / "again", answer="no")
    assert not (tmp_path / "again").exists()


@pytest.mark.parametrize(
    "runs", [{"a": None}, {"a": {"locks": []}}, {"a": {"locks": {"jax 0.9.2": LOCK + "x"}}}, {"a": {}}]
)
def test_a_lock_that_is_not_the_one_of_the_records_is_not_taken(runs: dict[str, Any], tmp_path: Path) -> None:
    told = again(LOCK, tmp_path / "again", **runs)
    assert "resolved anew, no lock of it is stored" in told[0]
    assert told[-1] == "jax 0.9.2: nothing is known of the stored environment"


@pytest.mark.parametrize(
    "lock", ["-e /tmp/evil", HEAD + "jax==1.0; evil --hash=sha256:" + "a" * 64, HEAD + "../jax==1"]
)
def test_a_lock_that_is_none_is_refused(lock: str, tmp_path: Path) -> None:
    with pytest.raises(ReleaseError, match="the stored lock of a release is not one"):
        again(lock, tmp_path / "again")


def test_a_lock_of_a_python_that_is_not_here_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ReleaseError, match=r"was built with Python 3\.99, which this machine lacks"):
        again(LOCK.replace(HEAD, "# CPython 3.99\n"), tmp_path / "again")
