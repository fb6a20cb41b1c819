"""Training to the end in a real worker: what is recorded, and that a kill and a resume leave no trace in the losses."""

from __future__ import annotations

import contextlib
import itertools
import os
import signal
import threading
import time
from collections.abc import Iterable, Iterator
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from suite.plan.cell import FRAMEWORKS, Cell
from suite.plan.command.common import LATEST
from suite.plan.measuring import Plan
from suite.record.job import Job
from suite.record.parts.history import Epoch, TrainingHistory
from suite.record.record import Record, RecordError
from suite.session import run as runs
from suite.session.launches import machine
from suite.session.launches.launch import launch
from suite.worker.interfaces import tools
from suite.worker.launch import training as training_loop
from suite.worker.launch.description import check
from suite.worker.launch.training import Saved, follow
from suite.worker.loaders import CountingLoader
from tests.frameworks import data, narrow, needs_frameworks, training
from tests.launches import unproven
from tests.records import failed, record
from workloads.data.augment import Batches
from workloads.data.cache import folder_of
from workloads.recipes import recipe as named_recipe
from workloads.spec import specification

pytestmark = pytest.mark.long

EPOCHS = 3
COURSE = TrainingHistory(
    "modern", 2, 0.5, (Epoch(4, 1.5, 2.0, 1.4, 0.4, 0.5), Epoch(4, 1.2, 3.0, 1.1, 0.6, 0.5)), (1.6, 1.5, 1.5, 1.4)
)


#: The study's has dropout, whose draws a checkpoint must go on with; a ResNet has running statistics.
RECIPE = {
    "cifar100_cnn": "study", "cifar100_resnet18": "modern", "gpt_small": "modern", "imdb_lstm": "modern",
    "imdb_transformer": "modern",
}  # fmt: skip

#: Launched in every run of the tests; the others in the slow ones. What a worker does is the same for all frameworks.
LAUNCHED = {("cifar100_cnn", "pytorch")}
#: One of each framework is trained, cut short and gone on with in this process in every run of the tests.
TRAINED = [("cifar100_cnn", "pytorch"), ("imdb_lstm", "tensorflow"), ("imdb_lstm", "jax")]


def trainings(workloads: Iterable[str]) -> list[Any]:
    """Every framework with each of these workloads."""
    pairs = [(workload, framework) for workload in workloads for framework in FRAMEWORKS]
    return [pytest.param(*pair, marks=() if pair in LAUNCHED else pytest.mark.slow) for pair in pairs]


def job(twins: Path, programs: str, workload: str, framework: str, path: str = "") -> Job:
    data = folder_of(twins, specification(workload).data, "synthetic")
    cell = Cell(workload, framework, batch=16, size="small", recipe=RECIPE[workload])
    return Job(cell, str(data), seed=3, device="cpu", epochs=EPOCHS, target=0.999, checkpoint=path, programs=programs)


def test_what_a_course_says_of_itself():
    assert COURSE.final_accuracy == 0.6
    assert COURSE.train_s == [2.0, 5.0]
    assert (COURSE.epochs_to_target, COURSE.seconds_to_target) == (2, 5.0)
    assert replace(COURSE, target=0.7).seconds_to_target is None


@pytest.mark.parametrize(
    "changes",
    [
        {"epochs": []}, {"planned": 1}, {"target": float("nan")}, {"curve": [float("inf")]}, {"resumed_at": [3]},
        {"unknown": 1},
        *({"epochs": [vars(COURSE.epochs[0]) | change, vars(COURSE.epochs[1])]} for change in (
            {"test_accuracy": 1.5}, {"train_s": -1.0}, {"steps": 0}, {"train_loss": float("nan")}, {"steps": True},
        )),
    ],
)  # fmt: skip
def test_what_no_training_can_have_found_is_refused(changes):
    whole = record(recipe="modern", course=COURSE).to_json()
    with pytest.raises(RecordError):
        Record.from_json(whole | {"course": asdict(COURSE) | changes})


def test_a_record_with_a_recipe_is_ok_only_with_a_whole_course():
    whole = record(recipe="modern", course=COURSE).to_json()
    assert Record.from_json(whole).course == COURSE
    for course in (None, replace(COURSE, planned=3)):
        with pytest.raises(RecordError, match="course is not whole"):
            Record.from_json(whole | {"course": course and asdict(course)})


