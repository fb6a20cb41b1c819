"""Rules on the journal: nothing left out, moved, changed, put in or measured twice."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from datetime import datetime
from itertools import accumulate, groupby, pairwise, zip_longest
from operator import itemgetter

from suite.plan.blocks import framework_of_control
from suite.plan.cell import Cell
from suite.plan.measuring import CONTROL, FIRST_LOOK, LAST_LOOK, REPEAT, SEQUENTIAL
from suite.record.record import Record
from suite.record.retry import may_pass
from suite.session.planning.repeats import REPEATS, Done, is_due
from suite.session.planning.stopping import is_spent
from suite.session.resume import cells_digest
from suite.verify.rule import FAILED, WARNING, Problem, Submission

#: A launch may begin so many seconds before the one before has ended by its rounded times.
ROUNDING_S = 2.0
#: Clocks are set while a machine runs.
SET_S = 5.0

AGAIN = "bundle the run again from its own journal, unchanged"


def chain(run: Submission) -> Iterator[Problem]:
    """Each line names the digest of the line before."""
    named = [before for before, _ in run.links[1:]]
    if not any(named):
        yield Problem(WARNING, "its launches have no digests of the lines before: it has no journal, or an older one",
                      "measure again with this version")  # fmt: skip
        return
    for number, ((_, own), expected) in enumerate(zip(run.links, named, strict=False), 1):
        if expected is not None and expected != own:
            yield Problem(FAILED, f"line {number} is not what line {number + 1} says came before it", AGAIN)
    first = next(at for at, value in enumerate(named) if value)
    if any(value is None for value in named[first:]):
        yield Problem(FAILED, "a line has no digest of the line before, and earlier ones have", AGAIN)


def complete(run: Submission) -> Iterator[Problem]:
    """Every launch that was planned is there, none twice, and again only those that were disturbed."""
    yield from _check_repeats(run)
    info, launches = run.run, run.launches
    counts = Counter(record.key for record in run.ended if not may_pass(record.outcome))
    for key, count in counts.items():
        if count > 1:
            yield Problem(FAILED, f"{key} was measured {count} times", AGAIN)
    cells = list(dict.fromkeys(record.cell for record in launches.values()))
    if (recorded := info.get("cells")) and recorded != cells_digest(cells):
        yield Problem(FAILED, f"its {len(cells)} cells are not all cells of the run", "bundle the whole run")
    if info.get("search") or info.get("design") == SEQUENTIAL:
        return
    asked = info.get("launches")
    if type(asked) is not int or not 0 < asked < CONTROL:
        yield Problem(FAILED, "its run does not say how many launches were asked for", AGAIN)
        return
    there: dict[Cell, set[int]] = {}
    for record in launches.values():
        there.setdefault(record.cell, set()).add(record.launch)
    controls = dict.fromkeys(record.cell for record in launches.values() if record.control)
    due = [*((cell, range(asked)) for cell in cells), *((cell, range(CONTROL, CONTROL + asked)) for cell in controls)]
    missing = sum(asked - sum(number in numbers for number in there[cell]) for cell, numbers in due)
    if missing:
        first = next(f"{cell.id}#{number}" for cell, numbers in due for number in numbers if number not in there[cell])
        yield Problem(FAILED, f"{missing} of {asked * len(due)} launches are missing, the first {first}",
                      "finish the run with --resume")  # fmt: skip
    if type(planned := info.get("planned")) is int and not missing and len(launches) < planned:
        yield Problem(FAILED, f"{planned} launches were planned, and {len(launches)} are there", "bundle the whole run")
    if extra := [record.key for record in launches.values() if record.block >= asked]:
        yield Problem(FAILED, f"{extra[0]} is beyond the {asked} launches that were asked for", AGAIN)


def _check_repeats(run: Submission) -> Iterator[Problem]:
    """A launch that takes the place of another is due by what the other's readings say, and every due one is there."""
    ranked = sorted(run.launches.values(), key=lambda record: (record.block, record.is_repeat, record.launch))
    if (repeat := next((r for r in ranked if r.is_repeat), None)) and not run.run.get(REPEATS):
        yield Problem(FAILED, f"{repeat.key} takes the place of another, and the run does not do that", AGAIN)
        return
    blocks = [(block, list(found)) for block, found in groupby(ranked, key=lambda record: record.block)]
    resumed = [min(record.resumed for record in found) for _, found in blocks]  # of the launches of each block
    later = [*accumulate(reversed(resumed), min)][::-1][1:]  # of those after it
    budget_s, done, last = _budget_s(run), Done(), -1
    for (_, found), resumed_later in zip_longest(blocks, later):
        expected = [record for record in found if not record.is_repeat]
        repeats = {record.key: record for record in found if record.is_repeat}
        done.add(*expected)
        last = max(last, *map(_position, expected), -1)
        for original in sorted(expected, key=_position):
            if resumed_later is not None and original.resumed > resumed_later:
                continue  # it was tried again after later blocks had run
            again = repeats.pop(f"{original.cell.id}#{REPEAT + original.launch}", None)
            paid_s = None if resumed_later is not None or (again and again.resumed) else budget_s  # else it went on
            due = bool(run.run.get(REPEATS)) and is_due(original, done, paid_s)
            if due != bool(again):
                why = "was disturbed and is not measured again" if due else "is measured again and need not be"
                yield Problem(FAILED, f"{original.key} {why}", AGAIN)
            elif again and _position(again) < last:
                yield Problem(FAILED, f"{again.key} ran before the end of its block", AGAIN)
            if again:
                done.add(again)
                last = max(last, _position(again))
        done.add(*repeats.values())
        last = max(last, *map(_position, repeats.values()), -1)


