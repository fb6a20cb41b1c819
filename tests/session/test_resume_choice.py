"""Which run `--resume` goes on with, and what of it is tried again."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from suite.analysis.records.load import load
from suite.plan.cell import Cell
from suite.plan.command.common import JOURNALS, LATEST, OLDER
from suite.plan.measuring import Plan
from suite.record.record import STATUSES, Outcome
from suite.record.retry import may_pass
from suite.session import run as runs
from suite.session.journal import JournalError, read
from suite.session.launches.settings import Settings
from suite.session.resume import cells_digest, command, journal_of
from tests import records
from tests.sessions import Suite, records_of

ASKED = Settings("smoke", 3, Plan(), resume=LATEST)
CELLS = cells_digest([Cell("imdb_lstm", "jax")])
ARGUMENTS = ("suite", "--launches=1", "-k", "jax and imdb")


@pytest.fixture
def asked(tmp_path: Path) -> Settings:
    return replace(ASKED, journals=tmp_path)


def journal(asked: Settings, name: str, *, launches: int = 3, cells: str = CELLS, n: int = 1, **changed: object) -> str:
    """A journal with ``n`` launches of a run with these settings; its id."""
    run = {"id": name, **asked.signature(), "launches": launches, "cells": cells, **changed}
    path = records.journal(asked.journals / f"{name}.jsonl", records.launches(["jax"], n=n))
    _, *lines = path.read_text().splitlines()
    path.write_text("\n".join([json.dumps({"run": run}), *lines]) + "\n")
    return name


def chosen(asked: Settings, name: str = LATEST) -> str:
    return journal_of(replace(asked, resume=name), CELLS).stem


OTHERS = cells_digest([Cell("imdb_lstm", "pytorch")])


@pytest.mark.parametrize(
    ("journals", "expected"),
    [
        # The same launches go before newer ones with fewer, and the same cells before others.
        ({"1-older": {}, "2-exact": {}, "3-newer": {"launches": 1}}, "2-exact"),
        ({"1-mine": {"launches": 1}, "2-others": {"cells": OTHERS}}, "1-mine"),
        (
            {"1-older": {"launches": 1, "cells": ""}, "2-newer": {"launches": 2, "cells": ""},
             "3-more": {"launches": 4}, "4-seed": {"seed": 9}},
            "2-newer",
        ),
        # One without a launch is taken where all are.
        ({"0-empty": {"n": 0}, "1-full": {"launches": 1}, "2-empty": {"n": 0}}, "1-full"),
        ({"1-empty": {"n": 0}}, "1-empty"),
    ],
)  # fmt: skip
def test_the_journal_that_fits_best_goes_on(asked: Settings, journals: dict[str, Any], expected: str) -> None:
    for name, changed in journals.items():
        journal(asked, name, **changed)
    (asked.journals / "7-nothing.jsonl").touch()
    (asked.journals / "8-half.jsonl").write_text('{"run": {"id": "8-ha')
    (asked.journals / "9-a-folder.jsonl").mkdir()
    assert chosen(asked) == expected


def test_a_run_of_an_older_version_is_found_where_that_kept_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    journal(replace(ASKED, journals=OLDER[JOURNALS]), "1-older")
    assert chosen(ASKED) == chosen(ASKED, "1-older") == "1-older"
    journal(ASKED, "2-newer")
    assert chosen(ASKED) == "2-newer"


@pytest.mark.parametrize("own", ["/elsewhere", "../../elsewhere", None])
def test_a_run_is_called_as_its_journal_is_whatever_that_says(asked: Settings, own: str | None) -> None:
    asked = replace(asked, device="cpu")
    journal(asked, "1-mine", id=own)
    run = runs.Run(replace(asked, resume="1-mine"), [], lambda _: None, lambda _: None)
    run.close()
    assert run.info["id"] == "1-mine"


def test_a_run_can_be_named(asked: Settings) -> None:
    for name in ("1-named", "2-newer"):
        journal(asked, name)
    assert chosen(asked, "1-named") == chosen(asked, "1-named.jsonl") == chosen(asked, "some/folder/1-named.jsonl")


def test_a_name_that_no_run_has_is_refused_with_those_that_there_are(asked: Settings) -> None:
    for number in range(5):
        journal(asked, f"{number}-run")
    with pytest.raises(JournalError, match=r"^no run nosuch in \S+ \(the newest: 4-run, 3-run, 2-run\)$"):
        chosen(asked, "nosuch")
    with pytest.raises(JournalError, match=r"^no run passwd in "):
        chosen(asked, "../../etc/passwd")


def test_a_named_run_with_other_settings_is_refused_with_the_difference(asked: Settings) -> None:
    journal(asked, "1-seed", seed=9)
    with pytest.raises(JournalError, match=r"^run 1-seed has seed 9, not 0: use the options that it was started with$"):
        chosen(asked, "1-seed")


def test_the_digest_of_cells_does_not_depend_on_their_order() -> None:
    jax, torch = Cell("imdb_lstm", "jax"), Cell("imdb_lstm", "pytorch")
    assert cells_digest([jax, torch, jax]) == cells_digest([torch, jax]) != cells_digest([jax])


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["suite"], "training-suite run --resume=ID"),
        (["suite", "-k", "jax and imdb"], "training-suite run -k 'jax and imdb' --resume=ID"),
        (["suite", "--resume"], "training-suite run --resume=ID"),
        (["suite", "--resume=other", "--seed=1"], "training-suite run --seed=1 --resume=ID"),
        (["suite", "--resume", "other", "--seed=1"], "training-suite run --seed=1 --resume=ID"),
        (["suite", "--resume", "--seed=1"], "training-suite run --seed=1 --resume=ID"),
    ],
)
def test_the_command_that_goes_on_names_the_run(arguments: list[str], expected: str) -> None:
    assert command(arguments, "ID") == expected


def test_what_may_pass_is_tried_again_and_what_ends_the_same_way_is_not() -> None:
    assert {status for status in STATUSES if may_pass(Outcome(status, "why"))} == {"timeout", "crashed", "error"}
    reason = "jax cannot be imported (No module named 'jax'): install its extra"
    assert may_pass(Outcome("unsupported", reason)), "it may have been installed since"


def test_a_launch_that_crashed_is_tried_again_and_then_counts(suite: Suite) -> None:
    crashed = suite(*ARGUMENTS, jax="crash")
    assert crashed.status == 1
    run = crashed.journals[0].stem
    reason = "ended with exit status 5 and no result"
    assert (
        f"1 launch failed, the last by: {reason}. Once the cause is gone, try again with: training-suite run "
        in crashed.output
    )
    assert f" -k 'jax and imdb' --resume={run}\n" in crashed.output

    again = suite(*ARGUMENTS, f"--resume={run}", "--benchmark-save")
    assert again.status == 0, again.output
    assert f"resuming run {run}: 1 launch is in its journal; it failed and will run again" in again.output
    assert len(again.launched) == 2
    assert again.journals == crashed.journals
    assert [record.outcome.status for record in read(*again.journals)[1]] == ["crashed", "ok"]
    assert [record.outcome.status for record in records_of(again.saved["0001_smoke.json"])] == ["ok"]
    loaded = load(again.journals)
    assert [launch.record.outcome.status for launch in loaded.launches] == ["ok"]
    assert not loaded.notes


def test_a_path_that_was_taken_for_a_run_is_refused(suite: Suite) -> None:
    done = suite("--resume", "suite")
    assert done.status == 4
    assert "--resume took 'suite' for a run: put it last" in done.output


@pytest.mark.parametrize(
    "typed", [["--track=mlflow=http://u:p/a@t.example"], ["--track", "mlflow=http://u:p/a@t.example"]]
)
def test_the_command_shows_no_password_of_a_tracker(typed: list[str]) -> None:
    shown = command(["suite", *typed], "ID")
    assert "u:p" not in shown
    assert "mlflow=http://t.example" in shown


@pytest.mark.parametrize("latest", [True, False])
def test_a_run_whose_workload_has_other_code_by_now_is_not_continued(
    asked: Settings, monkeypatch: pytest.MonkeyPatch, *, latest: bool
) -> None:
    launches = [replace(each, workload={**each.workload, "files": "a" * 64}) for each in records.launches(["jax"], n=1)]
    path = records.journal(asked.journals / "1-mine.jsonl", launches)
    _, *lines = path.read_text().splitlines()
    run = {"id": "1-mine", **asked.signature(), "cells": CELLS}
    path.write_text("\n".join([json.dumps({"run": run}), *lines]) + "\n")
    monkeypatch.setattr("suite.session.resume.files_digest", lambda _: "a" * 64)
    assert chosen(asked, LATEST if latest else "1-mine") == "1-mine"
    monkeypatch.setattr("suite.session.resume.files_digest", lambda _: "b" * 64)
    with pytest.raises(JournalError, match=r"code of cifar100_cnn( has changed since|: run without --resume|\))"):
        chosen(asked, LATEST if latest else "1-mine")
