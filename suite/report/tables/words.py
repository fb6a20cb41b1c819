"""The text around tables: title, legend and notes."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

from suite.analysis.rows.blocks import UNSOUND_RELEASE, release_of, unsound, why_untested
from suite.analysis.rows.groups import Group
from suite.analysis.rows.wording import DASH, listing
from suite.analysis.statistics.inference import LEAST
from suite.analysis.statistics.power import DIFFERENCE, LAUNCHES_MOST, POWER
from suite.analysis.statistics.sequential import is_sequential, launches_needed
from suite.catalog.frameworks import FRAMEWORKS
from suite.catalog.metrics import METRICS, Metric, first_gpu, monitor_metrics, number
from suite.plan.measuring import FIRST_LOOK, LAST_LOOK
from suite.report.format.names import SETTING_NAMES, counts
from suite.report.tables.columns import has_several
from suite.report.tables.frame import Table

#: Below a table along the number of devices.
ANOTHER_TRAINING = (
    "The batch of each device is the same, so more devices see a larger global batch: the same work for each device, "
    "and another training, with fewer updates in an epoch. The tables of scaling also compare equal global batches."
)

#: What the legend says besides where there are cells of several devices.
SEVERAL = (
    " The best value of a column is that among rows with equally many devices. batch: the samples of each device; "
    "global batch: those of an update, of all devices. samples/s: of all devices together. communication: the share of "
    "a step that the exchange of gradients costs, from the same steps without it (95 % interval over launches). "
    "efficiency: samples/s per device relative to one device with the same batch."
)


def shown_metrics(table: Table) -> list[Metric]:
    """Returns the metrics of a table's second part: those that any of its cells has."""
    cells = table.cells
    return [
        each for each in monitor_metrics() if each.label and any(cell.metrics[each.name] is not None for cell in cells)
    ]


def legend(tables: Sequence[Table]) -> str:
    """Returns the explanation of the columns, which goes once below all tables."""
    shown = {metric.name: metric for table in tables for metric in shown_metrics(table)}
    metrics = [each for each in METRICS.values() if each.headline or each.name in shown]
    least = launches_needed(row for table in tables for row in table.group.rows)
    return (
        "*, bold: significantly the best of its column among rows of one precision and batch size; ties are "
        "marked too. n: launches (1/3: 1 of 3 succeeded). "
        f"ratio: samples/s relative to {_ratio_base(tables[0])}, within blocks; median (lowest{DASH}highest), or from "
        f"{least} blocks on the geometric mean with its corrected interval and a verdict. The interval is that of the "
        "level at which Holm's correction over all comparisons of the run tested this one: 95 % for a single one, "
        "more for several, so that it excludes 1 where the difference is significant after the correction. faster, "
        "slower: the whole interval is beyond the margin. equal: it is within the margin. inconclusive: neither. "
        "identity: largest relative deviation of the fingerprints from the median over the frameworks, or from each "
        "other if there are two. "
        + " ".join(f"{each.label}: {each.meaning}." for each in metrics)
        + (SEVERAL if any(has_several(table.group) for table in tables) else "")
    )


def _ratio_base(table: Table) -> str:
    """Describes what ratios are formed to."""
    by = table.group.by
    if by == "framework":
        return f"{table.baseline} with the same settings (except the compile mode)"
    if by == "machine":
        return "the same cell on the machine named under the table"
    return f"the same framework and settings with the {SETTING_NAMES.get(by, by)} named under the table"


def title(group: Group) -> str:
    """Returns the title of a table, in one line."""
    return f"{group.workload}, size {group.size}, {group.data_words}: {group.constant}"


