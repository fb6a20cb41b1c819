"""Batches of several lengths: the same in all frameworks, by programs that are counted, and as their record says."""

from __future__ import annotations

from dataclasses import replace
from importlib import import_module
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from suite.analysis.records.steps import check_lengths
from suite.catalog.metrics import training_flops
from suite.plan.cell import FRAMEWORKS, Cell, Loader
from suite.plan.settings.strategies import why_not_saved, why_not_served
from suite.profile.chosen import ChoiceError, parse_cell
from suite.record.record import Phase, Window
from suite.worker import interfaces
from suite.worker.frameworks import RecompiledError, UnsupportedError, check
from suite.worker.launch.applied import NotAppliedError
from suite.worker.launch.lengths import Lengths
from tests.accounted import of_lengths
from tests.frameworks import (
    assert_within,
    data,
    distance,
    distances,
    each_framework,
    framework_of,
    module,
    narrow,
    needs_frameworks,
    switches_restored,
)
from tests.isolation import in_own_process
from workloads.data.augment import Batches, batches_digest
from workloads.data.dataset import DataError, DataSet
from workloads.lengths import BUCKETS, FIXED, FREE, LENGTHS, ROUND, buckets
from workloads.spec import WorkloadSpec

TEXTS = ("imdb_lstm", "imdb_transformer")
#: Longer than the shortest reviews of the twin, which have ten words, and no multiple of anything.
LENGTH = 150


def source(lengths: str = BUCKETS, batch: int = 8, length: int = LENGTH, of: DataSet | None = None) -> Batches:
    return Batches(of or data("imdb"), batch, 3, length, lengths=lengths)


def cell_of(workload: str, framework: str, lengths: str = BUCKETS, **settings: Any) -> Cell:
    return Cell(workload, framework, precision="fp64", batch=8, size="small", lengths=lengths, **settings)


def made(workload: str, framework: str, cell: Cell) -> tuple[Any, WorkloadSpec]:
    """A framework's `Training` of a narrow model that takes texts as long as those of `source`."""
    more = {"positions": LENGTH + 10} if workload == "imdb_transformer" else {}
    spec = replace(narrow(workload), length=LENGTH, **more)
    code = framework_of(framework)
    code.prepare(cell, "cpu", 0)
    start = spec.reference_weights(0)
    return code.Training(cell, spec, module(workload, framework), start, "cpu", dropout=False), spec


def test_the_usual_length_changes_no_id_no_record_and_no_batch() -> None:
    cell = Cell("imdb_lstm", "jax")
    assert (cell.lengths, "lengths" in cell.to_json()) == (FIXED, False)
    assert parse_fails(cell.but(lengths=FREE).id)
    plain = Batches(data("imdb"), 8, 3, LENGTH)
    assert batches_digest(plain[n] for n in range(30)) == batches_digest(source(FIXED)[n] for n in range(30))


def parse_fails(name: str) -> bool:
    with pytest.raises(ChoiceError, match="several lengths"):
        parse_cell(name)
    return True


@pytest.mark.parametrize("lengths", [BUCKETS, FREE])
def test_a_batch_is_of_texts_of_similar_length_and_padded_as_asked(lengths: str) -> None:
    made = source(lengths)
    whole, taken = source(FIXED), [made.choose(number) for number in range(made.per_epoch)]
    assert made.per_epoch == len(made.split) // 64 * 8
    assert len(set(np.concatenate(taken))) == made.per_epoch * 8, "a sample comes once in an epoch"
    longest = [int(made.words[each].max()) for each in taken]
    for number, most in enumerate(longest):
        inputs, labels = made[number]
        asked = most if lengths == FREE else min(each for each in buckets(LENGTH) if each >= most)
        assert inputs.shape == (8, asked)
        assert np.array_equal(inputs, whole.split.inputs[taken[number]][:, -asked:])
        assert np.array_equal(labels, whole.split.labels[taken[number]])
    parts = np.array([made.words[each].mean() for each in taken]).reshape(-1, len(ROUND))
    assert (np.diff(parts[:, np.argsort(ROUND)], axis=1) >= 0).all(), "each round has a batch of each part, in order"
    assert not np.array_equal(taken[0], made.choose(made.per_epoch)), "another epoch has another order"
    with pytest.raises(DataError, match="8 x batch 100"):
        source(lengths, 100)


