"""Profiles of scripts: taken by the framework's profiler in the script's process, read here; none is no failure."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from suite.monitor.sampler import Monitor
from suite.plan.cell import Cell
from suite.plan.measuring import Plan
from suite.record.job import Job
from suite.record.record import Outcome, Record
from suite.script import profiling
from suite.script.launch import ScriptLaunch, Watching
from suite.script.profiling import add_profile
from suite.script.seen import Seen
from suite.script.variants import Variant
from suite.session.launches.machine import LaunchCallbacks
from tests.frameworks import needs_frameworks
from tests.studies.script_kills import run

CELL = Cell("script_train", "pytorch", batch=0)


def event(name: str, begin_ms: float, took_ms: float, kind: str = "cpu_op") -> dict[str, Any]:
    return {"ph": "X", "cat": kind, "name": name, "pid": 1, "tid": 1, "ts": 1e3 * begin_ms, "dur": 1e3 * took_ms}


STEPS = event("suite: steps", 0, 40, "user_annotation")
LOADER = event("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", 20, 10, "user_annotation")
EVENTS = [STEPS, event("aten::mm", 0, 20), LOADER, event("aten::stack", 22, 4)]


def read(folder: Path, text: str, *windows: tuple[int, float, float]) -> Record:
    """The record of a launch whose steps took 10 ms, with this trace of these windows."""
    seen = Seen(Plan(0.1, 3, 2.0), 0.0, lambda _: None, is_to_profile=True)
    for number in range(5):
        seen.add(10, 0.1 * number, 0.1 * (number + 1), 0, lambda _: None)
    seen.profiled += windows
    (folder / "w.json").write_text(text, encoding="utf-8")
    job = Job(CELL, "", profile=True, traces=str(folder / "traces" / "one"))
    add_profile(seen, job, folder / "w.json")
    return seen.record(Variant("", ("python",)), job, {}, Outcome("ok"))


def test_the_time_of_a_step_is_divided_among_categories(tmp_path: Path) -> None:
    trace = {"host_name": "mine", "traceEvents": EVENTS}
    record = read(tmp_path, json.dumps(trace), (2, 0.5, 0.52), (4, 0.6, 0.64))
    assert record.profile
    assert (record.profile.steps, record.profile.timed_s, record.profile.step_s) == (4, 0.01, 0.01)
    assert record.profile.span == (0.6, 0.64)
    found = {name: share.seconds for name, share in record.profile.categories.items()}
    assert found == pytest.approx(
        {"matrix product": 0.005, "input pipeline": 0.0025, "host and launch overhead": 0.0025}
    )
    assert (tmp_path / "traces" / record.profile.trace).is_file()
    assert Record.from_json(record.to_json()).profile == record.profile


PROGRAM = "ENTRY %main (a: f32[8,8]) -> f32[8,8] {{\n  ROOT %{name} = f32[8,8]{{1,0}} {opcode}(%a, %a)\n}}\n"


def test_an_instruction_belongs_to_the_program_that_ran(tmp_path: Path) -> None:
    """Two programs of JAX have an instruction of one name."""
    texts = {name: PROGRAM.format(name="it", opcode=opcode) for name, opcode in (("one", "dot"), ("other", "add"))}
    rows = [
        ("/host:CPU", "python", "suite: steps", 0, 40_000_000, {}),
        ("/host:CPU", "pool", "it", 0, 20_000_000, {"hlo_op": "it", "hlo_module": "one"}),
        ("/host:CPU", "pool", "it", 20_000_000, 30_000_000, {"hlo_op": "it", "hlo_module": "other"}),
    ]
    written = json.dumps({"framework": "JAX", "rows": rows, "programs": texts})
    record = read(tmp_path, written, (2, 0.5, 0.52), (4, 0.6, 0.64))
    assert record.profile, record.settings["no_profile"]
    found = {name: share.seconds for name, share in record.profile.categories.items()}
    assert found == pytest.approx({"matrix product": 0.005, "element-wise": 0.0025, "host and launch overhead": 0.0025})


def test_what_a_program_ends_is_its_own_and_no_text_is_no_loss(tmp_path: Path) -> None:
    """XLA does not tell whose instruction ends; of a program without a text the time is *other*."""
    texts = {name: PROGRAM.format(name=name, opcode="convolution") for name in ("one", "two")}
    rows = [("/host:CPU", "python", "suite: steps", 0, 40_000_000, {})]
    for at, name in enumerate(("one", "one", "two", "three")):
        known, begin = {"hlo_op": name, "hlo_module": name}, 10_000_000 * at
        rows.append(("/host:CPU", "pool", name, begin, begin + 2_000_000, known))
        rows.append(("/host:CPU", "pool", f"end: {name}", begin + 7_999_999, begin + 8_000_000, {}))
    for framework in ("TensorFlow", "JAX"):
        written = json.dumps({"framework": framework, "rows": rows[::-1], "programs": texts})
        record = read(tmp_path, written, (2, 0.5, 0.52), (4, 0.6, 0.64))
        assert record.profile, record.settings["no_profile"]
        found = {name: share.seconds for name, share in record.profile.categories.items()}
        expected = {"convolution forward": 0.006, "other": 0.0005, "host and launch overhead": 0.0035}
        assert found == pytest.approx(expected)


def test_a_pause_between_profiled_steps_is_no_part_of_them(tmp_path: Path) -> None:
    text = json.dumps({"traceEvents": [event("suite: steps", 0, 1000, "user_annotation"), event("aten::mm", 0, 1000)]})
    record = read(tmp_path, text, (2, 0.1, 0.12), (40, 0.2, 0.6))
    assert record.profile is None
    assert "pause" in record.settings["no_profile"]
    anew = [event("suite: steps", 1000, 400, "user_annotation"), event("aten::mm", 1000, 400)]
    text = json.dumps({"traceEvents": [*json.loads(text)["traceEvents"], *anew]})
    record = read(tmp_path, text, (2, 0.1, 0.12), (40, 0.2, 0.6))
    assert record.profile, record.settings["no_profile"]
    assert record.profile.step_s == pytest.approx(0.01)


def test_operations_of_tensorflow_and_its_wait_for_a_batch_are_told(tmp_path: Path) -> None:
    rows = [
        ("/host:CPU", "python", "suite: steps", 0, 40_000_000, {}),
        ("/host:CPU", "tf_Compute/1", "ExecutorState::Process", 0, 24_000_000, {}),
        ("/host:CPU", "tf_Compute/1", "net/dense/MatMul:_MklMatMul", 0, 20_000_000, {}),
        ("/host:CPU", "tf_data_private_threadpool/2", "Map/MatMul:MatMul", 20_000_000, 36_000_000, {}),
        ("/host:CPU", "tf_data_iterator_get_next/3", "IteratorGetNextOp::DoCompute", 16_000_000, 36_000_000, {}),
    ]
    written = json.dumps({"framework": "TensorFlow", "rows": rows, "programs": {}})
    record = read(tmp_path, written, (2, 0.5, 0.52), (4, 0.6, 0.64))
    assert record.profile, record.settings["no_profile"]
    found = {name: share.seconds for name, share in record.profile.categories.items()}
    assert found == pytest.approx({"matrix product": 0.005, "host and launch overhead": 0.002, "input pipeline": 0.003})


@pytest.mark.parametrize(
    "text",
    [
        "", "[]", '{"programs": {}, "rows": []}', '{"programs": 3, "rows": [[1]]}', "{}", "nothing",
        '{"framework": "TensorFlow", "programs": {}, "rows": [[1, 2, 3, 4, 5, 6]]}',
        '{"traceEvents": 3}', '{"traceEvents": [{"ph": "X"}]}', "[" * 100_000,
        json.dumps({"traceEvents": [STEPS]}), json.dumps({"traceEvents": [EVENTS[1]]}),
        json.dumps({"traceEvents": [*EVENTS, event("suite: steps", 0, float("inf"), "user_annotation")]}),
        json.dumps({"traceEvents": [event("suite: steps", 0, 400, "user_annotation"), event("aten::mm", 0, 400)]}),
    ],
)  # fmt: skip
def test_a_launch_keeps_its_measurements_without_a_profile(tmp_path: Path, text: str) -> None:
    record = read(tmp_path, text, (2, 0.5, 0.52), (4, 0.6, 0.64))
    assert record.profile is None
    assert record.settings["no_profile"]
    assert record.phases["train"].step_s == pytest.approx(0.01)
    Record.from_json(record.to_json())


def test_steps_of_which_no_profile_is_taken_are_told(tmp_path: Path) -> None:
    assert "PyTorch" in read(tmp_path, "", (1, 0.5, 0.6)).settings["no_profile"]


def test_the_command_asks_each_launch_for_a_profile(tmp_path: Path) -> None:
    done = run(tmp_path, "--profile")
    assert done.status == 0
    assert any(line.startswith("no profile: ") and "PyTorch" in line for line in done.printed.splitlines())


TRAINS = """
import torch
from torch.utils.data import DataLoader, TensorDataset
model = torch.nn.Sequential(torch.nn.Linear(256, 1024), torch.nn.ReLU(), torch.nn.Linear(1024, 1))
optimizer = torch.optim.SGD(model.parameters(), 1e-3)
loader = DataLoader(TensorDataset(torch.randn(4096, 256)), 64)
while True:
    for (x,) in loader:
        optimizer.zero_grad()
        model(x).mean().backward()
        optimizer.step()
