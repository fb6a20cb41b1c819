"""A name that no run has is refused with the nearest one that a run has."""

from __future__ import annotations

from pathlib import Path

import pytest

from suite.analysis.records.load import LoadError, find


@pytest.mark.parametrize(
    ("run", "meant"),
    [
        ("smoek", "smoke"), ("0002_bacth", "0002_batch"), ("kiled.jsonl", "killed"),
        ("some/0001_smok.json", "0001_smoke"), ("0009", ""), ("wombat", ""),
    ],
)  # fmt: skip
def test_a_name_that_no_run_has_is_refused_with_the_nearest(tmp_path: Path, run: str, meant: str) -> None:
    for name in ("0001_smoke.json", "0002_batch.json", "killed.jsonl"):
        (tmp_path / name).write_text("{}")
    with pytest.raises(LoadError) as caught:
        find([run], tmp_path)
    assert str(caught.value).endswith(f"; did you mean {meant!r}?" if meant else ")")
