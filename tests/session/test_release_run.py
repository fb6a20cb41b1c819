"""``pytest suite --release``: each release starts in its own interpreter, and the run keeps its lock."""

from __future__ import annotations

from pathlib import Path

import pytest

from suite.record.parts.environment import LOCK_FILE
from suite.session.journal import read
from tests.sessions import Suite, records_of, refused

ARGUMENTS = ("suite", "--benchmark-save=r", "--workload=imdb_lstm", "--launches=1", "--release=jax=0.9.2")
LOCK = f"# CPython 3.11\njax==0.9.2 --hash=sha256:{'a' * 64}\n"


@pytest.fixture
def released(suite: Suite, tmp_path: Path) -> Suite:
    """A suite whose cache holds JAX 0.9.2, with the stand-in for its Python."""
    place = tmp_path / "cache" / "releases" / "jax-0.9.2"
    (place / "bin").mkdir(parents=True)
    (place / "bin" / "python").symlink_to(suite.environment["SUITE_PYTHON_JAX"])
    (place / LOCK_FILE).write_text(LOCK)
    suite.environment |= {"SUITE_CACHE_DIR": str(tmp_path / "cache"), "PIP_INDEX_URL": "http://127.0.0.1:9/simple"}
    return suite


@pytest.mark.launches
def test_a_release_is_measured_alone_and_the_run_keeps_its_lock(released: Suite) -> None:
    done = released(*ARGUMENTS)
    assert done.status == 0, done.output
    (saved,) = done.saved.values()
    (record,) = records_of(saved)
    assert record.cell.id == "imdb_lstm-jax-fp32-b32-compile-tuned-0.9.2"
    (journal,) = done.journals
    for run in (saved["suite"]["run"], read(journal)[0]):
        assert run["locks"] == {"jax 0.9.2": LOCK}
        assert run["typed"]["release"] == "jax=0.9.2"


def test_a_release_that_cannot_be_resolved_ends_the_session_in_one_line(released: Suite) -> None:
    refused(released("suite", "--release=jax=newest"), "the package index does not answer")
    refused(released("suite", "--release=0.9.2"), "begin with a framework, such as jax=0.9.2")
