"""The run of a script's variants: a look at what it does, then blocks of launches by the rules of every run."""

from __future__ import annotations

import re
import sys
import time
from argparse import Namespace
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from itertools import groupby
from pathlib import Path

from framework_training_suite import CommandError
from suite.catalog.phases import TRAIN
from suite.compare.__main__ import main as compare
from suite.monitor.background import settle
from suite.monitor.sampler import Monitor
from suite.plan.blocks import blocks
from suite.plan.cell import AUTO, Cell
from suite.plan.measuring import CONTROL, LAST_LOOK, REPEAT, Plan
from suite.record.job import HostRanks, Job
from suite.record.record import Record
from suite.record.text import clean
from suite.script.answer import answers
from suite.script.launch import ScriptLaunch, Watching
from suite.script.variants import (
    AS_IT_IS,
    FRAMEWORK_OF,
    ScriptError,
    Variant,
    digest_of,
    read_variants,
    switches,
    workload_of,
)
from suite.session.launches.launcher import Host, Launcher
from suite.session.launches.machine import LaunchCallbacks, Machine
from suite.session.launches.settings import Settings
from suite.session.outlook import Cost, Costs, Due, kind_of
from suite.session.run import Run
from suite.session.storage import save_run
from suite.session.terminal import CommandTerminal, count_launches

#: Launches of each variant where there is nothing to decide.
LAUNCHES_OF_ONE = 4

STARTS = (
    "the script is started several times, each time anew, and {}. What it writes, it writes again: {{launch}} in an "
    "argument, and $SUITE_LAUNCH, are the number of the launch, and --in-copy runs each in a copy of this folder"
)


@dataclass
class ScriptMachine(Machine):
    """The machine that this process runs on, with launches that are those of a script's variants, by their names."""

    variants: dict[str, Variant] = field(default_factory=dict)
    watching: Watching = field(default_factory=Watching)

    def launch(
        self, job: Job, log: Path, deadline_s: float, callbacks: LaunchCallbacks, part: HostRanks | None = None
    ) -> Record:
        """Run one launch of the variant that the cell names."""
        assert part is None, "ranks of a script are its own"
        of = ScriptLaunch(self.variants[job.cell.variant], self.watching, job, log, deadline_s)
        return of.run(callbacks, self._monitor)

    def _monitor(self, pid: int, spawned_s: float) -> Monitor:
        return Monitor(pid, spawned_s, self._gpus, self._idle, self._missing)


class ScriptLauncher(Launcher):
    """Launches a variant as it is: nothing is searched for, and nothing proved."""

    def launch(self, cell: Cell, number: int, counter: str, position: int) -> tuple[Record, float]:
        job = self._job(cell, number, self.settings.plan.of_launch(number, self.whole_blocks))
        record = self._start(job, counter, self._checkpoint(cell, number).with_suffix(".log"))
        return self.add_run(record, position), 0.0


@dataclass
class ScriptRun(Run):
    """A run whose host is a `ScriptMachine`."""

    machine: Callable[[ExitStack], Machine] | None = None

    def _open_host(self, _: Sequence[Cell]) -> Host:
        assert self.machine
        return self.machine(self._open)

    def _make_launcher(self, host: Host) -> Launcher:
        return ScriptLauncher(self.settings, self.info, host, self.say, self.show, self.observers.tell, self._fits)


@dataclass(frozen=True)
class ScriptCosts(Costs):
    """What one launch took, as the guess for all."""

    def launch_s(self, *_: object, **__: object) -> float | None:
        return self.took_s


def measure(options: Namespace) -> int:
    """Look at the script, measure its variants, save the run and compare them; returns the exit status."""
    session = Session(options, read_variants(options))
    run, problem = session.run()
    if problem:
        session.terminal.say(f"suite.script: {problem}; {count_launches(run.done)} kept in {run.journal.path}")
    if not run.records:
        return _status(problem) if problem else 1
    path = save_run(run, options.storage, workload_of(options.command))
    compared = compare([str(path), "--by", "variant", *(["--verbose"] if options.verbose else [])])
    sys.stdout.writelines(f"{line}\n" for line in answers(path, {each.name: each for each in session.variants}))
    if problem:
        return _status(problem)
    return compared or int(not any(record.outcome.ok for record in run.records))


INTERRUPTED = "interrupted"


def _status(problem: str) -> int:
    return 130 if problem == INTERRUPTED else 2