def foot_lines(table: Table) -> list[str]:
    """Returns the notes below a table: what its figures are and from how many launches. No number without its n."""
    group = table.group
    lines = []
    if group.data_kind != "real":
        lines.append(f"{group.data_words}: the speed of the steps is real, the losses and accuracies mean nothing.")
    if group.by == "machine":
        lines.append(f"Ratios are to the same cell on {table.baseline or 'a machine that was not recorded'}.")
    elif group.by != "framework":
        same = ", with the same effective batch" if group.by == "accumulate" else ""
        value = f"{SETTING_NAMES.get(group.by, group.by)} {table.baseline}"
        lines.append(f"Ratios are within each framework, to {value}{same}.")
        lines += [ANOTHER_TRAINING] if group.by == "devices" else []
    if group.across:
        lines.append(
            "Runs share no blocks. Ratios between runs are ratios of medians; their bounds are the extremes over all "
            f"pairs of launches. With {LEAST} launches of each or more, Welch's t-test on the logarithms is used."
        )
    fewest = min(table.launches)
    launched = f"{counts(table.launches, 'launch')} per cell"
    if table.tested:
        lines += _tests(table, launched)
    else:
        least = launches_needed(group.rows)
        why = f"a test needs at least {least}" if fewest < least else why_untested(*group.rows)
        lines.append(f"Significance was not tested: {'; '.join(filter(None, [launched, why]))}.")
    lines += _choice_of_modes(table)
    lines += _detectable(table)
    lines += [*_bottlenecks(table), *_energy_notes(table), *_unsound_releases(group)]
    searches = zip(group.rows, (cell.batch_search for cell in table.cells), strict=True)
    lines += [f"Search for the largest batch, {group.label(row)}: {tries}." for row, tries in searches if tries]
    machines = [machine for machine in dict.fromkeys(cell.machine for cell in table.cells) if machine]
    lines.append(f"Machine: {listing(machines) or 'not recorded'}.")
    spec = " and ".join(digest[:12] for digest in group.spec_digest.split(" and "))
    digests = [f"data {group.data_digest[:12] or 'unknown'}", f"spec {spec or 'unknown'}"]
    lines.append(f"Digests: {', '.join(digests)}.")
    return lines


def _tests(table: Table, launched: str) -> list[str]:
    """Describes what was tested and how, and which rows are undecided."""
    tests = {cell.ratio.tests for cell in table.cells if cell.ratio.verdict}
    corrected = f"the {counts(tests, 'comparison')} of {'the table' if table.group.across else 'its run'}"
    how = " in runs that stop when decided, and in the others a ".join(_kinds_of_test(table.group))
    lines = [
        f"Test: {how}, Holm's correction over {corrected}, margin {table.margin:.1%}, {launched}.",
        *_controls(table),
    ]
    undecided = ((row, needed) for row in table.group.rows if (needed := table.ratios[row.key].blocks_to_decide))
    labels = ((table.group.label(row), needed) for row, needed in undecided)
    return lines + [f"Undecided: {label}. About {needed} launches would decide it." for label, needed in labels]


def _kinds_of_test(group: Group) -> list[str]:
    """Returns the test of runs that stop when they are decided, and of those with a fixed number of launches."""
    if group.across:
        return ["Welch's t-test on the logarithms"]
    stopping = (
        f"group-sequential t-test on the logarithms of the ratios per block, looked at after each block from the "
        f"{FIRST_LOOK}th to the {LAST_LOOK}th and stopped when decided, repeated confidence intervals"
    )
    kinds = {stopping: True, "paired t-test on the logarithms of the ratios per block": False}
    there = {is_sequential([row]) for row in group.rows if row.ok}
    return [words for words, sequential in kinds.items() if sequential in there]


def _choice_of_modes(table: Table) -> list[str]:
    """Says that the fastest compile mode was chosen on the launches that are compared, where there are several."""
    modes: dict[str, set[str]] = {}
    for row in table.group.rows:
        modes.setdefault(row.cell.framework, set()).add(row.cell.compile)
    if table.group.by != "framework" or len(modes) < 2 or all(len(each) < 2 for each in modes.values()):
        return []
    return [
        "The answer compares the fastest compile mode of each framework, chosen on the same launches. That overstates "
        "its ratio: by about 1 % where modes are equally fast and launches scatter by 3 %."
    ]


