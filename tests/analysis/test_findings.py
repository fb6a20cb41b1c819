"""What several outputs of a comparison read is made once."""

from __future__ import annotations

from typing import Any

import pytest

from suite.analysis import findings
from suite.report.text.answer import answer
from tests import records


def test_an_answer_that_is_written_twice_asks_for_its_findings_once(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[str] = []

    def counted(name: str) -> None:
        make = getattr(findings, name)

        def call(*arguments: Any) -> Any:
            made.append(name)
            return make(*arguments)

        monkeypatch.setattr(findings, name, call)

    counted("find_fastest")
    counted("find_speedups")
    table = records.only(records.launches(n=2))
    assert answer([table]) == answer([table])
    assert sorted(made) == ["find_fastest", "find_speedups"]