@pytest.mark.parametrize(
    ("workload", "settings", "words"),
    [
        ("cifar100_cnn", {}, "have one length"),
        ("gpt_small", {}, "no word of a batch is padding"),
        ("imdb_lstm", {"devices": 2}, "one device"),
        ("imdb_lstm", {"interface": "keras-fit"}, "the interface native"),
        ("imdb_lstm", {"loader": Loader("resident")}, "the loader resident"),
        ("imdb_lstm", {"loader": Loader("dali")}, "the loader dali"),
        ("imdb_lstm", {"recipe": "study"}, "trainings to the end"),
    ],
)
def test_what_cannot_be_had_says_why(workload: str, settings: dict[str, Any], words: str) -> None:
    cell = Cell(workload, "tensorflow", lengths=FREE, **settings)
    with pytest.raises(UnsupportedError, match=words):
        check(cell, "cpu")
    if not settings:
        assert why_not_served(cell)
        assert why_not_saved(cell)


@needs_frameworks
@pytest.mark.parametrize("framework", ["pytorch"])
@pytest.mark.parametrize("mode", ["compile", "max", "trace"])
def test_pytorch_s_compiled_modes_are_refused(framework: str, mode: str) -> None:
    lacking = import_module(f"suite.worker.frameworks.{framework}.device").lacking
    assert lacking(cell_of("imdb_transformer", framework, compile=mode), "cpu")
    assert not lacking(cell_of("imdb_transformer", framework), "cpu")


@needs_frameworks
@each_framework
@pytest.mark.filterwarnings("ignore:.*deterministic. argument has no effect")  # as in a worker
@pytest.mark.parametrize("lengths", [BUCKETS, FREE])
def test_every_loader_delivers_the_reference_s_batches(framework: str, lengths: str) -> None:
    loaders, wanted = import_module(f"suite.worker.loaders.{framework}"), source(lengths)
    for kind in (Loader(), Loader("naive"), Loader("workers", 0), Loader(cache=True)):
        cell = cell_of("imdb_lstm", framework, lengths, loader=kind)
        with switches_restored(framework):
            training, _ = made("imdb_lstm", framework, cell)
            if (framework, kind.kind) == ("tensorflow", "naive"):
                with pytest.raises(UnsupportedError, match="behind the words"):
                    loaders.batches(cell, source(lengths), "cpu", training.put)
                continue
            loader = loaders.batches(cell, source(lengths), "cpu", training.put)
            got = [training.get(next(loader)) for _ in range(wanted.per_epoch + 2)]
            loader.close()
        assert batches_digest(got) == batches_digest(wanted[number] for number in range(len(got))), kind.id


@in_own_process
def steps(workload: str, framework: str, lengths: str) -> tuple[list[float], dict[str, Any], int]:
    """Losses of some steps of different lengths, the weights after them, and the programs compiled for them."""
    cell, batches = cell_of(workload, framework, lengths), source(lengths)
    with switches_restored(framework):
        training, _ = made(workload, framework, cell)
        training.compile(training.put(batches[0]))
        losses = training.read([training.step(training.put(batches[number])) for number in range(4)])
        tools = interfaces.tools(cell)  # whose formula of the optimizer is of such batches, too
        losses += [tools.explain_step(training, training.put(batches[number]))[0] for number in range(2)]
        return losses, training.weights(), training.count_compiled()["graphs"]


@needs_frameworks
@pytest.mark.usefixtures("unoptimized")
@pytest.mark.parametrize("workload", TEXTS)
def test_frameworks_train_alike_on_other_lengths_by_programs_that_are_counted(workload: str) -> None:
    lengths = {source(FREE).length_of(number) for number in range(4)}
    assert len(lengths) > 2
    found = {framework: steps(workload, framework, FREE) for framework in FRAMEWORKS}
    for losses, weights, _ in found.values():
        assert distance(np.array(losses), np.array(found["pytorch"][0])) < 1e-9
        assert_within(distances(weights, found["pytorch"][1]), 1e-9)
    assert {name: programs for name, (*_, programs) in found.items()} == {
        "pytorch": 0,
        "tensorflow": 2,
        "jax": len(lengths),
    }


@needs_frameworks
@each_framework
def test_the_transformer_computes_the_same_with_less_padding(framework: str) -> None:
    logits = []
    for lengths in (FIXED, FREE):
        with switches_restored(framework):
            training, spec = made("imdb_transformer", framework, cell_of("imdb_transformer", framework, lengths))
            inputs, labels = source(FREE)[1]
            padded = np.pad(inputs, ((0, 0), (LENGTH - inputs.shape[1], 0)))
            assert inputs.shape[1] < LENGTH
            logits.append(training.logits(training.put((padded if lengths == FIXED else inputs, labels))))
    assert distance(*logits) < 1e-12
    short = spec.at_length(inputs.shape[1])
    assert short.training_flops_per_sample < spec.training_flops_per_sample


