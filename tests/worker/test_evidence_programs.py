"""The programs of the evidence: what the timed one proves itself, and what others are kept for a run or compile to."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from suite.analysis.identity.tolerances import tolerance_of
from suite.worker.evidence.fingerprint import take_own_fingerprint
from tests.frameworks import needs_frameworks
from tests.subjects import BATCH, apart, subject

unoptimized = pytest.mark.usefixtures("unoptimized")


@needs_frameworks("jax")
def test_what_is_kept_of_earlier_launches_changes_no_bit_and_serves_evidence_alone(tmp_path: Path) -> None:
    plain, bounds, traces = (
        take_own_fingerprint(subject("imdb_lstm", "jax"))["own"],
        tolerance_of("imdb_lstm", "fp32", cuda=False),
        [],
    )
    sharing = replace(subject("imdb_lstm", "jax"), programs=str(tmp_path))
    kept: list[set[str]] = []
    for _ in range(2):
        with sharing.compile_cache():
            traces.append(take_own_fingerprint(sharing)["own"])
        kept.append({path.name for path in tmp_path.iterdir()})
    take_own_fingerprint(replace(sharing, cell=sharing.cell.but(batch=BATCH + 1)))
    assert {path.name for path in tmp_path.iterdir()} == kept[-1], "outside of it nothing is kept"
    assert traces[0] == traces[1]
    losses, updates = apart(traces[0], plain)  # which is compiled as what is timed, unlike what serves evidence alone
    assert bounds
    assert losses <= bounds.first_loss
    assert updates <= bounds.early_updates
    steps = [{name for name in names if "step" in name and name.endswith("-cache")} for names in kept]
    assert steps[0]
    assert steps[1] == steps[0], "the second found what the first had kept"


@needs_frameworks("jax")
def test_what_a_release_no_longer_has_is_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """JAX 0.11.2 lost an option of XLA that only saved time, and every launch on a CPU ended in an error."""
    import jax

    from suite.worker.frameworks.jax import evidence as jax_evidence
    from suite.worker.frameworks.jax.training import COMPILER_OPTIONS

    monkeypatch.setitem(jax_evidence.WITHOUT_EMITTERS, "xla_cpu_no_such_option", True)
    monkeypatch.delitem(jax.config.values, "jax_persistent_cache_enable_xla_caches")
    jax_evidence.time_savers.cache_clear()
    with jax_evidence.compile_cache(str(tmp_path), how="quickly"):
        assert "xla_cpu_no_such_option" not in COMPILER_OPTIONS
        program = jax.jit(lambda number: number + 1).lower(1).compile(compiler_options=COMPILER_OPTIONS)
    assert program(1) == 2
    assert COMPILER_OPTIONS == {}
    jax_evidence.time_savers.cache_clear()


@unoptimized
@needs_frameworks("tensorflow")
def test_graphs_are_optimised_again_after_the_small_ones() -> None:
    tensorflow = pytest.importorskip("tensorflow")
    tools, options = subject("imdb_lstm", "tensorflow").tools, tensorflow.config.optimizer.get_experimental_options
    with tools.on_host():
        assert options()["disable_meta_optimizer"]
    assert not options()["disable_meta_optimizer"]
