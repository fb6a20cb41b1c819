"""Rules on what was trained, with which versions, under which conditions, and on which device."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from operator import attrgetter
from statistics import fmean, median
from typing import Any

from packaging.utils import canonicalize_name

from suite.analysis.records.machines import Machines
from suite.analysis.records.steps import PEAK_OF_FEW
from suite.catalog.frameworks import FRAMEWORKS
from suite.catalog.metrics import number as as_number
from suite.plan.measuring import LEAST_TESTED, SEQUENTIAL
from suite.record.disturbance import (
    DISTURBED,
    OTHERS_MOST,
    STALLS,
    TAKES,
    find_disturbances,
    has_readings,
    is_disturbed,
)
from suite.record.files.line import decode_line
from suite.record.parts.environment import digest_of
from suite.record.record import SKIPPED, Record
from suite.record.text import clean
from suite.verify.known import DATA, core_peak, gpu_peak, pins
from suite.verify.rule import FAILED, WARNING, Problem, Submission
from workloads.recipes import recipe
from workloads.registry import RegistryError
from workloads.spec import WORKLOADS, specification

#: A measured matrix peak over that of its kind, at most.
PEAK_MOST = 1.4
IDLE = "measure on an idle machine"
#: How far the share of the cores that others took may be from the mean of its lines over time, which have rounded and
#: thinned points, and from so many points on.
LINES_MOST, POINTS_LEAST = 0.2, 8
#: Seconds of a window: shorter ones are mostly the clock's and the fence's.
WINDOW_LEAST_S = 0.3

#: What a record says of a model besides the digest of its spec; the oldest have no FLOPs of training.
COUNTS = ("parameters", "flops_per_sample", "training_flops_per_sample")


def data(run: Submission) -> Iterator[Problem]:
    """Real data, bit for bit those of the official archives."""
    for record in run.ok:
        name, kind, digest = (record.data.get(each, "") for each in ("name", "kind", "digest"))
        if kind != "real":
            yield Problem(FAILED, f"{record.key} trained on {kind or 'unknown'} data", "measure with --data real")
        elif name not in DATA:
            yield Problem(WARNING, f"{record.key} trained on {clean(name, 40)}, which is not the suite's")
        elif digest != DATA[name]:
            yield Problem(FAILED, f"{record.key} trained on other data than {name}", "python -m workloads.data fetch")


def workload(run: Submission) -> Iterator[Problem]:
    """The model, its size and its recipe are those of this version."""
    for record in {(record.cell, record.workload.get("digest")): record for record in run.ok}.values():
        cell = record.cell
        if cell.workload not in WORKLOADS:
            yield Problem(WARNING, f"{cell.workload} is not a workload of the suite: its code is not known here")
            continue
        try:
            spec = specification(cell.workload, cell.size)
        except RegistryError as error:
            yield Problem(FAILED, str(error))
            continue
        course = record.course
        ours = recipe(cell.recipe, spec, course.planned, course.target) if cell.recipe and course else None
        if record.workload.get("digest") != (ours.digest(spec) if ours else spec.digest):
            yield Problem(FAILED, f"{cell.id} is not the {cell.workload} of this version", "measure with this version")
        elif any(record.workload.get(name, getattr(spec, name)) != getattr(spec, name) for name in COUNTS):
            yield Problem(FAILED, f"{cell.id} has other parameters or FLOPs than its spec", "measure again, unchanged")


def versions(run: Submission) -> Iterator[Problem]:
    """The packages are those that the suite pins, or the list of all is there and has the digest of the records."""
    pinned = pins()
    by = attrgetter("framework", "interface", "release")
    for framework, interface, release in dict.fromkeys(by(r.cell) for r in run.ok):
        environments = [r.environment for r in run.ok if by(r.cell) == (framework, interface, release)]
        packages = _packages(environments[0])
        if any(_packages(each) != packages for each in environments):
            yield Problem(FAILED, f"the versions of {framework} changed within the run", "measure again")
        elif not set(FRAMEWORKS[framework].distributions) & set(packages):
            yield Problem(FAILED, f"no launch says which version of {framework} ran", "measure again, unchanged")
        digests = {each.get("digest") for each in environments}
        if len(digests) > 1:
            yield Problem(FAILED, f"the environment of {framework} changed within the run", "measure again")
        if release:
            continue  # which the worker checks, and no pin is of
        if every := run.about.installed.get(framework):
            listed = {
                str(canonicalize_name(name)): number for name, _, number in (line.partition("==") for line in every)
            }
            if digest_of(every) not in digests:
                yield Problem(FAILED, f"the list of packages of {framework} has not the digest of its launches",
                              "bundle the run again")  # fmt: skip
            elif odd := next((name for name, number in packages.items() if listed.get(name) != number), ""):
                yield Problem(FAILED, f"{framework} ran with {odd} {clean(listed.get(odd), 40)}, and its launches say "
                              f"{clean(packages[odd], 40)}", "bundle the run again")  # fmt: skip
            continue
        for name, number in packages.items():
            if name in pinned and number.partition("+")[0] not in pinned[name]:
                versions = " or ".join(pinned[name])
                why = f"{name} {clean(number, 40)} ran, {versions} is pinned, and there is no list of all packages"
                yield Problem(WARNING, why, "bundle the run where it was measured")


def _packages(environment: Mapping[str, Any]) -> dict[str, str]:
    packages = environment.get("packages")
    return {canonicalize_name(str(name)): str(number).lower() for name, number in packages.items()} if isinstance(
        packages, Mapping) else {}  # fmt: skip


def protocol(run: Submission) -> Iterator[Problem]:
    """Enough launches and long windows, steady, on a machine that did nothing else and was not throttled."""
    n = len(run.ok)
    counts = Counter(flag for record in run.ok for flag in record.flags)
    for flag, count in counts.most_common():
        yield Problem(WARNING, f"{count} of {n} launches are {clean(flag, 40)}", IDLE)
    if failed := [r for r in run.launches.values() if not r.outcome.ok and r.outcome.status not in SKIPPED]:
        yield Problem(WARNING, f"{len(failed)} launches failed, the first {failed[0].key}: {failed[0].outcome.status}")
    for cell, records in run.cells.items():
        if left := [r for r in run.launches.values() if r.cell == cell and r.outcome.status in SKIPPED]:
            why = f"{len(left)} launches of {cell.id} are {left[0].outcome.status}, and {len(records)} are ok"
            yield Problem(WARNING, why)
    if odd := next((r for r in run.timed if r.phases["train"].steady == ("unsteady" in r.flags)), None):
        yield Problem(FAILED, f"{odd.key} has not the flags that its windows give", "measure again, unchanged")
    yield from _disturbances(run)
    asked, plan, load = (run.run.get(name) for name in ("launches", "plan", "background"))
    if run.timed and run.run.get("design") != SEQUENTIAL and (type(asked) is not int or asked < LEAST_TESTED):
        yield Problem(WARNING, f"{asked} launches of each cell are not tested", f"--resume --launches {LEAST_TESTED}")
    least_s = plan.get("min_window_s") if isinstance(plan, dict) else None
    if run.timed and (not isinstance(least_s, (int, float)) or least_s < WINDOW_LEAST_S):
        yield Problem(WARNING, f"windows of {least_s} s are short", f"--min-window {WINDOW_LEAST_S}")
    busy = sum(load.get(name, 0) for name in ("busy_cores", "steal_cores")) if isinstance(load, dict) else 0
    if isinstance(load, dict) and busy > OTHERS_MOST * load.get("cores", 1):
        yield Problem(WARNING, f"other programs kept {busy:.2f} cores busy before the run", "--wait-idle 600")


def _disturbances(run: Submission) -> Iterator[Problem]:
    """The flag of disturbed launches is what their readings give, which all have, and which their lines support."""
    any_read = any(has_readings(record) for record in run.ok)
    for record in run.ok:
        disturbed, why = is_disturbed(record), ""
        if any_read and not has_readings(record):
            why = "lacks the readings of disturbances that other launches have"
        elif disturbed and DISTURBED not in record.flags and any_read:
            why = f"is not flagged, and its readings say: {find_disturbances(record)[0]}"
        elif DISTURBED in record.flags and not disturbed:
            why = "is flagged as disturbed, and none of its readings says so"
        elif any_read and (line := _shares_by_line(record)):
            stored = record.metrics["host"]["disturbance"]
            for rule in (TAKES, *((name,) for name in STALLS)):
                names = [name for name in rule if name in line]
                said, seen = (min(1.0, sum(as_number(of.get(n)) or 0.0 for n in names)) for of in (stored, line))
                if abs(said - seen) > LINES_MOST:
                    why = f"says {said:.0%} of {' and '.join(names)}, and its lines over time say {seen:.0%}"
        if why:
            yield Problem(FAILED, f"{record.key} {why}", "measure again, unchanged")


def _shares_by_line(record: Record) -> dict[str, float]:
    """What a record's lines over time say of the shares that it holds while it trained; empty for too few points."""
    host, spans = record.metrics["host"], record.phases["train"].spans
    timeline, cores = decode_line(host.get("timeline")), as_number(host.get("cores"))
    if not timeline or not cores or not spans:
        return {}
    begin_s, end_s = spans[0][0], spans[-1][1]
    at = [index for index, at_s in enumerate(timeline["at_s"]) if begin_s <= at_s <= end_s]
    shares = {}
    for name in (*TAKES, *STALLS):
        of_cores = f"{'other_cpu' if name == 'others_share' else name.removesuffix('_share')}_cores"
        line = timeline["values"].get(of_cores if name in TAKES else name)
        if line and name in host["disturbance"] and len(at) >= POINTS_LEAST:
            mean = max(0.0, fmean(line[index] or 0.0 for index in at))
            shares[name] = mean / cores if name in TAKES else mean
    return shares


