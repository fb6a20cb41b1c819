"""Finds the release of a framework that made a cell slower: ``training-suite bisect CELL --good A --bad B``."""

from __future__ import annotations

import argparse
import sys

from suite.analysis.options import STORAGE_FOLDER
from suite.analysis.rows.wording import percent
from suite.plan.cell import SIZES
from suite.plan.command import common
from suite.plan.command.common import command, option

EPILOG = """\
The good and the bad release are measured in blocks until the bad one is decidedly slower. Then each middle is measured
beside both until it is decided to which of them it is nearer; last, the first slow release is measured beside the one
before it. All decisions together are wrong with at most the --risk. Releases are built as they are needed. A release
between the two that cannot be measured is passed over. With --why, launches are profiled, and the answer names what
changed.

examples:
  training-suite bisect imdb_lstm-jax --size small --good 0.8.0 --bad 0.10.2
  training-suite bisect imdb_lstm-jax-fp32-b32 --good 0.8.0 --bad newest --why
  training-suite bisect cifar100_cnn-pytorch --good 2.9.1 --bad 2.10.0.dev3 --releases 2.10.0.dev1,2.10.0.dev2

exit status: 0 found; 1 no release is decidedly slower, or not all is decided; 2 wrong usage, or the search cannot go
on; 130 interrupted
"""


@command(
    "suite.bisect", __doc__, EPILOG,
    option("cell", metavar="CELL", help="a cell's id, or how it begins: imdb_lstm-jax-fp32-b32"),
    option("--good", required=True, metavar="RELEASE", help="a release that is fast"),
    option("--bad", required=True, metavar="RELEASE", help="a later one that is slow, or newest"),
    option("--releases", metavar="LIST",
           help="the releases between them (default: all of the index that fit this machine)"),
    option("--risk", type=percent, default=0.05, metavar="PERCENT",
           help="of any wrong decision in the whole search (default: 5)"),
    option("--why", action="store_true", help="profile the launches, and say what changed"),
    option("--size", choices=SIZES, help="of the workload (default: that of the cell)"),
    common.WORKLOADS, common.MIN_WINDOW, common.DATA, common.DATA_DIR, common.DEVICE, common.GPU, common.SEED,
    common.RESUME,
    common.JOURNAL_FOLDER, STORAGE_FOLDER,
    then="continue with the same options and --resume",
)  # fmt: skip
def main(options: argparse.Namespace) -> int:
    """Search, save the launches, and print the answer."""
    from suite.bisect.measuring import bisect

    return bisect(options)


if __name__ == "__main__":
    sys.exit(main())
