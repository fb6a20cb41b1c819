"""The run of a script's variants: a look at what it does, then blocks of launches by the rules of every run."""

from __future__ import annotations

import re
import sys
import time
from argparse import Namespace
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path

from framework_training_suite import CommandError
from suite.catalog.frameworks import FRAMEWORKS
from suite.catalog.phases import TRAIN
from suite.compare.__main__ import main as compare
from suite.monitor.background import settle
from suite.monitor.sampler import Monitor
from suite.plan.blocks import blocks
from suite.plan.cell import AUTO, Cell
from suite.plan.command.common import LATEST
from suite.plan.measuring import FIRST_LOOK, LAST_LOOK, Plan
from suite.record.job import HostRanks, Job
from suite.record.record import Record
from suite.record.text import clean
from suite.script.answer import answers, find_faster
from suite.script.launch import ScriptLaunch, Watching
from suite.script.variants import (
    AS_IT_IS,
    ScriptError,
    Variant,
    digest_of,
    read_variants,
    switches,
    together,
    workload_of,
)
from suite.session.journal import JournalError
from suite.session.launches.launcher import Host, Launcher
from suite.session.launches.machine import LaunchCallbacks, Machine
from suite.session.launches.settings import Settings
from suite.session.opening import launch_blocks
from suite.session.outlook import Cost, Costs, Due, kind_of
from suite.session.run import Run
from suite.session.stopping import spent_s
from suite.session.storage import save_run
from suite.session.terminal import CommandTerminal, count_launches, duration

#: Launches of each variant where there is nothing to decide.
LAUNCHES_OF_ONE = 4
#: The share of the budget that the switches leave for the best of them together.
TOGETHER = 0.2
INTERRUPTED = "interrupted"

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
        checkpoint = self._checkpoint(cell, number)
        job = self._job(cell, number, self.settings.plan.of_launch(number, self.whole_blocks))
        record = self._start(self._with_profile(job, checkpoint), counter, checkpoint.with_suffix(".log"))
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
    """Look at the script, measure its variants, save and compare them; then the best switches together.

    Returns the exit status.
    """
    session = Session(options, read_variants(options))
    session.look()
    status, path = session.measure()
    faster = [row.cell.variant for row, _ in find_faster(path)] if path and options.tried and not status else []
    if len(faster) > 1 and session.has_time(faster):
        status, _ = session.measure()
    return status


def _compile(option: str, text: str | None) -> re.Pattern[str] | None:
    try:
        return re.compile(text) if text else None
    except re.error as error:
        raise ScriptError(f"{option}: {clean(text)!r} is no regular expression: {error}") from None


