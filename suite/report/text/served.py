"""How the trained models of a table answer requests, and what saving them costs: the lines of an answer.

``Small GPT, inference throughput against PyTorch: TensorFlow 0.43x, JAX 0.66x``
``Small GPT, a checkpoint costs 1 % at one every: PyTorch 21 s, PyTorch asynchronously at most 9 s``
"""

from __future__ import annotations

from collections.abc import Mapping

from suite.analysis.rows.groups import SETTINGS
from suite.analysis.rows.wording import DASH, figure
from suite.analysis.statistics.inference import Estimate
from suite.analysis.statistics.serving import COMPARED
from suite.catalog.settings import OF_A_FRAMEWORK
from suite.record.parts.checkpoints import ASYNCHRONOUS
from suite.report.format.names import framework, name_value
from suite.report.tables.frame import Table
from suite.report.text.fastest import BY_SETTING, CARD, DECIDED, bounded, decided, label, over_settings, state

#: What a ratio is of.
OF = dict(zip(COMPARED, ("inference throughput", "requests"), strict=True))
FIRST = next(iter(COMPARED))

#: The ratios of one setting, each after its framework, and the setting in words.
Ratios = tuple[str, list[tuple[str, Estimate]]]


def lines(table: Table, where: str) -> list[str]:
    """Returns a line for each setting, of throughput, with what was decided; none without inference."""
    return [f"{place}: {decided(ratios)}" for place, ratios in _find(table, where, FIRST)]


def sentences(table: Table, where: str) -> list[str]:
    """Returns a sentence for each setting, of throughput and of requests, with all ratios."""
    return [
        f"{label(place, [ratio for _, ratio in ratios], 'launch')}: "
        + ", ".join(f"{name} {bounded(ratio, note=state(ratio) * bool(ratio.verdict))}" for name, ratio in ratios)
        for name_of in COMPARED
        for place, ratios in _find(table, where, name_of)
    ]


def saves(table: Table, where: str) -> list[str]:
    """Returns a line with the seconds from one checkpoint to the next at which they cost 1 %; none without any."""
    rows = {row.key: row for row in table.group.rows}
    names = [name for name in table.group.varying if name not in OF_A_FRAMEWORK]
    parts = []
    for (key, phase), cost in sorted(table.findings.savings.items(), key=lambda each: [*rows].index(each[0][0])):
        settings = [name_value(name, SETTINGS[name](rows[key])) for name in names]
        way = "asynchronously " * (phase == ASYNCHRONOUS)
        parts.append(f"{' '.join([framework(rows[key].cell.framework), *settings])} {way}{_every(cost.figures)}")
    return [f"{where}, a checkpoint costs 1 % at one every: {', '.join(parts)}"] if parts else []


def _every(figures: Mapping[str, Estimate]) -> str:
    """Returns ``21 s`` with its interval, or what it is at most where noise is as large as the delay."""
    found = figures["every_s"]
    if found.value is None or found.value <= 0 >= (found.high or 0.0):
        return "not above the noise"
    if found.low is None:
        return f"{figure(found.value, 2)} s (one launch)"
    if found.low <= 0:
        return f"at most {figure(found.high, 2)} s"
    return f"{figure(found.value, 2)} s ({figure(found.low, 2)}{DASH}{figure(found.high, 2)})"


def card(table: Table) -> str:
    """Returns the ratios of throughput over all settings, in a line for an index."""
    values: dict[str, list[Estimate]] = {}
    for _, ratios in _find(table, "", FIRST):
        for name, ratio in ratios:
            values.setdefault(name, []).append(ratio)
    parts = [f"{name} {over_settings(ratio.value for ratio in held)}" for name, held in values.items()]
    tested = all(ratio.verdict in DECIDED for held in values.values() for ratio in held)
    settings = max(map(len, values.values()), default=0)
    note = f" {framework(table.baseline)}{BY_SETTING * (settings > 2)}{'' if tested else ' (partly decided)'}"
    fitting = (", ".join(parts[:n]) + note for n in range(len(parts), 0, -1))
    return next((words for words in fitting if len(words) <= CARD), "nothing to compare")


def _find(table: Table, where: str, of: str) -> list[Ratios]:
    """Returns the ratios of a figure to the baseline in each setting."""
    names = [name for name in table.group.varying if name not in OF_A_FRAMEWORK]
    found: dict[tuple[str, ...], list[tuple[str, Estimate]]] = {}
    for row in table.group.rows:
        served = table.findings.servings.get(row.key)
        if served and (ratio := served.ratios.get(of)) and ratio.value and not table.base.holds(row):
            setting = tuple(name_value(name, SETTINGS[name](row)) for name in names)
            found.setdefault(setting, []).append((framework(row.cell.framework), ratio))
    shared = set.intersection(*map(set, found)) if found else set()
    what = f"{where}, {OF[of]} against {framework(table.baseline)}"
    return [(", ".join([what, *(each for each in key if each not in shared)]), ratios) for key, ratios in found.items()]
