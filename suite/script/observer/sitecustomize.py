"""Brings `suite.watch` into a script that is measured: Python imports this file at its start, from PYTHONPATH."""

import importlib.util
import sys
from pathlib import Path

_folder = Path(__file__).resolve().parent
_spec = importlib.util.spec_from_file_location("suite_watch", _folder.parents[1] / "watch.py")
if _spec and _spec.loader:
    _watch = sys.modules["suite_watch"] = importlib.util.module_from_spec(_spec)
    _spec.loader.exec_module(_watch)
    _watch.start()
    _watch.go_on(str(_folder))
