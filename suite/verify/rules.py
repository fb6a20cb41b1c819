"""The rules in their order, and the check of a file by all of them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from suite.record.bundle import BundleError, read
from suite.record.record import RecordError
from suite.record.text import clean
from suite.verify import conditions, evidence, journal
from suite.verify.rule import FAILED, NOT_REACHED, Answer, Problem, Rule, Submission, worst


def _read(_: Submission) -> Iterator[Problem]:
    """What is there to be judged has been read."""
    yield from ()


#: Numbers stay: a rule that goes leaves a gap.
RULES = (
    Rule(
        1,
        "container",
        "A stranger's file must not harm who reads it",
        "zip bombs, climbing paths, further files",
        _read,
    ),
    Rule(2, "schema", "A figure means what its field says", "fields, numbers and depths that no version writes", _read),
    Rule(3, "chain", "A journal only grows", "lines changed, left out, put in or moved", journal.chain),
    Rule(
        4,
        "complete",
        "Launches that are left out bias a mean",
        "launches dropped or repeated, cells left out",
        journal.complete,
    ),
    Rule(
        5, "order", "Drift cancels out in shuffled blocks alone", "launches in an order of one's choice", journal.order
    ),
    Rule(
        6,
        "stopping",
        "Stopping at a good moment is no result",
        "runs with a budget that ended early or late",
        journal.stopping,
    ),
    Rule(
        7,
        "one run",
        "Launches of two runs share no conditions",
        "another journal spliced in, times that overlap",
        journal.one_run,
    ),
    Rule(
        8, "copies", "No two processes take equal times", "a launch, or its evidence, copied or scaled", evidence.copies
    ),
    Rule(
        9, "evidence", "What is not proved is not ranked", "evidence missing, or of another cell", evidence.check_plan
    ),
    Rule(
        10, "same", "Only equal computations are compared", "a model, loader or optimizer that differs", evidence.same
    ),
    Rule(11, "ledger", "Steps, batches and seconds add up", "work left out, rates beyond the device", evidence.ledger),
    Rule(12, "clock", "Windows lie in the time that passed", "windows scaled, noise added to them", evidence.clock),
    Rule(13, "data", "Other data are another task", "synthetic data, another data set", conditions.data),
    Rule(14, "workload", "Another model is another task", "a smaller model under the same name", conditions.workload),
    Rule(15, "versions", "A result belongs to its versions", "versions edited or not known", conditions.versions),
    Rule(
        16,
        "protocol",
        "Noise and load look like differences",
        "few launches, short windows, a busy machine, its flags edited",
        conditions.protocol,
    ),
    Rule(
        17,
        "device",
        "A kind of device has its peak",
        "another device under this name, a forged peak",
        conditions.device,
    ),
)
CONTAINER, SCHEMA = RULES[:2]


def verify(path: Path) -> list[Answer]:
    """The answer of each rule on a file, in their order. Raises `OSError` if it cannot be read."""
    try:
        submission = Submission.of(read(path))
    except BundleError as error:
        return _stop_at(CONTAINER, str(error))
    except RecordError as error:
        return _stop_at(SCHEMA, str(error))
    return [_judge(rule, submission) for rule in RULES]


def _judge(rule: Rule, submission: Submission) -> Answer:
    try:
        return worst(rule, rule.check(submission))
    except Exception as error:  # what has no schema may hold anything, and must end no check of others
        return Answer(rule, FAILED, clean(f"it cannot be judged: {type(error).__name__}: {error}", 400))


def _stop_at(at: Rule, why: str) -> list[Answer]:
    """The answers where a file could not be read: the rules after this one were not reached."""
    before = [worst(rule, ()) for rule in RULES if rule.number < at.number]
    after = [Answer(rule, NOT_REACHED) for rule in RULES if rule.number > at.number]
    return [*before, Answer(at, FAILED, clean(why, 400), "bundle the run again with python -m suite.submit"), *after]


def refusal(answers: list[Answer]) -> str:
    """The rules that refuse a file, in words; empty if it is accepted."""
    failed = [answer for answer in answers if answer.kind == FAILED]
    return "; ".join(f"rule {each.rule.number} ({each.rule.name}): {each.why}" for each in failed)