def _position(record: Record) -> int:
    position = record.run.get("position")
    return position if type(position) is int else -1


def order(run: Submission) -> Iterator[Problem]:
    """Launches run in blocks, each shuffled as the seed says."""
    info, launches = run.run, run.launches
    if info.get("search"):
        return
    positions = {record.key: record.run.get("position") for record in launches.values()}
    places = [value for value in positions.values() if type(value) is int]
    if len(places) < len(positions):
        yield Problem(FAILED, "a launch does not say its position in the run", AGAIN)
        return
    if sorted(places) != list(range(len(places))):
        yield Problem(FAILED, "positions of its launches are missing, or taken twice", "bundle the whole run")
    ranked = sorted(launches.values(), key=lambda record: record.run["position"])
    if any(record.block > after.block for record, after in pairwise(ranked)):
        yield Problem(FAILED, "a launch of a later block ran before one of an earlier block", AGAIN)
        return
    blocks: dict[int, list[tuple[Cell, int]]] = {}
    for record in ranked:
        if not record.is_repeat:
            blocks.setdefault(record.block, []).append((record.cell, record.launch // CONTROL))
    if (info.get("typed") or {}).get("k"):
        yield Problem(
            WARNING, "cells were chosen with -k, so the order that the seed gives is not known", "leave out -k"
        )
    elif info.get("design") != SEQUENTIAL and len({len(block) for block in blocks.values()}) > 1:
        return  # which rule `complete` tells
    elif info.get("design") == SEQUENTIAL and len(blocks) > LAST_LOOK:
        return  # which rule `stopping` tells
    elif wrong := _why_unshuffled(blocks, info.get("seed", 0)):
        told = "typed" in info  # older runs do not say whether cells were chosen with -k
        yield Problem(FAILED if told else WARNING, wrong, AGAIN if told else "measure again with this version")


def _why_unshuffled(blocks: dict[int, list[tuple[Cell, int]]], seed: object) -> str:
    """Why the blocks cannot be shuffles of one list by this seed, in words; empty if they are.

    The list is what the first block becomes when its shuffle is undone: the control's cells come last in it.
    """
    first, shuffled = min(blocks), blocks[min(blocks)]
    numbers = list(range(len(shuffled)))
    random.Random(f"{seed}/{first}").shuffle(numbers)  # noqa: S311 - an order, not a secret
    planned = [each for _, each in sorted(zip(numbers, shuffled, strict=True), key=itemgetter(0))]
    cells = [cell for cell, copy in planned if not copy]
    controls = [cell for cell, copy in planned if copy]
    twice = framework_of_control(cells)
    if planned[: len(cells)] != [(cell, 0) for cell in cells] or (
        controls and controls != [cell for cell in cells if cell.framework == twice]
    ):
        return f"the order of block {first} is not one that seed {seed} gives"
    for block, ran in blocks.items():
        expected = list(planned)
        random.Random(f"{seed}/{block}").shuffle(expected)  # noqa: S311
        there = set(ran)
        if [each for each in expected if each in there] != ran:
            return f"the order of block {block} is not the one that seed {seed} gives"
    return ""


def stopping(run: Submission) -> Iterator[Problem]:
    """A run with a budget stopped when its own rule says, computed again from its launches."""
    if run.run.get("design") != SEQUENTIAL:
        return
    from suite.analysis.statistics.multiple_testing import standing  # SciPy, which no other run needs

    budget_s = _budget_s(run)
    records = sorted(run.launches.values(), key=lambda record: record.block)
    last = max(record.block for record in records)
    every = {record.cell for record in records}
    if last >= LAST_LOOK:
        yield Problem(FAILED, f"it has a block {last}, and {LAST_LOOK} are the most", AGAIN)
        return
    for block in range(last + 2):
        before = [record for record in records if record.block < block]
        ran = {record.cell for record in records if record.block == block}
        due = set(standing(before).cells) if block >= FIRST_LOOK else every
        if block <= last and ran != due:
            yield Problem(FAILED, f"block {block} has {len(ran)} cells, and {len(due)} were undecided before it", AGAIN)
        elif block > last and due and block < LAST_LOOK and not (budget_s and is_spent(budget_s, before, due)):
            mend = "continue the run with --resume and a larger --budget"
            yield Problem(
                FAILED if budget_s else WARNING, f"it ended with {len(due)} cells that need more launches", mend
            )


def _budget_s(run: Submission) -> float | None:
    budget_s = run.run.get("budget_s")
    return float(budget_s) if isinstance(budget_s, (int, float)) else None


def _plan(record: Record) -> object:
    """How long a launch measures; its phases depend on its block."""
    plan = record.run.get("plan")
    return {name: value for name, value in plan.items() if name != "phases"} if isinstance(plan, dict) else plan


def one_run(run: Submission) -> Iterator[Problem]:
    """All launches are of one run, one after the other in time."""
    first, *others = run.ended
    for name in ("id", "suite", "plan"):
        found = _plan if name == "plan" else lambda record, name=name: record.run.get(name)
        if odd := next((each for each in others if found(each) != found(first)), None):
            mend = AGAIN if name == "id" else "measure all launches with one version and one plan"
            yield Problem(FAILED, f"{odd.key} has another {name} of the run than {first.key}", mend)
    if first.run.get("id") not in (run.run.get("id"), None) or run.header.get("id") not in (run.run.get("id"), None):
        yield Problem(FAILED, "its launches are not of the run that it describes", AGAIN)
    for name in ("id", "started", "seed", "plan", "matrix", "design", "budget_s", REPEATS, "cells", "search", "typed"):
        if run.header.get(name) != run.run.get(name):
            yield Problem(FAILED, f"its journal and its run do not agree on {name}", AGAIN)
    if (least := run.header.get("launches")) and (run.run.get("launches") or 0) < least:
        yield Problem(FAILED, f"its journal was begun with {least} launches of each cell", AGAIN)
    if odd := next((record for record in run.ended if _seconds(record) is None), None):
        yield Problem(FAILED, f"{odd.key} does not say when it started", AGAIN)
        return
    for before, after in _pairs(run):
        begins_s = [_seconds(record) for record in (before, after)]
        if any(record.run.get("searching_s") for record in (before, after)):
            continue
        passed_s = float(begins_s[1] or 0.0) - float(begins_s[0] or 0.0)
        if passed_s < -SET_S:
            yield Problem(FAILED, f"{after.key} started before {before.key}, which ended before it", AGAIN)
        elif passed_s + ROUNDING_S + SET_S < _find_end_s(before):
            yield Problem(FAILED, f"{before.key} measured for {_find_end_s(before):.0f} s, and the next launch started "
                          f"{passed_s:.0f} s after it", AGAIN)  # fmt: skip


def _pairs(run: Submission) -> Iterator[tuple[Record, Record]]:
    """Launches one after the other on each host: hosts run their blocks side by side."""
    by_host: dict[str, list[Record]] = {}
    for record in run.ended:
        by_host.setdefault(record.host, []).append(record)
    for launches in by_host.values():
        yield from pairwise(launches)


def _seconds(record: Record) -> float | None:
    try:
        return datetime.fromisoformat(record.started).timestamp()
    except ValueError:
        return None


def _find_end_s(record: Record) -> float:
    """Until when, after its start, a launch had windows."""
    return max((end for phase in record.phases.values() for _, end in phase.spans), default=0.0)
