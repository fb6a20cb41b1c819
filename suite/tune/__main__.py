"""Searches for the best setting, with few launches: ``training-suite tune``."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from suite.analysis.options import MARGIN_OPTION, PRICE_HOUR, PRICE_KWH, STORAGE_FOLDER
from suite.catalog.settings import SETTINGS
from suite.plan.command import common
from suite.plan.command.common import command, list_of, of_axis, one_of, option
from suite.plan.measuring import LEAST_TESTED
from suite.plan.objective import KINDS, SHARE, SHARE_TRAINED
from suite.plan.space import ALL, DEFAULTS, UPWARD
from suite.plan.sweeps.sweep import AXES
from suite.session.engines import options as engine_options

RECIPES = SETTINGS["recipe"].choices

EPILOG = """\
examples:
  training-suite tune --workload imdb_lstm --framework pytorch,jax --search all --budget 30min
  training-suite tune --workload imdb_lstm --size small --batch 32,128 --precision fp32,bf16 --budget 6min
  training-suite tune --workload cifar100_cnn --objective joules/sample --within memory=8GiB --precision fp32,tf32,bf16
  training-suite tune --workload imdb_lstm --objective seconds-to-accuracy=.86
  training-suite tune --workload imdb_lstm --objective samples/s,memory      the Pareto front of two objectives
  training-suite tune --workload imdb_lstm --framework pytorch --batch up     the best batch
  training-suite tune --matrix sweep.toml                                    the axes from a file
  training-suite tune --resume                                               continue the last search

Give an axis one value to fix it, or a list (a,b) to search it. --search precision,batch searches axes over the
machine's own values, --search all over all of these; every other axis stays as usual:
  on a CPU   {cpu}
  on a GPU   {gpu}
--batch up tries {up} from the smallest up, in each framework until two in a row are no faster or one
does not fit, and then searches among those tried.
Precisions that a framework does not support on this machine are left out before the first launch, with the reason.

How it searches: the cells of a workload, of all frameworks, race in blocks. A block is one launch of every cell that is
left, in a random order. From the second block on, the cells go that are significantly worse than the best; the risk of
dropping the best one is at most 5 % in all. A race ends when the cells that are left are shown to be equal within the
margin, or when the budget is spent; then the answer says what is undecided. docs/lab/search.md has its rates.

exit status: 0 answered; 1 no cell can be recommended; 2 wrong usage, or the search cannot continue; 130 interrupted
"""


OPTIONS = (
    "what to look for",
    option("--objective", default="samples/s", metavar="LIST",
           help=f"one of: {', '.join(KINDS)}; two for their Pareto front (default: samples/s)"),
    option("--within", **list_of(default=[]),
           help="limits on other quantities, such as memory=8GiB, samples/s=1000 (at least), step-latency=20ms"),
    option("--budget", metavar="AMOUNT",
           help=f"30min, 2h, 200launches (default: {100 * SHARE:g} %% of the launches of all cells with "
           f"{LEAST_TESTED} each; {100 * SHARE_TRAINED:g} %% for seconds-to-accuracy)"),
    MARGIN_OPTION, PRICE_HOUR, PRICE_KWH,
    option("--recipe", type=one_of("recipe", RECIPES), default="modern", metavar=f"{{{','.join(RECIPES)}}}",
           help="how cells are trained to an accuracy (default: modern)"),
    "where to look",
    common.WORKLOADS,
    option("--matrix", metavar="LIST", action="append", help="the cells of matrices, or of a TOML file"),
    option("--search", metavar="LIST",
           help="axes to search over the machine's own values, which --help lists: "
           f"{', '.join(DEFAULTS[False])}, {ALL}; an axis that no option names stays as usual"),
    *(of_axis(axis, SETTINGS[axis].help.partition(" (default:")[0]) for axis in AXES),
    "how to measure",
    common.MIN_WINDOW, common.MAX_TIME, common.EPOCHS, common.MEMORY_LIMIT, common.SEED, common.DATA, common.DATA_DIR,
    common.DEVICE, common.GPU, *engine_options(), common.TRUSTED_NETWORK,
    common.WAIT_IDLE,
    common.RESUME.but(help="continue the search with this id, or without an id the last one with these options"),
    option("--no-probe", action="store_true", help="do not ask the frameworks which precisions they support"),
    common.JOURNAL_FOLDER, STORAGE_FOLDER,
    option("--output", type=Path, metavar="DIR", help=f"answer and plots (default: {common.ANSWERS}/RUN)"),
)  # fmt: skip
USUAL = {device: " ".join(f"--{axis} {text}" for axis, text in DEFAULTS[device == "gpu"].items())
         for device in ("cpu", "gpu")}  # fmt: skip


@command(
    "suite.tune", "Searches for the best setting: few launches, and a known risk of being wrong.",
    EPILOG.format(**USUAL, up=f"{UPWARD[:8]}, ..., {UPWARD[-4:]}"), *OPTIONS, then="nothing was launched",
)  # fmt: skip
def main(options: argparse.Namespace) -> int:
    """Search, save the launches, and print the answer."""
    from suite.tune.searching import tune

    return tune(options)


if __name__ == "__main__":
    sys.exit(main())