"""


@needs_frameworks("pytorch")
def test_steps_of_pytorch_are_profiled_after_all_windows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    record = launch(tmp_path, TRAINS, monkeypatch)
    assert [*record.phases] == ["train", "compute", "input"]
    assert record.profile, record.settings["no_profile"]
    assert record.profile.categories["matrix product"].seconds > 0
    assert record.profile.categories["input pipeline"].seconds > 0


JAX_TRAINS = """
import jax
import jax.numpy as jnp
from suite.watch import watch
update = jax.jit(lambda weights, x: weights - 1e-3 * jax.grad(lambda w: ((x @ w) ** 2).mean())(weights))
weights = jnp.ones((512, 512))
for x in watch([jnp.ones((64, 512))] * 1_000_000):
    weights = update(weights, x)
"""


@needs_frameworks("jax")
def test_steps_of_jax_are_profiled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    record = launch(tmp_path, JAX_TRAINS, monkeypatch)
    assert record.profile, record.settings["no_profile"]
    assert record.profile.categories["matrix product"].seconds > 0


KERAS_TRAINS = """
import keras, numpy
net = keras.Sequential([keras.layers.Dense(1024, "relu"), keras.layers.Dense(512)])
net.compile("sgd", "mse", jit_compile=True)
x = numpy.ones((64 * 200, 512), "float32")
net.fit(x, x, batch_size=64, epochs=1_000_000, verbose=0)
"""


@needs_frameworks("tensorflow")
def test_steps_of_keras_that_xla_compiles_for_tensorflow_are_profiled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the program that ran, which TensorFlow's profiler has written."""
    pytest.importorskip("keras")
    monkeypatch.setenv("KERAS_BACKEND", "tensorflow")
    record = launch(tmp_path, KERAS_TRAINS, monkeypatch)
    assert record.profile, record.settings["no_profile"]
    assert record.profile.categories["matrix product"].seconds > 0
    assert any(each.name.startswith("MatMul") for each in record.profile.operations)


def launch(tmp_path: Path, script: str, monkeypatch: pytest.MonkeyPatch) -> Record:
    """The record of a launch of a script with a profile."""
    monkeypatch.setattr(profiling, "SLOWER_MOST", 1e9)  # other programs may slow the window that is profiled
    (tmp_path / "train.py").write_text(script, encoding="utf-8")
    variant = Variant("", (sys.executable, str(tmp_path / "train.py")))
    job = Job(CELL, "", plan=Plan(0.1, 3, 2.0), profile=True, traces=str(tmp_path / "traces" / "one"))
    of = ScriptLaunch(variant, Watching(), job, tmp_path / "log", 120.0)
    record = of.run(LaunchCallbacks(), Monitor)
    assert record.outcome.ok
    return record