def test_a_checkpoint_comes_back_and_a_foreign_or_broken_one_does_not(tmp_path):
    path, key = tmp_path / "deep" / "a.checkpoint", {"seed": 1, "cell": {"batch": 3}}
    arrays = {"['a'].b/0": np.arange(5, dtype=np.float32), "scalar": np.array(7)}
    assert training_loop.read_checkpoint(path, key) is None
    training_loop.write_checkpoint(path, key, {"epochs": 2}, arrays)
    told, found = training_loop.read_checkpoint(path, key)
    assert told == {"epochs": 2}
    assert {name: array.tolist() for name, array in found.items()} == {"['a'].b/0": [0, 1, 2, 3, 4], "scalar": 7}
    assert [each.name for each in path.parent.iterdir()] == ["a.checkpoint"]
    with pytest.raises(training_loop.CheckpointError, match="of another training: seed differ"):
        training_loop.read_checkpoint(path, key | {"seed": 2})
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(training_loop.CheckpointError, match="cannot be read"):
        training_loop.read_checkpoint(path, key)
    with path.open("wb") as file:
        np.savez(file, **{training_loop.DESCRIPTION: np.array([{"a": 1}], dtype=object)})
    with pytest.raises(training_loop.CheckpointError, match="cannot be read"):
        training_loop.read_checkpoint(path, key)


@pytest.fixture(scope="module")
def undisturbed(twins, programs, tmp_path_factory):
    """The record of a training that nothing disturbed; each is launched once."""
    done: dict[tuple[str, str], Record] = {}

    def of(workload: str, framework: str) -> Record:
        if (workload, framework) not in done:
            log = tmp_path_factory.mktemp("course") / "log"
            done[workload, framework] = launch(job(twins, programs, workload, framework), log, 240)
        return done[workload, framework]

    return of


def learned(course: TrainingHistory) -> list[Any]:
    """All of a course that depends on no clock."""
    return [course.curve, *((each.train_loss, each.test_loss, each.test_accuracy) for each in course.epochs)]


@needs_frameworks
@pytest.mark.parametrize(("workload", "framework"), trainings(["cifar100_cnn", "imdb_lstm"]))
def test_a_course_is_recorded(undisturbed, workload, framework):
    record = undisturbed(workload, framework)
    assert record.outcome.ok, (record.outcome, record.log)
    course = record.course
    assert (course.recipe, course.planned, len(course.epochs)) == (RECIPE[workload], EPOCHS, EPOCHS)
    assert len(course.curve) == course.epochs[0].steps == 256 // 16
    assert course.epochs[0].train_loss == pytest.approx(np.mean(course.curve))
    assert record.phases.keys() == {"train"}
    assert [w.steps for w in record.phases["train"].windows] == [16] * EPOCHS
    assert record.identity.losses
    assert (record.identity.last.equal, record.identity.last.replayed) == (True, 0.0)
    assert record.workload["recipe"]["name"] == RECIPE[workload]
    assert course.resumed_at == ()


@needs_frameworks
@pytest.mark.parametrize(("workload", "framework"), trainings(RECIPE))
def test_killed_and_resumed_a_training_ends_with_the_same_bits(
    undisturbed, twins, programs, tmp_path, monkeypatch, workload, framework
):
    path = tmp_path / "a.checkpoint"
    asked = job(twins, programs, workload, framework, str(path))
    expected = learned(undisturbed(workload, framework).course)
    unproven(tmp_path, monkeypatch)
    pids: list[int] = []

    def kill() -> None:
        """Somewhere in the epochs after the first checkpoint."""
        limit = time.monotonic() + 120
        while not path.exists() and time.monotonic() < limit:
            time.sleep(0.002)
        time.sleep(int.from_bytes(os.urandom(1)) / 255 * 0.1)
        with contextlib.suppress(ProcessLookupError):  # the end came first
            os.kill(pids[0], signal.SIGKILL)

    def watch(pid: int, spawned_s: float) -> None:
        pids.append(pid)
        threading.Thread(target=kill, daemon=True).start()

    first = launch(asked, tmp_path / "log", 240, watch=watch)
    again = launch(asked, tmp_path / "log", 240)
    assert again.outcome.ok, (again.outcome, again.log)
    if first.outcome.status == "crashed":  # else the end came before the kill
        assert len(again.course.resumed_at) == 1
    assert learned(again.course) == expected

    # As after a kill between the last checkpoint and the end.
    ended = launch(asked, tmp_path / "log", 240)
    assert ended.outcome.ok, (ended.outcome, ended.log)
    assert ended.course.epochs == again.course.epochs
    assert ended.course.resumed_at == (*again.course.resumed_at, EPOCHS)
    assert ended.phases["train"].windows == again.phases["train"].windows


class KilledError(Exception):
    """Where a kill would come."""


