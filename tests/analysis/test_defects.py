"""Releases that compute wrongly or crash are in one list, which flags, notes and pins read."""

from __future__ import annotations

import tomllib
from dataclasses import replace
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from suite.analysis.records.load import load
from suite.analysis.rows.blocks import UNSOUND_RELEASE, release_of, unsound
from suite.analysis.rows.groups import flags_of
from suite.catalog.defects import DEFECTS, PLACES, SLOW, UNSOUND, Defect, find_defects
from suite.catalog.frameworks import FRAMEWORKS
from suite.catalog.versions import version_key
from suite.doctor.checks import NOTE, OK, WARNING, frameworks
from suite.record.record import Record
from suite.report.tables.timed import foot_lines
from tests import records
from tests.published import numbered

ROOT = Path(__file__).parents[2]


def of_release(framework: str, version: str, device: str = "cpu") -> Record:
    packages = {FRAMEWORKS[framework].distributions[-1]: version}
    made = records.record(framework, environment={"packages": packages, "machine": records.MACHINE})
    return replace(made, settings={**made.settings, "device": device})


@pytest.mark.parametrize("defect", DEFECTS, ids=lambda each: f"{each.framework}-{each.releases}-{each.sources[0][-5:]}")
def test_each_says_where_when_what_and_who_found_it(defect: Defect) -> None:
    assert defect.framework in FRAMEWORKS
    assert defect.device in PLACES
    assert defect.kind in (*UNSOUND, SLOW)
    assert version_key(defect.first) <= version_key(defect.last)
    assert defect.what
    assert defect.sources
    assert all(each.startswith("https://") and each.rpartition("/")[2].isdecimal() for each in defect.sources)


@pytest.mark.parametrize(
    ("release", "concerned"),
    [("0.10.1", False), ("0.10.2", True), ("0.10.2+local", True), ("0.11.0", True), ("0.11.0.1", False), ("", False)],
)
def test_a_defect_has_a_first_and_a_last_release(release: str, concerned: bool) -> None:
    crash = next(each for each in DEFECTS if (each.first, each.last, each.device) == ("0.10.2", "0.11.0", "cpu"))
    assert crash.concerns(release) == concerned
    assert (crash in find_defects("jax", release)) == concerned
    assert crash not in find_defects("jax", release, ("cuda",))
    assert crash not in find_defects("pytorch", release)


def test_no_release_that_is_pinned_is_known_to_be_unsound_or_slow() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]
    pinned = [Requirement(line) for lines in extras.values() for line in lines]
    checked = 0
    for name, framework in FRAMEWORKS.items():
        for each in pinned:
            if each.name in framework.distributions:
                (only,) = each.specifier
                assert not find_defects(name, only.version), each
                checked += 1
    assert checked == 8, "JAX has two, for two ranges of Pythons, each on a CPU and on a GPU"


@pytest.mark.parametrize(
    ("framework", "version", "device", "flagged"),
    [
        ("jax", "0.10.2", "cpu", True),
        ("jax", "0.10.2", "cuda", False),  # too slow there, which is what a measurement shows
        ("jax", "0.11.0", "cuda", True),
        ("jax", "0.11.1", "cpu", False),
        ("jax", "0.10.1", "cpu", False),
        ("jax", "0.12.0.1", "cpu", False),
        ("pytorch", "0.10.2", "cpu", False),
        ("tensorflow", "2.21.0", "cpu", False),
        ("jax", "no version", "cpu", False),
    ],
)
def test_a_launch_of_an_unsound_release_is_flagged_where_it_is_read(
    framework: str, version: str, device: str, flagged: bool
) -> None:
    made = of_release(framework, version, device)
    assert (UNSOUND_RELEASE in flags_of(made)) == flagged
    assert bool(unsound(made)) == flagged
    assert made.flags == records.record(framework).flags, "the record itself stays as it was written"


def test_the_release_is_the_record_s_own_and_else_the_cell_s() -> None:
    made = of_release("jax", "0.10.1")
    assert release_of(replace(made, cell=made.cell.but(release="0.10.2"))) == "0.10.1"
    assert release_of(replace(made, cell=made.cell.but(release="0.10.2"), environment={})) == "0.10.2"
    assert release_of(replace(made, environment={"packages": ["jax"]})) == ""


def test_its_rows_keep_their_ratios_and_a_note_names_the_sources() -> None:
    held = [each for block in range(6) for each in (records.record("pytorch", block), records.record("jax", block))]
    ratios, notes = {}, {}
    for version in ("0.10.1", "0.10.2"):
        like = of_release("jax", version)
        changed = {"environment": like.environment, "settings": like.settings}
        (table,) = records.tables([replace(r, **changed) if r.cell.framework == "jax" else r for r in held])
        ratios[version] = [(cell.ratio.value, cell.ratio.verdict) for cell in table.cells]
        notes[version] = [line for line in foot_lines(table) if line.startswith(UNSOUND_RELEASE)]
    assert ratios["0.10.2"] == ratios["0.10.1"]
    assert all(value for value, _ in ratios["0.10.2"])
    assert not notes["0.10.1"]
    (note,) = notes["0.10.2"]
    assert "JAX 0.10.2" in note
    assert "jax/issues/39103" in note
    assert "jax/issues/39257" in note


def test_published_launches_of_such_releases_are_read_and_flagged() -> None:
    launches = load([numbered("0027")]).launches
    flags = {(each.record.cell.framework, release_of(each.record)): flags_of(each.record) for each in launches}
    flagged = {key for key, each in flags.items() if UNSOUND_RELEASE in each}
    assert flagged == {("jax", "0.6.2"), ("jax", "0.10.2")}
    assert len(flags) >= 12


@pytest.mark.parametrize(
    ("version", "devices", "worst"),
    [
        ("0.10.2", [], WARNING),
        ("0.11.1", [], NOTE),
        ("0.10.2", [{"name": "A GPU", "compute_capability": "9.0"}], NOTE),
        ("0.11.0", [{"name": "A GPU", "compute_capability": "9.0"}], WARNING),
        ("0.12.0.1", [], OK),
    ],
)
def test_the_doctor_names_an_installed_one(version: str, devices: list[dict[str, str]], worst: str) -> None:
    answer = {"version": version, "cuda": None, "cudnn": None, "devices": devices, "precisions": {"fp32": ""}}
    findings = [each for each in frameworks({"jax": answer}, None) if each.area == "jax"]
    assert max((each.status for each in findings), key=[OK, NOTE, WARNING].index) == worst
    assert ("https://github.com/jax-ml/jax/issues/" in "\n".join(map(str, findings))) == (worst != OK)
