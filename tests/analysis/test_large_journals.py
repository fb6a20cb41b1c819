"""A journal of any length is compared, and gone on from, at a bounded cost per launch; its text never is in memory."""

from __future__ import annotations

import itertools
import json
import os
import subprocess
import sys
import tracemalloc
from pathlib import Path

import pytest

from suite.analysis.records.load import LoadError, load
from suite.session.journal import read
from tests import large

pytestmark = pytest.mark.drawing

ROOT = Path(__file__).parents[2]

#: What a launch may add to the peak of loading, so that 50,000 stay below 600 MiB; and to that of a whole comparison,
#: tables and page included. The second holds much that the first thousands need and the next ones do not.
LOADING_MOST, COMPARING_MOST = 12 * 1024, 20 * 1024

#: Two comparisons in one process: what the first one needs, as code and caches, is no launch's cost. Plots are of rows.
GROWTH = """
import pathlib, resource, sys
from suite.analysis.records import load
from suite.report import plots
from suite.compare.__main__ import main

def peak_bytes():
    return 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

few, many, folder = sys.argv[1:]
plots.draw = lambda *_: []
assert main([few, "--output", folder]) == 0
before = peak_bytes()
held = load.load([pathlib.Path(many)])
loading = peak_bytes() - before
del held
assert main([many, "--output", folder]) == 0
print(loading, peak_bytes() - before)
"""


@pytest.mark.slow
def test_a_launch_takes_little_memory(tmp_path: Path) -> None:
    few, many, more = tmp_path / "few.jsonl", tmp_path / "many.jsonl", 1500
    large.journal(many, 100 + more, cells=4)
    with many.open() as file:
        few.write_text("".join(itertools.islice(file, 1 + 100)))
    assert many.stat().st_size - few.stat().st_size > 10_000 * more
    command = [sys.executable, "-W", "error", "-c", GROWTH, str(few), str(many), str(tmp_path / "out")]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr
    loading, comparing = (int(told) / more for told in done.stdout.splitlines()[-1].split())
    assert loading < LOADING_MOST, f"{loading / 1024:.1f} KiB per launch"
    assert comparing < COMPARING_MOST, f"{comparing / 1024:.1f} KiB per launch"


def test_a_journal_is_read_line_by_line(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    large.journal(path, 100, cells=4)
    longest = max(len(line) for line in path.read_bytes().splitlines())
    tracemalloc.start()
    try:
        run, records, whole = read(path)
        held, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert (run["id"], len(records), whole) == ("scale", 100, path.stat().st_size)
    assert [json.dumps(record.to_json()) for record in records] == path.read_text().splitlines()[1:]
    assert peak - held < 10 * longest, "no more than the line at hand besides the records"


def test_what_never_ends_is_refused_before_it_is_opened(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo.jsonl")
    (tmp_path / "zeros.jsonl").symlink_to("/dev/zero")
    for name, kind in (("fifo.jsonl", "a FIFO"), ("zeros.jsonl", "a device")):
        with pytest.raises(LoadError, match=f"it is {kind}, and a regular file is expected"):
            load([tmp_path / name])
