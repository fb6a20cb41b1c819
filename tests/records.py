"""Records and run files for tests: plausible figures from settings and a seed, with no measurement behind them."""

from __future__ import annotations

import hashlib
import json
import random
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from suite.plan.cell import Cell, Loader
from suite.plan.measuring import CONTROL
from suite.record.parts.evidence import Answered, Draws, Identity, Inference, Last, Trace
from suite.record.parts.history import AllReduce, Epoch, Rank, Ranks, TrainingHistory
from suite.record.record import Outcome, Phase, Record, Window
from tests.profiles import profiled

if TYPE_CHECKING:
    from suite.report.tables.frame import Table

#: Seconds of a step per sample, of starting, and of compiling, roughly as CPU prototypes had them.
STEP_S = {"pytorch": 1.0e-3, "tensorflow": 0.8e-3, "jax": 2.5e-3}
IMPORT_S = {"pytorch": 1.0, "tensorflow": 2.9, "jax": 0.4}
COMPILE_S = {"eager": None, "graph": 0.6, "compile": 2.2, "max": 9.0}
MACHINE = {
    "cpu": "Example CPU 3000", "cores": 8, "memory_bytes": 32 * 2**30, "gpus": [],
    "vendor": "AuthenticAMD", "family": 25, "model": 1, "stepping": 1, "simd": "avx2", "instructions": "0123456789ab",
    "caches": {"L1d": 2**15, "L1i": 2**15, "L2": 2**19, "L3": 2**25}, "threads_per_core": 1, "hypervisor": "Example",
}  # fmt: skip
LOSSES = tuple(4.605 * 0.97**step for step in range(10))
UPDATES = {"conv1/kernel": 0.012, "conv1/bias": 0.0041, "dense/kernel": 0.0087}


#: What a device's name or a crashed process' last words may hold.
HOSTILE = (
    "<script>alert(1)</script> | **bold** \x1b[31mred\x07\r\n# title \u202eevil \ud800 $\\frac{ [x](http://e.org) `c`"
)


def digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def record(
    framework: str = "pytorch",
    launch: int = 0,
    *,
    workload: str = "cifar100_cnn",
    kind: str = "real",
    run: str = "run-a",
    **changes: Any,
) -> Record:
    """A launch that ended well. ``changes`` are settings of the cell, or fields of the record, which go first."""
    of_record = {name: changes.pop(name) for name in list(changes) if name in Record.__dataclass_fields__}
    cell = Cell(workload, framework, **changes)
    draw = random.Random(f"{cell.id}#{launch}").random  # whose stream Python keeps the same
    step_s = STEP_S[framework] * cell.batch * (0.8 if cell.compile == "compile" else 1) * (0.98 + 0.04 * draw())
    step_s *= 1.1 if cell.devices > 1 else 1.0
    compile_s = COMPILE_S[cell.compile]
    made = Record(
        cell,
        Outcome("ok"),
        launch,
        started=f"2026-03-01T10:{launch:02d}:00+00:00",
        run={"id": run, "seed": 1, "position": launch},
        data={"name": workload.partition("_")[0], "kind": kind, "digest": digest(f"{workload} {kind}")},
        workload={"parameters": 1_000_000, "flops_per_sample": 10**9, "digest": digest(f"{workload} {cell.size}")},
        identity=identity(framework, cell.effective_batch, noise={"fp64": 1e-13}.get(cell.precision, 1e-6)),
        startup={
            "interpreter_s": 0.05,
            "import_s": IMPORT_S[framework],
            "data_s": 0.02,
            "build_s": 0.3,
            "first_batch_s": 0.08,
        },
        compile_s=compile_s,
        first_step_s=3 * step_s + (compile_s or 0),
        phases={
            "train": phase(step_s, draw),
            "compute": phase(step_s * 0.9, draw),
            "input": phase(step_s * 0.05, draw),
            **({"local": phase(step_s * 0.8, draw)} if cell.devices > 1 else {}),
        },
        memory={"rss_peak_bytes": int(700e6 + 1e6 * cell.batch)},
        environment={"machine": MACHINE, "digest": digest(framework)},
        ranks=ranks(cell, step_s) if cell.devices > 1 else None,
    )
    return replace(made, **of_record)