@dataclass
class Session:
    """The launches of a script's variants by the options of the command."""

    options: Namespace
    variants: list[Variant]
    terminal: CommandTerminal = field(default_factory=CommandTerminal)

    def __post_init__(self) -> None:
        options = self.options
        try:
            pattern = re.compile(options.pattern) if options.pattern else None
        except re.error as error:
            raise ScriptError(f"--pattern: {clean(options.pattern)!r} is no regular expression: {error}") from None
        echo = sys.stderr if options.verbose else None
        self.watching = Watching(pattern, options.to_the_end, echo, options.in_copy)
        self.plan = Plan(options.min_window, options.windows, options.max_warmup)

    def run(self) -> tuple[Run, str]:
        """Launch until all is decided; the run, and what went wrong. Raises `ScriptError` before the first launch."""
        settle(self.options.wait_idle, self.terminal.say, self.terminal.show)
        end = "runs to its end" if self.options.to_the_end else "ended (SIGTERM) when enough steps are measured"
        self.terminal.say(STARTS.format(end))
        framework, took_s = self._look()
        cells = [self._cell(framework, each) for each in self.variants]
        settings = self._settings()
        planned = blocks(cells, settings.launches, self.options.seed)
        run = ScriptRun(
            settings, list(planned), self.terminal.say, self.terminal.show, repeats=True, machine=self._machine
        )
        try:
            run.prepare(ScriptCosts({kind_of(cells[0]): Cost(cells[0], took_s, 0.0)}, took_s))
            _launch_all(run, planned)
        except KeyboardInterrupt:
            return run, INTERRUPTED
        except (CommandError, OSError) as error:
            return run, clean(error, 1000)
        finally:
            self.terminal.show("")
            run.close()
        return run, ""

    def _look(self) -> tuple[str, float]:
        """Launch the script once; its framework, and the seconds. With ``--try`` the variants follow from it."""
        say, show, options = self.terminal.say, self.terminal.show, self.options
        say("looking at what it does, which also reads its files from the disk; nothing of it is recorded")
        first, begin_s = self.variants[0], time.monotonic()
        job = Job(self._cell("pytorch", first), "", plan=replace(self.plan, phases=(TRAIN,)))
        log = options.journals / "script.log"
        with ExitStack() as until:
            told = LaunchCallbacks(lambda message: show(f"looking: {message['progress']}"))
            record = self._machine(until).launch(job, log, options.max_time, told)
        show("")
        if not record.outcome.ok:
            raise ScriptError(f"{record.outcome.reason}; what it printed is in {log}")
        backend, packages = record.settings.get("backend"), record.environment["packages"]
        named = [
            name for module, name in FRAMEWORK_OF.items() if module == backend or (not backend and module in packages)
        ]
        if not (options.framework or named):
            raise ScriptError("no framework was seen in it; name one with --framework")
        framework = options.framework or named[0]
        device, rate = str(record.settings["device"]), record.samples_per_s or 0.0
        say(f"seen by: {record.settings['seen_by']}; {rate:,.3g} {record.settings['unit']}/s on {device}")
        if options.tried:
            self.variants = switches(options.tried, framework, device, replace(first, name=AS_IT_IS))
        return framework, time.monotonic() - begin_s

    def _machine(self, until: ExitStack) -> Machine:
        variants = {each.name: each for each in self.variants}
        return ScriptMachine("auto", "", None, self.terminal.say, until, variants=variants, watching=self.watching)

    def _cell(self, framework: str, variant: Variant) -> Cell:
        return Cell(workload_of(self.options.command), framework, batch=AUTO, variant=variant.name)

    def _settings(self) -> Settings:
        options = self.options
        budget_s = options.budget if len(self.variants) > 1 and not options.launches else None
        launches = options.launches or (LAST_LOOK if budget_s else LAUNCHES_OF_ONE)
        return Settings(
            "script", launches, self.plan, options.seed, "own", journals=options.journals, resume=options.resume,
            deadline_s=options.max_time, budget_s=budget_s, typed={"variants": [each.name for each in self.variants]},
            commands=digest_of(self.variants),
        )  # fmt: skip


def _launch_all(run: Run, planned: Sequence[Due]) -> None:
    for _, due in groupby(planned, key=lambda each: each[1] % CONTROL):
        block = [each for each in due if not run.should_skip(*each)]
        for each in block:
            run.launch(*each)
        for cell, number in block if run.repeats else []:
            if not run.should_skip(cell, number + REPEAT):
                run.launch(cell, number + REPEAT)
