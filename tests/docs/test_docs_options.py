"""The page with all options is made from the parsers: ``UPDATE_GOLDEN=1 pytest tests/docs`` writes it anew."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from suite.__main__ import COMMANDS
from suite.catalog.settings import SWEPT
from suite.plan.command.options import GROUPS
from tests.documents import ROOT, run_module
from tests.expected import golden

PAGE = ROOT / "docs" / "options.md"
HEAD = """\
# Options

All options, by command; `--help` explains them (`training-suite run --help-all` all of that command).
[Settings](settings.md) explains the axes: AXES. [Commands](commands.md) has the exit statuses.
"""
#: The commands but `run`, in the order of the page.
OTHERS = (
    "compare", "tune", "reproduce", "doctor", "profile", "prove", "new", "export mlflow", "export tensorboard",
    "export wandb", "export prometheus", "releases", "bisect", "checks plain", "checks loaders", "checks monitor",
    "data fetch", "data verify", "data where", "submit", "verify",
)  # fmt: skip
AXES = "[the axes](settings.md#the-axes)"


class FoundError(Exception):
    """Carries the parser of a command out of it."""


def parser_of(command: str, monkeypatch: pytest.MonkeyPatch) -> argparse.ArgumentParser:
    """The parser that a command makes for itself; of a command with parts, that of the part."""

    def found(self: argparse.ArgumentParser, *_: object, **__: object) -> None:
        raise FoundError(self)

    name, *parts = command.split()
    with monkeypatch.context() as patched:
        patched.setattr(argparse.ArgumentParser, "parse_args", found)
        patched.setattr(sys, "argv", ["python -m", *parts])
        with pytest.raises(FoundError) as caught:
            run_module(COMMANDS[name][0], patched)
    parser: argparse.ArgumentParser = caught.value.args[0]
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            return action.choices[parts[0]]
    return parser


def names_of(parser: argparse.ArgumentParser) -> Iterator[str]:
    for action in parser._actions:
        if action.help != argparse.SUPPRESS and not isinstance(action, argparse._HelpAction):
            choices = "{" + ",".join(map(str, action.choices)) + "}" if action.choices else action.dest.upper()
            yield ", ".join(action.option_strings) or str(action.metavar or choices)


def names_of_run(config: pytest.Config) -> list[str]:
    """The suite's own options of ``training-suite run``."""
    groups: list[Any] = [config._parser.getgroup(f"suite: {title}") for title in GROUPS]
    return [", ".join(option.names()) for group in groups for option in group.options]


def test_the_page_lists_all_options(pytestconfig: pytest.Config, monkeypatch: pytest.MonkeyPatch) -> None:
    every = names_of_run(pytestconfig)
    axes = [name for name in every if name.removeprefix("--") in SWEPT]
    run = ", ".join(f"`{name}`" for name in every if name not in axes)
    head = HEAD.replace("AXES", ", ".join(f"`{name}`" for name in axes))
    parts = [head, f"- `training-suite run`: {run}, {AXES}; and all options of pytest and pytest-benchmark"]
    for command in OTHERS:
        names = list(names_of(parser_of(command, monkeypatch)))
        own = [f"`{name}`" for name in names if name not in axes or not {*axes} <= {*names}]
        parts.append(f"- `training-suite {command}`: {', '.join([*own, *[AXES] * ({*axes} <= {*names})])}")
    golden(PAGE, "\n".join([*parts, ""]))
