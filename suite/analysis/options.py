"""Options of the commands that read recorded runs."""

from __future__ import annotations

import argparse
import math
import re
from pathlib import Path

from suite.analysis.rows.wording import percent
from suite.plan.command.common import OLDER, SAVED, option
from suite.plan.measuring import MARGIN

_NUMBER = re.compile(r"\d{1,9}(?:\.\d{0,9})?|\.\d{1,9}")


def _price(text: str) -> float:
    value = float(text) if _NUMBER.fullmatch(text) else math.inf
    if value == math.inf:
        raise argparse.ArgumentTypeError(f"{text!r} is no price; write a number, such as 2.50")
    return value


def threshold(text: str) -> float:
    """``slower=5%``, or ``5%``, as 0.05."""
    number = _NUMBER.search(text)
    percents = number[0] if number and 0 <= float(number[0]) < 100 else "5"
    if text not in (written := f"slower={percents}%", f"{percents}%"):
        raise argparse.ArgumentTypeError(f"{text!r} is no limit; write {written}")
    return float(percents) / 100


#: Files that a report may have besides, with the same content as its CSV tables and PNG plots, for other tools.
EXTRAS = ("png", "svg", "parquet")
#: The same, and what is written where it is asked for.
ASKED = (*EXTRAS, "pdf")


def style(text: str) -> Path:
    if not Path(text).is_file():
        raise argparse.ArgumentTypeError(f"{text}: no such file")
    Path(text).read_text(encoding="utf-8")  # as matplotlib reads it; ValueError for no text
    return Path(text)


STYLE = option("--style", type=style, metavar="FILE", help="a style of matplotlib's (.mplstyle) for the plots; no TeX")
RUNS = option("run", nargs="*", metavar="RUN", help="a file, a folder, or the number or name of a saved run")
STORAGE_FOLDER = option(
    "--storage",
    type=Path,
    metavar="DIR",
    default=SAVED,
    help=f"saved runs; default: {SAVED}, and {OLDER[SAVED]}",
)
PRICE_HOUR = option("--price-hour", type=_price, metavar="P", help="price of an hour of the machine, for costs")
CURRENCY = option("--currency", default="", metavar="NAME", help="of the prices, such as EUR")
PRICE_KWH = option("--price-kwh", type=_price, metavar="P", help="price of the GPU's energy per kWh, likewise")


MARGIN_OPTION = option(
    "--margin", type=percent, default=MARGIN, metavar="PERCENT",
    help="differences within it are equal; faster and slower need the whole interval beyond it "
    f"(default: {100 * MARGIN:g})",
)  # fmt: skip
