"""``python -m tests.studies.ray_kills``: is anything lost, or left, when parts of a Ray cluster die at any moment?

Starts a cluster of three nodes on this machine, runs a matrix over it with stand-ins for the workers, and kills at
random moments: a worker, the process that starts workers on a host, the actor above it, a whole node (another one joins
then), or the controller. Goes on with ``--resume`` until the matrix is done. Then every launch must be in the saved run
exactly once and have ended well, and no process of it may live. Repeats until there were enough kills.
"""

# ruff: noqa: T201 - a command that prints, and draws that are no secret

from __future__ import annotations

import argparse
import contextlib
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

import psutil

from suite.record.record import Record
from suite.session.journal import read
from tests.processes import alive
from tests.ray_nodes import GOOD, Nodes, nodes_in
from tests.sessions import records_of
from workloads.data import cache as caches
from workloads.data import synthetic

ROOT = Path(__file__).parents[2]
NODES, WITHIN_S, KILLS_OF_A_RUN = 3, 20.0, 6
#: More than a run takes, whatever dies in it.
#: Two frameworks, two batches and six launches.
LAUNCHES, MATRIX = 24, ("--workload=imdb_lstm", "--framework=jax,pytorch", "--batch=16,32", "--launches=6")
LASTS_S = 300.0
WAYS = ("worker", "host", "actor", "node", "controller")


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.studies.ray_kills", description=(__doc__ or "").split("\n\n")[1]
    )
    parser.add_argument("--kills", type=int, default=30)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    draw, ways, problems, runs = random.Random(options.seed), Counter[str](), list[str](), 0
    with tempfile.TemporaryDirectory(prefix="ray-kills-") as name:
        folder, cache = Path(name), Path(name, "cache")
        caches.write(synthetic.generate("imdb", train=256, test=16), cache)
        with nodes_in(folder, cache, NODES) as nodes:
            while ways.total() < options.kills and not problems:
                runs += 1
                most = min(options.kills, ways.total() + KILLS_OF_A_RUN)
                problems += _run(nodes, folder / f"run{runs}", draw, ways, most)
    print(f"{ways.total()} kills in {runs} runs: {dict(ways)}")
    print("\n".join(problems) or "nothing was lost, and nothing was left")
    return int(bool(problems))


def _run(nodes: Nodes, folder: Path, draw: random.Random, ways: Counter[str], most: int) -> list[str]:
    """One matrix, whose parts die now and then; resumed until all launches have ended well."""
    nodes.does(GOOD, seconds=0.7)
    problems: list[str] = []
    for attempt in range(10):
        process = _start(nodes, folder, resume=bool(attempt))
        killed: list[str] = []
        deadline = time.monotonic() + LASTS_S
        while process.poll() is None:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(draw.uniform(0.5, 4.0))
            if process.poll() is None and ways.total() < most and (way := _kill(nodes, process, draw)):
                killed.append(way)
                ways[way] += 1
            if time.monotonic() > deadline:
                process.kill()
                return [*problems, f"{killed}: no end after {LASTS_S:.0f} s: {process.communicate()[0][-3000:]}"]
        output = process.communicate()[0]
        problems += [f"{killed}: process {pid} lives" for pid in _left(nodes)]
        ends = Counter(record.outcome.status for record in _last(folder))
        print(f"{ways.total():4} killed: {', '.join(killed) or 'none'}; the journal has {dict(ends)}", flush=True)
        if "Traceback" in output:
            problems.append(f"{killed}: {output[-3000:]}")
        if ends == {"ok": LAUNCHES} and "controller" not in killed:
            break
    return problems + _lost(folder)


def _start(nodes: Nodes, folder: Path, resume: bool) -> subprocess.Popen[str]:
    command = [
        sys.executable, "-m", "pytest", "suite", "--on=ray", "--no-control", "--data=synthetic", "--device=cpu",
        *MATRIX, f"--journals={folder / 'journals'}", f"--benchmark-storage={folder / 'saved'}", "--benchmark-save=x",
        "-p", "no:cacheprovider", *(["--resume"] if resume else []),
    ]  # fmt: skip
    environment = os.environ | {"RAY_ADDRESS": nodes.cluster.address} | nodes.variables
    return subprocess.Popen(
        command, cwd=ROOT, env=environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )


def _kill(nodes: Nodes, process: subprocess.Popen[str], draw: random.Random) -> str:
    """Kill a part at random, of those that live; empty where there is none yet."""
    ours = {each.pid for each in psutil.Process().children(recursive=True)}  # not whatever orphans fall to
    running = [(worker, host) for worker, host in _launched(nodes) if host in ours and alive(host)]
    if not running:
        return ""
    (worker, host), way = draw.choice(running), draw.choice(WAYS)
    with contextlib.suppress(psutil.NoSuchProcess):
        if way == "controller":
            process.kill()
        elif way == "node":
            nodes.cluster.remove_node(draw.choice(nodes.cluster.list_all_nodes()[1:]), allow_graceful=False)
            nodes.add()
        else:
            victims = {"worker": worker, "host": host, "actor": psutil.Process(host).ppid()}
            if victims[way] not in ours or not alive(victims[way]):
                return ""
            psutil.Process(victims[way]).kill()
        return way
    return ""


def _launched(nodes: Nodes) -> list[tuple[int, int]]:
    """Workers and their parents: the processes that started them, or whatever orphans fall to where these had ended."""
    return [(int(worker), int(host)) for *_, worker, host in nodes.launched]


def _is_host(pid: int) -> bool:
    """Whether it is a process of the suite's on a host."""
    with contextlib.suppress(psutil.Error):
        return "suite.session.hosts.agent" in psutil.Process(pid).cmdline()
    return False


def _left(nodes: Nodes) -> list[int]:
    """Processes of launches and hosts that still live after a while."""
    deadline = time.monotonic() + WITHIN_S
    known = {worker for worker, _ in _launched(nodes)} | {host for _, host in _launched(nodes) if _is_host(host)}
    while (found := sorted(filter(alive, known))) and time.monotonic() < deadline:
        time.sleep(0.2)
    return found


def _last(folder: Path) -> list[Record]:
    """The last record of each launch in the journal."""
    paths = sorted((folder / "journals").glob("*.jsonl"))
    found = read(paths[-1])[1] if paths and paths[-1].stat().st_size else []
    return list({record.key: record for record in found}.values())


def _lost(folder: Path) -> list[str]:
    """What the saved run lacks, or has twice."""
    saved = sorted((folder / "saved").rglob("*.json"))
    if not saved:
        return [f"{folder.name}: nothing was saved"]
    keys = Counter(record.key for record in records_of(json.loads(saved[-1].read_text())) if record.outcome.ok)
    problems = [f"{folder.name}: {key} is there {count} times" for key, count in keys.items() if count > 1]
    return problems + ([] if len(keys) == LAUNCHES else [f"{folder.name}: {len(keys)} launches of {LAUNCHES}"])


if __name__ == "__main__":
    sys.exit(main())
