"""The legend of timed cells, which goes once below all tables."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from suite.analysis.rows.axes import BETWEEN_RUNS
from suite.analysis.rows.blocks import UNSOUND_RELEASE
from suite.analysis.rows.groups import Row
from suite.analysis.rows.wording import DASH, listing
from suite.analysis.statistics.accuracy import AccuracyComparison
from suite.analysis.statistics.sequential import launches_needed
from suite.catalog.metrics import METRICS, common_unit
from suite.report.format.names import SETTING_NAMES
from suite.report.format.text import in_unit
from suite.report.tables.columns import has_several
from suite.report.tables.frame import Table
from suite.report.tables.timed import shown_metrics

#: What the legend says besides where there are cells of several devices.
SEVERAL = (
    " The best value of a column is that among rows with equally many devices. batch: the samples of each device; "
    "global batch: those of an update, of all devices. samples/s: of all devices together. communication: the share of "
    "a step that the exchange of gradients costs, from the same steps without it (95 % interval over launches). "
    "efficiency: samples/s per device relative to one device with the same batch."
)

#: What untested figures have in parentheses.
RANGE = "lowest to highest"

#: What a badge says of launches.
BADGES = {
    "contaminated": "other processes or the host took more than 10 % of the cores; or another process used the GPU",
    "disturbed": "others took more than 30 % of the cores, or tasks waited, or the GPU throttled: not in the figures",
    "failed": "launches that did not end well",
    "partial": "launches that are missing",
    "clock-drift": "the GPU's clock changed by more than 5 % between windows",
    "gpu-shared": "another process used a GPU that trained",
    "power-capped": "the GPU ran at its power limit",
    "throttled": "the GPU lowered its clock because of heat, a hardware slowdown or a power brake",
    "unaccounted": "a figure does not add up: no ratio and no rank",
    "unsound-release": "this release is known to compute some programs wrongly, or to crash, on this device",
    "unsteady": "halves of the timed windows differ by more than 5 %, or warm-up ended at its time limit",
}


def brief(tables: Sequence[Table], trained: Sequence[AccuracyComparison] = ()) -> list[str]:
    """Returns, in a line for a screen, what stands in parentheses and what the flags mean."""
    rows = [row for table in tables for row in table.group.rows]
    words: list[str] = []
    if any(len(row.ok) > 1 for row in rows):
        bounds = "95 % interval where tested, else lowest to highest" if any(each.tested for each in tables) else RANGE
        words.append(f"samples/s: median ({RANGE})")
        if any(each.group.by not in BETWEEN_RUNS and len(each.group.rows) > 1 for each in tables):
            words.append(f"ratio: within blocks, so not that of the medians ({bounds})")
        if any("rss_peak_bytes" in record.memory for row in rows for record in row.ok):
            words.append("memory: of the launch with the most")
    kinds = {
        "inference": any(each.findings.servings for each in tables),
        "checkpoints": any(each.findings.savings for each in tables),
        "accuracies": bool(trained),
    }
    words += [f"{name}: 95 % intervals" for name, there in kinds.items() if there]
    line = "; ".join([*words, *_flags(rows)])
    return [str(in_unit(line, common_unit(each.group.unit for each in tables)))] if line else []


def _flags(rows: Sequence[Row]) -> Iterator[str]:
    """Yields what flags mean; which frameworks have one that no row shows is said too."""
    for name, meaning in BADGES.items():
        if flagged := [row for row in rows if any(name in flags for flags in row.flags_of_launches)]:
            where = listing([*dict.fromkeys(row.cell.framework for row in flagged)]) if name == UNSOUND_RELEASE else ""
            yield f"{name}{f' ({where})' * bool(where)}: {meaning}"


def legend(tables: Sequence[Table]) -> str:
    """Returns the explanation of the columns, which goes once below all tables."""
    shown = {metric.name for table in tables for metric in shown_metrics(table)}
    metrics = [each for each in METRICS.values() if each.headline or each.name in shown]
    least, group = launches_needed(row for table in tables for row in table.group.rows), tables[0].group
    base = f"the same framework and settings with the {SETTING_NAMES.get(group.by, group.by)} named under the table"
    if group.by == "framework":
        base = f"{tables[0].baseline} with the same settings (except the compile mode)"
    elif group.by in BETWEEN_RUNS:
        base = f"the same cell {'in' if group.by == 'run' else 'on'} the {group.by} named under the table"
    words = (
        "*, bold: significantly the best of its column among rows of one precision and batch size; ties are "
        "marked too. n: launches (1/3: 1 of 3 succeeded). "
        f"ratio: samples/s relative to {base}, within blocks; median (lowest{DASH}highest), or from "
        f"{least} blocks on the geometric mean with its corrected interval and a verdict. The interval is that of the "
        "level at which Holm's correction over all comparisons of the run tested this one: 95 % for a single one, "
        "more for several, so that it excludes 1 where the difference is significant after the correction. faster, "
        "slower: the whole interval is beyond the margin. equal: it is within the margin. inconclusive: neither. "
        "identity: largest relative deviation of any loss or tensor's update of the fingerprints from the median over "
        "the frameworks, or from each other if there are two. "
        + " ".join(f"{each.label}: {each.meaning}." for each in metrics)
        + (SEVERAL if any(has_several(table.group) for table in tables) else "")
    )
    return str(in_unit(words, common_unit(table.group.unit for table in tables)))
