"""Checkpoints of a training: what is read back goes on bit for bit, and a kill leaves the one before."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from suite.analysis.records.ledger import problems
from suite.analysis.records.load import Launch
from suite.analysis.rows.groups import group
from suite.analysis.rows.wording import DASH
from suite.analysis.statistics.inference import Estimate
from suite.analysis.statistics.saving import delay_s
from suite.plan.cell import Cell
from suite.plan.measuring import Plan
from suite.plan.settings.strategies import why_not_saved
from suite.record.parts.checkpoints import SAVES, Checkpoints
from suite.record.record import Phase, Record, RecordError, Window
from suite.report.tables.frame import table
from suite.report.tables.inference import saved_rows
from suite.report.text.answer import answer
from suite.report.text.served import _every
from suite.worker.launch.checkpoints import PARTIAL, Saving, Shelf, newest, prove
from tests import records
from tests.frameworks import batches, each_framework, framework_of, module, narrow, needs_frameworks, switches_restored
from tests.isolation import in_own_process

pytestmark = pytest.mark.long

WORKLOAD = "imdb_lstm"
WAYS = ("checkpoint", "checkpoint_async")


@contextmanager
def training(framework: str) -> Iterator[tuple[Any, list[Any]]]:
    """A training after a step, so that its optimizer has a state, and some batches."""
    spec, cell = narrow(WORKLOAD), Cell(WORKLOAD, framework, batch=8, size="small")
    source = batches(spec, 8)
    with switches_restored(framework):
        framework_of(framework).prepare(cell, "cpu", 0)
        made = framework_of(framework).Training(
            cell, spec, module(WORKLOAD, framework), spec.reference_weights(0), "cpu", dropout=True
        )
        held = [made.put(source[at]) for at in range(3)]
        made.compile(held[0])
        made.fence(made.step(held[0]))
        yield made, held[1:]


def saver_of(framework: str, made: Any, name: str) -> Any:
    return import_module(f"suite.worker.frameworks.{framework}.checkpoint").Saver(made, name)


def without_optimizer(framework: str, saver: Any, made: Any) -> Any:
    """A planted fault: the same saver, which leaves out what the optimizer remembers."""
    if framework == "tensorflow":
        import tensorflow as tf

        saver.checkpoint = tf.train.Checkpoint(model=saver.state(made)["model"])
    elif framework == "jax":
        whole = saver.state
        saver.state = lambda: {"weights": whole().weights, "key": whole().key}

        class Held:
            def restore(self, folder: Any, args: Any) -> Any:
                found = checkpointer.restore(folder, args=args)
                return whole()._replace(**found)

            def __getattr__(self, name: str) -> Any:
                return getattr(checkpointer, name)

        checkpointer, saver.checkpointer = saver.checkpointer, Held()
    else:
        whole = saver.state
        saver.state = lambda: whole() | {"optimizer": whole()["optimizer"] | {"state": {}}}
    return saver


@in_own_process
def proved(framework: str, name: str, folder: str, planted: bool = False) -> dict[str, Any]:
    with training(framework) as (made, held):
        saver = saver_of(framework, made, name)
        saver = without_optimizer(framework, saver, made) if planted else saver
        saving = Saving(saver, Path(folder), Path(folder))
        found = prove(made, saving, held)
        times = [saving.save() for _ in range(2)]
        left = sorted(path.name for path in Path(folder).iterdir())
        saver.close()
        return found | {"way": saver.way, "bytes": saving.bytes, "times": times, "left": left}


def part_of(found: dict[str, Any]) -> Checkpoints:
    save_s, disk_s = zip(*found["times"], strict=True)
    others = {name: found[name] for name in ("way", "bytes", "arrays", "moved", "differing")}
    losses = {name: tuple(found[name]) for name in ("losses", "again", "third")}
    return Checkpoints(save_s=save_s, disk_s=disk_s, waited_s=(0.0,), **others, **losses)


@needs_frameworks
@each_framework
@pytest.mark.parametrize("name", WAYS)
def test_what_is_read_back_goes_on_bit_for_bit(framework: str, name: str, tmp_path: Path) -> None:
    found = proved(framework, name, str(tmp_path))
    assert found["again"] == found["losses"]
    assert not found["differing"]
    assert found["moved"] > len(narrow(WORKLOAD).tensors)  # the optimizer's too
    assert found["left"] == ["3"]
    assert part_of(found).fault == ""


@needs_frameworks
@each_framework
def test_a_checkpoint_without_the_optimizer_is_noticed(framework: str, tmp_path: Path) -> None:
    found = part_of(proved(framework, "checkpoint", str(tmp_path), planted=True))
    assert any("optimizer" in name for name in found.differing)
    assert found.fault
    with pytest.raises(RecordError):
        Record.from_json(saved(found).to_json())


def saved(found: Checkpoints) -> Record:
    made = records.record()
    return replace(made, phases=made.phases | {"checkpoint": made.phases["compute"]}, checkpoints={"checkpoint": found})


SOUND = Checkpoints("a way", 100, (0.1,) * SAVES, (0.2,) * SAVES, (0.0,), 10, 9, (2.0, 1.0), (2.0, 1.0))


def test_a_record_has_what_was_saved_and_refuses_what_was_not_proved() -> None:
    good = saved(SOUND)
    assert Record.from_json(good.to_json()) == good
    assert "checkpoints" not in records.record().to_json()
    faults = (
        replace(SOUND, differing=("optimizer/0/exp_avg",)), replace(SOUND, again=(2.0, 1.5)), replace(SOUND, moved=0),
        replace(SOUND, losses=(), again=()),
    )  # fmt: skip
    for fault in (*faults, None):
        other = replace(good, checkpoints={"checkpoint": fault} if fault else None)
        with pytest.raises(RecordError):
            Record.from_json(other.to_json())
    with pytest.raises(RecordError, match="a phase that phases lack"):
        Record.from_json(replace(good, checkpoints={"checkpoint": SOUND, "checkpoint_async": SOUND}).to_json())
    assert replace(SOUND, again=(2.0, 1.5), third=(2.0, 1.25)).fault == ""  # it never computes twice the same


ENDED = """
import os, resource, signal, subprocess, sys
from pathlib import Path
from suite.worker.launch.checkpoints import Saving, Shelf
from tests.worker.test_saving import saver_of, training
framework, name, folder, how = sys.argv[1:]
with training(framework) as (made, held):
    saving = Saving(saver_of(framework, made, name), Path(folder), Path(folder))
    saving.begin()
    import numpy
    numpy.savez(Path(folder).parent / "was.npz", **made.checkpoint())
    saving.end()
    made.fence(made.step(held[0]))
    if how == "full":
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (1024, 1024))
    else:
        Shelf.commit = lambda self: os.kill(os.getpid(), signal.SIGKILL)
        begun = f"until [ -e {saving.shelf.begun} ]; do :; done; kill -9 {os.getpid()}"
        subprocess.Popen(["timeout", "60", "sh", "-c", begun])
    saving.begin()
    saving.end()
