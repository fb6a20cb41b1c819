"""The run of a script's variants: a look at what it does, then blocks of launches by the rules of every run."""

from __future__ import annotations

import re
import sys
import time
from argparse import Namespace
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby
from pathlib import Path
from typing import Any

from framework_training_suite import CommandError
from suite.compare.__main__ import main as compare
from suite.monitor.background import settle
from suite.monitor.sampler import Monitor
from suite.plan.blocks import blocks
from suite.plan.cell import AUTO, Cell
from suite.plan.measuring import CONTROL, LAST_LOOK, LEAST_TESTED, REPEAT, Plan
from suite.record.job import HostRanks, Job
from suite.record.record import Record
from suite.record.text import clean
from suite.script.launch import Watching, launch_script
from suite.script.variants import AS_IT_IS, ScriptError, Variant, read_variants, switches, workload_of
from suite.session.launches.launcher import Host, Launcher
from suite.session.launches.machine import LaunchCallbacks, Machine
from suite.session.launches.settings import Settings
from suite.session.outlook import Cost, Costs, Due, kind_of
from suite.session.run import Run
from suite.session.storage import save_run
from suite.session.terminal import CommandTerminal, count_launches, duration

#: Launches of each variant where there is nothing to decide, or no budget.
LAUNCHES_OF_ONE = 4


@dataclass
class ScriptMachine(Machine):
    """This machine, where launches are those of a script's variants, by their names."""

    variants: dict[str, Variant] = field(default_factory=dict)
    watching: Watching = field(default_factory=Watching)

    def folder(self, workload: str) -> Path:
        """Nothing: a script has its own data."""
        return Path()

    def launch(
        self, job: Job, log: Path, deadline_s: float, callbacks: LaunchCallbacks, part: HostRanks | None = None
    ) -> Record:
        """Run one launch of the variant that the cell names."""

        def monitor(pid: int, spawned_s: float) -> Monitor:
            return Monitor(pid, spawned_s, self._gpus, self._idle, self._missing)

        return launch_script(self.variants[job.cell.variant], self.watching, job, log, deadline_s, callbacks, monitor)


class ScriptLauncher(Launcher):
    """Launches a variant as it is: nothing is searched for, and nothing proved."""

    def launch(self, cell: Cell, number: int, counter: str, position: int) -> tuple[Record, float]:
        job = self._job(cell, number, self.settings.plan.of_launch(number, self.whole_blocks))
        record = self._start(job, counter, self._checkpoint(cell, number).with_suffix(".log"))
        return self.add_run(record, position), 0.0


@dataclass
class ScriptRun(Run):
    """A run whose host is a `ScriptMachine`."""

    variants: dict[str, Variant] = field(default_factory=dict)
    watching: Watching = field(default_factory=Watching)

    def _open_host(self, cells: Sequence[Cell]) -> Host:
        own = self.settings
        return ScriptMachine(own.device, "", None, self.say, self._open, variants=self.variants, watching=self.watching)

    def _make_launcher(self, host: Host) -> Launcher:
        return ScriptLauncher(self.settings, self.info, host, self.say, self.show, self.observers.tell, self._fits)


@dataclass(frozen=True)
class ScriptCosts(Costs):
    """What one launch took, as the guess for all."""

    def launch_s(self, cell: Cell, plan: Plan, whole: bool) -> float | None:
        return self.took_s


