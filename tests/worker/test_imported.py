"""A launch imports one framework, and not what that imports of another."""

from __future__ import annotations

import sys

import pytest

from suite.plan.cell import FRAMEWORKS
from suite.worker import frameworks


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_tensorflow_is_imported_as_if_jax_were_not_installed(framework: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "jax", raising=False)
    hidden: list[bool] = []
    monkeypatch.setattr(frameworks, "import_module", lambda _: hidden.append("jax" in sys.modules))
    frameworks.import_framework(framework)
    assert hidden == [framework == "tensorflow"]
    assert "jax" not in sys.modules, "what is hidden can be imported afterwards"


def test_jax_that_is_there_already_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    jax = object()
    monkeypatch.setitem(sys.modules, "jax", jax)
    monkeypatch.setattr(frameworks, "import_module", lambda _: None)
    frameworks.import_framework("tensorflow")
    assert sys.modules["jax"] is jax
