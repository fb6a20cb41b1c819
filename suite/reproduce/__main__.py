"""Runs the cells of a stored result again, and says whether it holds: ``training-suite reproduce RESULT``."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from suite.analysis.options import MARGIN_OPTION, RUNS, STORAGE_FOLDER
from suite.catalog.devices import HELP
from suite.plan.command import common
from suite.plan.command.common import (
    command,
    option,
)  # fmt: skip

EPILOG = """\
It takes as long as the stored run did; -k and --launches make it shorter.

Workload, seed, windows and device are those of the stored run. Differences in the machine and in versions are listed.
--install DIR first builds an environment per framework with the versions in the records, and measures in those. It
shows what it will install and asks before it does; it installs the frameworks and their known dependencies only.
Releases are built from the stored lock, and what differs from it is said.

verdicts, from the 95 % interval of new over stored throughput:
  reproduced          the whole interval lies within the margin
  faster, slower      the whole interval lies beyond the margin
  inconclusive        neither; use more --launches
  shape reproduced    on another machine: the ratios between frameworks differ by no more than 25 %
  shape differs       on another machine: they differ by more
  not comparable      other data or another workload, or a cell that ended differently

exit status: 0 all reproduced, 1 not all, 2 unusable input, 3 nothing differs but not all is decided, 130 interrupted
"""


@command(
    "suite.reproduce", __doc__, EPILOG,
    RUNS.but(metavar="RESULT", nargs="+"),
    option("-k", metavar="TEXT", default="", help="only cells whose id contains this text"),
    common.WORKLOADS,
    common.LAUNCHES.but(help="per cell (default: as many as are stored)"),
    MARGIN_OPTION,
    common.DATA_DIR,
    common.DEVICE.but(default=None, help=HELP.replace("default: auto", "default: the stored run's")), common.GPU,
    common.TRUSTED_NETWORK,
    option("--install", type=Path, metavar="DIR", help="first build environments with the stored versions there"),
    option("--yes", action="store_true", help="with --install: install without asking"),
    common.JOURNAL_FOLDER,
    STORAGE_FOLDER,
    then="what was measured is in the newest journal",
)  # fmt: skip
def main(options: argparse.Namespace) -> int:
    """Run the cells of a result again, and print a verdict per cell."""
    from suite.reproduce.rerun import reproduce

    return reproduce(options)


if __name__ == "__main__":
    sys.exit(main())
