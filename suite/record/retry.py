"""Which failed launches a resumed run tries again."""

from __future__ import annotations

from suite.record.record import Outcome

#: Outcomes whose cause may be gone the next time: a busy machine, a killed process, a broken installation. A launch
#: that does not fit, diverges or is unsupported ends the same way again.
MAY_PASS = ("timeout", "crashed", "error")

#: Stands in the reason of a launch whose framework is not installed, which ends as unsupported.
NOT_IMPORTABLE = "cannot be imported"


def may_pass(outcome: Outcome) -> bool:
    """Whether the launch failed for a reason that may be gone the next time."""
    missing = outcome.status == "unsupported" and f" {NOT_IMPORTABLE} (" in outcome.reason
    return missing or outcome.status in MAY_PASS
