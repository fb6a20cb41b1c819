"""Small training loops of each framework under ``training-suite script``, for docs/lab/scripts.md.

``python -m tests.studies.script_loops same`` measures loops against themselves: none may have a cause or be faster.
``plants`` measures loops with one planted cause each, of two amounts: it must be the first that is named. ``cost`` lets
each loop run observed and not in turns, in one process: what observing costs, with its interval.
"""

# ruff: noqa: T201 - a command that prints

from __future__ import annotations

import argparse
import os
import re
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from pathlib import Path

from suite import watch
from suite.analysis.bottlenecks.bottleneck import bottleneck
from suite.analysis.bottlenecks.watched import find_causes, find_loading
from suite.analysis.identity.comparability import judge
from suite.analysis.statistics.inference import interval
from suite.analysis.statistics.multiple_testing import ratios
from suite.script.answer import groups_of
from suite.script.launch import OBSERVER

ROOT = Path(__file__).parents[2]
OPTIONS = ["--windows", "4", "--min-window", "0.4", "--max-warmup", "3", "--max-time", "5min"]

LOOP = """
import itertools, subprocess, sys, threading, time
from suite.watch import watch
share, steps, step_s = float(sys.argv[1]), int(sys.argv[2]), []
kept, numbers = [], [(i * 7919) % 100003 for i in range(20000)]
def until():
    return time.perf_counter() + share * sorted(step_s)[len(step_s) // 2] if len(step_s) > 4 else 0.0
def rest():
    time.sleep(max(0.0, until() - time.perf_counter()))
def loop():
    end_s = until()
    while time.perf_counter() < end_s:
        pass
def sort():
    end_s = until()
    while time.perf_counter() < end_s:
        sorted(numbers)
def child():
    subprocess.run(["sleep", str(max(0.0, until() - time.perf_counter()))])
def event():
    threading.Event().wait(max(0.0, until() - time.perf_counter()))
def keep():
    kept.append(b"1" * 500_000)
def one_thread():
    sys.modules["torch"].set_num_threads(1)
def nothing():
    pass
def ended(number):
    pass
def loader():
    for at in range(steps):
        IN_LOADER()
        yield batch
"""
#: Observes every other turn of steps and prints the seconds of each; looks wait for theirs.
TURNS = """
def take_turns(each):
    hooks, number, begin_s = sys.modules["suite_hooks"], 0, 0.0
    step, observed = hooks.OBSERVER.step, threading.Event()
    hooks.time = type("", (), {**vars(time), "sleep": lambda s: (observed.wait(), time.sleep(s)) and None})
    def ended(number):
        nonlocal begin_s
        if number % each == 0:
            now_s = time.perf_counter()
            if number > WARM_UP * each:
                print(int(observed.is_set()), now_s - begin_s, flush=True)
            turn = number // each
            if (turn + turn // 2) % 2:  # which begins is another one in each pair
                observed.set()
                hooks.OBSERVER.step = step
                hooks.OBSERVER._start_window()
            else:
                observed.clear()
                hooks.OBSERVER.step = lambda *_: None
            begin_s = time.perf_counter()
    return ended
ended = take_turns(EACH)
"""
STEPS = """
for number, each in enumerate(watch(loader())):
    before_s = time.perf_counter()
    step(each)
    if len(step_s) < 9:
        step_s.append(time.perf_counter() - before_s)
    IN_STEP()
    ended(number)
"""
FRAMEWORKS = {
    "pytorch": """
import torch
batch = torch.randn(64, 512)
net = torch.nn.Sequential(torch.nn.Linear(512, 2048), torch.nn.ReLU(), torch.nn.Linear(2048, 512))
optimizer = torch.optim.SGD(net.parameters(), 1e-3)
def step(x):
    optimizer.zero_grad()
    ((net(x) - x) ** 2).mean().backward()
    optimizer.step()
""" + STEPS,
    "jax": """
import jax, jax.numpy as jnp
batch = jnp.ones((64, 512))
weights = [0.01 * jnp.ones((512, 2048)), 0.01 * jnp.ones((2048, 512))]
def loss(weights, x):
    return (((x @ weights[0]).clip(0) @ weights[1] - x) ** 2).mean()
update = jax.jit(lambda weights, x: [w - 1e-3 * g for w, g in zip(weights, jax.grad(loss)(weights, x))])
def step(x):
    global weights
    weights = update(weights, x)
    float(weights[0][0, 0])
""" + STEPS,
    "keras": """
import keras, numpy as np
net = keras.Sequential([keras.layers.Dense(2048, "relu"), keras.layers.Dense(512)])
net.compile("sgd", "mse")
class Own(keras.callbacks.Callback):
    number = -1
    def on_train_batch_begin(self, *_, **__):
        self.before_s = time.perf_counter()
    def on_train_batch_end(self, *_, **__):
        self.number += 1
        if len(step_s) < 9:
            step_s.append(time.perf_counter() - self.before_s)
        IN_STEP()
        ended(self.number)
x = np.ones((64 * 200, 512), "float32")
net.fit(x, x, batch_size=64, epochs=steps // 200, verbose=0, callbacks=[Own()])
""",
}  # fmt: skip
#: Planted causes by name: what runs in each step, what in the loader, and a part of the words that must come first.
PLANTS = {
    **{name: (name, "nothing", "your own code") for name in ("rest", "loop", "sort", "event")},
    **{f"loader {name}": ("nothing", name, "loading|loader") for name in ("rest", "loop", "child")},
    "child": ("child", "nothing", "your own code|it waits"),
    "keep": ("keep", "nothing", "memory grows"),
    "one thread": ("one_thread", "nothing", "OMP_NUM_THREADS"),
}
AMOUNTS = (0.3, 1.0)
#: Steps of a turn, which is about a window, and turns that warm up.
TURN_STEPS, WINDOW_S, WARM_UP = 60, 0.4, 10


