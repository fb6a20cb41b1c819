"""What a setting gains within a framework: each value of an axis against the usual one, all else being the same."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from suite.analysis.identity.verdicts import Verdict
from suite.analysis.rows.axes import AXES, Base, base
from suite.analysis.rows.groups import Group, Row, RowKey
from suite.analysis.statistics.multiple_testing import AXES_OF_GAINS, ratios
from suite.analysis.statistics.ratios import Ratio, counterpart
from suite.plan.measuring import MARGIN


@dataclass(frozen=True)
class Speedup:
    """The throughput of a row over that of the row with the usual value, ``before``, of the axis."""

    axis: str
    row: Row
    before: Row
    ratio: Ratio

    @property
    def framework(self) -> str:
        return self.row.cell.framework

    @property
    def values(self) -> tuple[str, str]:
        """The value of the axis, and the usual one."""
        value = AXES[self.axis].value
        return value(self.row), value(self.before)


def find_speedups(group: Group, verdicts: Mapping[RowKey, Verdict], margin: float = MARGIN) -> list[Speedup]:
    """The gains along every setting that varies within a framework, with the figures of ``compare --by AXIS``."""
    found: list[Speedup] = []
    for name in AXES_OF_GAINS:
        if name in group.varying:
            along = replace(group, by=name)
            found += find_speedups_along(
                along, base(AXES[name], group.rows, None), ratios(along, None, verdicts, margin)
            )
    return found


def find_speedups_along(group: Group, at: Base, formed: Mapping[RowKey, Ratio]) -> list[Speedup]:
    """The gains along the group's own axis, of which ``formed`` are the ratios to the base ``at``."""
    pairs = [(row, counterpart(row, group, at)) for row in group.rows if formed[row.key].value]
    return [Speedup(group.by, row, other, formed[row.key]) for row, other in pairs if other and other is not row]
