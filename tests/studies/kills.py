"""``python -m tests.studies.kills``: is anything lost, or left, when a run is killed at any moment?

Runs small cells of all frameworks with all loaders and with two devices; of four runs one with ``--profile``, one with
``--track``, and one is a search of `suite.tune`. Kills the run at random moments (pytest, its whole group, the worker,
both, or all at once; some by SIGTERM), looks for what is left after 15 s, and goes on with ``--resume``. Each of the
four has its share of the kills, and is then left alone until it is done: every launch must be in the journal exactly
once.
With ``--ranks N`` the cells have two devices each, and N random processes of them are killed: each such launch must end
as crashed, in the name of the rank, within 20 s, and the others must end well.
"""

# ruff: noqa: T201 - a command that prints, and draws that are no secret

from __future__ import annotations

import argparse
import contextlib
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

import psutil

from suite.record.record import Record
from suite.record.variables import PROCESS_TAG, RANK
from suite.session.journal import read
from workloads.data import cache as caches
from workloads.data import synthetic

ROOT = Path(__file__).parents[2]
WITHIN_S = 15.0
MATRIX = """
from suite.plan.cell import FRAMEWORKS, Cell, Loader
from suite.plan.matrix import Matrix
from suite.plan.measuring import Plan

LOADERS = (Loader("naive"), Loader("workers", 2), Loader(), Loader("resident"))

def killed():
    cells = [Cell("imdb_lstm", f, batch=8, size="small", loader=l) for f in FRAMEWORKS for l in LOADERS]
    cells += [Cell("cifar100_cnn", f, batch=8, size="small", loader=LOADERS[1]) for f in FRAMEWORKS]
    cells += [Cell("imdb_lstm", f, batch=8, size="small", devices=2) for f in FRAMEWORKS]
    return Matrix("killed", tuple(cells), launches=1, plan=Plan(0.2, 3, 1.0))

def ranked():
    cells = [Cell("imdb_lstm", f, batch=8, size="small", devices=2) for f in FRAMEWORKS]
    cells += [Cell("imdb_lstm", "pytorch", batch=8, size="small", devices=2, strategy="fsdp")]
    cells += [Cell("imdb_lstm", "jax", batch=8, size="small", devices=2, strategy="jit")]
    return Matrix("ranked", tuple(cells), launches=1, plan=Plan(0.2, 3, 1.0))
"""
#: Cells of the two matrices.
KILLED, RANKED = 18, 5
#: What the runs are, in turn.
KINDS = ("plain", "--profile", "--track", "tune")
#: Until when a run of each kind lives, at most; a search takes longer until its first launch has ended.
LIVES_S = (20.0, 20.0, 20.0, 60.0)
WAYS = ("pytest", "its group", "worker", "pytest and worker", "all", "SIGTERM")


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.studies.kills", description=(__doc__ or "").split("\n\n")[1])
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--ranks", type=int, default=0, help="kill so many ranks of launches with several instead")
    parser.add_argument("--kind", choices=KINDS, action="append", help="only runs of this kind; may be repeated")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    draw = random.Random(options.seed)
    ways: Counter[str] = Counter()
    problems: list[str] = []
    with tempfile.TemporaryDirectory(prefix="kills-") as name:
        folder = Path(name)
        for data in ("cifar100", "imdb"):
            caches.write(synthetic.generate(data, train=256, test=16), folder / "cache")
        (folder / "matrix.py").write_text(MATRIX)
        (folder / "tmp").mkdir()
        before = _shared_memory()
        rounds, kinds = 0, options.kind or KINDS
        while ways.total() < (options.ranks or options.kills):
            journals = folder / f"journals{rounds * len(KINDS) + KINDS.index(kinds[rounds % len(kinds)])}"
            if options.ranks:
                problems += _ranked_round(folder, journals, draw, ways, options.ranks, before)
            else:
                share = options.kills * (rounds + 1) // len(kinds)
                problems += _round(folder, journals, draw, ways, min(share, options.kills), before)
            rounds += 1
        print(f"{ways.total()} kills in {rounds} runs: {dict(ways)}")
    print("\n".join(problems) or "nothing was lost, and nothing was left")
    return int(bool(problems))


