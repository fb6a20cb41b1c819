"""Leaderboards from the bundles of several machines: two kinds of real CPUs, and a GPU's made by hand."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from suite.compare.__main__ import main
from suite.report.html.leaderboards import PAGE, page
from suite.report.html.stored import Standings, read
from tests.documents import ROOT
from tests.published import RUNS
from tests.submit import tampering

FILE = "run.json"

pytestmark = pytest.mark.usefixtures("undrawn")

INTEL, AMD, AMD_TOO = "0025_evidence", "0023_compiled", "0017_interfaces"
#: Made by hand, from the launches of a CPU.
GPU = "by-hand-gpu"


@pytest.fixture
def bundles(tmp_path: Path, originals: list[Path]) -> list[str]:
    return [str(shutil.copy(each, tmp_path)) for each in originals]


@pytest.fixture(scope="module")
def originals(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    paths, folder = [], tmp_path_factory.mktemp("bundles")
    for name in (INTEL, AMD, AMD_TOO):
        made = tampering.honest(name, folder)
        paths.append(tampering.bundle(folder / f"{name}.bundle", made, tampering.chained(made.lines)))
    made = tampering.honest(INTEL, folder)
    lines = made.lines
    tampering.gpu(lines)
    for line in lines[1:]:
        line["run"]["id"] = GPU
    lines[0]["run"]["id"] = GPU
    run = made.about.run | {"id": GPU}
    paths.append(tampering.bundle(folder / f"{GPU}.bundle", made, tampering.chained(lines), run=run, price_hour=2.5))
    return paths


def test_each_machine_gets_a_report_and_each_kind_a_board(tmp_path: Path, bundles: list[str]) -> None:
    site = tmp_path / "site"
    assert main(["--publish", str(site), *bundles]) == 0
    text = (site / PAGE).read_text(encoding="utf-8")
    for words in ("Intel(R) Xeon(R) Processor, 2 cores", "AMD EPYC, 2 cores", tampering.MADE_BY_HAND,
                  "are not ranked against each other", "training-suite submit", "Ranges over runs"):  # fmt: skip
        assert words in text, words
    for name in (INTEL, AMD, AMD_TOO, GPU):
        assert f'href="{name}/report.html"' in text
        assert f'href="{name}/{name}.bundle"' in text
        assert (site / name / f"{name}.bundle").read_bytes() == (tmp_path / f"{name}.bundle").read_bytes()
    assert "http" not in text.replace("http-equiv", "")
    assert PAGE in (site / "index.html").read_text(encoding="utf-8")


def test_a_row_has_its_verdict_within_the_run_and_its_price(tmp_path: Path, bundles: list[str]) -> None:
    site = tmp_path / "site"
    assert main(["--publish", str(site), bundles[1], bundles[3]]) == 0
    amd, gpu = (standings(site / name) for name in (AMD, GPU))
    by_name = {row.framework: row for row in amd.rows}
    assert by_name["jax"].verdict == "slower"
    assert by_name["jax"].to_fastest
    assert by_name["jax"].to_fastest[2] < 1
    assert all(row.n == 6 and row.price is None for row in amd.rows)
    assert all(row.price and row.verdict == "not tested" for row in gpu.rows), "two launches are not tested"
    assert gpu.kind == tampering.MADE_BY_HAND


def test_processors_of_one_name_have_boards_of_their_own(tmp_path: Path, bundles: list[str]) -> None:
    site = tmp_path / "site"
    assert main(["--publish", str(site), bundles[1]]) == 0
    one = standings(site / AMD)
    assert one.hardware
    newer = replace(one.hardware, run="another", peaks=tuple((name, 2 * peak) for name, peak in one.hardware.peaks))
    text = page([("a", one), ("b", replace(one, run="another", hardware=newer))])
    assert "on 2 kinds of devices" in text
    assert "(192 GFLOP/s), 2 cores" in text
    assert "on 1 kind of devices" in page([("a", one), ("b", one)])


def test_the_documentation_says_how_large_a_bundle_is(bundles: list[str]) -> None:
    assert "24 launches has about 70 kB" in (ROOT / "docs" / "submit.md").read_text(encoding="utf-8")
    assert 60_000 < Path(bundles[0]).stat().st_size < 80_000


def test_a_folder_of_bundles_is_published_one_by_one(tmp_path: Path, bundles: list[str]) -> None:
    assert len(bundles) == 4
    assert main(["--publish", str(tmp_path / "site"), str(tmp_path)]) == 0
    assert all(standings(path.parent).rows for path in (tmp_path / "site").glob(f"*/{FILE}"))
    assert len(reports(tmp_path / "site")) == 4


def test_a_bundle_inside_of_the_site_is_not_copied(tmp_path: Path, bundles: list[str]) -> None:
    inside = tmp_path / "site" / "submitted" / "a.bundle"
    inside.parent.mkdir(parents=True)
    inside.write_bytes(Path(bundles[1]).read_bytes())
    assert main(["--publish", str(tmp_path / "site"), str(inside)]) == 0
    assert not (tmp_path / "site" / "a" / "a.bundle").exists()
    assert 'href="submitted/a.bundle"' in (tmp_path / "site" / PAGE).read_text(encoding="utf-8")


def standings(folder: Path) -> Standings:
    """The place of the bundle that the report in a folder is of."""
    found = read(folder).standings
    assert found
    return found


def reports(site: Path) -> dict[str, bytes]:
    return {path.parent.name: path.read_bytes() for path in site.glob("*/run.json")}


def test_a_bundle_with_the_name_and_id_of_another_run_replaces_no_report(tmp_path: Path, bundles: list[str]) -> None:
    """The project's own report, another bundle's, and again the other way round; the same file replaces itself."""
    site, own = tmp_path / "site", RUNS[INTEL]
    assert main(["--publish", str(site), str(own)]) == 0
    before = reports(site)
    assert main(["--publish", str(site), bundles[0]]) == 0
    assert reports(site)[INTEL] == before[INTEL]
    assert read(site / INTEL).standings is None
    (other,) = reports(site).keys() - {INTEL}
    made = tampering.honest(INTEL, tmp_path)
    (tmp_path / "elsewhere").mkdir()
    stranger = tampering.bundle(
        tmp_path / "elsewhere" / f"{INTEL}.bundle", made, tampering.chained(made.lines), price_hour=9.0
    )
    assert main(["--publish", str(site), str(stranger)]) == 0
    assert len(reports(site)) == 3
    assert standings(site / other).rows[0].price is None
    assert main(["--publish", str(site), bundles[0]]) == 0
    assert main(["--publish", str(site), str(own)]) == 0
    assert len(reports(site)) == 3


def test_a_run_replaces_no_report_of_a_bundle(tmp_path: Path, bundles: list[str]) -> None:
    site = tmp_path / "site"
    assert main(["--publish", str(site), bundles[0]]) == 0
    assert main(["--publish", str(site), str(RUNS[INTEL])]) == 0
    assert standings(site / INTEL).rows
    assert len(reports(site)) == 2


@pytest.mark.parametrize("name", ["leaderboards.html", "releases.HTML", ".."])
def test_the_name_of_a_bundle_is_in_the_way_of_no_page(name: str, tmp_path: Path, bundles: list[str]) -> None:
    site, path = tmp_path / "site", tmp_path / "odd" / f"{name}.bundle"
    path.parent.mkdir()
    (site / "runs").mkdir(parents=True)
    (site / "runs" / "0001_a.json").write_text("{}")
    path.write_bytes(Path(bundles[1]).read_bytes())
    assert main(["--publish", str(site), str(path)]) == 0
    assert main(["--publish", str(site), bundles[0]]) == 0
    assert (site / PAGE).is_file()
    assert not (site / "runs" / FILE).exists()


def test_bytes_besides_the_members_do_not_reach_the_site(tmp_path: Path, bundles: list[str]) -> None:
    path = tmp_path / "a.bundle"
    for evil in (b"<script>" + Path(bundles[1]).read_bytes(), Path(bundles[1]).read_bytes() + b"<script>"):
        path.write_bytes(evil)
        assert main(["--publish", str(tmp_path / "site"), str(path)]) == 2
    assert not (tmp_path / "site").exists()


def test_a_refused_bundle_is_not_published(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    made = tampering.honest(INTEL, tmp_path)
    tampering.scale(tampering.ok(made.lines), 0.9)
    path = tampering.bundle(tmp_path / "a.bundle", made, made.lines)
    assert main(["--publish", str(tmp_path / "site"), str(path)]) == 2
    assert "is not published: rule" in capsys.readouterr().err
    assert not (tmp_path / "site").exists()


def test_a_strangers_standings_are_left_out_or_escaped(tmp_path: Path, bundles: list[str]) -> None:
    site = tmp_path / "site"
    assert main(["--publish", str(site), bundles[0], bundles[1]]) == 0
    (site / INTEL / FILE).write_text("nonsense", encoding="utf-8")
    data = json.loads((site / AMD / FILE).read_text(encoding="utf-8"))
    data["standings"] |= {"kind": "<script>alert(1)</script>", "bundle": "javascript:alert(1)"}
    (site / AMD / FILE).write_text(json.dumps(data), encoding="utf-8")
    assert main(["--publish", str(site), bundles[2]]) == 0
    text = (site / PAGE).read_text(encoding="utf-8")
    assert "<script>alert" not in text
    assert 'href="javascript' not in text
    assert f"{INTEL}/report.html" not in text
