"""Searches for the best setting, with few launches: ``python -m suite.tune``."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from framework_training_suite import entry
from suite.tune.options import parser


@entry("nothing was launched")
def main(arguments: Sequence[str] | None = None) -> int:
    """Search, save the launches, and print the answer."""
    arguments = sys.argv[1:] if arguments is None else arguments
    options = parser().parse_args(arguments)
    from suite.tune.searching import tune  # after what is mistyped is answered: it takes seconds

    return tune(options, arguments)


if __name__ == "__main__":
    sys.exit(main())