"""


@in_own_process
def read_back(framework: str, name: str, folder: str) -> dict[str, Any]:
    with training(framework) as (made, held):
        made.fence(made.step(held[1]))
        saver = saver_of(framework, made, name)
        whole = newest(Path(folder))
        saver.restore(whole, whole)
        saver.close()
        return dict(made.checkpoint())


@needs_frameworks
@each_framework
@pytest.mark.parametrize("name", WAYS)
@pytest.mark.parametrize("how", ["killed", "full"])
def test_a_save_that_does_not_end_leaves_the_one_before(framework: str, name: str, how: str, tmp_path: Path) -> None:
    """A kill once something is written, or before it gets its name at the latest; files that cannot grow."""
    folder = tmp_path / "saved"
    command = [sys.executable, "-c", ENDED, framework, name, str(folder), how]
    ended = subprocess.run(command, env=os.environ, check=False, capture_output=True, text=True)
    assert ended.returncode == (1 if how == "full" else -signal.SIGKILL), ended.stderr[-2000:]
    assert newest(folder) == folder / "1"
    with np.load(tmp_path / "was.npz") as was:
        found = read_back(framework, name, str(folder))
        assert [each.tobytes() for each in found.values()] == [was[each].tobytes() for each in was.files]


def test_a_shelf_names_what_is_whole_and_keeps_the_newest(tmp_path: Path) -> None:
    shelf = Shelf(tmp_path)
    assert newest(tmp_path) is None
    for _ in range(2):
        shelf.begun.mkdir()
        shelf.commit()
    shelf.begun.mkdir()
    shelf.clear()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["2", f"3{PARTIAL}"]
    assert newest(tmp_path) == tmp_path / "2"


def test_only_a_plan_that_asks_saves() -> None:
    asked = Plan(phases=("train", "checkpoint"), chosen=True)
    assert not Plan().saves
    assert asked.saves
    assert asked.with_parts == ("train", *WAYS, "unsaved")


def test_several_devices_save_where_one_of_them_has_all() -> None:
    ddp = Cell(WORKLOAD, "pytorch", devices=2, strategy="ddp")
    assert why_not_saved(ddp) == ""
    assert all(map(why_not_saved, (ddp.but(strategy="fsdp"), Cell(WORKLOAD, "jax", devices=2, strategy="jit"))))
    assert why_not_saved(Cell(WORKLOAD, "jax", interface="nnx"))


def timed(with_save_s: float) -> Record:
    """A launch whose windows of ten steps take a second, and so long with a save."""
    made = saved(SOUND)
    phases = {
        name: Phase((Window(10, seconds),) * 3) for name, seconds in (("checkpoint", with_save_s), ("unsaved", 1))
    }
    return replace(made, phases=made.phases | phases)


def test_the_delay_is_what_windows_with_a_save_take_longer() -> None:
    assert delay_s(timed(1.25), "checkpoint") == pytest.approx(0.25)
    assert delay_s(timed(0.75), "checkpoint") == pytest.approx(-0.25)


def test_a_table_says_how_often_saves_cost_one_percent() -> None:
    launches = [
        Launch(replace(timed(seconds), launch=number), "run", "a.json") for number, seconds in enumerate((1.2, 1.3))
    ]
    made = table(*group(launches))
    (row,) = saved_rows([made])
    assert row["delay_ms"] == pytest.approx(250)
    assert row["every_s_low"] < row["every_s"] < row["every_s_high"]
    assert row["every_s"] == pytest.approx(25)
    assert row["save_ms"] == pytest.approx(100)
    (line, *_) = answer([made]).lines
    assert "PyTorch at most 89 s" in line


@pytest.mark.parametrize(
    ("estimate", "words"),
    [
        (Estimate(25.0, 20.0, 31.0), f"25 s (20{DASH}31)"),
        (Estimate(-3.0, -9.0, 4.0), "at most 4.0 s"),
        (Estimate(-3.0, -9.0, -1.0), "not above the noise"),
        (Estimate(25.0), "25 s (one launch)"),
        (Estimate(-1.0), "not above the noise"),
    ],
)
def test_a_line_claims_no_delay_that_noise_may_be(estimate: Estimate, words: str) -> None:
    assert _every({"every_s": estimate}) == words


def test_bytes_that_hold_no_weights_are_noticed() -> None:
    made = timed(1.25)
    made = replace(made, workload=made.workload | {"parameters": SOUND.bytes + 1})
    assert any("bytes of a checkpoint" in words for words in problems(made))
