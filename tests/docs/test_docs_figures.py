"""Figures within sentences are made from `results/` too, between ``<!-- figure: ... -->`` and ``<!-- end -->``.

``UPDATE_GOLDEN=1 pytest tests/docs`` writes them anew.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from suite.analysis.records.load import load
from suite.analysis.rows.blocks import release_of
from suite.analysis.rows.groups import group
from suite.analysis.rows.wording import DASH
from suite.analysis.statistics.changes import find_speedups
from suite.plan.cell import FRAMEWORKS
from suite.report.format.names import framework
from suite.report.tables.frame import table
from tests.documents import PAGES, ROOT, prose
from tests.expected import golden
from tests.published import RUNS

MARKED = re.compile(r"(<!-- figure: (\w+) ([\w. -]+) -->).*?(<!-- end -->)", re.DOTALL)
TABLE = re.compile(r"<!-- table: .*?<!-- end of table -->", re.DOTALL)
#: No results: versions, dates, code, the targets of links.
OTHER = r"\]\(.*?\)|`[^`]*`|\d{4}-\d\d-\d\d|Python \d\.\d+ to \d\.\d+|Apache-2\.0|[\d.]+ GB"
#: Sentences of the README whose figures are those of a study or a proof, and the page that has them.
ELSEWHERE = {"1e-9": "lab/identity.md"}


def speedup(run: str, workload: str, name: str, axis: str) -> str:
    """The only ratio of another value of this axis to the usual one."""
    tables = [each for each in map(table, group(load([RUNS[run]]).launches)) if each.group.workload == workload]
    found = [gain for each in tables for gain in find_speedups(each.group, each.identities)]
    (gain,) = [each.ratio for each in found if (each.framework, each.axis) == (name, axis)]
    return f"{gain.value:.2f} ({gain.low:.2f}{DASH}{gain.high:.2f})"


def versions(run: str) -> str:
    """The releases of the frameworks."""
    records = {launch.record.cell.framework: launch.record for launch in load([RUNS[run]]).launches}
    return ", ".join(f"{framework(name)} {release_of(records[name])}" for name in FRAMEWORKS)


MAKERS: dict[str, Callable[..., str]] = {each.__name__: each for each in (speedup, versions)}


@pytest.mark.parametrize(
    "page", [page for page in PAGES if MARKED.search(page.read_text("utf-8"))], ids=lambda p: p.name
)
def test_figures_are_those_of_the_published_runs(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    golden(page, MARKED.sub(lambda found: f"{found[1]}{MAKERS[found[2]](*found[3].split())}{found[4]}", text))


def test_every_result_in_the_readme_is_made_from_a_run_or_stands_on_the_page_of_its_study() -> None:
    text = re.sub(OTHER, "", TABLE.sub("", MARKED.sub("", prose(ROOT / "README.md"))))
    figures = set(re.findall(r"\d+(?:[.,]\d+|e-\d+)", text))
    assert figures <= set(ELSEWHERE)
    assert not [each for each, page in ELSEWHERE.items() if each not in (ROOT / "docs" / page).read_text("utf-8")]
