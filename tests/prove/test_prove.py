"""`suite.prove`: a right port has no false alarm; a planted mistake is found, at its place, with its cause."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import numpy as np
import pytest

from suite.plan.cell import WORKLOADS
from suite.prove.__main__ import main
from suite.prove.causes import REMEDIES
from suite.prove.compare import checks
from suite.prove.numbers import Numbers, align, distance
from suite.prove.output import explanation, verdict
from suite.prove.questions import GivenError, collect_given, of_checkpoint, workload_at
from suite.worker.evidence import proof
from tests.frameworks import needs_frameworks, switches_restored
from tests.isolation import in_own_process
from tests.prove.mistakes import AGAINST, MISTAKES, PORTS, Mistake, folder_of, forget, right, wrong
from tests.prove.test_formulas import INSIDE, JOINED
from tests.prove.test_trained import OF_TAGS
from workloads import registry
from workloads.spec import specification

pytestmark = needs_frameworks

#: Of those planted in PyTorch, some for every run of the tests, against PyTorch itself, since JAX compiles for seconds.
QUICK = (
    "dense-transposed", "flattened-channels-first", "epsilon", "momentum", "another-momentum", "gates",
    "padding-in-the-mean", "filter-flipped", "filter-causal", "image-loss-doubled", "rate", "none-in-blocks",
    "dropout-before-the-projection", "shared-by-samples", "dropout-after-the-sum", "dropout-on-weights",
    "no-mask", "positions-shifted", "words-scaled", "words-tripled", "queries-for-keys", "no-temperature",
    "no-mask-and-no-temperature", "first-residual-lost", "last-norm-left-out",
    "max-pool-smaller", "max-pool-padded-behind", "padding-counted", "alignment", "root-epsilon", "batch-epsilon",
    "slope", "heads", "stack-gates", "stack-bias-twice", "no-smoothing", "decay-in-the-loss", "six", "least",
    "words-residual-multiplied",
)  # fmt: skip


#: Of the other frameworks' Transformer, a line without which a branch has no dropout.
OTHERS = (
    ("tensorflow", "Dropout(spec.dropout if dropout else 0, dtype=dtype)(y)", "y"),
    ("jax", 'model.apply_dropout(nn.Dense(spec.width, name=f"{name}_projection", **types)(y))',
     'nn.Dense(spec.width, name=f"{name}_projection", **types)(y)'),
)  # fmt: skip


def said(mistake: Mistake, framework: str, folder: Path) -> str:
    """What `prove` says of a mistake, against the right port in this framework."""
    with switches_restored("jax" if "jax" in (framework, mistake.file) else framework):
        one, of = right(mistake.port, framework)
        other = wrong(mistake, folder)
    found = checks(one, other, of)
    assert not all(check.same for check in found), "not found"
    return "\n".join(explanation(one, other, of, found))


def causes(text: str) -> list[str]:
    """The names of the causes that are said; an empty one where none is."""
    said = [line.removeprefix("  likely cause:  ") for line in text.splitlines() if line.startswith("  likely cause:")]
    return ["" if line == "none of the known ones explains the numbers" else line.partition(":")[0] for line in said]


@needs_frameworks("pytorch")
@pytest.mark.parametrize("mistake", [m for m in MISTAKES if m.id in QUICK], ids=lambda m: m.id)
def test_a_mistake_is_found_where_it_is_and_explained(mistake: Mistake, tmp_path: Path) -> None:
    text = said(mistake, "pytorch", tmp_path)
    assert mistake.place in text.splitlines()[0]
    assert causes(text) == [mistake.cause]
    shows_lines = "  pytorch up to layer" in text
    assert shows_lines == (not mistake.cause and "layer" in mistake.place)


def test_every_mistake_is_in_a_line_of_its_port() -> None:
    texts = {each: (folder_of(each.port) / f"{each.file}.py").read_text("utf-8") for each in MISTAKES}
    assert not [each.id for each, text in texts.items() if each.old not in text]


@pytest.mark.slow
def test_every_mistake_is_found_and_four_in_five_are_explained_and_none_wrongly(tmp_path: Path) -> None:
    missed, unexplained, misled = [], [], []
    for mistake in MISTAKES:
        against = AGAINST.get(mistake.port, "jax") if mistake.file == "pytorch" else "pytorch"
        text = said(mistake, against, tmp_path)
        missed += [] if mistake.place in text.splitlines()[0] else [(mistake.id, text)]
        unexplained += [(mistake.id, text)] if mistake.cause and mistake.cause not in causes(text) else []
        misled += [(mistake.id, text)] if set(causes(text)) - {mistake.cause, ""} else []
    assert (misled, missed, unexplained) == ([], [], [])
    named = [mistake for mistake in MISTAKES if mistake.cause]
    assert len(named) >= 15
    assert len(named) >= 0.8 * len(MISTAKES)


@needs_frameworks("pytorch")
def test_dropout_that_nobody_draws_is_not_seen(tmp_path: Path) -> None:
    """Neither framework draws, though the spec has a dropout: they are not said to be the same."""
    _, of = right("transformer", "pytorch")
    none = wrong(
        Mistake("no-dropout-at-all", "transformer", "pytorch", "if dropout else 0", "if 0 else 0", "", ""), tmp_path
    )
    lines, same = verdict(none, [none], of)
    assert not same
    assert any("dropout             NOT SEEN" in line and "though the spec has 0.1" in line for line in lines)
    assert lines[-1] == "verdict: not proved: dropout was not seen"


@pytest.mark.slow
@pytest.mark.parametrize(("framework", "old", "new"), OTHERS, ids=[framework for framework, *_ in OTHERS])
def test_a_branch_without_dropout_is_seen_in_the_other_frameworks(
    framework: str, old: str, new: str, tmp_path: Path
) -> None:
    with switches_restored(framework):
        one, of = right("transformer", framework)
        other = wrong(Mistake("no-dropout", "transformer", framework, old, new, "", ""), tmp_path)
    text = "\n".join(explanation(one, other, of, checks(one, other, of)))
    assert "dropout before layer block1_norm2" in text
    assert causes(text) == ["dropout missing"]


def test_every_remedy_is_that_of_a_cause_that_is_named() -> None:
    named = {mistake.cause for mistake in MISTAKES} | {*OF_TAGS}
    named |= {cause for *_, cause in (*INSIDE.values(), *JOINED.values())}
    assert REMEDIES.keys() - named <= {"bias of the forget gate", "edges", "float32"}


@needs_frameworks("pytorch")
@pytest.mark.parametrize("port", ["image", "text"])
def test_a_right_port_is_the_same_as_itself(port: str) -> None:
    one, of = right(port, "pytorch")
    lines, same = verdict(one, [one], of)
    assert same, "\n".join(lines)
    assert {name for layer in one.facts["layers"] for name in layer["tensors"]} == of.weights.keys()


@pytest.mark.slow
@pytest.mark.parametrize("port", ["image", "text"])
def test_a_right_port_to_jax_is_the_same(port: str) -> None:
    of_right = in_own_process(right)
    one, of = of_right(port, "pytorch")
    lines, same = verdict(one, [of_right(port, "jax")[0]], of)
    assert same, "\n".join(lines)


@pytest.mark.slow
@pytest.mark.launches
@pytest.mark.parametrize("workload", WORKLOADS)
def test_there_is_no_false_alarm_on_the_suites_own_workloads(workload: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([workload]) == 0, capsys.readouterr().out


@needs_frameworks("pytorch")
def test_the_frameworks_are_asked_in_processes_of_their_own(capsys: pytest.CaptureFixture[str]) -> None:
    """Here as the worker is started, but in this process: what it reads and writes."""
    (name,) = registry.register(PORTS / "text")
    assert main([str(PORTS / "text"), "--framework", "pytorch", "--framework", "tensorflow"]) == 3
    printed = capsys.readouterr()
    assert f"{name} has no file tensorflow.py" in printed.err
    assert "nothing to compare with" in printed.err


def test_a_name_that_is_also_a_folder_here_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The built-in would be proved in place of the user's, and found the same."""
    monkeypatch.chdir(tmp_path)
    assert workload_at("imdb_lstm") == "imdb_lstm"
    shutil.copytree(PORTS / "text", tmp_path / "imdb_lstm")
    with pytest.raises(GivenError, match=r"write \./imdb_lstm for the folder"):
        workload_at("imdb_lstm")
    assert workload_at("./imdb_lstm") == "own_imdb_lstm"


