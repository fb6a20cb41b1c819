"""The types of a comparison as JSON, and the JSON Schema that is made from them.

The schema stands in ``results/comparison.schema.json``.
"""

from __future__ import annotations

from dataclasses import dataclass
from inspect import cleandoc
from typing import Any

import msgspec

from suite.report.json.ratio_schema import Interval, Ratio, Scaling
from suite.report.text.explanation_schema import Explanation

#: Version of the format. It grows when a field is removed or changes its meaning, not when one is added.
SCHEMA = 1


@dataclass(frozen=True, kw_only=True)
class Spread:
    """The median over launches, and the lowest and the highest; null if a launch did not get that far."""

    median: float | None
    low: float | None
    high: float | None


@dataclass(frozen=True, kw_only=True)
class Control:
    """The A/A control: a second copy of the cell relative to the cell itself. It must not be faster or slower."""

    value: float | None
    low: float | None
    high: float | None
    verdict: str


@dataclass(frozen=True, kw_only=True)
class Bottleneck:
    """What limits the throughput. ``loading`` is the share of training time that loading costs, with its interval."""

    kind: str
    detail: str
    loading: float | None
    low: float | None
    high: float | None
    advice: str
    symptoms: str


@dataclass(frozen=True, kw_only=True)
class Identity:
    """Whether the cell computed the same as others, and the largest deviations.

    ``kind`` is same, differs, alone, no evidence or unaccounted.
    """

    kind: str
    text: str
    losses_deviation: float | None
    updates_deviation: float | None


@dataclass(frozen=True, kw_only=True)
class Devices:
    """What a cell of several devices has besides the others; of one device, its own batch and threads.

    ``global_batch`` is the samples of an update, of all devices. ``threads_per_device`` is text, empty on a GPU.
    ``communication`` is the share of a step that the exchange of gradients costs. ``skew`` is the slowest process's
    step without communication relative to the median one. ``allreduce_of_peak`` is the rate of a sum of the gradient
    relative to the best rate of the same backend.
    """

    devices: int
    strategy: str
    global_batch: int | None
    threads_per_device: str
    communication: Interval | None
    skew: float | None
    allreduce_bytes_per_s: float | None
    allreduce_of_peak: float | None


@dataclass(frozen=True, kw_only=True)
class Cell:
    """A cell that was timed: one row of a table.

    ``settings`` are its settings by name, ``best`` the columns in which it is significantly the best. Times end in
    their unit; ``loader_efficiency`` is its throughput relative to the same steps without the loader. ``metrics`` are
    the monitor's, by name, null where they were not measured.
    """

    cell: str
    framework: str
    settings: dict[str, str]
    launches: int
    launches_ok: int
    samples_per_s: Spread
    ratio: Ratio
    devices: Devices
    control: Control | None
    step_ms: Spread
    loader_efficiency: float | None
    bottleneck: Bottleneck
    first_step_s: float | None
    compile_s: float | None
    break_even_steps: float | None
    peak_memory_bytes: int | None
    peak_memory_kind: str
    identity: Identity
    metrics: dict[str, float | None]
    best: list[str]
    outcome: str
    reason: str
    flags: str
    batch_search: str
    machine: str


@dataclass(frozen=True, kw_only=True)
class Power:
    """What the tests of a table could detect with 80 % power.

    ``deviation`` is the standard deviation of the logarithm of a block's ratio, ``of_control`` whether the A/A control
    is part of it. ``smallest`` is the smallest difference that ``blocks`` blocks detect (0.05 is 5 %), ``launches``
    the number that a difference of 5 % needs. ``_low`` and ``_high`` are at the ends of the deviation's 95 % interval.
    """

    deviation: float | None
    deviation_low: float | None
    deviation_high: float | None
    of_control: bool
    blocks: int
    smallest: float | None
    smallest_low: float | None
    smallest_high: float | None
    launches: int | None
    launches_low: int | None
    launches_high: int | None


@dataclass(frozen=True, kw_only=True)
class TimedTable:
    """Cells of one workload, size, data and spec. Their ratios are along ``by``, relative to ``baseline``.

    ``verdict`` is the answer of the table in a line. ``why`` explains its ratios, and is empty without any profile.
    ``scalings`` are those of its cells of several devices.
    """

    workload: str
    size: str
    title: str
    verdict: str
    data_kind: str
    data_digest: str
    spec_digest: str
    by: str
    baseline: str
    margin: float
    power: Power
    cells: list[Cell]
    why: list[Explanation]
    scalings: list[Scaling]


@dataclass(frozen=True, kw_only=True)
class Difference:
    """A difference of mean test accuracies over shared seeds, with its 95 % interval.

    ``p_differs`` is the p-value of no difference, ``p_same`` that of a difference beyond one point, both after Holm.
    The verdict is same, higher, lower or undecided.
    """

    value: float
    low: float
    high: float
    p_differs: float
    p_same: float
    seeds: int
    verdict: str


@dataclass(frozen=True, kw_only=True)
class TrainedCell:
    """A cell that trained to its end: one row of an accuracy table.

    ``accuracy`` is the mean over seeds with its 95 % interval in ``accuracy_low`` and ``accuracy_high``. Spreads are
    over seeds, and null unless all of them reached ``target``.
    """

    run: str
    cell: str
    framework: str
    precision: str
    batch: int
    recipe: str
    seeds: int
    seeds_ok: int
    epochs: int | None
    accuracy: float | None
    accuracy_low: float | None
    accuracy_high: float | None
    to_baseline: Difference | None
    to_fp32: Difference | None
    target: float | None
    reached: int
    epochs_to_target: Spread
    seconds_to_target: Spread
    train_s: Spread
    evaluation_s: Spread
    samples_per_s: Spread
    energy_j_to_target: Spread
    identity: str
    outcome: str
    flags: str
    machine: str


@dataclass(frozen=True, kw_only=True)
class AccuracyTable:
    """Cells of one workload, size, data and recipe that trained to their end."""

    workload: str
    size: str
    title: str
    verdict: str
    data_kind: str
    data_digest: str
    recipe_digest: str
    baseline: str
    cells: list[TrainedCell]


@dataclass(frozen=True, kw_only=True)
class Run:
    """How many launches of a run were read, and how many were planned; null if the files do not say."""

    id: str
    launches: int
    planned: int | None


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """A comparison: its answer in sentences, the runs that were read, and its tables."""

    sentences: list[str]
    machine: str
    sources: list[str]
    runs: list[Run]
    tables: list[TimedTable]
    accuracies: list[AccuracyTable]
    notes: list[str]


def json_schema() -> dict[str, Any]:
    """Returns the JSON Schema of `suite.report.json.comparison.to_json`."""
    (reference,), parts = msgspec.json.schema_components([Comparison], ref_template="#/$defs/{name}")
    for part in parts.values():
        part["description"] = cleandoc(part["description"])
    comparison = parts["Comparison"]
    comparison["properties"] = {"schema": {"const": SCHEMA}} | comparison["properties"]
    comparison["required"] = ["schema", *comparison["required"]]
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$comment": "Made by `UPDATE_GOLDEN=1 pytest tests/report` from `suite/report/json/comparison_schema.py`.",
        **reference,
        "$defs": parts,
    }
