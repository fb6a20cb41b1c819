"""The kill table as Markdown."""

from __future__ import annotations

import os
import platform
import textwrap
from collections import Counter
from collections.abc import Mapping
from datetime import datetime
from importlib.metadata import PackageNotFoundError, version

from tests.studies.mutants.drawn import KIND as DRAWN
from tests.studies.mutants.mutant import REFUSED, Mutant
from tests.studies.mutants.study import EVIDENCE, FAILED, Judgement

PACKAGES = ("torch", "tensorflow", "tensorflow-cpu", "keras", "jax", "flax", "optax", "numpy")
HEAD = """\
# Mutants: planted differences

Each difference is of a kind that has spoiled published comparisons. It is planted in one framework, in a launch that is
rehearsed in one process with the worker's own steps (size small, batch 16, synthetic data), and compared with unchanged
launches of the other two, as by `training-suite compare`.

A part of the [evidence](identity.md) *notices* it if the verdict is `differs` although all other evidence is that of an
unchanged launch. *refused*: the launch fails, because its probes find another precision or network. *last* is the
replay and the batches at random positions, *scored* the accuracy.

Written by `python -m tests.studies.mutants --write docs/lab/mutants.md`; `tests/studies/mutants/` has each one.
"""


def page(judged: Mapping[Mutant, Judgement], cells: int, left: int, written: datetime, seed: int = 0) -> str:
    """The whole page; ``cells`` is how many different cells the mutants are planted in, ``left`` were not run."""
    failed = [mutant for mutant, judgement in judged.items() if judgement.kind == FAILED]
    judged = {mutant: judgement for mutant, judgement in judged.items() if mutant not in failed}
    listed = {mutant: judgement for mutant, judgement in judged.items() if mutant.kind != DRAWN}
    at_random = {mutant: judgement for mutant, judgement in judged.items() if mutant.kind == DRAWN}
    lines = [HEAD, *_conditions(written), ""]
    lines += [f"**{_share(listed)} mutants are noticed by the record alone**, one launch of each."]
    lines += [f"Of those that the seed {seed} composed, {_share(at_random)}."] if at_random else []
    lines += [f"Without a difference {cells} cells were launched in each of the three frameworks."]
    lines += [f"Of the catalogue {left} more were not run."] if left else []
    lines += [f"Could not be planted on this machine: {'; '.join(mutant.id for mutant in failed)}."] if failed else []
    lines += ["", *_survivors(judged), *_parts(judged), *_kinds(judged)]
    return "\n".join(lines) + "\n"


def _share(judged: Mapping[Mutant, Judgement]) -> str:
    killed = sum(judgement.killed for judgement in judged.values())
    return f"{killed} of {len(judged)} ({killed / len(judged):.1%})"


def shares(judged: Mapping[Mutant, Judgement]) -> list[str]:
    """How many are noticed of how many, by kind and workload, as a table."""
    workloads = sorted({mutant.workload for mutant in judged})
    found: dict[tuple[str, str], list[bool]] = {}
    for mutant, judgement in judged.items():
        for row in (mutant.kind, "all of the list" if mutant.kind != DRAWN else ""):
            found.setdefault((row, mutant.workload), []).append(judgement.killed)
    rows = sorted({row for row, _ in found if row}, key=lambda row: (row == "all of the list", row == DRAWN, row))
    lines = [f"| kind | {' | '.join(workloads)} |", f"|:--|{'--:|' * len(workloads)}"]
    for row in rows:
        cells = [found.get((row, workload), []) for workload in workloads]
        lines.append(f"| {row} | {' | '.join(f'{sum(each)}/{len(each)}' if each else '' for each in cells)} |")
    return lines


def _conditions(written: datetime) -> list[str]:
    installed = []
    for name in PACKAGES:
        try:
            installed.append(f"{name} {version(name)}")
        except PackageNotFoundError:
            continue
    machine = f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}"
    return textwrap.wrap(f"{written:%Y-%m-%d}; {machine}; {', '.join(installed)}.", 120, break_on_hyphens=False)


def _survivors(judged: Mapping[Mutant, Judgement]) -> list[str]:
    alive = [mutant for mutant, judgement in judged.items() if not judgement.killed]
    if not alive:
        return []
    lines = [_bullet(f"{mutant.kind}, {mutant.id}: {mutant.survives or 'not explained'}") for mutant in alive]
    return ["## Survivors", "", *lines, ""]


def _parts(judged: Mapping[Mutant, Judgement]) -> list[str]:
    noticed = Counter(part for judgement in judged.values() for part in judgement.noticed)
    alone = Counter(next(iter(each.noticed)) for each in judged.values() if len(each.noticed) == 1)
    parts = [f"{part} {noticed[part]} ({alone[part]})" for part in (*EVIDENCE, REFUSED)]
    lines = textwrap.wrap(f"Mutants noticed (by it alone): {', '.join(parts)}.", 120)
    return ["## By evidence", "", *lines, ""]


def _kinds(judged: Mapping[Mutant, Judgement]) -> list[str]:
    kinds: dict[str, list[bool]] = {}
    for mutant, judgement in judged.items():
        kinds.setdefault(mutant.kind, []).append(judgement.killed)
    parts = [f"{kind} {sum(killed)}/{len(killed)}" for kind, killed in kinds.items()]
    lines = textwrap.wrap(f"Noticed of planted: {', '.join(parts)}.", 120, break_on_hyphens=False)
    return ["## By kind", "", *lines]


def _bullet(text: str) -> str:
    return textwrap.fill(f"- {text}", 120, subsequent_indent="  ", break_on_hyphens=False)
