"""The text around tables: title, legend and notes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import median

from suite.analysis.metrics import first_gpu, number
from suite.analysis.power import DIFFERENCE, LAUNCHES_MOST, POWER
from suite.analysis.statistics import LEAST
from suite.analysis.wording import DASH, listing
from suite.report.tables import Table

#: The name of an axis, to be put before its value.
NAMES = {"compile": "compile mode", "kernel": "LSTM kernel", "accumulate": "accumulating"}


def legend(tables: Sequence[Table]) -> str:
    """Returns the explanation of the columns, which goes once below all tables."""
    first = tables[0]
    return (
        "*, bold: the best of its column among rows of one precision and batch, significantly; where several tie, all. "
        f"n: launches (1/3: one of three ended well). samples/s: median over launches (lowest{DASH}highest). ratio: of "
        f"samples/s to that of {_ratio_base(first)}, within blocks: median "
        f"(lowest{DASH}highest); from {LEAST} blocks on the geometric mean (95 % interval) with a verdict: faster or "
        "slower is significant with the whole interval beyond the margin, equal has the whole interval within it, "
        "inconclusive is all else. step ms: median over all windows of all "
        "launches (quartiles). of compute: samples/s over that of the same steps on batches already on the device: "
        "loading costs what is missing. first step, compile: median; the first step includes compiling. pays after: "
        "steps after which compiling has paid for itself, against the framework's usual mode. Memory: the highest of "
        "all launches. identity: largest relative deviation of the fingerprints from the median over frameworks (of "
        "two: from each other). CPU cores: that the worker's processes kept busy; others': the rest of the machine. "
        "MFU: the model's FLOPs over those of a large matrix product in that precision, the best that any framework "
        "measured on the device. GPU "
        "busy: share of time with any kernel running, however small; SM active says how much of the GPU worked."
    )


def _ratio_base(table: Table) -> str:
    """Describes what ratios are formed to."""
    by = table.group.by
    if by == "framework":
        return f"{table.baseline} with the same settings but the compile mode"
    if by == "machine":
        return "the same cell on the machine named under the table"
    return f"the same framework and settings with the {NAMES.get(by, by)} named under the table"


def title(table: Table) -> str:
    """Returns the title of the table, in one line."""
    group = table.group
    return f"{group.workload}, size {group.size}, {group.data_words}: {group.constant}"


def foot_lines(table: Table) -> list[str]:
    """Returns the notes below a table: what its figures are and from how many launches. No number without its n."""
    group, frame = table.group, table.frame
    lines = []
    if group.data_kind != "real":
        lines.append(f"{group.data_words}: these figures say how long a step takes, nothing about what is learnt.")
    if group.by == "machine":
        lines.append(f"Ratios are to the same cell on {table.baseline or 'a machine that was not recorded'}.")
    elif group.by != "framework":
        same = ", with the same effective batch" if group.by == "accumulate" else ""
        value = f"{NAMES.get(group.by, group.by)} {table.baseline}"
        lines.append(f"Ratios are within each framework, to {value}{same}.")
    if group.across:
        lines.append(
            "Ratios between runs, which share no blocks, are of medians (extremes of any launch over any other);"
            f" from {LEAST} launches of each on they are tested by Welch's t-test on the logarithms."
        )
    fewest, most = min(table.launches), max(table.launches)
    n = f"{fewest}" if fewest == most else f"{fewest} to {most}"
    plural = "" if n == "1" else "es"
    launched = f"n = {n} launch{plural} of each cell"
    if table.tested:
        lines += _tests(table, launched)
    else:
        few = f"; a test needs at least {LEAST}" if fewest < LEAST else ""
        lines.append(f"Significance was not tested ({launched}{few}).")
    lines += _detectable(table)
    lines += [*_bottlenecks(table), *_energy_notes(table)]
    searches = zip(group.rows, frame["batch_search"], strict=True)
    lines += [f"Batches tried by {group.label(row)}: {tries}." for row, tries in searches if tries]
    machines = [str(machine) for machine in dict.fromkeys(frame["machine"]) if machine]
    lines.append(f"Machine: {listing(machines) or 'not recorded'}.")
    spec = " and ".join(digest[:12] for digest in group.spec_digest.split(" and "))
    digests = [f"data {group.data_digest[:12] or 'unknown'}", f"spec {spec or 'unknown'}"]
    lines.append(f"Digests: {', '.join(digests)}.")
    return lines


def _tests(table: Table, launched: str) -> list[str]:
    """Describes what was tested and how, and which rows are undecided."""
    frame = table.frame
    count = int((frame["ratio_verdict"] != "").sum())
    lines = [
        f"Tested: paired t-test on the logarithms of the blocks' ratios, Holm over the {count} tests of this table, "
        f"margin {table.margin:.1%}; {launched}.",
        *_controls(table),
    ]
    for row, each in zip(table.group.rows, frame.to_dict("records"), strict=True):
        needed = each["ratio_blocks_to_decide"]
        if each["ratio_verdict"] == "inconclusive" and needed is not None and not math.isnan(needed):
            lines.append(f"Undecided: {table.group.label(row)}: {needed:.0f} launches would do if the scatter stays.")
    return lines


def _controls(table: Table) -> list[str]:
    """Describes the A/A control: how copies of one cell compare."""
    tested = [(control, control.test) for control in table.controls if control.test]
    if not tested:
        return ["Control: none; whether the method holds on this machine was not checked."]
    results = [
        f"{table.group.label(control.row)} {control.verdict}, {test.value:.2f} ({test.low:.2f} to {test.high:.2f})"
        for control, test in tested
    ]
    sound = all(control.sound for control in table.controls)
    meaning = "none differs" if sound else "A COPY DIFFERS: do not trust the verdicts of this table"
    return [f"Control: second copies of cells against the first: {listing(results)}; {meaning}."]


def _detectable(table: Table) -> list[str]:
    """Describes the smallest difference that the run could detect, and the launches that 5 % need."""
    power = table.power
    if not power.noise:
        return []
    source = "A/A control" if power.noise.of_control else "rows themselves"
    noise = f"one block's ratio scatters by {power.noise.deviation:.1%} in the {source}"
    smallest = f"{power.blocks} launches show a difference of {power.smallest:.1%}" if power.smallest else ""
    needed = f"{power.launches or f'more than {LAUNCHES_MOST}'} launches"
    takes = f"{DIFFERENCE:.0%} takes {needed}" if table.margin < DIFFERENCE else ""
    figures = "; ".join(words for words in (smallest, takes) if words)
    return [f"With {POWER:.0%} power, {figures} ({noise})."] if figures else []


def _energy_notes(table: Table) -> list[str]:
    """Describes the source of energy figures, and the GPU's idle power."""
    gpus = [gpu for row in table.group.rows for record in row.ok if (gpu := first_gpu(record))]
    lines = []
    if any(gpu.get("energy_source") == "polled power" for gpu in gpus):
        lines.append("mJ per sample: of some rows from polled power, since the GPU has no energy counter; less exact.")
    energy = table.frame["energy_j_per_sample"].notna().any()
    if energy and (watts := [value for gpu in gpus if (value := number(gpu.get("idle_power_w"))) is not None]):
        lines.append(f"The GPU took {median(watts):.0f} W before anything ran, which is in the energy.")
    return lines


def _bottlenecks(table: Table) -> list[str]:
    """Returns the bottleneck, advice and symptoms of each row; rows with the same ones share a line."""
    rows_by_words: dict[str, list[str]] = {}
    for row, (kind, detail, advised) in zip(
        table.group.rows, table.frame[["bottleneck", "bottleneck_detail", "advice"]].values.tolist(), strict=True
    ):
        if kind:
            words = f"{kind} ({detail})" if detail else kind
            rows_by_words.setdefault(f"{words}; {advised}" if advised else words, []).append(table.group.label(row))
    striking = zip(table.group.rows, table.frame["symptoms"], strict=True)
    return [
        *(f"Held back: {listing(rows)}: {words}." for words, rows in rows_by_words.items()),
        *(f"Striking: {table.group.label(row)}: {words}." for row, words in striking if words),
    ]
