"""``python -m tests.studies.deletions``: what share of random deletions in the suite do the tests notice?

Draws files of ``suite/`` by their length, in each a kind (a branch, a call statement, a term of an expression), and one
of that kind to delete. Each deletion is made in a copy of this checkout. The tests that are nearest to the file by
imports run first, those that launch stand-ins too; if they pass, all others that need no framework and launch nothing.
A test that fails must pass in an untouched copy, or it does not count. `suite/worker` is left out: most of it runs in
launches only. With ``--worker`` it is drawn from alone, and the nearest tests may use frameworks.

What was found is in a journal, from which the same command goes on.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from hashlib import sha256
from pathlib import Path
from queue import SimpleQueue
from typing import Any

from scipy import special

from tests.studies.deletions.cuts import KINDS, Cut, find_cuts
from tests.studies.deletions.imports import rank_tests

ROOT = Path(__file__).parents[3]
#: How many of the nearest test files run first, and for how long each part may run.
NEAR, NEAR_S, REST_S = 10, 240.0, 900.0
ALWAYS = "not cuda and not alone and not slow and not ray"
NOTICED, UNNOTICED, TOO_LONG = "noticed", "not noticed", "ran too long"


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.studies.deletions", description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--count", type=int, default=300, help="deletions in all (default: 300)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=1, help="deletions at a time, each in a copy (default: 1)")
    parser.add_argument("--minutes", type=float, default=1e9, help="begin no further one after so long")
    parser.add_argument("--worker", action="store_true", help="draw from suite/worker alone")
    parser.add_argument("--journal", type=Path, help="default: build/deletions-SEED.jsonl")
    options = parser.parse_args()
    name = f"deletions-{'worker-' if options.worker else ''}{options.seed}.jsonl"
    journal = options.journal or ROOT / "build" / name
    done = _open(journal, {"seed": options.seed, "worker": options.worker, "tree": _digest()})
    with contextlib.suppress(KeyboardInterrupt):
        _run(options, journal, done)
    report(list(done.values()))
    return 0


def draw(seed: int, worker: bool = False, root: Path = ROOT) -> Iterator[Cut]:
    """Yields deletions without end, none twice; the same for the same files and seed."""
    paths = [
        path for path in sorted((root / "suite").rglob("*.py")) if (root / "suite/worker" in path.parents) == worker
    ]
    texts = [path.read_text(encoding="utf-8") for path in paths]
    rng, weights = random.Random(seed), [text.count("\n") for text in texts]
    known: dict[int, dict[str, list[Cut]]] = {}
    while True:
        (at,) = rng.choices(range(len(paths)), weights)
        if at not in known:
            found = find_cuts(paths[at].relative_to(root), texts[at])
            known[at] = {kind: [cut for cut in found if cut.kind == kind] for kind in KINDS}
        kinds = [cuts for cuts in known[at].values() if cuts]
        if not kinds:
            continue
        cuts = rng.choice(kinds)
        cut = cuts.pop(rng.randrange(len(cuts)))
        if cut.is_sound(texts[at]):
            yield cut


def _run(options: argparse.Namespace, journal: Path, done: dict[int, dict[str, Any]]) -> None:
    """Make what is not in the journal yet."""
    end = time.monotonic() + 60 * options.minutes
    with tempfile.TemporaryDirectory(prefix="deletions-") as name:
        untouched = _copy(Path(name) / "untouched")
        copies: SimpleQueue[Path] = SimpleQueue()
        for job in range(options.jobs):
            copies.put(_copy(Path(name) / f"copy{job}"))
        judge = Judge(untouched, options.worker)

        def make(number: int, cut: Cut) -> None:
            if time.monotonic() > end:
                return
            copy = copies.get()
            try:
                found = {"number": number, "path": str(cut.path), "line": cut.line, "kind": cut.kind, "cut": cut.cut}
                found |= judge.judge(copy, cut)
            finally:
                copies.put(copy)
            done[number] = found
            with journal.open("a", encoding="utf-8") as file:
                file.write(f"{json.dumps(found)}\n")
            print(f"{number:4} {cut.path}:{cut.line} {cut.kind}: {found['outcome']} {found['test']}", flush=True)

        cuts = zip(range(options.count), draw(options.seed, options.worker), strict=False)
        with ThreadPoolExecutor(options.jobs) as pool:
            for future in [pool.submit(make, *each) for each in cuts if each[0] not in done]:
                future.result()


class Judge:
    """Runs the tests on a copy with a deletion. ``reliable`` are the tests that passed in the untouched copy."""

    def __init__(self, untouched: Path, worker: bool) -> None:
        self.untouched = untouched
        self.nearest = ALWAYS if worker else f"{ALWAYS} and not frameworks"
        self.rest = f"{ALWAYS} and not frameworks and not launches"
        self.reliable: dict[str, bool] = {}

    def judge(self, copy: Path, cut: Cut) -> dict[str, Any]:
        """Returns outcome, the test that failed, and seconds."""
        begin, path = time.monotonic(), copy / cut.path
        before, times = path.read_text(encoding="utf-8"), path.stat()
        files = rank_tests(copy, cut.path)
        path.write_text(cut.apply(before), encoding="utf-8")
        try:
            outcome, test = self._first_failure(copy, files[:NEAR], self.nearest, NEAR_S)
            if outcome == UNNOTICED:
                outcome, test = self._first_failure(copy, files[NEAR:], self.rest, REST_S)
        finally:
            path.write_text(before, encoding="utf-8")
            os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))  # so that what is compiled stays valid
        return {"outcome": outcome, "test": test, "seconds": round(time.monotonic() - begin, 1)}

    def _first_failure(self, copy: Path, files: Sequence[str], marks: str, limit_s: float) -> tuple[str, str]:
        """The outcome of these tests, and the first that fails because of the deletion."""
        while True:
            known = [f"--deselect={test}" for test, passes in self.reliable.items() if not passes]
            status, test = _pytest(copy, [*files, *known], marks, limit_s)
            if status is None:
                return TOO_LONG, ""
            if status in (0, 5):
                return UNNOTICED, ""
            if self._passes_untouched(test or files[0], marks):
                return NOTICED, test
            files = [file for file in files if file != test]

    def _passes_untouched(self, test: str, marks: str) -> bool:
        if test not in self.reliable:
            self.reliable[test] = _pytest(self.untouched, [test], marks, NEAR_S)[0] in (0, 5)
        return self.reliable[test]


def _pytest(copy: Path, arguments: Sequence[str], marks: str, limit_s: float) -> tuple[int | None, str]:
    """Exit status, None at the time limit; and what failed first, a test or a file."""
    command = [
        sys.executable, "-m", "pytest", *arguments, "-m", marks, "-x", "-q", "--no-header", "--tb=no", "-rfE",
        "-p", "no:randomly", "-p", "no:cacheprovider",
    ]  # fmt: skip
    environment = os.environ | {"COLUMNS": "500", "OMP_NUM_THREADS": "1"}
    environment.pop("UPDATE_GOLDEN", None)
    with subprocess.Popen(
        command, cwd=copy, env=environment, text=True, start_new_session=True, stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    ) as process:  # fmt: skip
        try:
            output, _ = process.communicate(timeout=limit_s)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            return None, ""
    failed = re.search(r"^(?:FAILED|ERROR) (\S+?\.py(?:::\S+)?)", output, re.MULTILINE)
    return process.returncode, failed[1] if failed else ""


def report(found: Sequence[Mapping[str, Any]]) -> None:
    """Print the share that was noticed with its 95 % interval (Clopper and Pearson), in all, by kind and by room."""
    rooms = {each["path"]: "/".join(Path(each["path"]).parts[:2]) for each in found}
    groups = {"all": list(found)}
    for name in ("kind", "room"):
        for each in sorted(found, key=lambda each: str(each.get(name, rooms[each["path"]]))):
            groups.setdefault(str(each.get(name, rooms[each["path"]])), []).append(dict(each))
    for name, own in groups.items():
        noticed, n = sum(each["outcome"] == NOTICED for each in own), len(own)
        if n:
            low = special.betaincinv(noticed, n - noticed + 1, 0.025) if noticed else 0.0
            high = special.betaincinv(noticed + 1, n - noticed, 0.975) if noticed < n else 1.0
            print(f"{name:20} {noticed:4} of {n:4} noticed: {noticed / n:6.1%} ({low:.1%} to {high:.1%})")
    print(f"{sum(each['outcome'] == TOO_LONG for each in found)} ran too long, and count as not noticed")


def _open(journal: Path, head: Mapping[str, Any]) -> dict[int, dict[str, Any]]:
    """What a journal holds, by number; a new one is begun. Ends the program where it is of another tree or seed."""
    if not journal.exists():
        journal.parent.mkdir(parents=True, exist_ok=True)
        journal.write_text(f"{json.dumps(head)}\n", encoding="utf-8")
    first, *lines = map(json.loads, journal.read_text(encoding="utf-8").splitlines())
    if first != head:
        sys.exit(f"{journal} is of another seed, or suite and tests have changed: name another one with --journal")
    return {line["number"]: line for line in lines}


def _files() -> list[str]:
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"]
    names = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.split("\0")
    return [name for name in names if name and (ROOT / name).is_file()]


def _digest() -> str:
    """Of all code of the suite and of its tests."""
    files = [ROOT / name for name in sorted(_files()) if name.startswith(("suite/", "tests/")) and name.endswith(".py")]
    return sha256(b"".join(path.read_bytes() for path in files)).hexdigest()[:16]


def _copy(folder: Path) -> Path:
    """Copy this checkout, and compile it once."""
    for name in _files():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / name, folder / name)
    subprocess.run([sys.executable, "-m", "compileall", "-q", "suite", "workloads", "tests"], cwd=folder, check=False)
    return folder


if __name__ == "__main__":
    sys.exit(main())
