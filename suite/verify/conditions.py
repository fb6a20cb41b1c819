"""Rules on what was trained, with which versions, under which conditions, and on which device."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from operator import attrgetter
from statistics import median

from packaging.utils import canonicalize_name

from suite.analysis.records.machines import Machines, machine
from suite.analysis.records.steps import PEAK_OF_FEW, WINDOW_LEAST, is_short
from suite.catalog.devices import gpu_peak
from suite.catalog.frameworks import FRAMEWORKS
from suite.catalog.metrics import within
from suite.plan.measuring import LEAST_TESTED, SEQUENTIAL
from suite.record.disturbance import busy_before
from suite.record.parts.environment import digest_of
from suite.record.record import SKIPPED, Phase, Record
from suite.record.retry import count_tested
from suite.record.text import clean
from suite.verify.disturbances import disturbances
from suite.verify.known import DATA, core_peak
from suite.verify.rule import FAILED, IDLE, MEASURE, WARNING, Problem, Submission
from suite.worker.launch.measure import HALVES_LEAST, agree
from workloads.recipes import recipe
from workloads.registry import RegistryError
from workloads.spec import WORKLOADS, specification

#: A measured matrix peak over that of its kind, at most, and of a GPU at least: processors do less.
PEAK_MOST, PEAK_LEAST = 1.4, 0.1
#: The memory of a machine over that in another launch, at most; in each published run it is one.
MEMORY_MOST = 1.1
#: What a processor is not called; some have a Radeon inside, and say so.
GPU_NAME = re.compile(
    r"geforce|tesla|quadro|\b(RTX|GTX|TITAN|[AHPV]100|[AH]800|H20|G?[BH][123]00|L40?S?|MI\d{3}X)\b", re.IGNORECASE
)
#: How many of its cores a machine keeps busy at most, which two clocks tell.
BUSY_MOST = 1.1
#: Seconds of a window: shorter ones are mostly the clock's and the fence's.
WINDOW_LEAST_S = 0.3

#: What a record says of a model besides the digest of its spec; the oldest have no FLOPs of training.
COUNTS = ("parameters", "flops_per_sample", "training_flops_per_sample")


def data(run: Submission) -> Iterator[Problem]:
    """Real data, bit for bit those of the official archives."""
    for record in run.ok:
        name, kind, digest = (record.data[each] for each in ("name", "kind", "digest"))
        if kind != "real":
            yield Problem(FAILED, f"{record.key} trained on {clean(kind, 40)} data", "measure with --data real")
        elif name not in DATA:
            yield Problem(WARNING, f"{record.key} trained on {clean(name, 40)}, which is not the suite's")
        elif digest != DATA[name]:
            yield Problem(FAILED, f"{record.key} trained on other data than {name}", "training-suite data fetch")


def workload(run: Submission) -> Iterator[Problem]:
    """The model, its size and its recipe are those of this version."""
    for record in {(record.cell, str(record.workload)): record for record in run.ok}.values():
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
        if record.workload["digest"] != (ours.digest(spec) if ours else spec.digest):
            yield Problem(FAILED, f"{cell.id} is not the {cell.workload} of this version", "measure with this version")
        elif any(record.workload.get(name, getattr(spec, name)) != getattr(spec, name) for name in COUNTS):
            yield Problem(FAILED, f"{cell.id} has other parameters or FLOPs than its spec", "measure again, unchanged")


def versions(run: Submission) -> Iterator[Problem]:
    """The packages are those of the list of all, which has the digest of the records; else nothing proves them."""
    by = attrgetter("framework", "interface", "release")
    by_release: dict[tuple[str, str, str], list[Record]] = {}
    for record in run.ok:
        by_release.setdefault(by(record.cell), []).append(record)
    twice = (record.key for record in run.ok if len(_packages(record)) < len(record.environment["packages"]))
    yield from (Problem(FAILED, f"{key} names a package twice", MEASURE) for key in twice)
    for (framework, _, release), records in by_release.items():
        packages, digests = _packages(records[0]), {r.environment["digest"] for r in records}
        about = FRAMEWORKS[framework]
        name = next((name for name in map(canonicalize_name, about.distributions) if name in packages), "")
        number = packages.get(name, "")
        if any(_packages(each) != packages for each in records):
            yield Problem(FAILED, f"the versions of {framework} changed within the run", "measure again")
        elif not number:
            yield Problem(FAILED, f"no launch says which version of {framework} ran", MEASURE)
        if len(digests) > 1:
            yield Problem(FAILED, f"the environment of {framework} changed within the run", "measure again")
        for_cpu = number.endswith("+cpu") or name.endswith("-cpu")
        for_cpu |= bool(about.cuda_plugins) and not packages.keys() & {*about.cuda_plugins}
        if for_cpu and any(record.settings["device"] == "cuda" for record in records):
            yield Problem(FAILED, f"{framework} {clean(number, 40)} is built for no GPU, and ran on one", MEASURE)
        said = {number, *(str(record.settings.get("release", number)) for record in records)}
        if release:  # which no pin is of, and no list
            if odd := next((each for each in said if each.partition("+")[0] != release.partition("+")[0]), ""):
                yield Problem(FAILED, f"{framework} {release} ran as {clean(odd, 40)}", MEASURE)
        elif every := run.about.installed.get(framework):
            listed = {str(canonicalize_name(name)): each for name, _, each in (line.partition("==") for line in every)}
            odd = next((name for name, each in packages.items() if listed.get(name) != each), "")
            if digest_of(every) not in digests:
                yield Problem(FAILED, f"the list of packages of {framework} has not the digest of its launches",
                              "bundle the run again")  # fmt: skip
            elif odd:
                yield Problem(FAILED, f"{framework} ran with {odd} {clean(listed.get(odd), 40)}, and its launches say "
                              f"{clean(packages[odd], 40)}", "bundle the run again")  # fmt: skip
        else:
            why = f"no list of all packages proves that {framework} {clean(number, 40)} ran"
            yield Problem(WARNING, why, "bundle the run where it was measured")


def _packages(record: Record) -> dict[str, str]:
    return {str(canonicalize_name(name)): number.lower() for name, number in record.environment["packages"].items()}


def protocol(run: Submission) -> Iterator[Problem]:
    """Enough launches and long windows, steady, on a machine that did nothing else and was not throttled."""
    n = len(run.ok)
    counts = Counter(flag for record in run.ok for flag in record.flags)
    for flag, count in counts.most_common():
        yield Problem(WARNING, f"{count} of {n} launches are {clean(flag, 40)}", IDLE)
    if failed := [r for r in run.launches.values() if not r.outcome.ok and r.outcome.status not in SKIPPED]:
        yield Problem(WARNING, f"{len(failed)} launches failed, the first {failed[0].key}: {failed[0].outcome.status}")
    skipped = Counter((r.cell, r.outcome.status) for r in run.launches.values() if r.outcome.status in SKIPPED)
    for (cell, status), count in skipped.items():
        if ok := len(run.cells.get(cell, ())):
            yield Problem(WARNING, f"{count} launches of {cell.id} are {status}, and {ok} are ok")
    yield from _check_steady(run)
    yield from _check_cores(run)
    yield from disturbances(run)
    asked, least_s = run.run["launches"], run.run["plan"]["min_window_s"]
    if run.timed and run.run.get("design") != SEQUENTIAL:
        if asked < LEAST_TESTED:
            why = f"{asked} launches of each cell are not tested"
            yield Problem(WARNING, why, f"--resume --launches {LEAST_TESTED}")
        if tested := count_tested(run.ended, asked):
            yield Problem(WARNING, f"{asked} launches are not tested, since {tested} had been before", "a new run")
    if run.timed and least_s < WINDOW_LEAST_S:
        yield Problem(WARNING, f"windows of {least_s} s are short", f"--min-window {WINDOW_LEAST_S}")
    loads = [run.header.get("background"), run.run.get("background")]
    if not all(loads) and not run.ended[0].host:
        yield Problem(WARNING, "it does not say what kept the cores busy before the run", IDLE)
    for load in loads:
        if busy := busy_before({"background": load}):
            yield Problem(WARNING, f"other programs kept {busy:.2f} cores busy before the run", "--wait-idle 600")


def _check_steady(run: Submission) -> Iterator[Problem]:
    """Each phase is called steady as its windows have it."""
    for record in run.timed:
        steady = {name: _is_steady(phase, record.run["plan"]["min_window_s"]) for name, phase in record.phases.items()}
        said = {name: phase.steady for name, phase in record.phases.items()}
        if steady != said or steady["train"] == ("unsteady" in record.flags):
            yield Problem(FAILED, f"{record.key} has not the flags that its windows give", MEASURE)
        least_s = WINDOW_LEAST * record.run["plan"]["min_window_s"]
        if "contaminated" not in record.flags and any(is_short(phase, least_s) for phase in record.phases.values()):
            yield Problem(FAILED, f"{record.key} has shorter windows than were planned", IDLE)


def _is_steady(phase: Phase, least_s: float) -> bool:
    """Whether a phase was warm, and the halves of its windows agree, as a launch finds it."""
    last, seconds = phase.warmup[-2:], [window.seconds for window in phase.windows]
    warm = len({window.steps for window in last}) == 1 and min(window.seconds for window in last) >= least_s
    return warm and agree([each.seconds for each in last]) and (len(seconds) < HALVES_LEAST or agree(seconds))


def _check_cores(run: Submission) -> Iterator[Problem]:
    """All shares are of the cores that the machine has: a host's launches, and what was busy before them."""
    for record in run.ok:
        cell, own, seen = record.cell, record.environment["machine"]["cores"], record.metrics["host"]["cores"]
        divided = cell.cores or cell.bind or cell.devices > 1
        if own > seen or (own < seen and not divided):
            yield Problem(FAILED, f"{record.key} ran on {own} cores, and was watched on {seen:g}", MEASURE)
    cores = {record.host: record.metrics["host"]["cores"] for record in run.ok}
    odd = next((each for each in run.ok if each.metrics["host"]["cores"] != cores[each.host]), None)
    if odd:
        yield Problem(FAILED, f"{odd.key} was watched on other cores than launches beside it", MEASURE)
    for load in filter(None, (run.header.get("background"), run.run.get("background"))):
        busy = load["busy_cores"] + load.get("steal_cores", 0.0)
        if busy > BUSY_MOST * load["cores"] or ("" in cores and load["cores"] != cores[""]):
            why = f"before the run {busy:g} of {load['cores']} cores were busy, which are not those of its launches"
            yield Problem(FAILED, why, MEASURE)


