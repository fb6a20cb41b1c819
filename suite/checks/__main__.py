"""Measures the suite itself: ``python -m suite.checks WHAT``."""

from __future__ import annotations

import sys

from suite.checks import loaders, monitor, plain

CHECKS = {
    "plain": (plain.main, "the suite's training steps against the plainest loop of each framework"),
    "loaders": (loaders.main, "how many samples a second each loader delivers"),
    "monitor": (monitor.main, "what watching a training costs"),
}


def main() -> int:
    """Run the check that the first argument names; the rest are its options."""
    name = sys.argv[1] if len(sys.argv) > 1 else ""
    if name in CHECKS:
        del sys.argv[1]
        return CHECKS[name][0]()
    lines = [f"  {name:9} {words}" for name, (_, words) in CHECKS.items()]
    print("\n".join(["usage: python -m suite.checks {plain,loaders,monitor} [options]", "", *lines]))
    return 0 if name in ("-h", "--help") else 2


if __name__ == "__main__":
    sys.exit(main())
