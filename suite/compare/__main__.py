"""``training-suite compare``: compares recorded runs; prints the answer, and writes tables, plots and a report."""

from __future__ import annotations

import gc
import sys
from collections.abc import Sequence

from framework_training_suite import entry
from suite.compare.options import parse


@entry()
def main(arguments: Sequence[str] | None = None) -> int:
    """Returns the exit status: 0; 1 if ``--fail-if`` applies, 3 if it could test nothing; 2 for unusable input or an
    output folder that cannot be written.
    """
    options = parse(arguments)
    from suite.compare.comparing import compare  # after what is mistyped is answered: it takes seconds

    return compare(options)


if __name__ == "__main__":
    # What was loaded stays in memory to the end; collecting garbage at the usual rate would take a tenth of the time.
    gc.set_threshold(200_000, 20, 1000)
    sys.exit(main())