@dataclass
class Session:
    """The launches of a script's variants by the options of the command; ``spent_s`` of its budget are gone."""

    options: Namespace
    variants: list[Variant]
    terminal: CommandTerminal = field(default_factory=CommandTerminal)
    framework: str = ""
    took_s: float = 0.0  # the look at the script
    spent_s: float = 0.0

    def __post_init__(self) -> None:
        options = self.options
        pattern, loss = _compile("--pattern", options.pattern), _compile("--loss", options.loss)
        if loss and not loss.groups:
            raise ScriptError("--loss: put the number in brackets: 'loss[ =:]+([-+.0-9e]+)'")
        echo = sys.stderr if options.verbose else None
        self.watching = Watching(pattern, loss, options.to_the_end, echo, options.in_copy)
        self.plan = Plan(options.min_window, options.windows, options.max_warmup)

    def look(self) -> None:
        """Launch the script once, which tells its framework; from that the switches of ``--try`` follow.

        Raises `ScriptError` where it does not train.
        """
        say, show, options = self.terminal.say, self.terminal.show, self.options
        settle(options.wait_idle, say, show)
        say(
            STARTS.format("runs to its end" if options.to_the_end else "ended (SIGTERM) when enough steps are measured")
        )
        say("looking at what it does, which also reads its files from the disk; nothing of it is recorded")
        first, begin_s = self.variants[0], time.monotonic()
        job = Job(self._cell(first, "pytorch"), "", plan=replace(self.plan, phases=(TRAIN,)))
        log = options.journals / "script.log"
        with ExitStack() as until:
            told = LaunchCallbacks(lambda message: show(f"looking: {message['progress']}"))
            record = self._machine(until).launch(job, log, options.max_time, told)
        show("")
        if not record.outcome.ok:
            raise ScriptError(f"{record.outcome.reason}; what it printed is in {log}")
        seen = [record.settings["backend"]] if record.settings["backend"] else record.environment["packages"]
        named = [name for name, each in FRAMEWORKS.items() if each.package in seen]
        if not (options.framework or named):
            raise ScriptError("no framework was seen in it; name one with --framework")
        self.framework, self.took_s = options.framework or named[0], time.monotonic() - begin_s
        device, rate = str(record.settings["device"]), record.samples_per_s or 0.0
        say(f"seen by: {record.settings['seen_by']}; {rate:,.3g} {record.settings['unit']}/s on {device}")
        if options.tried:
            first, ranks = replace(first, name=AS_IT_IS), int(record.settings["ranks"])
            self.variants = switches(options.tried, self.framework, device, first, ranks)

    def measure(self) -> tuple[int, Path | None]:
        """Launch until all is decided, save, compare and print; the exit status, and what was saved."""
        run, problem = self._run()
        if problem:
            self.terminal.say(f"suite.script: {problem}; {count_launches(run.done)} kept in {run.journal.path}")
        status = 130 if problem == INTERRUPTED else 2
        if not run.records:
            return status if problem else 1, None
        path = save_run(run, self.options.storage, workload_of(self.options.command))
        compared = compare([str(path), "--by", "variant", *(["--verbose"] if self.options.verbose else [])])
        sys.stdout.writelines(f"{line}\n" for line in answers(path, {each.name: each for each in self.variants}))
        sys.stdout.flush()
        failed = int(not any(record.outcome.ok for record in run.records))
        return status if problem else compared or failed, path

    def has_time(self, faster: Sequence[str]) -> bool:
        """Make the script as it is and all of these switches together the variants, if the budget has time for them."""
        by_name, budget_s = {each.name: each for each in self.variants}, self.options.budget - self.spent_s
        joined = together([by_name[name] for name in faster])
        if joined.name in by_name:
            self.terminal.say(f"not tested together: {', '.join(faster)}: they set the same otherwise")
            return False
        self.variants = [self.variants[0], joined]
        self.options.budget, least_s = budget_s, len(self.variants) * FIRST_LOOK * self.took_s
        if not self.options.launches and budget_s < least_s:
            words = f"takes {duration(least_s)} or more, and {duration(max(0.0, budget_s))} of the budget are left"
            self.terminal.say(f"not tested together: {', '.join(faster)}: that {words}; give a longer --budget")
            return False
        self.terminal.say(f"now together: {self.variants[1].name}")
        return True

    def _run(self) -> tuple[Run, str]:
        cells = [self._cell(each, self.framework) for each in self.variants]
        settings = self._settings()
        planned = blocks(cells, settings.launches, self.options.seed)
        run = self._open(settings, planned)
        try:
            run.prepare(ScriptCosts({kind_of(cells[0]): Cost(cells[0], self.took_s, 0.0)}, self.took_s))
            launch_blocks(run, planned)
        except KeyboardInterrupt:
            return run, INTERRUPTED
        except (CommandError, OSError) as error:
            return run, clean(error, 1000)
        finally:
            self.terminal.show("")
            run.close()
            self.spent_s += spent_s(run.records)
        return run, ""

    def _open(self, settings: Settings, planned: Sequence[Due]) -> ScriptRun:
        say, show = self.terminal.say, self.terminal.show
        try:
            return ScriptRun(settings, [*planned], say, show, repeats=True, machine=self._machine)
        except JournalError:
            if not settings.resume or not self.spent_s:
                raise
            return self._open(replace(settings, resume=None), planned)  # what follows a resumed run may not have begun

    def _machine(self, until: ExitStack) -> Machine:
        variants = {each.name: each for each in self.variants}
        return ScriptMachine("auto", "", None, self.terminal.say, until, variants=variants, watching=self.watching)

    def _cell(self, variant: Variant, framework: str) -> Cell:
        return Cell(workload_of(self.options.command), framework, batch=AUTO, variant=variant.name)

    def _settings(self) -> Settings:
        options, several = self.options, len(self.variants) > 1
        share = 1 - TOGETHER if options.tried and not self.spent_s else 1.0
        budget_s = share * options.budget if several and not options.launches else None
        launches = options.launches or (LAST_LOOK if budget_s else LAUNCHES_OF_ONE)
        return Settings(
            "script", launches, self.plan, options.seed, "own", journals=options.journals,
            resume=LATEST if options.resume and self.spent_s else options.resume,
            deadline_s=options.max_time, budget_s=budget_s, typed={"variants": [each.name for each in self.variants]},
            commands=digest_of(self.variants), profile=options.profile,
        )  # fmt: skip
