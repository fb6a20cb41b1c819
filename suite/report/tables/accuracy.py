"""The accuracy table as text: its title, columns and notes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from suite.analysis.rows.groups import SETTINGS
from suite.analysis.rows.wording import DASH, NONE, listing
from suite.analysis.statistics.accuracy import MARGIN, AccuracyComparison, target_of, training_histories
from suite.analysis.statistics.scaling import STRONG, find_time_speedups
from suite.catalog.setting import TEXT
from suite.plan.matrix import STUDIED
from suite.report.format.names import target_words
from suite.report.format.text import spread
from suite.report.format.view import View
from suite.report.tables.columns import MORE, NAME, Column, grid, has_several, launch_count, settings
from workloads.spec import read_declaration

#: The column of the energy until the target was reached.
ENERGY = "energy_j_to_target"


def view(table: AccuracyComparison) -> View:
    """Returns the table and its notes as strings."""
    group, row = table.group, table.group.rows[0].cell
    title = f"{group.workload}, size {group.size}, {group.data_words}: trained to the end, recipe {row.recipe}"
    title += "" if "batch" in group.varying else f", batch {row.batch}"
    return View(title, grid(_columns(table), zip(group.rows, table.rows, strict=True)), _notes(table))


def _columns(table: AccuracyComparison) -> list[Column]:
    """Returns the columns of a trained cell, each of which is read of its row and its figures."""
    gained = find_time_speedups(table.group, target_of(table.group))
    target = next((target_words(row["target"]) for row in table.rows if row["target"] is not None), "target")
    to_fp32 = any(row["fp32_verdict"] for row in table.rows)
    columns = [
        Column("framework", lambda at: at[1]["framework"], where=(NAME,)),
        *settings(_varying(table), lambda at, name: SETTINGS[name](at[0])),
        Column("global batch", lambda at: at[0].cell.effective_batch) if has_several(table.group) else None,
        Column("seeds", lambda at: launch_count(at[1]["seeds_ok"], at[1]["seeds"])),
        Column("epochs", lambda at: at[1]["epochs"] and f"{at[1]['epochs']:g}", where=(MORE,)),
        Column("test accuracy", lambda at: _accuracy(at[1])),
        Column(f"against {table.baseline}", lambda at: _against(at[1], "")),
        Column("against fp32", lambda at: _against(at[1], "fp32_")) if to_fp32 else None,
        Column(f"epochs to {target}", lambda at: _epochs(at[1]), where=(MORE,)),
        Column(f"seconds to {target}", lambda at: _count_reached(at[1], "seconds_to_target")),
        Column("than one device", lambda at: _sooner(gained.get(at[0].key))) if gained else None,
        Column("samples/s", lambda at: _spread(at[1], "samples_per_s"), where=(MORE,)),
        Column("J to target*", lambda at: _spread(at[1], ENERGY), where=(MORE,)) if _has_energy(table) else None,
        Column("identity", lambda at: at[1]["identity"]),
        Column("outcome", lambda at: "; ".join(filter(None, [at[1]["outcome"], at[1]["flags"]]))),
    ]
    return [replace(each, form=TEXT) for each in columns if each]


def _has_energy(table: AccuracyComparison) -> bool:
    return any(row[ENERGY] is not None for row in table.rows)


def _varying(table: AccuracyComparison) -> list[str]:
    """Returns the settings in which rows differ, without the compile mode if each framework has only one."""
    modes = {(row.cell.framework, row.cell.compile) for row in table.group.rows}
    own = len(modes) == len({framework for framework, _ in modes})
    return [name for name in table.group.varying if not (own and name == "compile")]


def _sooner(gain: Any) -> str:
    """Returns how many times as soon as one device the target was reached."""
    if gain is None:
        return NONE
    ratio = gain.ratio
    ends = f" ({ratio.low:.2f}{DASH}{ratio.high:.2f})" if ratio.low != ratio.high else ""
    return f"{ratio.value:.2f}x{ends}{' [same global batch]' if gain.kind == STRONG else ''}"


def _accuracy(row: Mapping[str, Any]) -> str:
    if row["accuracy"] is None:
        return NONE
    low, high = row["accuracy_low"], row["accuracy_high"]
    return f"{row['accuracy']:.4f}" + ("" if low is None else f" ({low:.4f}{DASH}{high:.4f})")


def _against(row: Mapping[str, Any], prefix: str) -> str:
    """Returns the verdict and the difference in percentage points."""
    word = row[f"{prefix}verdict"]
    return f"{word} ({100 * row[f'{prefix}difference_value']:+.2f})" if word else NONE


def _epochs(row: Mapping[str, Any]) -> str:
    if row["reached"] < row["seeds"]:
        return _count_reached(row, "epochs_to_target")
    low, middle, high = (row[f"epochs_to_target{end}"] for end in ("_min", "", "_max"))
    return f"{middle:g}" + (f" ({low:g}{DASH}{high:g})" if low != high else "")


def _count_reached(row: Mapping[str, Any], name: str) -> str:
    return _spread(row, name) if row["reached"] == row["seeds"] else f"{row['reached']} of {row['seeds']} reached it"


def _spread(row: Mapping[str, Any], name: str) -> str:
    return spread(row[name], row[f"{name}_min"], row[f"{name}_max"])


def _notes(table: AccuracyComparison) -> list[str]:
    group = table.group
    lines = [
        "Test accuracy: on the whole test split after the last epoch, mean over seeds (95 % interval, Student's t). "
        "A seed sets weights, order, augmentation and dropout. All but dropout are equal in all frameworks, so the "
        f"tests use the differences per seed. same: within {100 * MARGIN:g} point of {table.baseline} by two one-sided "
        "t-tests. higher, lower: significantly different and not the same. Holm's correction applies to all.",
        "Seconds: training with compiling, without evaluation; median over seeds "
        f"(lowest{DASH}highest). Samples/s likewise. Identity covers the model and its plain training; a test in "
        "float64 checks that schedules act alike in all frameworks.",
    ]
    if _has_energy(table):
        lines.append(
            "* From the first step to the end of the epoch that reached the target, with evaluation; first GPU only."
        )
    if find_time_speedups(group, target_of(group)):
        lines.append(
            "Than one device: seconds to the target of one device with the same batch on each, divided by those of "
            f"several; median over seeds (lowest{DASH}highest), not tested. Several devices see a larger global batch, "
            "so an epoch has fewer updates; the recipe says how the learning rate follows."
        )
    lines += [f"{group.label(row)}: {reason}" for row in group.rows for reason in row.reasons]
    resumed = [group.label(row) for row in group.rows if any(course.resumed_at for course in training_histories(row))]
    lines += [f"Resumed from a checkpoint: {listing(resumed)}."] if resumed else []
    if group.workload in STUDIED:
        declared = read_declaration(group.workload)
        scale = "" if group.size == "full" else " Size small is a smaller network, so its accuracies are no match."
        lines.append(f"Published in 2021 (DLBench), {declared.study}. {declared.study_differs}.{scale}")
    machines = list(dict.fromkeys(row["machine"] for row in table.rows if row["machine"]))
    lines.append(f"Machine: {listing(machines) or 'not recorded'}.")
    lines.append(f"Digests: data {group.data_digest[:12] or 'unknown'}, recipe {group.spec_digest[:12] or 'unknown'}.")
    return lines
