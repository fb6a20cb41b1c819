"""What a site's leaderboards show of a bundle: `leaderboard.json`, written beside its report."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import Annotated
from urllib.parse import quote, unquote

from msgspec import Meta

from suite.analysis.records.load import LoadError
from suite.analysis.records.machines import Machine, identify, processor
from suite.analysis.rows.groups import Row
from suite.analysis.rows.metrics import Prices
from suite.analysis.statistics.fastest import FastestBySetting
from suite.record.bundle import LARGEST, Bundle
from suite.record.record import Record
from suite.record.text import clean
from suite.report.html.folder import stage_files
from suite.report.html.stored import Rate, Text, read, short
from suite.report.tables.frame import Table
from workloads.data.files import read_regular

FILE = "leaderboard.json"
#: Rows of the file, at most.
ROWS_MOST = 1000

FASTEST, UNTESTED, ALONE, UNDECIDED = "fastest", "not tested", "alone", "not decided"
#: The verdict on the fastest row, seen from one of the others.
SEEN = {"faster": "slower", "equal": "equal", "inconclusive": "inconclusive", "": UNTESTED}


@dataclass(frozen=True)
class Standing:
    """The best row of a framework in one setting of a run.

    ``samples_per_s`` is the median over ``n`` launches, with the lowest and the highest. ``to_fastest`` is its ratio to
    the fastest framework of the same run, with its interval. ``price`` is that of a million samples.
    """

    workload: Text
    precision: Text
    devices: Annotated[int, Meta(ge=1, lt=10**6)]
    batch: Text
    framework: Text
    cell: Text
    version: Text
    n: Annotated[int, Meta(ge=1, lt=10**6)]
    samples_per_s: tuple[Rate, Rate, Rate]
    to_fastest: tuple[Rate, Rate, Rate] | None
    verdict: Text
    price: Rate | None = None


@dataclass(frozen=True)
class Standings:
    """The rows of a bundle. ``kind`` is the kind of device, ``checked`` what the rules said, ``bundle`` its address.

    ``hardware`` is what is known of the machine where the device is a processor; older files do not say.
    """

    run: Text
    kind: Text
    date: Text
    checked: Text
    bundle: Text
    rows: Annotated[tuple[Standing, ...], Meta(max_length=ROWS_MOST)]
    hardware: Machine | None = None


def is_made_from(folder: Path, content: bytes | None) -> bool:
    """Whether the report in a folder of a site was made from a bundle with this content; for None, from no bundle."""
    if not (folder / FILE).exists():
        return content is None
    try:
        address = read(folder / FILE, Standings).bundle
        return content is not None and read_regular(folder / unquote(address), LARGEST) == content
    except (OSError, ValueError):
        return False


def write(folder: Path, bundle: Path, made: Bundle, checked: str, tables: Sequence[Table]) -> None:
    """Add a bundle's standings to its report in ``folder``; what was read of the bundle too, if it lies outside.

    Raises `OSError`, and `LoadError` for a bundle without a row to show.
    """
    found = [(table, contest) for table in tables for contest in table.findings.contests]
    prices = Prices(made.about.price_hour)
    rows = tuple(row for table, contest in found for row in _rows(table, contest, prices))[:ROWS_MOST]
    if not rows:
        raise LoadError(f"{bundle}: has no throughput that could be ranked, so no place on a leaderboard")
    record = found[0][1].rows[0].ok[0]
    site, path = folder.resolve().parent, bundle.resolve()
    inside = path.is_relative_to(site)
    address = f"../{path.relative_to(site).as_posix()}" if inside else clean(bundle.name, 200)
    run = clean(record.run.get("id", ""), 80)
    records = [each for table, _ in found for row in table.group.rows for each in row.ok]
    hardware = identify(records, run) if kind(record) == processor(record) else None
    standings = Standings(run, kind(record), clean(record.started, 40)[:10], checked, quote(address), rows, hardware)
    with stage_files(folder, ours=True) as place:
        (place / FILE).write_text(json.dumps(asdict(standings), indent=1) + "\n", encoding="utf-8")
        if not inside:
            (place / address).write_bytes(made.content)


def kind(record: Record) -> str:
    """The kind of device that a launch trained on: the GPU's name, or the processor with its cores."""
    names = (record.environment.get("machine") or {}).get("gpus")
    if record.settings.get("device") != "cpu" and isinstance(names, list) and names:
        return clean(names[0], 80)
    return processor(record) or "device not recorded"


def _rows(table: Table, contest: FastestBySetting, prices: Prices) -> Iterator[Standing]:
    for row in contest.rows:
        name, cell = row.cell.framework, row.cell
        rates = sorted(rate for record in row.ok if (rate := record.samples_per_s))
        gap = None if name == contest.top else contest.gap(name, contest.top)
        ratio = (gap.value, gap.low, gap.high) if gap and gap.value and gap.low and gap.high else None
        middle = median(rates)
        yield Standing(
            f"{cell.workload} {table.group.size}", cell.precision, cell.devices, row.batch,
            name, cell.id, _version(row), len(rates), (short(middle), short(rates[0]), short(rates[-1])),
            (short(ratio[0]), short(ratio[1]), short(ratio[2])) if ratio else None, _verdict(contest, name),
            prices.of_a_million(middle, None),
        )  # fmt: skip


def _verdict(contest: FastestBySetting, name: str) -> str:
    if name != contest.top:
        return SEEN[contest.gap(contest.top, name).verdict]
    if not contest.rivals:
        return ALONE
    if contest.is_untested:
        return UNTESTED
    return FASTEST if len(contest.behind) == len(contest.rivals) else UNDECIDED


def _version(row: Row) -> str:
    packages = next((record.environment.get("packages") for record in row.ok), None)
    return " ".join(clean(part, 40) for part in next(iter(packages.items()))) if packages else ""