def _controls(table: Table) -> list[str]:
    """Describes the A/A control: how copies of one cell compare."""
    tested = [(control, control.test) for control in table.controls if control.test]
    if not tested:
        return ["Control: none, so the method was not checked on this machine."]
    results = [
        f"{table.group.label(control.row)} {test.verdict}, {test.value:.2f} ({test.low:.2f} to {test.high:.2f})"
        for control, test in tested
    ]
    sound = all(control.sound for control in table.controls)
    meaning = "No copy differs" if sound else "A COPY DIFFERS: do not trust the verdicts of this table"
    return [f"Control (a second copy of a cell, compared with the first): {listing(results)}. {meaning}."]


def _detectable(table: Table) -> list[str]:
    """Describes the smallest difference that the run could detect, and how many launches 5 % needs."""
    power = table.power
    if not power.noise:
        return []
    source = "this table and its A/A control" if power.noise.of_control else "this table"
    low, high = power.noise.interval
    scatter = f"{power.noise.deviation:.1%} ({low:.1%} to {high:.1%})"
    noise = f"A block's ratio has a standard deviation of {scatter}, from {source}"
    smallest = ""
    if power.smallest:
        ends = " to ".join("more" if end is None else f"{end:.1%}" for end in power.smallest_range)
        smallest = f"{power.blocks} launches detect a difference of {power.smallest:.1%} ({ends})"
    needed, *range_ends = (
        str(each or f"more than {LAUNCHES_MOST}") for each in (power.launches, *power.launches_range)
    )
    needed += f" launches ({' to '.join(range_ends)})"
    takes = f"a difference of {DIFFERENCE:.0%} needs {needed}" if table.margin < DIFFERENCE else ""
    figures = "; ".join(words for words in (smallest, takes) if words)
    return [f"Power of {POWER:.0%}: {figures}. {noise}."] if figures else []


def _energy_notes(table: Table) -> list[str]:
    """Describes the source of energy figures, and the GPU's idle power."""
    gpus = [gpu for row in table.group.rows for record in row.ok if (gpu := first_gpu(record))]
    lines = []
    if any(gpu.get("energy_source") == "polled power" for gpu in gpus):
        lines.append(
            "mJ per sample: the GPU has no energy counter, so some rows use polled power, which is less exact."
        )
    energy = any(cell.metrics["energy_j_per_sample"] is not None for cell in table.cells)
    if energy and (watts := [value for gpu in gpus if (value := number(gpu.get("idle_power_w"))) is not None]):
        lines.append(f"The energy includes the GPU's idle power, {median(watts):.0f} W.")
    return lines


def _unsound_releases(group: Group) -> list[str]:
    """Returns what is known to be wrong with the releases of the rows, a line for each release."""
    found: dict[str, list[str]] = {}
    for record in (record for row in group.rows for record in row.ok):
        if defects := unsound(record):
            name = f"{FRAMEWORKS[record.cell.framework].title} {release_of(record)}"
            found[name] = [f"{each.happens} ({each.sources[0]})" for each in defects]
    return [
        f"{UNSOUND_RELEASE}: of some programs it is known that {name} {listing(words)}. Rows with the identity `same` "
        "computed what the others did."
        for name, words in found.items()
    ]


def _bottlenecks(table: Table) -> list[str]:
    """Returns the bottleneck, advice and symptoms of each row; rows with the same ones share a line."""
    cells = list(zip(map(table.group.label, table.group.rows), table.cells, strict=True))
    rows_by_words: dict[str, list[str]] = {}
    for label, cell in cells:
        if cell.bottleneck.kind:
            words = "; ".join(filter(None, [str(cell.bottleneck), cell.advice]))
            rows_by_words.setdefault(words, []).append(label)
    return [
        *(f"Bottleneck: {listing(rows)}: {words}." for words, rows in rows_by_words.items()),
        *(f"Underused: {label}: {cell.symptoms}." for label, cell in cells if cell.symptoms),
    ]
