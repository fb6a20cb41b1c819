"""Run in a framework's environment: writes which distributions are installed there. Imports no framework."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from suite.record.parts.environment import list_distributions


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--answer", type=Path, required=True)
    parser.parse_args().answer.write_text(json.dumps(sorted(list_distributions())), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
