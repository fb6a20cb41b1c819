"""``python -m tests.studies.measuring``: does the ledger notice faults of measurement?

Plants each fault in turn in the code that measures, and lets it measure a simulated machine, whose parent listens by
the same simulated clock. Ends with 1 where another fault survives than those that are known to, or where a launch
without a fault raises an alarm.
"""

from __future__ import annotations

import sys

from suite.analysis.records.ledger import find_unaccounted
from tests.studies.measuring.faults import FAULTS
from tests.studies.measuring.simulated import judge, launched, older, uncounted


def main() -> int:
    judged = {fault: judge(fault) for fault in FAULTS}
    alarms = [*find_unaccounted({seed: [launched(seed=seed)] for seed in range(1, 51)}).values()]
    for fault, words in judged.items():
        print(f"{fault.name}: {words or f'survives: {fault.survives}'}")
    print(f"{sum(map(bool, judged.values()))} of {len(judged)} faults of measurement are noticed")
    for words, reading in (("no count of the optimizer", uncounted), ("no ledger", older)):
        survivors = [fault.name for fault in FAULTS if not judge(fault, reading)]
        print(f"with {words} {len(FAULTS) - len(survivors)}; not: {'; '.join(survivors)}")
    print(f"{len(alarms)} alarms in 50 launches without a fault", *alarms, sep="\n")
    return int(bool(alarms) or any(bool(words) == bool(fault.survives) for fault, words in judged.items()))


if __name__ == "__main__":
    sys.exit(main())
