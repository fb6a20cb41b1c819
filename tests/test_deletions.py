"""The study of deletions makes what it says (`tests/studies/deletions`)."""

from __future__ import annotations

from itertools import islice
from pathlib import Path

import pytest

from tests.studies.deletions.__main__ import draw
from tests.studies.deletions.cuts import find_cuts
from tests.studies.deletions.imports import rank_tests

ROOT = Path(__file__).parents[1]

SOURCE = '''\
def f(a: int | None, b=1):
    """Words (a, b)."""
    if a:
        b = 2
    elif b:
        b = 3
    else:
        g(f"{a + b}", key=1)
    try:
        g()
    except ValueError:
        b = 4
    return [x for x in (a, b) if x and 0 < x < 9] if a else {"é": a - b}
'''


@pytest.mark.parametrize(
    ("kind", "deleted"),
    [
        ("branch", ["[x for", "b = 2", "b = 3", "b = 4", "g(f'{a", "x and", "{'é'"]),
        ("call", ["g()", "g(f'{a"]),
        ("term", ["0", "0 < x < 9", "1", "9", "a", "a", "b", "b", "x"]),
    ],
)
def test_each_branch_call_and_term_can_be_deleted(kind: str, deleted: list[str]) -> None:
    cuts = sorted((cut for cut in find_cuts(Path("a.py"), SOURCE) if cut.kind == kind), key=lambda cut: cut.cut)
    assert len(cuts) == len(deleted)
    assert all(cut.cut.startswith(words) for cut, words in zip(cuts, deleted, strict=True))
    assert all(cut.is_sound(SOURCE) for cut in cuts)
    assert len({cut.apply(SOURCE) for cut in cuts}) == len(cuts)


def test_draws_are_seeded_and_sound() -> None:
    one, again, other = ([*islice(draw(seed), 20)] for seed in (1, 1, 2))
    assert one == again
    assert one != other
    assert not [cut for cut in one if cut.path.parts[1] == "worker"]
    assert all(cut.path.parts[:2] == ("suite", "worker") for cut in islice(draw(1, worker=True), 5))


def test_the_nearest_tests_are_those_of_the_file() -> None:
    assert rank_tests(ROOT, Path("suite/analysis/search/effects.py"))[0] == "tests/analysis/test_search_rules.py"
    assert "tests/analysis/test_statistics.py" in rank_tests(ROOT, Path("suite/analysis/statistics/inference.py"))[:5]