@dataclass(frozen=True)
class Loop:
    """A loop of a framework, with what runs in its step and in its loader, and how much of it."""

    framework: str
    in_step: str = "nothing"
    in_loader: str = "nothing"
    share: float = 0.0

    def write(self, folder: Path) -> Path:
        script = folder / f"{self.framework}_loop.py"
        text = (LOOP + FRAMEWORKS[self.framework]).replace("IN_STEP", self.in_step).replace("IN_LOADER", self.in_loader)
        script.write_text(text, encoding="utf-8")
        return script

    def environment(self) -> dict[str, str]:
        return {**os.environ, "PYTHONPATH": str(ROOT), "KERAS_BACKEND": "jax", "TF_CPP_MIN_LOG_LEVEL": "2"}


def measure(loop: Loop, *options: str) -> Iterator[str]:
    """Measure a loop by the command; yields what its rows say: what is faster, and the causes, the first one first."""
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        command = [sys.executable, "-m", "suite.script", *options, *OPTIONS]
        line = [*command, "--storage", str(folder / "s"), str(loop.write(folder)), str(loop.share), "1000000"]
        done = subprocess.run(line, cwd=folder, env=loop.environment(), capture_output=True, text=True, check=False)
        if done.returncode:
            yield f"status {done.returncode}: {done.stderr.strip()[-300:]}"
            return
        (path,) = (folder / "s").glob("*/0001_*.json*")
        for group in groups_of(path):
            for key, ratio in ratios(group, None, judge(group.rows)).items():
                if ratio.verdict in ("faster", "slower"):
                    yield f"{key} is {ratio.verdict}: {ratio.value:.3f} ({ratio.low:.3f} to {ratio.high:.3f})"
            for row in group.rows:
                loading = find_loading(row, bottleneck(row, group).loading)
                causes = [*find_causes(row), *([(loading, f"loading takes {loading:.0%}")] if loading else [])]
                yield from (f"{row.cell.variant} {cause}".strip() for _, cause in sorted(causes, reverse=True))


