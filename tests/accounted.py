"""Launches of which every figure is accounted for: made ones that have all that any table shows."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from suite.catalog.metrics import METRICS
from suite.record.parts.evidence import Decoded, Recomputed, Scored
from suite.record.parts.history import Ledger, Shapes
from suite.record.record import Phase, Record, Window
from tests import records
from tests.studies.measuring.simulated import launched

GIB = 2**30
ON_GPU = {"allocator_peak_bytes": 2 * GIB, "allocator_reserved_bytes": 3 * GIB}
#: Each part is long enough to be missed.
STARTUP = {"interpreter_s": 2.0, "import_s": 5.0, "data_s": 2.0, "build_s": 2.0, "first_batch_s": 2.0}


def timed(device: str = "cuda") -> Record:
    """A launch that timed training, inference and decoding, with a profile and all that a monitor reads."""
    made = launched()
    assert made.ledger
    assert made.profile
    compute = made.phases["compute"]
    served = {name: shift(compute, at) for name, at in (("infer", 20.0), ("infer_loaded", 40.0))}
    phases = made.phases | served
    taken = sum(window.steps for window in (*compute.warmup, *compute.windows))
    inference = records.serving(records.record()).inference
    assert inference
    decoded = (Decoded(1, 8, 8, 0.02, 0.16, 10), Decoded(8, 8, 8, 0.03, 0.24, 10))
    on_gpu = device == "cuda"
    inference = replace(inference, decoded=decoded, memory_bytes=int(2.6 * GIB) if on_gpu else None)
    seen = {name: tuple(phase.windows[0].seconds * len(phase.windows) for _ in (0,)) for name, phase in served.items()}
    seen |= {"startup": (13.1,), "compile": (2.2,), "first_step": (2.7,), "decode": (1.9, 2.8)}
    seen |= {"first_batch": (inference.first_batch_s,), "first_request": (inference.first_s,)}
    ledger = replace(made.ledger, delivered=made.ledger.delivered + taken)
    ledger = replace(ledger, seen_s=dict(made.ledger.seen_s) | seen | {"requests": (inference.seconds,)})
    identity = made.identity and replace(made.identity, recomputed=Recomputed(8, 40_000_000, 90_000_000, 0.0))
    total_s = sum(share.seconds for share in made.profile.categories.values())
    profile = replace(made.profile, step_s=total_s)
    ended_s = served["infer_loaded"].spans[-1][1] + inference.seconds + 6
    settings = {"device": device, "effective_batch": 32}
    return replace(
        made, phases=phases, inference=inference, ledger=ledger, identity=identity, metrics=watched(made, device),
        startup=STARTUP,
        compile_s=2.2, first_step_s=2.7, run=made.run | {"id": "study", "seed": 1, "took_s": ended_s},
        memory={"rss_peak_bytes": int(1.6 * GIB)} | (ON_GPU if on_gpu else {}),
        settings=made.settings | settings, profile=replace(profile, span=(ended_s - 3, ended_s - 2)),
        workload=made.workload | {"flops_per_sample": 10**9, "parameters": 5_000_000},
    )  # fmt: skip


def shift(phase: Phase, by_s: float) -> Phase:
    """The same windows at another time."""
    return replace(phase, spans=tuple((begin + by_s, end + by_s) for begin, end in phase.spans))


def watched(record: Record, device: str) -> dict[str, Any]:
    """Readings of every metric that has a source, and the counters beside them."""
    power = 350.0
    medians = {"cpu_cores": 1.4, "other_cpu_cores": 0.3, "power_w": power, "memory_used_bytes": 5.0 * GIB}
    medians |= {"sm_clock_mhz": 1700.0, "temperature_c": 55.0}
    sources: dict[str, dict[str, Any]] = {"host": {}, "gpu": {}}
    for name, metric in METRICS.items():
        kind, _, reading = metric.source.partition(".")
        if kind:
            middle = medians.get(reading, medians.get(name, 47.0))
            sources[kind][reading] = around(middle)
    sources["host"]["rss_bytes"] = around(1.4 * GIB)
    passed_s = sum(end - begin for begin, end in record.phases["train"].spans)
    totals = {"cpu_s": 1.35 * passed_s, "other_cpu_s": 0.31 * passed_s}
    gpu = {"name": "Example GPU", "memory_bytes": 8 * GIB, "energy_j_per_sample": power / (record.samples_per_s or 1)}
    host = {"cores": 4, "phases": {"train": sources["host"]}, "totals": {"train": totals}}
    return {"host": host, "gpus": [gpu | {"phases": {"train": sources["gpu"]}}] if device == "cuda" else []}


def around(middle: float) -> dict[str, float]:
    """A reading whose median is this."""
    return {"median": middle, "p5": 0.9 * middle, "p95": 1.1 * middle, "max": 1.2 * middle, "n": 9}


def trained() -> Record:
    """A launch that trained to its end."""
    made = records.trained()
    course, identity = made.course, made.identity
    assert course
    assert identity
    course = replace(course, epochs=tuple(replace(epoch, evaluation_s=5.0) for epoch in course.epochs))
    train = replace(made.phases["train"], spans=((20.0, 35.1),))
    seen = {"train": (7.1, 8.1), "epoch": (2.0, 3.0), "evaluated": (7.0, 8.0), "startup": (13.1,)}
    scored = Scored(1000, 1e-7, 0, 0.0, right=0.59)
    metrics = watched(replace(made, phases={"train": train}), "cuda")
    gpu = {name: value for name, value in metrics["gpus"][0].items() if name != "energy_j_per_sample"}
    return replace(
        made, phases={"train": train}, compile_s=None, first_step_s=None, ledger=Ledger(8, 8, seen_s=seen),
        identity=replace(identity, scored=scored), course=course, run=made.run | {"took_s": 38.0}, startup=STARTUP,
        metrics=metrics | {"gpus": [{**gpu, "energy_j_to_target": 350.0 * 15}]},
        memory={"rss_peak_bytes": int(1.6 * GIB)}, settings={"loader": {"workers": 0}},
        workload=made.workload | {"recipe": {"target": course.target}},
    )  # fmt: skip


def united() -> Record:
    """A launch of two devices, which also measured steps without communication."""
    made = timed("cpu")
    local, step_s = shift(made.phases["compute"], 60.0), made.phases["train"].step_s
    local = replace(local, windows=tuple(Window(each.steps, 0.8 * each.seconds) for each in local.windows))
    local = replace(local, spans=tuple((begin, begin + 0.8 * (end - begin)) for begin, end in local.spans))
    cell = made.cell.but(devices=2)
    ranks = records.ranks(cell, step_s)
    assert ranks.allreduce
    assert made.ledger
    sums_s = ranks.allreduce.n * ranks.allreduce.seconds_median
    seen = dict(made.ledger.seen_s) | {"allreduce": (1.1 * sums_s,), "local": (sum(w.seconds for w in local.windows),)}
    settings = made.settings | {"effective_batch": 64, "peak_flops_per_s": 2 * made.settings["peak_flops_per_s"]}
    return replace(
        made, cell=cell, phases=made.phases | {"local": local}, ranks=ranks, settings=settings,
        ledger=replace(made.ledger, seen_s=seen), run=made.run | {"took_s": made.run["took_s"] + 60},
    )  # fmt: skip


def of_lengths() -> Record:
    """A launch whose batches had several lengths, some of which compiled inside the windows."""
    made = timed("cpu")
    samples = [32 * window.steps for window in made.phases["train"].windows]
    words, places = (tuple(mean * n for n in samples) for mean in (180, 200))
    flops = 0.42 * made.workload["training_flops_per_sample"]
    assert made.ledger
    shapes = Shapes(words, places, 40, 500, 41, 30, 1.5, flops)
    return replace(made, cell=made.cell.but(lengths="free"), ledger=replace(made.ledger, shapes=shapes))


def window(record: Record, at: int, less_s: float) -> Record:
    """The same launch, one of whose training windows is so much shorter."""
    train = record.phases["train"]
    windows = [Window(each.steps, each.seconds - (less_s if n == at else 0)) for n, each in enumerate(train.windows)]
    return replace(record, phases=record.phases | {"train": replace(train, windows=tuple(windows))})
