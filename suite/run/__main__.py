"""Measures, and saves the run: ``training-suite run``, which is `pytest suite --benchmark-save`."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, NoReturn, cast

from framework_training_suite import FAILED, INTERRUPTED, MEASURING, CommandError, called, entry, lack
from suite.plan.command.pytest_arguments import find_unknown, pytest_arguments
from suite.session.streams import writable

if TYPE_CHECKING:
    from suite.plan.command.common import CommandParser, Option

#: The exit statuses that pytest has others for; what is left is a failure.
STATUSES = {0: 0, 2: INTERRUPTED, 4: FAILED}

#: How options of engines begin, mistyped ones too. To import engines takes as long as all else that answers.
OF_ENGINES = ("--o", "--pl")

EPILOG = "All options of pytest and pytest-benchmark work too; `pytest --help` lists them."
MORE = f"--help-all lists all options of the suite. {EPILOG}"


def main(arguments: Sequence[str] | None = None) -> int:
    """Answer what needs no measurement, or measure."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    return check(words) or measure(words)


@entry()
def check(words: list[str]) -> int:
    """Print the help, or refuse what is mistyped: before pytest is imported, which takes longer than the answer."""
    if problem := lack(("pytest", *MEASURING)):
        raise CommandError(problem)
    from suite.plan.command.options import SHORT, chosen_matrix, grouped
    from suite.session.engines import options as engines

    if asked := {"-h", "--help", "--help-all"} & {*words}:
        _help(None if "--help-all" in asked else SHORT)
    parser = _parser(grouped(*(engines() if any(word.startswith(OF_ENGINES) for word in words) else ())))
    options, others = parser.parse_known_args(words)  # which are of pytest, or of other rooms
    if unknown := find_unknown(others, words):
        parser.error(f"unknown option {unknown}")
    if not (options.release or options.workloads or options.resume):  # which the session looks for
        chosen_matrix(_as_config(options))
    return 0


def measure(words: Sequence[str]) -> int:
    """Run pytest on the suite, to its end also where the reader of its output has left."""
    import pytest

    with writable(called("suite.run")):
        return STATUSES.get(int(pytest.main(pytest_arguments(words))), 1)


def _help(groups: int | None) -> NoReturn:
    """Print the help of the first groups, or of all, and end."""
    from suite.plan.command.options import OF_PYTEST, grouped
    from suite.session import observers
    from suite.session.engines import options as engines

    every = grouped(*OF_PYTEST, *engines(), *observers.options())
    parser = _parser(dict(list(every.items())[:groups]), MORE if groups else EPILOG)
    parser.print_help()
    parser.exit()


def _parser(groups: Mapping[str, Sequence[Option]], epilog: str = "") -> CommandParser:
    from suite.plan.command.common import command_parser
    from suite.plan.command.options import HEADING, NAMES

    parts = [part for title, own in groups.items() for part in [cast("Option | str", title), *own]]
    parser = command_parser("suite.run", HEADING, epilog, *parts)
    parser.usage = f"{parser.prog} [OPTIONS]"
    parser.others = NAMES
    return parser


def _as_config(options: argparse.Namespace) -> Any:
    """The options as pytest's configuration gives them."""
    return SimpleNamespace(option=options, getoption=lambda name, default=None: getattr(options, name, default))


if __name__ == "__main__":
    sys.exit(main())
