"""Options of the commands that read recorded runs."""

from __future__ import annotations

import math
from pathlib import Path

from suite.analysis.records.load import STORAGE
from suite.analysis.rows.wording import percent
from suite.plan.command.common import Option, option


def _price(text: str) -> float:
    value = float(text)
    if not 0 <= value < math.inf:
        raise ValueError(text)
    return value


RUNS = option("run", nargs="*", metavar="RUN", help="a file, a folder, or the number or name of a saved run")
STORAGE_FOLDER = option("--storage", type=Path, metavar="DIR", default=STORAGE, help=f"saved runs; default: {STORAGE}")
PRICE_HOUR = option("--price-hour", type=_price, metavar="P", help="price of the machine per hour, for cost")
PRICE_KWH = option("--price-kwh", type=_price, metavar="P", help="price of the GPU's energy per kWh, likewise")


def margin_option() -> Option:
    """The margin of verdicts. What it is by default comes with SciPy, which not all of these commands need."""
    from suite.analysis.statistics.inference import MARGIN

    return option(
        "--margin", type=percent, default=MARGIN, metavar="PERCENT",
        help="differences within it are equal; faster and slower need the whole interval beyond it "
        f"(default: {100 * MARGIN:g})",
    )  # fmt: skip