def same(number: int) -> int:
    """Loops against themselves."""
    wrong = 0
    for at, framework in zip(range(number), [*FRAMEWORKS] * number, strict=False):
        said = [*measure(Loop(framework), "--env", "NOTHING=1,2", "--launches", "6")]
        wrong += bool(said)
        print(f"{at + 1} {framework}, load {os.getloadavg()[0]:.1f}: {'; '.join(said) or 'nothing said'}", flush=True)
    print(f"{wrong} of {number} runs had a cause or a faster variant")
    return wrong


def _plants() -> Iterator[tuple[float, tuple[str, tuple[str, str, str]], str]]:
    for share, (name, planted), framework in product(AMOUNTS, PLANTS.items(), FRAMEWORKS):
        has_loader, has_amount = framework != "keras" or planted[1] == "nothing", share == AMOUNTS[0]
        is_possible = framework == "pytorch" or name != "one thread"
        if has_loader and is_possible and (has_amount or name not in ("keep", "one thread")):
            yield share, (name, planted), framework


def plants(number: int) -> int:
    """Loops with a planted cause each."""
    missed = made = 0
    for share, (name, (in_step, in_loader, words)), framework in [*_plants()][:number]:
        said = [*measure(Loop(framework, in_step, in_loader, share))]
        is_first = bool(said and re.search(words, said[0]))
        made, missed = made + 1, missed + (not is_first)
        print(f"{framework}, {name} of {share:g} step, load {os.getloadavg()[0]:.1f}: {is_first}: {said}", flush=True)
    print(f"{made - missed} of {made} planted causes are named first")
    return missed


def cost(number: int) -> int:
    """What observing costs: pairs of turns of one process, of which every other begins with the observed one."""
    for framework in FRAMEWORKS:
        found = interval([there / here for here, there in turns(framework, number)])
        assert found
        low, value, high = (f"{100 * (each - 1):+.2f} %" for each in (found.low, found.value, found.high))
        print(f"{framework}, n = {number}, load {os.getloadavg()[0]:.1f}: {value} ({low} to {high})", flush=True)
    return 0


def turns(framework: str, number: int) -> list[tuple[float, float]]:
    """The seconds of pairs of turns of a loop, not observed and observed."""
    loop, steps = Loop(framework), TURN_STEPS * (2 * number + WARM_UP + 1)
    with tempfile.TemporaryDirectory() as place, socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listening:
        listening.bind(f"{place}/w")
        listening.listen()
        threading.Thread(target=_drain, args=(listening,), daemon=True).start()
        environment = loop.environment() | {"PYTHONPATH": f"{OBSERVER}:{ROOT}", watch.SOCKET: f"{place}/w"}
        environment |= {watch.WINDOW: str(WINDOW_S)}
        script = loop.write(Path(place))
        own = TURNS.replace("EACH", str(TURN_STEPS)).replace("WARM_UP", str(WARM_UP))
        script.write_text(script.read_text(encoding="utf-8").replace("def loader(", f"{own}\ndef loader("), "utf-8")
        line = [sys.executable, str(script), "0", str(-(-steps // 200) * 200)]
        printed = subprocess.run(line, env=environment, capture_output=True, text=True, check=True).stdout.splitlines()
        listening.shutdown(socket.SHUT_RDWR)
    taken = [(int(observed), float(s)) for observed, s in (each.split() for each in printed)]
    pairs = [dict(pair) for pair in zip(taken[::2], taken[1::2], strict=False)]
    return [(pair[0], pair[1]) for pair in pairs][:number]


def _drain(listening: socket.socket) -> None:
    while True:
        try:
            pipe, _ = listening.accept()
        except OSError:
            return
        threading.Thread(
            target=lambda pipe: [*iter(lambda: pipe.recv(1 << 16), b"")], args=(pipe,), daemon=True
        ).start()


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("part", choices=("same", "plants", "cost"))
    parser.add_argument("number", type=int, nargs="?", default=20, help="of runs, or of pairs")
    options = parser.parse_args(arguments)
    return int(bool({"same": same, "plants": plants, "cost": cost}[options.part](options.number)))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
