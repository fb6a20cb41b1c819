"""The page of releases: only with releases, the newest first, with what changed; a stranger's file is safe."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest
from test_page import Page

from suite.compare.__main__ import main
from suite.record.record import Record
from suite.report.html.releases import PAGE
from suite.report.html.stored import read
from tests import records
from tests.profiles import profiled

pytestmark = pytest.mark.usefixtures("undrawn")

#: Milliseconds of a step's categories in each release: the second takes longer in its element-wise operations.
STEPS = {
    "0.9.2": {"convolution forward": 60.0, "element-wise": 40.0},
    "0.10.2": {"convolution forward": 60.0, "element-wise": 90.0},
    "0.11.0": {"convolution forward": 60.0, "element-wise": 90.0},
}


def measured(n: int = 6) -> list[Record]:
    """Launches of each release, with profiles."""
    held = []
    for block in range(n):
        for release, parts in STEPS.items():
            total = sum(parts.values())
            step_s = 1e-3 * total * random.Random(f"{release} {block}").gauss(1, 0.003)
            environment = {"packages": {"jax": release}, "python": "3.11.7", "machine": records.MACHINE}
            made = records.timed(step_s, "jax", block, release=release, environment=environment)
            held.append(profiled(made, {name: time / total for name, time in parts.items()}))
    return held


def published(tmp_path: Path, held: list[Record], name: str = "0001_releases", run: str = "run-a") -> Path:
    site = tmp_path / "site"
    assert main([str(records.save(tmp_path / f"{name}.json", held, run)), "--publish", str(site)]) == 0
    return site


def test_a_site_without_releases_has_no_such_page(tmp_path: Path) -> None:
    site = published(tmp_path, records.launches(n=2))
    assert not (site / PAGE).exists()
    assert read(site / "0001_releases").releases == ()
    assert PAGE not in (site / "index.html").read_text(encoding="utf-8")


def test_each_line_says_what_changed_and_where_the_time_went(tmp_path: Path) -> None:
    site = published(tmp_path, measured())
    (line,) = read(site / "0001_releases").releases
    assert [each.release for each in line.releases] == [*STEPS]
    first, second, third = line.releases
    assert first.to_before is None
    assert second.to_before
    assert (second.to_before.verdict, second.to_before.ratio[0]) == ("slower", pytest.approx(10 / 15, rel=0.01))
    assert second.shares[0] == ("element-wise", pytest.approx(0.6, abs=0.01))
    assert [name for name, _ in second.changed] == ["element-wise"]
    assert second.changed[0][1] == pytest.approx(50, rel=0.05)
    assert third.to_before
    assert (third.to_before.verdict, third.changed) == ("equal", ())
    page = Page((site / PAGE).read_text(encoding="utf-8"))
    for words in ("0.9.2\u20130.11.0", "0.10.2: 0.67 (slower)", "element-wise 60 %", "element-wise +", "3.11",
                  "cifar100_cnn-jax-fp32-b32-compile"):  # fmt: skip
        assert words in page.said, words
    assert {"href": "0001_releases/report.html"} in [attributes for tag, attributes in page.tags if tag == "a"]
    assert PAGE in (site / "index.html").read_text(encoding="utf-8")


def test_the_newest_run_and_the_newest_release_come_first(tmp_path: Path) -> None:
    published(tmp_path, measured())
    later = [records.replace(each, started=f"2026-04-0{1 + each.launch}T10:00:00+00:00") for each in measured()]
    site = published(tmp_path, later, "0000_later", "run-b")
    text = (site / PAGE).read_text(encoding="utf-8")
    assert text.index("2026-04-06") < text.index("2026-03-01")
    rows = text[text.index('id="line-0-rows"') :]
    assert [rows.index(f">{release}<") for release in reversed(STEPS)] == sorted(rows.index(f">{r}<") for r in STEPS)


def test_a_strangers_file_is_left_out_or_escaped(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    site = published(tmp_path, measured())
    place = site / "0001_releases" / "run.json"
    data = json.loads(place.read_text(encoding="utf-8"))
    data["releases"][0] |= {"machine": records.HOSTILE, "framework": "<b>jax</b>"}
    place.write_text(json.dumps(data), encoding="utf-8")
    published(tmp_path, records.launches(n=2), "0002_other", "run-b")
    page = Page((site / PAGE).read_text(encoding="utf-8"))
    assert [tag for tag, _ in page.tags].count("script") == 1
    assert "b" not in [tag for tag, _ in page.tags]
    data["releases"][0]["releases"][1]["n"] = -1
    place.write_text(json.dumps(data), encoding="utf-8")
    published(tmp_path, records.launches(n=2), "0003_other", "run-c")
    assert "0001_releases is left out of the index: its run.json is no summary: releases" in capsys.readouterr().err
