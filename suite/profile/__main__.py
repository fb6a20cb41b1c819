"""Profiles one cell: a table of where the time of its step goes, and a trace: ``training-suite profile CELL``."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from framework_training_suite import entry
from suite.plan.cell import SIZES
from suite.plan.command import common

EPILOG = """\
A cell's id is what `training-suite run --collect-only -q` lists. Its beginning is enough: what is left out is as usual.

examples:
  training-suite profile imdb_lstm-pytorch                       fp32, batch 32, the usual compile mode and loader
  training-suite profile cifar100_cnn-jax-fp32-b32 --size small
  training-suite profile cifar100_cnn-pytorch-bf16-b64-compile --code --launches 3

The launch is measured as by `training-suite run`, and profiled after its last timed window. It is in a journal of its
own, so `training-suite compare runs/journals/RUN.jsonl --why` compares it with others.

exit status: 0; 1 if the launch failed or left no profile; 2 for wrong usage; 130 if interrupted
"""


@entry("what was measured is in the newest journal")
def main(arguments: Sequence[str] | None = None) -> int:
    """Launch the cell with a profile, and print its tables and where its trace is."""
    options = _parse(arguments)
    from suite.profile.profiling import profile  # after what is mistyped is answered: it takes seconds

    return profile(options)


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = common.command_parser("suite.profile", __doc__, EPILOG)
    parser.add_argument("cell", metavar="CELL", help="a cell's id, or how it begins: cifar100_cnn-jax-fp32-b32")
    common.add(parser.add_argument, common.WORKLOADS)
    parser.add_argument("--size", choices=SIZES, help="of the workload (default: that of the cell)")
    common.add(parser.add_argument, common.LAUNCHES.but(default=1, help="fresh processes (default: 1)"))
    for flag, option in (("--memory", common.PROFILE_MEMORY), ("--code", common.PROFILE_CODE)):
        words = option.help.removeprefix("with --profile, ")
        parser.add_argument(flag, dest=f"profile_{flag[2:]}", action="store_true", help=words)
    common.add(
        parser.add_argument,
        common.DATA,
        common.DATA_DIR,
        common.DEVICE,
        common.GPU,
        common.TRUSTED_NETWORK,
        common.SEED,
        common.JOURNAL_FOLDER,
    )
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main())
