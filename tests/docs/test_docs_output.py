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

PAGES_OF_OUTPUT = (ROOT / "README.md", ROOT / "docs" / "read-a-table.md")
SHOWN = re.compile(r"(<!-- output: suite\.compare (\d+)(?: (\w+) (\d+))? -->\n```text\n).*?(```\n)", re.DOTALL)


@pytest.mark.parametrize("page", PAGES_OF_OUTPUT, ids=lambda page: page.name)
def test_the_output_of_compare_is_as_shown(
    page: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(comparing, "write", lambda *_: [])  # the plots, which take longer than all the rest
    text = page.read_text(encoding="utf-8")
    found = SHOWN.search(text)
    assert found
    assert main([str(numbered(found[2])), "--output", str(tmp_path / "out")]) == 0
    printed = capsys.readouterr().out
    if found[3]:  # the part that begins with this word, and so many lines of it
        (shown,) = [part for part in printed.split("\n\n") if part.startswith(found[3])]
        shown = "\n".join(shown.splitlines()[: int(found[4])])
    else:  # all up to the second table
        shown = printed.partition("\n\nimdb_lstm")[0]
    golden(page, SHOWN.sub(lambda match: f"{match[1]}{shown.rstrip()}\n{match[5]}", text))
