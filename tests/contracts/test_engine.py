"""A new engine is one file: `--on`, its help, the page of options, a run and the doctor find it there."""

from __future__ import annotations

from argparse import ArgumentParser
from contextlib import ExitStack
from pathlib import Path

import pytest

from suite.doctor.checks import launching
from suite.plan.cell import Cell
from suite.plan.command.common import add
from suite.plan.measuring import Plan
from suite.session import engines
from suite.session.hosts.cluster import open_cluster
from suite.session.launches.launch import LaunchError
from suite.session.launches.settings import Settings

FILE = """
from suite.session.engines import Engine
from suite.session.launches.launch import LaunchError

def open_nodes(on, settings, say, until):
    raise LaunchError(f"{on} was opened on {settings['device']}")

ENGINE = Engine("moon", "on every host of the moon", ("moon://HOST:PORT", "of another one"), nodes=open_nodes)
"""


@pytest.fixture(autouse=True)
def fake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "moon.py").write_text(FILE)
    monkeypatch.setattr(engines, "__path__", [*engines.__path__, str(tmp_path)])


def test_it_is_a_value_of_the_option_which_explains_it_to_every_command() -> None:
    parser = ArgumentParser()
    add(parser.add_argument, *engines.options())
    assert parser.parse_args(["--on", "moon"]).on == "moon"
    assert parser.parse_args(["--on", "moon://there:1"]).on == "moon://there:1"
    words = " ".join(parser.format_help().split())
    assert "moon, on every host of the moon; moon://HOST:PORT, of another one" in words


def test_a_run_opens_it() -> None:
    settings = Settings("smoke", 1, Plan(), device="cpu", on="moon://there:1")
    with ExitStack() as until, pytest.raises(LaunchError, match="moon://there:1 was opened on cpu"):
        open_cluster(settings, [Cell("imdb_lstm", "jax")], lambda _: None, until)


def test_the_doctor_lists_it() -> None:
    (finding,) = launching()
    assert "moon" in finding.text