class Stand:
    """A training, its loader, and what counts: every batch has the length that the source gives it, but for some."""

    def __init__(self, lengths: str, *, off: int = -1, compiles: int = -1) -> None:
        self.source, self.off, self.compiles, self.delivered, self.programs = source(lengths), off, compiles, 0, 3
        self.spec = replace(narrow("imdb_lstm"), length=LENGTH)
        self.step, self.put, self.read = (lambda _: 0.5), (lambda batch: batch), list

    def __next__(self) -> Any:
        inputs, labels = self.source[self.delivered]
        self.programs += self.delivered == self.compiles
        self.delivered += 1
        return inputs[:, int(self.delivered - 1 == self.off) :], labels

    def count_compiled(self) -> dict[str, int]:
        return {"graphs": self.programs}

    def run(self, windows: int = 2) -> Any:
        watched = Lengths(self.source, self.spec, self, self)
        watched.cover()
        watched.hold()
        end = watched.watch("train", lambda _: None)
        for _ in range(windows + 1):  # one to warm up
            for _ in range(len(ROUND)):
                next(self)
            end(Window(len(ROUND), 1.0))
        phase = Phase((Window(len(ROUND), 1.0),) * windows)
        return watched.found({"train": phase})


@pytest.mark.parametrize("lengths", [BUCKETS, FREE])
def test_words_padding_and_operations_are_those_of_the_windows(lengths: str) -> None:
    found, expected = Stand(lengths).run(), source(lengths)
    inside = [expected[number][0] for number in range(16, 32)]
    assert sum(found.words) == sum(np.count_nonzero(each) for each in inside)
    assert sum(found.places) == sum(each.size for each in inside)
    assert (found.longest, found.lengths) == (LENGTH, len({each.shape[1] for each in inside}))
    full = replace(narrow("imdb_lstm"), length=LENGTH).training_flops_per_sample
    share = sum(found.places) / (16 * 8 * LENGTH)
    assert found.training_flops_per_sample == pytest.approx(full * share, rel=0.01)
    assert (found.programs, found.compiled, found.cover_s > 0) == (1, 0, lengths == BUCKETS)


def test_a_loader_that_pads_otherwise_ends_the_launch() -> None:
    with pytest.raises(NotAppliedError, match="asked for free lengths, by which batch 5 has"):
        Stand(FREE, off=5).run()


def test_free_lengths_compile_inside_the_windows_and_buckets_may_not() -> None:
    found = Stand(FREE, compiles=20).run()
    assert (found.programs, found.compiled) == (2, 1)
    with pytest.raises(RecompiledError, match="compiled 1 programs inside the windows of train"):
        Stand(BUCKETS, compiles=20).run()
    assert Stand(BUCKETS, compiles=10).run().compiled == 0, "before the windows"


def test_a_batch_tells_which_lengths_were_applied() -> None:
    read = import_module("suite.worker.launch.applied")._read_lengths
    spec = replace(narrow("imdb_lstm"), length=LENGTH)
    inputs, labels = source(FREE)[1]
    for padding, applied in ((0, FREE), (1, "none of the known ones"), (LENGTH - inputs.shape[1], FIXED)):
        batch = np.pad(inputs, ((0, 0), (padding, 0))), labels
        ran = SimpleNamespace(
            subject=SimpleNamespace(spec=spec), training=SimpleNamespace(get=lambda batch: batch), batch=batch
        )
        assert {read(ran, cell_of("imdb_lstm", "jax", asked)) for asked in LENGTHS} == {applied}


def test_counts_are_believed_of_several_lengths_alone_and_of_the_workload_s_own() -> None:
    told = of_lengths()
    assert told.ledger
    assert told.ledger.shapes
    assert not [*check_lengths(told)]
    shapes = replace(told.ledger.shapes, longest=10**6, training_flops_per_sample=1.0)
    forged = replace(told, ledger=replace(told.ledger, shapes=shapes))
    assert [*check_lengths(forged)]
    of_one = replace(forged, cell=forged.cell.but(lengths=FIXED))
    assert training_flops(of_one) == told.workload["training_flops_per_sample"]
