"""The output in the documentation is what the command prints: ``UPDATE_GOLDEN=1 pytest tests/docs`` renews it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from suite.compare import comparing
from suite.compare.__main__ import main
from tests.documents import ROOT
from tests.expected import golden
from tests.published import numbered

PAGE = ROOT / "docs" / "read-a-table.md"
SHOWN = re.compile(r"(<!-- output: suite\.compare (\d+) -->\n```text\n).*?(```\n)", re.DOTALL)


def test_the_output_of_compare_is_as_shown(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(comparing, "write", lambda *_: [])  # the plots, which take longer than all the rest
    text = PAGE.read_text(encoding="utf-8")
    found = SHOWN.search(text)
    assert found
    assert main([str(numbered(found[2])), "--output", str(tmp_path / "out")]) == 0
    printed = capsys.readouterr().out.partition("\n\nimdb_lstm")[0]  # the answer and the first table
    golden(PAGE, SHOWN.sub(lambda match: f"{match[1]}{printed.rstrip()}\n{match[3]}", text))
