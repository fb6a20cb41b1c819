"""How many launches of a run are missing, by what its files say was planned."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from suite.analysis.records.load import load
from suite.analysis.rows.runs import Count, counts
from suite.record.record import Record
from suite.report.text.missing import sentences
from tests import records


def counted(path: Path, held: list[Record], **run: Any) -> Count:
    lines = [{"run": {"id": "run-a", **run}}, *(record.to_json() for record in held)]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    (count,) = counts(load([path]))
    return count


def test_a_complete_run_misses_nothing(tmp_path: Path) -> None:
    count = counted(tmp_path / "a.jsonl", records.launches(n=3), planned=9, launches=3)
    assert (count.launches, count.planned, count.missing) == (9, 9, 0)
    assert not sentences([count])


def test_the_number_that_was_planned_is_believed(tmp_path: Path) -> None:
    count = counted(tmp_path / "a.jsonl", records.launches(n=2)[:-1], planned=12, launches=4, matrix="smoke", seed=0)
    assert sentences([count]) == [
        "7 of 12 launches of run run-a are missing. Run them with: "
        "python -m pytest suite --matrix smoke --launches 4 --resume=run-a --benchmark-save"
    ]


def test_older_files_tell_it_by_their_cells_and_blocks(tmp_path: Path) -> None:
    count = counted(tmp_path / "a.jsonl", records.launches(n=2)[:-1], launches=4)
    assert (count.planned, count.missing, count.least) == (12, 7, False)
    first = counted(tmp_path / "b.jsonl", records.launches(n=1)[:-1], launches=4)
    assert sentences([first])[0].startswith("At least 6 of 8 launches"), "since not every cell has run once"


def test_more_launches_than_the_first_line_says_are_no_surplus(tmp_path: Path) -> None:
    count = counted(tmp_path / "a.jsonl", records.launches(n=4)[:-1], planned=9, launches=3)
    assert (count.planned, count.missing) == (12, 1)
    assert " is missing. " in sentences([count])[0]


def test_files_without_a_description_say_nothing(tmp_path: Path) -> None:
    count = counted(tmp_path / "a.jsonl", records.launches(n=2)[:-1])
    assert count.planned is None
    assert not sentences([count])
