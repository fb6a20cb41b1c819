"""``python -m suite``: lists the commands, one per line."""

from __future__ import annotations

COMMANDS = {
    "pytest suite --benchmark-save": "measure the cells of a matrix and save the run",
    "python -m suite.compare": "tables, plots and a report of one or more runs",
    "python -m suite.doctor": "what this machine can measure, and how to mend what it cannot",
    "python -m suite.reproduce RESULT": "run a stored result again, and say whether it holds",
    "python -m suite.checks WHAT": "the suite measured by itself: plain, loaders, monitor",
    "python -m workloads.data fetch": "download, verify and cache the data",
}

if __name__ == "__main__":
    width = max(map(len, COMMANDS))
    print("\n".join(f"{command:{width}}  {words}" for command, words in COMMANDS.items()))
    print("\nEach has --help.")