class Feed:
    """Batches as a loader delivers them."""

    def __init__(self, batches: Iterator[Any]) -> None:
        self.batches, self.settings = batches, {}

    def __next__(self) -> Any:
        return next(self.batches)

    def close(self) -> None:
        """As a loader has it."""


@needs_frameworks
@pytest.mark.usefixtures("unoptimized")
@pytest.mark.parametrize(("workload", "framework"), TRAINED)
def test_from_a_checkpoint_a_framework_goes_on_with_the_same_bits(tmp_path, workload, framework):
    """The worker's own epochs in this process, cut short in the second of three and gone on with by a new object."""
    spec, samples = narrow(workload), data(specification(workload).data, 64)
    if framework == "tensorflow":  # a second model's variables get other names in the same process
        import keras
    recipe = named_recipe(RECIPE[workload], spec, EPOCHS)
    rates = recipe.rates(EPOCHS * 64 // 16)

    said: list[dict[str, Any]] = []

    def trained(path: str, kill_at: int | None = None) -> TrainingHistory:
        saved, courses = Saved(path, {"of": "a test"}), []
        if framework == "tensorflow":
            keras.utils.clear_session()
        with training(
            workload, framework, "fp32", spec=recipe.apply_to(spec), dropout=recipe.dropout, rates=rates
        ) as running:
            source = Batches(samples, 16, 3, getattr(spec, "length", None), first_epoch=len(saved.epochs))

            def loader() -> Iterator[Any]:
                for number in itertools.count():
                    if number == kill_at:
                        raise KilledError
                    yield running.put(source[number])

            batches = CountingLoader(Feed(loader()))
            running.compile(running.put(source[0]))
            follow(
                RECIPE[workload], recipe, running, batches, source=source, data=samples, evaluation_batch=500,
                compiled_s=0.0, saved=saved, check=check,
                say=lambda **message: said.append(message), report=lambda course, _: courses.append(course),
                tools=tools(running.cell),
            )  # fmt: skip
        return courses[-1]

    with pytest.raises(KilledError):
        trained(str(tmp_path / "a.checkpoint"), kill_at=64 // 16 + 2)
    again, whole = trained(str(tmp_path / "a.checkpoint")), trained("")
    assert again.resumed_at == (1,)
    ledgers = [message["part"]["ledger"] for message in said if "part" in message]
    counted = [4, 8, 12, 4, 8, 12] if framework != "pytorch" else [None] * 6  # whose SGD keeps no count
    assert [(each["delivered"], each["updates"]) for each in ledgers] == list(
        zip([4, 4, 8, 4, 8, 12], counted, strict=True)
    )
    assert learned(again) == learned(whole)


def test_a_training_that_was_cut_short_goes_on_with_resume_and_one_that_diverged_does_not(tmp_path, monkeypatch):
    statuses = iter(["crashed", "diverged", "ok"])
    launched = []

    def stand_in(asked, *_, **__):
        launched.append(asked.cell.framework)
        Path(asked.checkpoint).parent.mkdir(parents=True, exist_ok=True)
        Path(asked.checkpoint).touch()
        made = record(asked.cell.framework, workload="imdb_lstm", recipe="modern", course=COURSE)
        return made if (status := next(statuses)) == "ok" else failed(replace(made, course=None), status, "why")

    monkeypatch.setattr("workloads.data.prepare.prepare", lambda *_, **__: tmp_path)
    monkeypatch.setattr(machine, "launch", stand_in)
    cells = [Cell("imdb_lstm", framework, recipe="modern") for framework in ("jax", "pytorch")]
    for resume in (None, LATEST):
        settings = runs.Settings("accuracy", 1, Plan(), device="cpu", journals=tmp_path / "j", resume=resume)
        run = runs.Run(settings, [(cell, 0) for cell in cells], lambda _: None, lambda _: None)
        found = [run.launch(cell, 0).outcome.status for cell in cells]
        run.close()
    assert launched == ["jax", "pytorch", "jax"]
    assert found == ["ok", "diverged"]
    assert len(list(tmp_path.rglob("*.checkpoint"))) == 1


@needs_frameworks("pytorch")
def test_a_checkpoint_of_another_model_is_refused() -> None:
    with training("imdb_lstm", "pytorch", "fp32", "small") as running:
        state = running.checkpoint()
        name = next(each for each in state if each.startswith("model/"))
        for other in (state | {"model/more": state[name]}, state | {name: state[name][:1]}):
            with pytest.raises(ValueError, match="of another model"):
                running.restore(other)
        running.restore(state)
