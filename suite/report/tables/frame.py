"""Cells as a data frame: one row per cell with all that a table shows.

Times are in seconds (``_s``) or milliseconds (``_ms``), memory is in bytes, throughput is samples per second.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from statistics import median
from typing import Any

import pandas as pd

from suite.analysis.bottlenecks.bottleneck import advice, bottleneck, share
from suite.analysis.bottlenecks.underutilisation import symptoms
from suite.analysis.findings import Findings
from suite.analysis.identity.verdicts import Verdict, verdicts
from suite.analysis.rows.axes import AXES, Base, base
from suite.analysis.rows.groups import ON_DEMAND, SETTINGS, Group, Row, RowKey
from suite.analysis.rows.metrics import Prices, metrics, peaks, utilisation
from suite.analysis.rows.wording import figure
from suite.analysis.scaling.efficiency import Scaling, scalings
from suite.analysis.statistics.control import Control, Power, controls, power
from suite.analysis.statistics.inference import MARGIN, quartiles
from suite.analysis.statistics.leaders import leaders
from suite.analysis.statistics.ratios import Ratio, break_even_steps, ratios
from suite.record.record import Record
from suite.record.text import clean
from suite.report.tables import several

#: The axes whose tables also show how throughput grows with the number of devices.
SCALED = ("framework", "devices", "strategy")

#: Kinds of peak memory in order of preference: the framework's own allocator says most.
MEMORY = ("allocator_peak_bytes", "rss_peak_bytes")


@dataclass(frozen=True)
class Table:
    """A group of comparable rows with its figures: ``frame`` has one row per cell, in the order of ``group.rows``."""

    group: Group
    base: Base  # what its ratios are to
    frame: pd.DataFrame
    margin: float = MARGIN  # how far from 1 a ratio may lie and mean nothing
    controls: tuple[Control, ...] = ()
    power: Power = Power()  # noqa: RUF009 - frozen
    leaders: Mapping[str, frozenset[RowKey]] = field(
        default_factory=dict
    )  # the rows that are best, by column of `BEST`
    ratios: Mapping[RowKey, Ratio] = field(default_factory=dict)
    identities: Mapping[RowKey, Verdict] = field(default_factory=dict)
    scalings: tuple[Scaling, ...] = ()  # of its rows with several devices

    @property
    def baseline(self) -> str:
        """The name of the base: a framework, or the value of the axis that ratios are formed along."""
        return str(self.base)

    @property
    def tested(self) -> bool:
        """Whether any row has a verdict."""
        return bool((self.frame["ratio_verdict"] != "").any())

    @property
    def launches(self) -> list[int]:
        """How many launches each row started."""
        return [len(row.launches) for row in self.group.rows]

    @cached_property
    def findings(self) -> Findings:
        """What all outputs read of it besides its figures, each made once."""
        return Findings(self.group, self.base, self.ratios, self.identities, self.margin)


def table(
    group: Group,
    baseline: str | None = None,
    prices: Prices = Prices(),  # noqa: B008 - frozen
    margin: float = MARGIN,
) -> Table:
    """Returns the figures of a group; ratios are to ``baseline`` on the group's axis, by default to its usual value."""
    identities = verdicts({row.key: row.ok for row in group.rows})
    row_ratios = ratios(group, baseline, identities, margin)
    control_by_row = {control.row.key: control for control in controls(group, margin)}
    kinds = _memory_kinds(group.rows)
    scaled = tuple(scalings(group, identities, margin)) if group.by in SCALED and not group.across else ()
    figures = [
        _cell(group, row, identities, row_ratios, kinds, control=control_by_row.get(row.key), margin=margin)
        | several.figures(row, scaled)
        for row in group.rows
    ]
    peak_flops = peaks(group)
    for cell, row in zip(figures, group.rows, strict=True):
        cell["model_flops_utilisation"] = utilisation(row, peak_flops)
        cell["cost_per_million_samples"] = prices.of_a_million(cell["samples_per_s"], cell["energy_j_per_sample"])
    reference = base(AXES[group.by], group.rows, baseline)
    copies = tuple(control_by_row.values())
    detectable = power(group, baseline, row_ratios, copies, margin)
    best_rows = _leaders(group, identities, kinds, margin)
    frame = _frame(figures)
    return Table(group, reference, frame, margin, copies, detectable, best_rows, row_ratios, identities, scaled)


#: Columns in which the best values of a table are marked, and whether more is better.
BEST = {"samples_per_s": True, "step_ms_median": False, "first_step_s": False, "peak_memory_bytes": False}


def best(table: Table) -> dict[str, list[int]]:
    """Returns the rows with the significantly best value of each column of `BEST`; several if they tie."""
    keys = [row.key for row in table.group.rows]
    return {
        name: [index for index, key in enumerate(keys) if key in best_keys] for name, best_keys in table.leaders.items()
    }


def _leaders(
    group: Group, identities: Mapping[RowKey, Verdict], kinds: Sequence[str], margin: float
) -> dict[str, frozenset[RowKey]]:
    shared = kinds and all(kinds[0] in record.memory for row in group.rows for record in row.ok)
    values: dict[str, Callable[[Record], float | None]] = {
        "samples_per_s": lambda record: record.samples_per_s,
        "step_ms_median": lambda record: record.phases["train"].step_s if "train" in record.phases else None,
        "first_step_s": lambda record: record.first_step_s,
        "peak_memory_bytes": lambda record: record.memory.get(kinds[0]) if shared else None,
    }
    return {
        name: frozenset(leaders(group, identities, values[name], more=more, margin=margin))
        for name, more in BEST.items()
    }


