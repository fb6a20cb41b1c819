"""A run of a script is not published: nobody else can run or check it."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

from suite.analysis.records.load import LoadError
from suite.plan.cell import Cell
from suite.submit import contents


def test_a_run_of_a_script_makes_no_bundle(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    launch = SimpleNamespace(run="a", record=SimpleNamespace(cell=Cell("script_train", "jax", batch=0)))
    monkeypatch.setattr(contents, "load", lambda _: SimpleNamespace(runs={"a": {}}, launches=[launch]))
    with pytest.raises(LoadError, match="script of your own"):
        contents.contents(tmp_path / "0001.json", tmp_path, look=False)
