"""The study of a slow link: what it needs, and how it reads its launches."""

from __future__ import annotations

import pytest

from suite.plan.cell import Cell
from suite.record.record import Outcome, Record
from tests.studies import slow_link


def test_a_launch_that_failed_is_a_row_without_figures_and_fails_the_study(capsys: pytest.CaptureFixture[str]) -> None:
    cell = Cell("imdb_lstm", "pytorch", devices=2)
    assert slow_link.shown([("1gbit", cell, [Record(cell, Outcome("error", "no link"))])]) == 1
    assert capsys.readouterr().out.splitlines()[-1] == "| pytorch | 1 Gbit/s | - | - | - | - |  |"


@pytest.mark.launches
def test_the_link_has_the_rate_that_is_asked_for() -> None:
    if reason := slow_link.impossible():
        pytest.skip(reason)
    with slow_link.namespaces() as names:
        limit = slow_link.Limit(names)
        for rate, words in (("100mbit", "rate 100Mbit"), ("", "noqueue"), ("1gbit", "rate 1Gbit")):
            limit(rate)
            for name in names:
                assert words in slow_link.output("tc", "-n", name, "qdisc", "show", "dev", slow_link.LINK)
    assert not any(name in slow_link.output("ip", "netns", "list") for name in names)