@needs_frameworks("pytorch")
def test_the_worker_writes_facts_and_arrays_and_no_pickle(tmp_path: Path) -> None:
    (name,) = registry.register(PORTS / "text")
    of = collect_given(name, specification(name, "small"))
    contents = {f"weights/{tensor}": array for tensor, array in of.weights.items()}
    for number, (inputs, labels) in enumerate(of.batches):
        contents |= {f"inputs/{number}": inputs, f"labels/{number}": labels}
    np.savez(tmp_path / "given.npz", **contents)
    arguments = ["--workload", name, "--framework", "pytorch", "--size", "small", "--folder", str(PORTS / "text")]
    arguments += ["--given", f"{tmp_path}/given.npz", "--arrays", f"{tmp_path}/a.npz", "--answer", f"{tmp_path}/a.json"]
    proof.main(arguments)
    facts = json.loads((tmp_path / "a.json").read_text())
    with np.load(tmp_path / "a.npz", allow_pickle=False) as archive:
        arrays = {key: archive[key] for key in archive.files}
    one, of = right("text", "pytorch")
    assert verdict(one, [Numbers(facts, arrays)], of)[1]


def test_a_workload_that_is_not_there_is_refused_in_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["nowhere"]) == 2
    assert "there is no folder 'nowhere'" in capsys.readouterr().err


