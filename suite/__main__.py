"""The commands of the suite: ``python -m suite COMMAND``, or ``training-suite COMMAND`` where it is installed."""

from __future__ import annotations

import contextlib
import io
import runpy
import sys
from pathlib import Path

from framework_training_suite import MEASURING, entry, lack, typed
from suite.catalog.suggest import unknown

HERE = Path(__file__).resolve().parent

#: Each command, its module, and what it does. The module of ``run`` is pytest.
COMMANDS = {
    "run": ("pytest", "measure: `run --benchmark-save` is `pytest suite --benchmark-save`"),
    "compare": ("suite.compare", "compare one or more runs: tables, plots, a report, a site, a check for CI"),
    "doctor": ("suite.doctor", "show what this machine can measure, and how to fix what it cannot"),
    "reproduce": ("suite.reproduce", "run a stored result again, and say whether it holds"),
    "submit": ("suite.submit", "make one file of a run for others, with nothing personal in it"),
    "verify": ("suite.verify", "check such a file by numbered rules"),
    "tune": ("suite.tune", "search for the best setting, with few launches and a known risk"),
    "profile": ("suite.profile", "profile one cell: where the time of its step goes, and a trace"),
    "export": ("suite.export", "send runs to MLflow, TensorBoard, W&B or Prometheus"),
    "releases": ("suite.releases", "list, build and remove releases of a framework, to measure one against another"),
    "bisect": ("suite.bisect", "find the release that made a cell slower"),
    "prove": ("suite.prove", "is a port the same model? tell where two frameworks differ first, and why"),
    "new": ("suite.new", "write the folder of a workload of your own, which runs as it stands"),
    "checks": ("suite.checks", "measure the suite itself: its steps, its loaders, its monitoring"),
    "data": ("workloads.data", "download, verify and list the data sets"),
}

#: What `pytest suite` takes from pyproject.toml, for an installation without that file.
CONFIGURED = ("-p", "suite.plugin", "--benchmark-save-data")

FIRST_STEPS = """\
first steps:
  {suite} doctor                  can this machine measure?
  {suite} run --benchmark-save    measure: minutes on a CPU
  {suite} compare                 which framework is faster, and how certain is that?

`{suite} COMMAND --help` explains a command. `{suite}.compare` works as well.
"""


def main() -> int:
    """Run the command that the first argument names, with the other arguments; without one, list the commands."""
    name = sys.argv[1] if len(sys.argv) > 1 else "--help"
    if name in ("-h", "--help", "help"):
        return show()
    if name not in COMMANDS:
        print(f"{unknown('command', name, COMMANDS)}. `{typed('python -m suite')}` lists them.", file=sys.stderr)
        return 2
    module, _ = COMMANDS[name]
    if name == "run":
        return run(sys.argv[2:])
    sys.argv = [f"python -m {module}", *sys.argv[2:]]
    runpy.run_module(module, run_name="__main__", alter_sys=True)
    return 0


@entry()
def show() -> int:
    """Print the commands."""
    print(listing(), end="")
    return 0


def listing() -> str:
    """The commands, a line each, and where to begin."""
    lines = [f"  {name:10} {words}" for name, (_, words) in COMMANDS.items()]
    first_steps = FIRST_STEPS.format(suite=typed("python -m suite"))
    return "\n".join(["usage: python -m suite COMMAND [ARGUMENTS]", "", "commands:", *lines, "", first_steps])


def run(arguments: list[str]) -> int:
    """Run pytest on the suite; ``--help`` shows the options of the suite and leaves out those of pytest itself."""
    if problem := lack(("pytest", *MEASURING)):
        print(f"suite: {problem}", file=sys.stderr)
        return 2
    import pytest

    from suite.plan.command.options import HEADING  # which needs pytest: the commands are listed without it

    if not {"-h", "--help"} & set(arguments):
        return int(pytest.main(pytest_arguments(arguments)))
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        status = pytest.main(pytest_arguments(["--help"]))
    begin = printed.getvalue().find(HEADING)
    options = printed.getvalue().find("\n\n", begin + len(HEADING))
    print(printed.getvalue()[max(begin, 0) : options])
    return int(status)


def pytest_arguments(arguments: list[str]) -> list[str]:
    """The arguments of pytest for ``run``: short in a checkout, complete everywhere else."""
    if Path("suite").resolve() == HERE and Path("pyproject.toml").is_file():
        return ["suite", *arguments]
    return [*CONFIGURED, str(HERE), *arguments]


if __name__ == "__main__":
    sys.exit(main())
