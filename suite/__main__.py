"""The commands of the suite: ``training-suite COMMAND``, or ``python -m suite COMMAND``."""

from __future__ import annotations

import runpy
import sys

from framework_training_suite import PROGRAM, entry, spelled, typed
from suite import __version__
from suite.catalog.suggest import unknown

#: Each command, its module, and what it does.
COMMANDS = {
    "run": ("suite.run", "measure, and save the run"),
    "compare": ("suite.compare", "compare one or more runs: tables, plots, a report, a site, a check for CI"),
    "list": ("suite.list", "name the stored runs: their dates, machines, workloads and launches"),
    "plot": ("suite.plot", "draw one plot of a run by its name"),
    "doctor": ("suite.doctor", "show what this machine can measure, and how to fix what it cannot"),
    "reproduce": ("suite.reproduce", "run a stored result again, and say whether it holds"),
    "submit": ("suite.submit", "make one file of a run for others, with nothing personal in it"),
    "verify": ("suite.verify", "check such a file by numbered rules"),
    "tune": ("suite.tune", "search for the best setting, with few launches and a known risk"),
    "script": ("suite.script", "measure a training script of your own, and what makes it faster"),
    "profile": ("suite.profile", "profile one cell: where the time of its step goes, and a trace"),
    "export": ("suite.export", "send runs to MLflow, TensorBoard, W&B or Prometheus"),
    "releases": ("suite.releases", "list, build and remove releases of a framework, to measure one against another"),
    "bisect": ("suite.bisect", "find the release that made a cell slower"),
    "prove": ("suite.prove", "is a port the same model? tell where two frameworks differ first, and why"),
    "new": ("suite.new", "write the folder of a workload of your own, which runs as it stands"),
    "checks": ("suite.checks", "measure the suite itself: its steps, its loaders, its monitoring"),
    "data": ("suite.data", "download, verify and list the data sets"),
}

FIRST_STEPS = """\
first steps:
  training-suite doctor     can this machine measure?
  training-suite run        measure, and save the run: minutes on a CPU
  training-suite compare    which framework is faster, and how certain is that?

`training-suite COMMAND --help` explains a command.
"""


def main() -> int:
    """Run the command that the first argument names, with the other arguments; without one, list the commands."""
    name = sys.argv[1] if len(sys.argv) > 1 else "--help"
    if name == "help" and sys.argv[2:]:
        name, sys.argv = sys.argv[2], [sys.argv[0], sys.argv[2], "--help"]
    if name in ("-h", "--help", "help"):
        return show()
    if name in ("-V", "--version", "version"):
        print(PROGRAM, __version__)
        return 0
    if name not in COMMANDS:
        print(f"{unknown('command', name, COMMANDS)}. `{typed(PROGRAM)}` lists them.", file=sys.stderr)
        return 2
    module, _ = COMMANDS[name]
    sys.argv = [f"{PROGRAM} {name}", *sys.argv[2:]]
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
    return "\n".join([f"usage: {PROGRAM} COMMAND [ARGUMENTS]", "", "commands:", *lines, "", spelled(FIRST_STEPS)])


if __name__ == "__main__":
    sys.exit(main())
