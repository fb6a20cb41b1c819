"""The rules in their order, and the check of a file by all of them."""

from __future__ import annotations

from pathlib import Path

from suite.record.bundle import BundleError, read
from suite.record.record import RecordError
from suite.record.text import clean
from suite.verify import conditions, evidence, journal, times
from suite.verify.rule import FAILED, NOT_REACHED, PASSED, Answer, Rule, Submission, judge

#: Each with its number, name, reason, what it stops, its check, and the fields of the run and of launches that it
#: needs. Numbers stay: a rule that goes leaves a gap.
RULES = (
    Rule(1, "container", "A stranger's file must not harm who reads it", "zip bombs, climbing paths, further files",
         lambda _: ()),
    Rule(2, "schema", "A figure means what its field says", "fields, numbers and depths that no version writes",
         lambda _: ()),
    Rule(3, "chain", "A journal only grows", "lines changed, left out, put in or moved", journal.chain,
         launches="run.before"),
    Rule(4, "complete", "Launches that are left out bias a mean",
         "launches dropped, measured twice or tried again too often, cells left out, searches", journal.complete,
         "cells launches planned design repeats typed", "run.launches run.position run.resumed run.repeats run.took_s"),
    Rule(5, "order", "Drift cancels out in shuffled blocks alone", "launches in an order of one's choice",
         journal.order, "seed typed design", "run.position"),
    Rule(6, "stopping", "Stopping at a good moment is no result", "runs with a budget that ended early or late, "
         "or without a control", journal.stopping, "design budget_s typed", "run.design run.took_s run.warming_s"),
    Rule(7, "one run", "Launches of two runs share no conditions",
         "another journal spliced in, times that overlap or that no clock showed", times.one_run,
         "id started seed plan", "started run.id run.suite run.seed run.plan run.took_s run.host run.resumed "
         "run.warming_s run.searching_s"),
    Rule(8, "copies", "No two processes take equal times", "a launch, or its evidence, copied or scaled",
         evidence.copies, launches="run.seed"),
    Rule(9, "evidence", "What is not proved is not ranked", "evidence missing, or of another cell",
         evidence.check_plan, "started", "identity.program ledger settings.applied"),
    Rule(10, "same", "Only equal computations are compared", "a model, loader or optimizer that differs",
         evidence.same),
    Rule(11, "ledger", "Steps, batches and seconds add up", "work left out, rates beyond the device", evidence.ledger,
         launches="ledger run.plan settings.peak_flops_per_s workload.training_flops_per_sample"),
    Rule(12, "clock", "Windows lie in the time that passed", "windows scaled, noise added to them", evidence.clock,
         launches="phases.train.spans ledger"),
    Rule(13, "data", "Other data are another task", "synthetic data, another data set", conditions.data,
         launches="data.kind data.name data.digest"),
    Rule(14, "workload", "Another model is another task", "a smaller model under the same name", conditions.workload,
         launches="workload.digest workload.parameters workload.flops_per_sample workload.training_flops_per_sample"),
    Rule(15, "versions", "A result belongs to its versions", "versions edited, not known, or of another release",
         conditions.versions, launches="environment.packages environment.digest settings.device"),
    Rule(16, "protocol", "Noise and load look like differences",
         "few launches, short windows, a busy machine, its flags edited", conditions.protocol,
         "launches plan design background",
         "environment.machine metrics.host.cores metrics.host.disturbance run.launches run.plan settings.device"),
    Rule(17, "device", "A kind of device has its peak", "another device under this name, a forged peak",
         conditions.device, launches="environment.machine settings.device settings.peak_flops_per_s run.host"),
)  # fmt: skip
CONTAINER, SCHEMA = RULES[:2]


def verify(path: Path) -> list[Answer]:
    """The answer of each rule on a file, in their order. Raises `OSError` if it cannot be read."""
    try:
        submission = Submission.of(read(path))
    except BundleError as error:
        return _stop_at(CONTAINER, str(error))
    except RecordError as error:
        return _stop_at(SCHEMA, str(error))
    return [judge(rule, submission) for rule in RULES]


def _stop_at(at: Rule, why: str) -> list[Answer]:
    """The answers where a file could not be read: the rules after this one were not reached."""
    kinds = {True: PASSED, False: NOT_REACHED}
    answers = [Answer(rule, kinds[rule.number < at.number]) for rule in RULES]
    answers[at.number - 1] = Answer(at, FAILED, clean(why, 400), "bundle the run again with training-suite submit")
    return answers


def refusal(answers: list[Answer]) -> str:
    """The rules that refuse a file, in words; empty if it is accepted."""
    failed = [answer for answer in answers if answer.kind == FAILED]
    return "; ".join(f"rule {each.rule.number} ({each.rule.name}): {each.why}" for each in failed)