def measure(options: Namespace) -> int:
    """Look at the script, measure its variants, save the run and compare them; returns the exit status."""
    variants = read_variants(options)
    terminal = CommandTerminal()
    watching = Watching(
        re.compile(options.pattern) if options.pattern else None, options.to_the_end,
        sys.stderr if options.verbose else None, options.in_copy,
    )  # fmt: skip
    settle(options.wait_idle, terminal.say, terminal.show)
    terminal.say(
        "the script is started several times, each time anew, and ended (SIGTERM) when enough steps are measured"
        + ("" if not options.to_the_end else ", but for this: it runs to its end")
        + "; what it writes, it writes again: {launch} in an argument, or $SUITE_LAUNCH, is the number of the launch"
    )
    plan = Plan(options.min_window, options.windows, options.max_warmup)
    looked, took_s = _look(options, variants[0], watching, plan, terminal)
    framework = _framework(options, looked)
    if options.tried:
        device = str(looked.settings.get("device"))
        variants = switches(options.tried, framework, device, replace(variants[0], name=AS_IT_IS))
    budget_s = options.budget if len(variants) > 1 and not options.launches else None
    launches = options.launches or (LAST_LOOK if budget_s else LAUNCHES_OF_ONE)
    cells = [_cell(options, framework, each) for each in variants]
    settings = _settings(options, plan, launches, budget_s, variants)
    planned = blocks(cells, launches, options.seed)
    by_name = {each.name: each for each in variants}
    run = ScriptRun(
        settings, list(planned), terminal.say, terminal.show, repeats=True, variants=by_name, watching=watching
    )
    status, problem = 0, ""
    try:
        run.prepare(ScriptCosts({kind_of(cells[0]): Cost(cells[0], took_s, 0.0)}, took_s))
        _launch_all(run, planned)
    except KeyboardInterrupt:
        status, problem = 130, "interrupted"
    except (CommandError, OSError) as error:
        status, problem = 2, clean(error, 1000)
    finally:
        terminal.show("")
        run.close()
    if problem:
        print(f"suite.script: {problem}; {count_launches(run.done)} kept", file=sys.stderr)
    if not run.records:
        return status or 1
    path = save_run(run, options.storage, workload_of(options.command))
    compared = compare([str(path), "--by", "variant", *(["--verbose"] if options.verbose else [])])
    return status or compared or int(not any(record.outcome.ok for record in run.records))


def _launch_all(run: Run, planned: Sequence[Due]) -> None:
    for _, due in groupby(planned, key=lambda each: each[1] % CONTROL):
        block = [each for each in due if not run.should_skip(*each)]
        for each in block:
            run.launch(*each)
        for cell, number in block if run.repeats else []:
            if not run.should_skip(cell, number + REPEAT):
                run.launch(cell, number + REPEAT)


def _look(
    options: Namespace, variant: Variant, watching: Watching, plan: Plan, terminal: CommandTerminal
) -> tuple[Record, float]:
    """Launch the script once, to see what it is and to read its files; the record, which is not kept. Raises."""
    terminal.say("looking at what it does, which also reads its files from the disk; nothing of it is recorded")
    from contextlib import ExitStack

    begin_s = time.monotonic()
    with ExitStack() as until:
        host = ScriptMachine("auto", "", None, terminal.say, until, variants={variant.name: variant}, watching=watching)
        job = Job(_cell(options, "pytorch", variant), "", plan=replace(plan, phases=("train",)))
        log = options.journals / "script.log"
        show = LaunchCallbacks(lambda told: terminal.show(f"looking: {told['progress']}"))
        record = host.launch(job, log, options.max_time, show)
    terminal.show("")
    took_s = time.monotonic() - begin_s
    if not record.outcome.ok:
        raise ScriptError(f"{record.outcome.reason}; what it printed is in {log}")
    seen, unit = record.settings["seen_by"], record.settings["unit"]
    terminal.say(
        f"seen by: {seen}; {record.samples_per_s:,.1f} {unit}/s on {record.settings['device']}, in {duration(took_s)}"
    )
    return record, took_s


def _framework(options: Namespace, looked: Record) -> str:
    told = [name for name in ("tensorflow", "jax", "torch") if name in looked.environment["packages"]]
    names = {"torch": "pytorch"}
    if options.framework or told:
        return str(options.framework or names.get(told[-1], told[-1]))
    raise ScriptError("no framework was seen in it; name one with --framework")


def _cell(options: Namespace, framework: str, variant: Variant) -> Cell:
    return Cell(workload_of(options.command), framework, batch=AUTO, variant=variant.name, tuning="installed")


def _settings(
    options: Namespace, plan: Plan, launches: int, budget_s: float | None, variants: Sequence[Variant]
) -> Settings:
    typed: dict[str, Any] = {"variants": [each.name for each in variants]}
    return Settings(
        "script", launches, plan, options.seed, "own", journals=options.journals, deadline_s=options.max_time,
        resume=options.resume, budget_s=budget_s, typed=typed,
    )  # fmt: skip


__all__ = ("LEAST_TESTED", "measure")
