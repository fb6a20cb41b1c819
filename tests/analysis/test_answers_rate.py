"""An answer rests on many tests, and where nothing differs it seldom says that anything does."""

from __future__ import annotations

import pytest

from tests.studies import answers


@pytest.mark.parametrize("modes", [answers.ONE_MODE, answers.MODES], ids=["one mode", "two modes"])
def test_an_answer_is_seldom_wrong_thanks_to_one_correction_over_all_its_tests(modes: dict[str, int]) -> None:
    apart, together = answers.wrong(modes, 300)
    assert together <= 0.06, "5 %, and what 300 draws may add"
    assert apart > together, "which is why they are corrected together"


def test_the_fastest_of_several_equal_modes_is_about_one_percent_too_fast() -> None:
    assert 0.005 < answers.bias(2) < answers.bias(3) < 0.011
