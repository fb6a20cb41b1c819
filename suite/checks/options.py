"""Options of the checks: what they measure."""

from __future__ import annotations

from suite.plan.cell import FRAMEWORKS, SIZES
from suite.plan.command.common import option
from suite.plan.matrix import STUDIED

WORKLOAD = option("--workload", choices=STUDIED, action="append", help="default: all; may be repeated")
FRAMEWORK = option("--framework", choices=FRAMEWORKS, action="append", help="default: all; may be repeated")
SIZE = option("--size", choices=SIZES, default="full", help="of the workloads (default: full)")
