"""Measures your own training script, and tests which settings make it faster: ``training-suite script train.py``."""

from __future__ import annotations

import argparse
import sys

from suite.analysis.options import STORAGE_FOLDER
from suite.plan.cell import FRAMEWORKS
from suite.plan.command import common
from suite.plan.command.common import command, duration, one_of, option

EPILOG = """\
What follows the script is the script's. Steps are seen by themselves in loops with PyTorch's optimizers (Lightning,
Accelerate and Hugging Face's Trainer among them) and in Keras' fit and train_on_batch; elsewhere by two lines,

    from suite.watch import watch
    for batch in watch(loader): ...

or by what the script prints (--pattern). Without any of these the whole run is one figure.

examples:
  training-suite script train.py --epochs 5                      its speed, and whether its loader holds it back
  training-suite script --try all train.py                       which switches of the environment make it faster
  training-suite script --vary num-workers=0,2,4 train.py        which value of an argument of its own
  training-suite script --env OMP_NUM_THREADS=1,2 train.py       which value of a variable
  training-suite script --python old/bin/python,new/bin/python train.py
  training-suite script --vs 'python other.py' train.py
  training-suite script -- torchrun --nproc-per-node 2 train.py  any command

exit status: 0; 1 if no launch ended well; 2 for wrong usage; 130 if interrupted
"""


def run_name(text: str) -> str:
    """The id of a run; a word after ``--resume`` that is the script is refused."""
    if text.endswith(".py") or "/" in text:
        raise argparse.ArgumentTypeError(f"{text!r} is no run; write --resume -- {text}")
    return text


@command(
    "suite.script", __doc__, EPILOG,
    option("command", nargs=argparse.REMAINDER, metavar="SCRIPT ...", help="a script or a command, with its arguments"),
    "what is compared",
    option("--try", dest="tried", metavar="LIST", help="switches that need no change of code: all, or some by name"),
    option("--vary", action="append", default=[], metavar="NAME=A,B", help="values of an argument of the script's"),
    option("--env", action="append", default=[], metavar="NAME=A,B", help="values of an environment variable"),
    option("--python", metavar="A,B", help="interpreters, of one environment each"),
    option("--vs", action="append", default=[], metavar="COMMAND", help="another command"),
    "how it is measured",
    option("--pattern", metavar="REGEX", help="of a line that is printed after a step; a group is its number"),
    option("--loss", metavar="REGEX", help="of a line with a loss, which its group is; shown side by side"),
    option("--profile", action="store_true", help="profile some steps of each launch"),
    option("--to-the-end", action="store_true", help="let the script end by itself"),
    option("--in-copy", action="store_true", help="run each launch in a copy of the current folder"),
    option("--framework", type=one_of("framework", FRAMEWORKS), metavar="NAME", help="where none is seen in it"),
    option("--budget", type=duration, default=600.0, metavar="TIME", help="for all launches (default: 10min)"),
    common.LAUNCHES.but(help="of each variant; a fixed number instead of a budget"),
    common.MIN_WINDOW.but(default=0.5, help="shortest timed window (default: 0.5s)"),
    option("--windows", type=int, default=5, metavar="N", help="that count of a launch (default: 5)"),
    option("--max-warmup", type=duration, default=20.0, metavar="TIME", help="until windows agree (default: 20s)"),
    common.MAX_TIME.but(default=900.0, help="how long a launch may take (default: 15min)"),
    common.WAIT_IDLE, common.SEED, common.RESUME.but(type=run_name),
    "output",
    option("--verbose", action="store_true", help="show what the script prints, and all columns"),
    STORAGE_FOLDER, common.JOURNAL_FOLDER,
    then="what was measured is in the newest journal",
)  # fmt: skip
def main(options: argparse.Namespace) -> int:
    """Measure a script and its variants, and compare them."""
    from suite.script.session import measure  # which what is mistyped does not wait for

    return measure(options)


if __name__ == "__main__":
    sys.exit(main())
