"""Rules on the journal: nothing left out, moved, changed, put in, or measured twice."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import accumulate, groupby, pairwise, zip_longest
from operator import itemgetter
from typing import TypeVar

from suite.plan.blocks import framework_of_control
from suite.plan.cell import Cell
from suite.plan.measuring import CONTROL, FIRST_LOOK, LAST_LOOK, REPEAT, REPEATS, SEQUENTIAL
from suite.record.record import Record
from suite.record.retry import MAY_PASS, find_retries, may_pass
from suite.session.resume import cells_digest
from suite.session.stopping import Done, has_control, is_due, is_repeatable, is_spent
from suite.verify.rule import AGAIN, FAILED, WARNING, Problem, Submission

Item = TypeVar("Item")

#: The tries that failed and were made again, over all launches, at most.
TRIES_MOST = 1 / 3
#: A try that had not begun, since its framework could not be imported, took at most this share of the next one's time.
SOON = 0.5
#: A launch of a run takes so many times as long as any other at most, where none starts after it.
TAKES_MOST = 2.0


def chain(run: Submission) -> Iterator[Problem]:
    """Each line names the digest of the line before."""
    if not run.links[1][0]:
        yield Problem(WARNING, "its launches have no digests of the lines before: it has no journal, or an older one",
                      "measure again with this version")  # fmt: skip
        return
    for number, ((_, own), (named, _)) in enumerate(pairwise(run.links), 1):
        if named != own:
            yield Problem(FAILED, f"line {number} is not what line {number + 1} says came before it", AGAIN)


def complete(run: Submission) -> Iterator[Problem]:
    """Every launch that was planned is there, none twice, and again only those that were disturbed or failed."""
    info, launches = run.run, run.launches
    if "search" in info or "search" in run.header:
        yield Problem(FAILED, "a search chose its launches as it went, so that none can be missed",
                      "measure its best cells with training-suite run")  # fmt: skip
        return
    yield from _check_tries(run)
    yield from _check_asked(run)
    yield from _check_repeats(run)
    cells = list(dict.fromkeys(record.cell for record in launches.values()))
    if info["cells"] != cells_digest(cells):
        yield Problem(FAILED, f"its {len(cells)} cells are not all cells of the run", "bundle the whole run")
    if info.get("design") == SEQUENTIAL:
        return
    asked = info["launches"]
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
    elif len(launches) < info["planned"]:
        yield Problem(FAILED, f"{info['planned']} launches were planned, and {len(launches)} are there",
                      "bundle the whole run")  # fmt: skip
    if extra := [record.key for record in launches.values() if record.block >= asked]:
        yield Problem(FAILED, f"{extra[0]} is beyond the {asked} launches that were asked for", AGAIN)


def _check_tries(run: Submission) -> Iterator[Problem]:
    """A launch is made again only after it failed, in a later session; and not too many are."""
    failed: Counter[str] = Counter()
    for before, after in find_retries(run.ended):
        if not may_pass(before.outcome):
            yield Problem(FAILED, f"{after.key} was measured again, though it had not failed", AGAIN)
        elif after.resumed <= before.resumed or after.started <= before.started:
            yield Problem(FAILED, f"{after.key} was tried again, and the run had not been resumed", AGAIN)
        elif before.outcome.status in MAY_PASS or before.run["took_s"] > SOON * after.run["took_s"]:
            failed[before.cell.id] += 1
    if count := failed.total():
        ((cell, most),) = failed.most_common(1)
        kind = FAILED if count > TRIES_MOST * len(run.launches) else WARNING
        yield Problem(kind, f"{count} launches failed and were tried again, {most} of them of {cell}",
                      "measure again, where none fails")  # fmt: skip


def _check_asked(run: Submission) -> Iterator[Problem]:
    """As many launches were asked for as the run says, when it was begun and in the end, and never fewer."""
    sessions: dict[int, set[int]] = {}
    for record in run.ended:
        sessions.setdefault(record.resumed, set()).add(record.run.get("launches", run.run["launches"]))
    asked = [number for session in sorted(sessions) for number in sessions[session]]
    begun = [run.header["launches"]] if 0 in sessions and "launches" in run.ended[0].run else asked[:1]
    if (
        asked[:1] != begun
        or len(asked) > len(sessions)
        or asked != sorted(asked)
        or not (run.header["launches"] <= asked[-1] <= run.run["launches"])
    ):
        yield Problem(FAILED, "its launches and its run do not agree on how many were asked for", AGAIN)


def _check_repeats(run: Submission) -> Iterator[Problem]:
    """A launch that takes the place of another is due by what the other's readings say, and every due one is there."""
    sessions = {(record.resumed, bool(record.run.get(REPEATS))) for record in run.ended}
    if len(sessions) > len({session for session, _ in sessions}):
        yield Problem(FAILED, "launches of one session do not agree on whether disturbed ones are made again", AGAIN)
    ranked = sorted(run.launches.values(), key=lambda record: (record.block, record.is_repeat, record.launch))
    expected = [record for record in ranked if not record.is_repeat]
    places = {(record.cell, REPEAT + record.launch) for record in expected if is_repeatable(record, _repeats(run))}
    if odd := next((r for r in ranked if r.is_repeat and (r.cell, r.launch) not in places), None):
        yield Problem(FAILED, f"{odd.key} takes the place of another, and the run does not do that", AGAIN)
        return
    blocks = [(block, list(found)) for block, found in groupby(ranked, key=lambda record: record.block)]
    resumed = [min(record.resumed for record in found) for _, found in blocks]  # of the launches of each block
    later = [*accumulate(reversed(resumed), min)][::-1][1:]  # of those after it
    done, last = Done(), -1
    for (_, found), resumed_later in zip_longest(blocks, later):
        expected = [record for record in found if not record.is_repeat]
        repeats = {record.key: record for record in found if record.is_repeat}
        done.add(*expected)
        last = max(last, *map(_position, expected), -1)
        for original in sorted(expected, key=_position):
            if resumed_later is not None and original.resumed > resumed_later:
                continue  # it was tried again after later blocks had run
            again = repeats.pop(f"{original.cell.id}#{REPEAT + original.launch}", None)
            # Where it went on, its budget was larger than it is known here.
            paid_s = None if resumed_later is not None or (again and again.resumed) else run.run.get("budget_s")
            due = is_repeatable(original, _repeats(run)) and is_due(original, done, paid_s)
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