def test_weights_of_a_checkpoint_must_be_those_of_the_spec(tmp_path: Path) -> None:
    (name,) = registry.register(PORTS / "text")
    spec = specification(name, "small")
    weights = spec.reference_weights(3)
    np.savez(tmp_path / "good.npz", **weights)
    read = of_checkpoint(tmp_path / "good.npz", name, spec)
    assert all(np.array_equal(read[tensor], array) for tensor, array in weights.items())
    np.savez(tmp_path / "other.npz", **{"head/kernel": np.zeros(3), **weights})
    with pytest.raises(GivenError, match="has head/kernel besides; rename"):
        of_checkpoint(tmp_path / "other.npz", name, spec)
    np.savez(tmp_path / "shape.npz", **weights | {"logits/bias": np.zeros(3)})
    with pytest.raises(GivenError, match=r"logits/bias is float64 \(3,\)"):
        of_checkpoint(tmp_path / "shape.npz", name, spec)
    with pytest.raises(GivenError, match=r"neither \.npz nor \.safetensors"):
        of_checkpoint(tmp_path / "weights.pt", name, spec)


def test_a_checkpoint_runs_no_code(tmp_path: Path) -> None:
    class Harmful:
        def __reduce__(self):
            return os.mkdir, (str(tmp_path / "ran"),)

    (name,) = registry.register(PORTS / "text")
    np.savez(tmp_path / "bad.npz", **{"logits/bias": np.array([Harmful()], dtype=object)})
    with pytest.raises(GivenError, match="cannot be read"):
        of_checkpoint(tmp_path / "bad.npz", name, specification(name, "small"))
    assert not (tmp_path / "ran").exists()


def test_safetensors_are_read_where_the_extra_is_installed(tmp_path: Path) -> None:
    library = pytest.importorskip("safetensors.numpy")
    (name,) = registry.register(PORTS / "text")
    spec = specification(name, "small")
    library.save_file(spec.reference_weights(3), tmp_path / "w.safetensors")
    assert of_checkpoint(tmp_path / "w.safetensors", name, spec).keys() == spec.reference_weights(3).keys()


def test_arrays_are_aligned_over_layouts_and_states() -> None:
    states = np.arange(24.0).reshape(2, 3, 4)
    assert np.array_equal(*align(states[:, -1], states))
    picture = np.random.default_rng(0).random((2, 5, 5, 3))
    for square in (picture, picture.repeat(2, 3)[..., :5]):  # a square of as many channels fits in every order
        assert np.array_equal(*align(square, square.transpose(0, 3, 1, 2)))
        assert np.array_equal(*align(square.transpose(0, 3, 1, 2), square))
    assert align(np.zeros((2, 3)), np.zeros((2, 4))) is None
    edged = np.random.default_rng(1).random((2, 9, 9, 8))
    for cut in (edged[:, 1:, 1:], edged[:, :-1, 1:].transpose(0, 3, 1, 2)):
        assert np.array_equal(*align(edged, cut))
        assert align(edged, cut + 1) is None


@pytest.mark.parametrize("size", [1e-300, 1e-200, 1.0, 1e200, 1.7e308])
def test_the_distance_neither_overflows_nor_underflows(size: float) -> None:
    """Squares of 1e-200 are 0, so that any two gradients of that size were the same; of 1e200 they are infinite."""
    one, other = np.full(4, size), np.array([size, size, size, 0.0])
    assert distance(one, one) == 0
    assert distance(one, other) == pytest.approx(0.5)
    assert distance(one, -one) == pytest.approx(2)


@pytest.fixture(autouse=True)
def nothing_stays_registered() -> object:
    yield
    for name in registry.names():
        forget(name)
