"""``python -m workloads.data``, as job files have it, is ``training-suite data``."""

import runpy

runpy.run_module("suite.data", run_name="__main__", alter_sys=True)