def _round(
    folder: Path, journals: Path, draw: random.Random, ways: Counter[str], most: int, before: set[str]
) -> list[str]:
    """One run, killed and resumed until it is whole."""
    problems: list[str] = []
    while True:
        process = _start(folder, journals, resume=any(_records(journals)))
        killed = ways.total() < most and _kill(process, draw, ways, LIVES_S[_kind(journals)])
        output, _ = process.communicate()
        if killed:
            problems += (left := [f"kill {ways.total()} ({killed}): {what}" for what in _left(folder, before, killed)])
            said = "; ".join(left) or f"{len(_keys(journals))} launches are in the journal, nothing is left"
            print(f"{ways.total():4} {KINDS[_kind(journals)]:9} {killed:18} {said}", flush=True)
        elif process.returncode not in (0, 1):
            return [*problems, f"exit status {process.returncode}: {output[-2000:]}"]
        else:
            keys = _keys(journals)
            problems += [f"{key} is there {n} times" for key, n in Counter(keys).items() if n > 1]
            whole = KINDS[_kind(journals)] == "tune" or len(keys) == KILLED
            problems += [] if whole else [f"{len(keys)} launches of {KILLED}: {output[-2000:]}"]
            return problems + [f"at the end: {what}" for what in _left(folder, before)]


def _ranked_round(
    folder: Path, journals: Path, draw: random.Random, ways: Counter[str], most: int, before: set[str]
) -> list[str]:
    """One run of launches with several ranks, of which one dies now and then; resumed until all have ended well."""
    problems: list[str] = []
    while True:
        process = _start(folder, journals, resume=any(_records(journals)), matrix="ranked")
        killed = 0
        while process.poll() is None:
            if ways.total() < most and _kill_rank(process, draw, ways):
                killed += 1
        output, _ = process.communicate()
        problems += [f"after {ways.total()} kills: {what}" for what in _left(folder, before)]
        ends = [(record.outcome.status, record.outcome.reason) for record in _last(journals)]
        crashed = [reason for status, reason in ends if status == "crashed"]
        print(f"{ways.total():4} killed, {len(crashed)} of {len(ends)} launches crashed: {crashed}", flush=True)
        problems += [f"{status}: {reason}" for status, reason in ends if status not in ("ok", "crashed")]
        problems += [f"the rank is not named: {reason}" for reason in crashed if not reason.startswith("rank ")]
        if process.returncode not in (0, 1):
            return [*problems, f"exit status {process.returncode}: {output[-2000:]}"]
        if not killed:
            whole = len(ends) == RANKED and not crashed
            return problems if whole else [*problems, f"not whole after --resume: {ends}"]


def _kill_rank(process: subprocess.Popen[str], draw: random.Random, ways: Counter[str]) -> str:
    """Kill one rank of the present launch after a while; empty where there was none."""
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(draw.uniform(0.5, 15.0))
        return ""
    with contextlib.suppress(psutil.NoSuchProcess):
        tree = psutil.Process(process.pid).children(recursive=True)
        ranks = [each for each in tree if (_variable(each, RANK) or "") != "" and _is_worker(each)]
        if ranks:
            victim = draw.choice(ranks)
            way = f"rank {_variable(victim, RANK)}"
            victim.kill()
            ways[way] += 1
            return way
    return ""


def _is_worker(process: psutil.Process) -> bool:
    return "suite.worker.process" in process.cmdline()


def _variable(process: psutil.Process, name: str) -> str | None:
    try:
        return process.environ().get(name)
    except psutil.Error:
        return None


def _last(journals: Path) -> list[Record]:
    """The last record of each launch."""
    paths = _records(journals)
    found = read(paths[-1])[1] if paths and paths[-1].stat().st_size else []
    return list({record.key: record for record in found}.values())