def device(run: Submission) -> Iterator[Problem]:
    """The machine is one, each host of a cluster is one of a kind, and measured peaks are those of this kind."""
    machines = Machines(("", record) for record in run.ok)
    of_hosts: dict[str, dict[str, None]] = {}
    for record in run.ok:
        of_hosts.setdefault(record.host, {})[machines.name("", record)] = None
    for names in (*of_hosts.values(), dict.fromkeys(map(machine, run.ok))):
        if len(names) > 1:
            yield Problem(FAILED, f"its launches ran on {len(names)} machines: {'; '.join(names)}",
                          "bundle one machine's run")  # fmt: skip
    for host in of_hosts:
        sizes = [each.environment["machine"]["memory_bytes"] for each in run.ok if each.host == host]
        if max(sizes) > MEMORY_MOST * min(sizes):
            least, most = (size / 2**30 for size in (min(sizes), max(sizes)))
            why = f"its launches had {least:.3g} and {most:.3g} GiB of memory"
            yield Problem(FAILED, why, "bundle one machine's run")
    rates: dict[tuple[str, int], list[float]] = {}
    for record in run.ok:
        yield from _check_name(record)
        rate = record.settings.get("peak_flops_per_s")
        if rate is None:  # of a launch that times training alone
            continue
        rates.setdefault((record.cell.precision, record.cell.devices), []).append(rate)
        limit = (_peak(record) or 0.0) * record.cell.devices
        says = f"{record.key} measured {rate / 1e12:.3g} TFLOP/s, and its kind does {limit / 1e12:.3g}"
        if limit and rate > PEAK_MOST * limit:
            yield Problem(WARNING, says, "say in the pull request why")
        elif record.settings["device"] != "cpu" and rate < PEAK_LEAST * limit:
            yield Problem(FAILED, says, MEASURE)
    for (precision, _), measured in rates.items():
        if max(measured) > PEAK_OF_FEW * median(measured):
            times = max(measured) / median(measured)
            yield Problem(WARNING, f"a launch measured {times:.1f} times the usual peak in {precision}", IDLE)