def ranks(cell: Cell, step_s: float = 1.0) -> Ranks:
    """How the devices of a cell worked together, the last one a little slower than the others."""
    own = cell.processes
    sizes = dict.fromkeys(range(own), 1.0) | {own - 1: 1.02}
    rate = cell.process_batch / step_s
    each = tuple(Rank(n, 0, "cpu", step_s, rate, 0.8 * step_s * slow) for n, slow in sizes.items())
    allreduce = AllReduce(4_000_000, 0.004, 20, 1e9, 2.5e9)
    return Ranks(own, cell.devices, cell.strategy, "gloo", max(1, 8 // own), each, 1.02, 4_000_000, allreduce)


def identity(framework: str, batch: int = 32, noise: float = 0.0) -> Identity:
    """The fingerprint that all share, each framework off by about ``noise``."""
    off = 1 + noise * {"pytorch": 0.0, "tensorflow": 1.0, "jax": -2.0}[framework]
    losses = tuple(loss * off for loss in LOSSES)
    return Identity(digest("weights"), digest(f"batch {batch}"), losses, {n: u * off for n, u in UPDATES.items()})


def proved(record: Record) -> Record:
    """The same launch with all evidence of identity that a worker takes."""
    assert record.identity
    found = record.identity
    trace = Trace(found.losses[:2], found.updates)
    dropout = (
        Draws(0.2475, found.losses[:2], 1.0, "small", {"conv2/kernel": 0.6})
        if record.cell.workload == "cifar100_cnn"
        else None
    )
    return replace(
        record,
        identity=replace(
            found,
            program=digest(record.cell.id),
            own=trace,
            float64=Trace(LOSSES[:3], UPDATES),
            last=Last(900 + record.launch, True, found.updates),
            dropout=dropout,
            optimizer=3e-15,
            seconds={"fingerprint": 1.5, "own": 0.8},
        ),
    )


def phase(step_s: float, draw: Callable[[], float], windows: int = 8) -> Phase:
    """Windows of twenty steps that scatter by up to six percent, after two slower ones."""
    times = [step_s * (1 + 0.06 * draw() ** 3) for _ in range(windows)]
    return Phase(tuple(Window(20, 20 * t) for t in times), (Window(5, 10 * step_s), Window(20, 24 * step_s)))


def timed(step_s: float, framework: str = "pytorch", launch: int = 0, **changes: Any) -> Record:
    """A launch whose training step takes exactly so long; other phases by keyword, as ``compute_s``."""
    others = [name for name in ("compute", "input", "local") if f"{name}_s" in changes]
    taken = {"train": step_s} | {name: changes.pop(f"{name}_s") for name in others}
    phases = {name: Phase((Window(10, 10 * seconds),)) for name, seconds in taken.items()}
    made = record(framework, launch, phases=phases, **changes)
    return replace(made, ranks=ranks(made.cell, step_s)) if made.ranks and "ranks" not in changes else made


def trained() -> Record:
    """A launch that trained to its end."""
    epochs = (Epoch(4, 1.5, 2.0, 1.4, 0.4, 0.5), Epoch(4, 1.2, 3.0, 1.1, 0.6, 0.5))
    windows = {"train": Phase(tuple(Window(epoch.steps, epoch.train_s) for epoch in epochs))}
    course = TrainingHistory("modern", 2, 0.5, epochs, (1.6, 1.5, 1.5, 1.4))
    return record(recipe="modern", course=course, phases=windows)


def failed(record: Record, status: str = "timeout", reason: str = "no answer after 600 s") -> Record:
    """The same launch, ended before it measured anything."""
    changes: dict[str, Any] = {"outcome": Outcome(status, reason), "phases": {}, "identity": None, "memory": {}}
    return replace(record, **changes, data={}, workload={}, compile_s=None, first_step_s=None)


def launches(frameworks: Sequence[str] = ("pytorch", "tensorflow", "jax"), n: int = 3, **changes: Any) -> list[Record]:
    """``n`` launches of one cell per framework, block by block."""
    return [record(framework, block, **changes) for block in range(n) for framework in frameworks]


def saved(records: Iterable[Record], run: str = "run-a") -> dict[str, Any]:
    """A run as pytest-benchmark's JSON with the suite's part in it."""
    records = list(records)
    return {
        "machine_info": {"node": "example"},
        "datetime": "2026-03-01T11:00:00+00:00",
        "version": "5.3.1",
        "benchmarks": [
            {"name": f"test_training[{r.cell.id}]", "stats": {}, "extra_info": {"record": r.to_json()}}
            for r in records
            if r.outcome.ok
        ],
        "suite": {
            "schema": 1,
            "run": {"id": run, "seed": 1, "matrix": "smoke", "launches": 3, "started": "2026-03-01T10:00:00+00:00"},
            "failed": [r.to_json() for r in records if not r.outcome.ok],
        },
    }


def save(path: Path, records: Iterable[Record], run: str = "run-a") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(saved(records, run)), encoding="utf-8")
    return path


def older(record: Record, schema: int) -> dict[str, Any]:
    """The record's JSON as suites of schema 1 to 3 wrote it."""
    data = record.to_json() | {"schema": schema}
    for phase in data["phases"].values():
        for part in ("windows", "warmup"):
            phase[part] = [Window(*each)._asdict() for each in phase[part]]
        spans = phase.pop("spans")
        if schema > 1:
            phase["span"] = spans[0] if spans else None
    for name in {1: ("metrics", "course"), 2: ("course",)}.get(schema, ()):
        del data[name]
    return data


def journal(path: Path, records: Iterable[Record], run: str = "run-a") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    lines: list[Any] = [{"run": {"id": run, "seed": 1}}, *(r.to_json() for r in records)]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    return path


def tables(held: Sequence[Record], baseline: str = "pytorch") -> list[Table]:
    """What `suite.compare` makes of them; pandas is imported only here, for tests that need records alone."""
    from suite.analysis.records.load import Launch
    from suite.analysis.rows.groups import group
    from suite.record.text import clean
    from suite.report.tables.frame import table

    return [table(each, baseline) for each in group(Launch(r, clean(r.run["id"], 80), "0001_a.json") for r in held)]


def only(held: Sequence[Record], baseline: str = "pytorch") -> Table:
    (one,) = tables(held, baseline)
    return one


def mixed() -> list[Record]:
    """What a run on a small machine looks like: two batch sizes, a cell too large, a timeout, a flag."""
    held = [*launches(), *launches(batch=128), *launches(["tensorflow"], compile="compile")]
    reason = "batch 128 does not fit in 8 GiB (allocator peak 7.9 GiB); largest that fits: 64"
    too_large = [r.cell.framework == "jax" and r.cell.batch == 128 for r in held]
    held = [failed(r, "out-of-memory", reason) if no else r for r, no in zip(held, too_large, strict=True)]
    held[1] = failed(held[1])
    held[-1] = replace(held[-1], flags=("throttled",))
    return held


def watched(record: Record, gpu: bool = True) -> Record:
    """The same launch with what a monitor would have noted: spans, a timeline of the host and of one GPU, energy."""
    before = [*record.startup.values(), record.first_step_s or 0.0]
    before += [window.seconds for window in record.phases["train"].warmup] if "train" in record.phases else []
    spans, begin = {}, max(5.0, sum(before))
    for name in ("train", "compute", "input", "local"):
        if name in record.phases:
            end = begin + 1.001 * sum(window.seconds for window in record.phases[name].windows)
            spans[name], begin = (begin, end), end
    phases = {name: replace(held, spans=(spans[name],)) for name, held in record.phases.items()}
    at_s = [0.5 * tick for tick in range(60)]
    busy = [float(any(begin <= at <= end for begin, end in spans.values())) for at in at_s]
    host = {"cpu_cores": [None, *(1.0 + at for at in busy[1:])], "rss_bytes": [1e8 + 1e7 * at for at in at_s]}
    metrics: dict[str, Any] = {"host": {"timeline": {"at_s": at_s, "values": host}}, "gpus": []}
    if gpu:
        device = {
            "gpu_utilisation_percent": [95.0 * at for at in busy],
            "gpm_sm_utilisation_percent": [60.0 * at for at in busy],
            "power_w": [80.0 + 400.0 * at for at in busy],
            "memory_used_bytes": [2e9 + 8e9 * at for at in busy],
        }
        joules = {"energy_j_per_sample": 200.0 / (record.samples_per_s or 1.0), "energy_source": "counter"}
        metrics["gpus"] = [{"name": "Example GPU", **joules, "timeline": {"at_s": at_s, "values": device}}]
    return replace(record, phases=phases, metrics=metrics)


def serving(record: Record) -> Record:
    """The same launch with inference: passes a third as long as steps, and requests of a sample."""
    if not record.outcome.ok:
        return record
    step_s = record.phases["train"].step_s / 3
    draw = random.Random(f"{record.key} serving").random
    one_s = step_s / record.cell.batch
    inference = Inference(1000, one_s, 1.5 * one_s, 2.5 * one_s, 9 * one_s, 1200 * one_s, 1.2, 0.7)
    phases = {"infer": phase(step_s, draw), "infer_loaded": phase(1.2 * step_s, draw)}
    checked = record.identity and replace(record.identity, answered=Answered(8, 1e-7, 0, gradient=False))
    return replace(record, phases=record.phases | phases, inference=inference, identity=checked)


def everything(n: int = 2, gpu: bool = True) -> list[Record]:
    """A run that every kind of plot has something to show of."""
    held = [*launches(n=n), *launches(["pytorch"], n=n, precision="bf16")]
    held += [each for size in (64, 128) for each in launches(["pytorch", "jax"], n=n, batch=size)]
    held += launches(["tensorflow"], n=n, compile="compile")
    held += [each for count in (0, 2) for each in launches(["pytorch"], n=n, loader=Loader("workers", count))]
    too_large = [each.cell.framework == "jax" and each.cell.batch == 128 for each in held]
    found = [failed(r, "out-of-memory") if no else watched(r, gpu) for r, no in zip(held, too_large, strict=True)]
    # The control of one row, which no plot may take for launches.
    held = [*map(profiled, found), watched(record("pytorch", CONTROL), gpu)]
    held += [each for release in ("0.9.2", "0.10.2") for each in launches(["jax"], n=n, release=release)]
    return held + launches(["pytorch"], n=n, devices=2)


def complete(n: int = 2) -> list[Record]:
    """The same with inference, and with threads and cores that cells ask for, which every run may have besides."""
    asked = [{name: count} for name in ("threads", "cores") for count in (1, 2)]
    return [*map(serving, everything(n)), *(each for some in asked for each in launches(["jax"], n=n, **some))]