def _start(folder: Path, journals: Path, resume: bool, matrix: str = "killed") -> subprocess.Popen[str]:
    environment = os.environ | {"TMPDIR": str(folder / "tmp"), "SUITE_CACHE_DIR": str(folder / "cache")}
    more = ((), ("--profile",), (f"--track=tensorboard={folder / 'tracked'}",), ())[_kind(journals)]
    command = [
        sys.executable, "-m", "pytest", "suite", f"--matrix={folder / 'matrix.py'}:{matrix}",
        "-p", "no:cacheprovider", f"--benchmark-storage={folder / 'runs'}", "--benchmark-save=killed", *more,
    ]  # fmt: skip
    if KINDS[_kind(journals)] == "tune":
        command = [
            sys.executable, "-m", "suite.tune", "--workload=imdb_lstm", "--size=small", "--batch=8,16",
            "--min-window=0.2", "--no-probe", "--budget=18launches", f"--storage={folder / 'runs'}",
            f"--output={folder / 'tuned'}",
        ]  # fmt: skip
    command += ["--data=synthetic", "--device=cpu", f"--journals={journals}", *(["--resume"] if resume else [])]
    return subprocess.Popen(
        command, cwd=ROOT, env=environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        start_new_session=True,
    )  # fmt: skip


def _kind(journals: Path) -> int:
    return int(journals.name[8:]) % len(KINDS)


def _kill(process: subprocess.Popen[str], draw: random.Random, ways: Counter[str], longest_s: float) -> str:
    """Kill it at some moment, in some way; empty where it ended before."""
    try:
        process.wait(draw.uniform(0.3, longest_s))
    except subprocess.TimeoutExpired:
        pass
    else:
        return ""
    way = draw.choice(WAYS)
    ways[way] += 1
    tree = psutil.Process(process.pid).children(recursive=True)
    marked = [each for each in tree if _mark(each)]
    with contextlib.suppress(ProcessLookupError):
        if way == "SIGTERM":
            process.send_signal(signal.SIGTERM)
        elif way == "its group":
            os.killpg(process.pid, signal.SIGKILL)
        else:
            victims: Iterable[psutil.Process] = {"pytest": [], "worker": marked[:1], "all": tree}.get(way, marked[:1])
            for each in victims:
                with contextlib.suppress(psutil.NoSuchProcess):
                    each.kill()
            if way != "worker":
                process.kill()
    if way == "worker":  # the run goes on, with that launch crashed; it ends at the next moment
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(draw.uniform(0.0, 3.0))
        process.kill()
    return way


def _start_next(folder: Path) -> None:
    """What the next launch does first."""
    code = "from suite.session.launches.cleanup import end_abandoned; from suite.record.scratch import scratch\n"
    code += "with scratch(before_removal=end_abandoned): pass"
    environment = os.environ | {"TMPDIR": str(folder / "tmp")}
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, env=environment, check=True)


def _left(folder: Path, before: set[str], way: str = "") -> list[str]:
    """What is still there after a while: processes, shared memory; and folders after the next start has swept them."""
    if way == "all":  # with the guardian, so that the next launch has to clear up
        _start_next(folder)
    deadline = time.monotonic() + WITHIN_S
    while (found := [*_processes(), *_shared_memory() - before]) and time.monotonic() < deadline:
        time.sleep(0.2)
    _start_next(folder)
    places = [*(folder / "tmp").iterdir(), *folder.rglob(".partial-*")]
    return [*map(str, found), *map(str, places)]


def _processes() -> list[str]:
    return [f"process {each.pid} {each.name()}" for each in psutil.process_iter() if _mark(each)]


def _mark(process: psutil.Process) -> str:
    try:
        return process.environ().get(PROCESS_TAG, "") if process.status() != psutil.STATUS_ZOMBIE else ""
    except (psutil.NoSuchProcess, psutil.AccessDenied):
        return ""


def _shared_memory() -> set[str]:
    return {f"/dev/shm/{path.name}" for path in Path("/dev/shm").iterdir()}


def _records(journals: Path) -> list[Path]:
    return sorted(journals.glob("*.jsonl")) if journals.exists() else []


def _keys(journals: Path) -> list[str]:
    paths = _records(journals)
    # One whose worker was killed is there as crashed, and again after --resume.
    return (
        [record.key for record in read(paths[-1])[1] if record.outcome.ok] if paths and paths[-1].stat().st_size else []
    )


if __name__ == "__main__":
    sys.exit(main())