def _check_name(record: Record) -> Iterator[Problem]:
    """A processor is not called as GPUs are, and a GPU that trained was watched, under the name that it has."""
    hardware, gpus = record.environment["machine"], record.metrics.get("gpus")
    watched = [within(gpu, "name") for gpu in gpus] if isinstance(gpus, list) else []
    if GPU_NAME.search(hardware["cpu"]):
        yield Problem(FAILED, f"{record.key} names a processor {clean(hardware['cpu'], 80)}", MEASURE)
    if record.settings["device"] == "cpu":
        return
    if not hardware["gpus"]:
        yield Problem(FAILED, f"{record.key} trained on a GPU, and names none", MEASURE)
    elif not {*hardware["gpus"]} & {*watched}:
        why = f"the driver showed no {clean(hardware['gpus'][0], 80)} while {record.key} trained"
        yield Problem(WARNING, why, "measure where nvidia-smi works")


def _peak(record: Record) -> float | None:
    """What one device of this kind can do, in FLOP/s."""
    hardware = record.environment["machine"]
    if record.settings["device"] != "cpu":
        return gpu_peak(hardware["gpus"][0], record.cell.precision) if hardware["gpus"] else None
    peak = core_peak(hardware["cores"], record.cell.precision)
    return peak and peak / record.cell.devices  # which share the cores
