"""Measures the suite itself: ``training-suite checks WHAT``."""

from __future__ import annotations

import sys
from importlib import import_module

from framework_training_suite import CommandError, entry, spelled
from suite.catalog.suggest import unknown

CHECKS = {
    "plain": "is the suite's training step as fast as a plain loop of the same framework?",
    "loaders": "how many samples per second does each loader deliver?",
    "monitor": "how much does monitoring slow a training down?",
}


@entry()
def main() -> int:
    """Run the check that the first argument names, with the other arguments as its options."""
    name = sys.argv[1] if len(sys.argv) > 1 else ""
    if name in CHECKS:
        return int(import_module(f"suite.checks.{name}").main(sys.argv[2:]))
    if name and name not in ("-h", "--help"):
        raise CommandError(unknown("check", name, CHECKS))
    lines = [f"  {name:9} {words}" for name, words in CHECKS.items()]
    print(spelled("\n".join([f"usage: training-suite checks {{{','.join(CHECKS)}}} [options]", "", *lines])))
    return 0 if name else 2


if __name__ == "__main__":
    sys.exit(main())
