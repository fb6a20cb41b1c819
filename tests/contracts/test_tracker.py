"""A new tracker is one file: `--track`, `training-suite export` and the page of options find it there."""

from __future__ import annotations

from pathlib import Path

import pytest

from suite.export import __main__ as command
from suite.export import targets
from suite.session import observers
from tests import records

FILE = """
from suite.export.target import TargetInfo

ABOUT = TargetInfo("lines on a slate", "the slate; default: a new one", "json", "slate", "a new slate")

def begin(place, origin):
    return [place, origin.run]

def add(session, record):
    session.append(record.key)
    return True

def attach(session, files):
    return len(files)

def end(session):
    return f"{session[0]} has {len(session) - 2} lines"
"""


@pytest.fixture(autouse=True)
def fake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "slate.py").write_text(FILE)
    monkeypatch.setattr(targets, "__path__", [*targets.__path__, str(tmp_path)])


def test_it_is_a_value_of_the_option_that_follows_a_run() -> None:
    (track, *_) = observers.options()
    assert "slate" in track.help
    assert "prometheus" not in track.help, "which cannot follow one"


def test_the_command_lists_it_and_sends_to_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for arguments, words in ((["--help"], "lines on a slate"), (["slate", "--help"], "the slate; default: a new one")):
        with pytest.raises(SystemExit, match=r"^0$"):
            command.main(arguments)
        assert words in " ".join(capsys.readouterr().out.split())
    run = records.save(tmp_path / "0001_a.json", records.launches(n=1))
    assert command.main(["slate", str(run), "--to", "mine"]) == 0
    assert "launches added: mine has 3 lines" in capsys.readouterr().out