def cells(tables: Iterable[Table]) -> pd.DataFrame:
    """Returns the rows of all tables in one frame, as in `cells.csv`."""
    return _frame([row for each in tables for row in each.frame.to_dict("records")])


def _frame(rows: Sequence[Mapping[Any, Any]]) -> pd.DataFrame:
    """Returns a frame in which bytes stay whole numbers even if some are missing; pandas would make them floats."""
    frame = pd.DataFrame(rows)
    for name in frame.columns:
        if name.endswith("_bytes"):
            frame[name] = pd.Series([row[name] for row in rows], dtype=object)
    return frame


def _cell(
    group: Group, row: Row, identities: Mapping[RowKey, Verdict], row_ratios: Mapping[RowKey, Ratio],
    kinds: Sequence[str], *, control: Control | None, margin: float,
) -> dict[str, Any]:  # fmt: skip
    ok = row.ok
    verdict, ratio = identities[row.key], row_ratios[row.key]
    limit, monitored = bottleneck(row, group), metrics(row)
    rates = [rate for record in ok if (rate := record.samples_per_s) is not None]
    times = step_times_ms(ok)
    q1, middle, q3 = quartiles(times) if times else (None, None, None)
    kind = next((kind for kind in kinds if any(kind in record.memory for record in ok)), None)
    return {
        "workload": group.workload,
        "size": row.cell.size,
        "data_kind": group.data_kind,
        "data_digest": group.data_digest,
        "spec_digest": group.spec_digest,
        "cell": row.cell.id,
        "framework": row.cell.framework,
        **{name: read(row) for name, read in SETTINGS.items() if name not in ON_DEMAND},
        "launches": len(row.launches),
        "launches_ok": len(ok),
        "samples_per_s": median(rates) if rates else None,
        "samples_per_s_min": min(rates, default=None),
        "samples_per_s_max": max(rates, default=None),
        "ratio": ratio.value,
        "ratio_min": ratio.low,
        "ratio_max": ratio.high,
        "ratio_blocks": ratio.blocks,
        "ratio_baseline": ratio.baseline,
        "ratio_p": ratio.p,
        "ratio_verdict": ratio.verdict,
        "ratio_blocks_to_decide": ratio.blocks_to_decide,
        "ratio_reason": ratio.reason,
        "ratio_caveat": ratio.caveat,
        "control_ratio": control.test.value if control and control.test else None,
        "control_min": control.test.low if control and control.test else None,
        "control_max": control.test.high if control and control.test else None,
        "control_verdict": control.verdict if control else "",
        "windows": len(times),
        "step_ms_median": middle,
        "step_ms_q1": q1,
        "step_ms_q3": q3,
        "train_of_compute": share(row, "compute"),
        "bottleneck": limit.kind,
        "bottleneck_detail": limit.detail,
        "loading_share": limit.loading,
        "loading_share_low": limit.low,
        "loading_share_high": limit.high,
        "advice": "; ".join(advice(row, group, limit, margin)),
        "symptoms": "; ".join(symptoms(row, monitored)),
        **monitored,
        "first_step_s": _median(record.first_step_s for record in ok),
        "compile_s": _median(record.compile_s for record in ok),
        "break_even_steps": break_even_steps(row, group),
        "peak_memory_bytes": max((r.memory[kind] for r in ok if kind in r.memory), default=None) if kind else None,
        "peak_memory_kind": clean(kind or "", 40),
        "identity": str(verdict) if ok else "",
        "identity_kind": verdict.kind if ok else "",
        "identity_losses_deviation": verdict.losses,
        "identity_updates_deviation": verdict.updates,
        "outcome": row.outcome,
        "reason": "; ".join(row.reasons),
        "flags": ", ".join(row.flags),
        "batch_search": _tries(row),
        "machine": row.machine,
    }


def _tries(row: Row) -> str:
    """Describes what `suite.session.launches.batch_finder` tried: ``32 ok (310 MiB), 64 out-of-memory``."""
    tries = next((x.record.settings["batch_search"] for x in row.launches if "batch_search" in x.record.settings), None)
    attempts = []
    for each in tries if isinstance(tries, list) else []:
        if not isinstance(each, dict):
            continue
        memory = each.get("memory")
        sizes = [memory.get(kind) for kind in MEMORY] if isinstance(memory, dict) else []
        peak = next((size for size in sizes if isinstance(size, (int, float))), None)
        attempts.append(
            f"{clean(each.get('batch'), 20)} {clean(each.get('status'), 20)}"
            + (f" ({figure(peak / 2**20)} MiB)" if peak is not None else "")
        )
    return ", ".join(attempts)


def step_times_ms(records: Iterable[Record]) -> list[float]:
    """Returns the mean step time of every training window of all launches, in milliseconds."""
    return [1e3 * t for record in records if "train" in record.phases for t in record.phases["train"].step_times_s]


def _median(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return median(known) if known else None


def _memory_kinds(rows: Iterable[Row]) -> list[str]:
    """Returns the kinds of peak memory in order of preference, those that all rows have first."""
    kind_sets = [set(record.memory) for row in rows for record in row.ok]
    known = [kind for kind in MEMORY if any(kind in each for each in kind_sets)]
    known += sorted({kind for each in kind_sets for kind in each if "peak" in kind} - set(known))
    return sorted(known, key=lambda kind: not all(kind in each for each in kind_sets))