def _repeats(run: Submission) -> bool:
    """Whether the run measures disturbed launches again, as far as older versions say it."""
    return bool(run.run.get(REPEATS))


def _position(record: Record) -> int:
    return int(record.run["position"])


def order(run: Submission) -> Iterator[Problem]:
    """Launches run in blocks, each shuffled as the seed says."""
    info = run.run
    ranked = sorted(run.launches.values(), key=_position)
    if list(map(_position, ranked)) != list(range(len(ranked))):
        yield Problem(FAILED, "positions of its launches are missing, or taken twice", "bundle the whole run")
    if any(record.block > after.block for record, after in pairwise(ranked)):
        yield Problem(FAILED, "a launch of a later block ran before one of an earlier block", AGAIN)
        return
    blocks: dict[int, list[tuple[Cell, int]]] = {}
    for record in ranked:
        if not record.is_repeat:
            blocks.setdefault(record.block, []).append((record.cell, record.launch // CONTROL))
    if info["typed"].get("k"):
        why = "cells were chosen with -k, so the order that the seed gives is not known"
        yield Problem(WARNING, why, "leave out -k")
    elif info.get("design") != SEQUENTIAL and len({len(block) for block in blocks.values()}) > 1:
        return  # which rule `complete` tells
    elif info.get("design") == SEQUENTIAL and len(blocks) > LAST_LOOK:
        return  # which rule `stopping` tells
    elif wrong := _why_unshuffled(blocks, info["seed"], not has_control(run.header)):
        yield Problem(FAILED, wrong, AGAIN)


def _why_unshuffled(blocks: dict[int, list[tuple[Cell, int]]], seed: int, may_lack: bool) -> str:
    """Why the blocks cannot be shuffles of one list by this seed, in words; empty if they are.

    The list is what the first block becomes when its shuffle is undone: the control's cells come last in it. They were
    shuffled and left out where the run ``may_lack`` them, since it had been begun without.
    """
    first, shuffled = min(blocks), blocks[min(blocks)]
    numbers = _shuffle(range(len(shuffled)), seed, first)
    planned = [each for _, each in sorted(zip(numbers, shuffled, strict=True), key=itemgetter(0))]
    cells = [cell for cell, copy in planned if not copy]
    controls = [cell for cell, copy in planned if copy]
    twice = framework_of_control(cells)
    if planned[: len(cells)] != [(cell, 0) for cell in cells] or (
        controls and controls != [cell for cell in cells if cell.framework == twice]
    ):
        return f"the order of block {first} is not one that seed {seed} gives"
    lists = [planned, [*planned, *((cell, 1) for cell in cells if cell.framework == twice)]][: 1 + may_lack]
    for block, ran in blocks.items():
        there = set(ran)
        if not any([each for each in _shuffle(of_block, seed, block) if each in there] == ran for of_block in lists):
            return f"the order of block {block} is not the one that seed {seed} gives"
    return ""


def _shuffle(items: Iterable[Item], seed: int, block: int) -> list[Item]:
    """The items in the order that a run with this seed gives them in a block."""
    order = list(items)
    random.Random(f"{seed}/{block}").shuffle(order)  # noqa: S311 - an order, not a secret
    return order


def stopping(run: Submission) -> Iterator[Problem]:
    """A run with a budget stopped when its own rule says, computed again from its launches; any other has none."""
    budget_s, is_sequential = run.run.get("budget_s"), run.run.get("design") == SEQUENTIAL
    if any((record.run.get("design") == SEQUENTIAL) != is_sequential for record in run.ended):
        yield Problem(FAILED, "its launches are of another design than the run describes", AGAIN)
    elif is_sequential and budget_s is None:
        yield Problem(FAILED, "it does not say its budget", AGAIN)
    elif is_sequential and budget_s is not None:
        yield from _check_end(run, float(budget_s))
    elif budget_s is not None or run.run["typed"].get("budget"):
        yield Problem(FAILED, "it has a budget, and does not stop by it", AGAIN)
    elif has_control(run.header) and not any(record.control for record in run.ended) and not _is_uncontrolled(run):
        # Only a run that stops when it is decided has none; what was typed is left out of a redacted bundle.
        kind = WARNING if run.about.redacted or run.run.get("matrix") == "reproduce" else FAILED
        yield Problem(kind, "it has no A/A control, and --no-control was not typed", "bundle the whole run")


def _is_uncontrolled(run: Submission) -> bool:
    """Whether a run has no A/A control, as what was typed says, or since its one cell was measured to be profiled."""
    typed, is_profiled = run.run["typed"], len(run.cells) == 1 and all(record.profile for record in run.ok)
    by_command = run.run.get("matrix") == "profile" and is_profiled
    return bool(by_command or typed.get("no-control") or typed.get("k") or all(each.cell.recipe for each in run.ended))


def _check_end(run: Submission, budget_s: float) -> Iterator[Problem]:
    from suite.analysis.statistics.multiple_testing import standing  # SciPy, which no other run needs

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
        elif block > last and due and block < LAST_LOOK and not is_spent(budget_s, before, due):
            yield Problem(FAILED, f"it ended with {len(due)} cells that need more launches",
                          "continue the run with --resume and a larger --budget")  # fmt: skip
    ended = run.ended[-1]  # whose time no later start shows
    if ended.outcome.ok and ended.run["took_s"] > TAKES_MOST * max(each.run["took_s"] for each in run.ended[:-1]):
        yield Problem(FAILED, f"its last launch took {ended.run['took_s']:.0f} s, more than any other", AGAIN)