def device(run: Submission) -> Iterator[Problem]:
    """The machine is one, and its measured peaks are those of its kind."""
    machines = Machines(("", record) for record in run.ok)
    names = dict.fromkeys(machines.name("", record) for record in run.ok)
    if len(names) > 1 and not any(record.host for record in run.ok):
        yield Problem(
            FAILED, f"its launches ran on {len(names)} machines: {'; '.join(names)}", "bundle one machine's run"
        )
    if any(not name for name in names):
        yield Problem(FAILED, "a launch does not name its machine", "measure again, unchanged")
    rates: dict[tuple[str, int], list[float]] = {}
    for record in run.ok:
        if isinstance(rate := record.settings.get("peak_flops_per_s"), (int, float)) and rate > 0:
            rates.setdefault((record.cell.precision, record.cell.devices), []).append(rate)
            limit = _peak(record)
            if limit and rate > PEAK_MOST * record.cell.devices * limit:
                why = f"{record.key} measured {rate / 1e12:.3g} TFLOP/s, and its kind does {limit / 1e12:.3g}"
                yield Problem(WARNING, why, "say in the pull request why")
    for (precision, _), measured in rates.items():
        if max(measured) > PEAK_OF_FEW * median(measured):
            times = max(measured) / median(measured)
            yield Problem(WARNING, f"a launch measured {times:.1f} times the usual peak in {precision}", IDLE)


def _peak(record: Record) -> float | None:
    """What one device of this kind can do, in FLOP/s."""
    hardware = record.environment.get("machine") or {}
    if record.settings.get("device") != "cpu":
        named = hardware.get("gpus") or [""]
        return gpu_peak(str(named[0]), record.cell.precision)
    cores = hardware.get("cores")
    peak = core_peak(cores, record.cell.precision) if type(cores) is int else None
    return peak and peak / record.cell.devices  # which share the cores
