"""What Keras does in its own way: activations inside layers, constants in float32, errors that print whole tensors."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from suite.new.__main__ import main
from suite.prove.compare import checks
from suite.prove.numbers import Given, Numbers
from suite.prove.output import explanation, verdict
from tests.documents import ROOT
from tests.frameworks import needs_frameworks
from tests.isolation import in_own_process
from tests.prove.mistakes import forget, numbers, right
from workloads import registry

pytestmark = needs_frameworks("tensorflow")


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    assert main(["workload", "flowers", "--into", str(tmp_path)]) == 0
    yield tmp_path / "flowers"
    forget("own_flowers")


@in_own_process
def numbers_of(framework: str, folder: Path) -> tuple[Numbers, Given]:
    """What the folder's workload, as its files are now, computes."""
    forget("own_flowers")
    registry.register(folder)
    return numbers("own_flowers", framework)


def replace(file: Path, old: str, new: str) -> None:
    text = file.read_text(encoding="utf-8")
    assert old in text
    file.write_text(text.replace(old, new), encoding="utf-8")


def check_constants() -> None:
    """Compute with constants as they are and with exact ones. Layers for preprocessing import JAX, too."""
    import keras
    import tensorflow as tf

    from suite.worker.frameworks.tensorflow.constants import exact

    x = np.linspace(-3, 3, 24).reshape(4, 6)
    layers, types = keras.layers, {"dtype": "float64"}
    attention = layers.MultiHeadAttention(1, 3, **types)
    attention(x[None], x[None])
    made = {
        "Rescaling": (lambda: layers.Rescaling(1 / 127.5, -1.0, **types)(x), x / 127.5 - 1),
        "Normalization": (
            lambda: layers.Normalization(mean=0.1, variance=0.3, axis=None, **types)(x), (x - 0.1) / 0.3**0.5
        ),
        "LeakyReLU": (lambda: layers.LeakyReLU(0.1, **types)(x), np.where(x > 0, x, 0.1 * x)),
        "gelu": (
            lambda: keras.activations.gelu(tf.constant(x), approximate=True),
            0.5 * x * (1 + np.tanh((2 / np.pi) ** 0.5 * (x + 0.044715 * x**3))),
        ),
    }  # fmt: skip
    for name, (compute, expected) in made.items():
        assert np.abs(np.asarray(compute()) - expected).max() > 1e-10, "or there is nothing to be exact"
        with exact() as rounded:
            assert np.abs(np.asarray(compute()) - expected).max() < 1e-12
        assert {key.partition(" ")[0] for key in rounded} == {name}
        assert 0 < max(rounded.values()) < 2**-24
    with exact() as rounded:
        attention(x[None], x[None])
    (owner,) = (key.partition(" ")[0] for key in rounded)
    assert owner in ("MultiHeadAttention", "dot_product_attention"), "by the release of Keras"
    assert tf.cast(0.1, tf.float64).numpy() != 0.1, "and it is as before afterwards"


def test_constants_are_exact_and_those_that_are_rounded_are_named() -> None:
    """In a process of its own, in which several frameworks may be."""
    code = "from tests.prove.test_rounded_constants import check_constants; check_constants()"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@in_own_process
def names_within(framework: str, given: dict[str, str]) -> list[str]:
    """Those of two layers of one name, in models around them."""
    import keras

    from workloads.defaults.keras import variables

    del framework
    inner = [
        keras.Sequential([keras.layers.Dense(1, use_bias=False, name="dense")], name=name) for name in ("one", "two")
    ]
    model = keras.Sequential(inner, name="whole")
    model.build((1, 2))
    model.canonical_names = given
    return list(variables(model))


def test_a_model_s_own_name_can_be_left_out_of_the_names_in_it() -> None:
    assert names_within("tensorflow", {"whole": ""}) == ["one/dense/kernel", "two/dense/kernel"]
    assert names_within("tensorflow", {"whole": "", "one": "encoder"})[0] == "encoder/dense/kernel"


@pytest.mark.slow
@needs_frameworks("pytorch")
def test_a_port_whose_constants_keras_rounds_is_the_same_but_for_them() -> None:
    """With attention as one layer and two gradients that are zero by mathematics, too."""
    of_right = in_own_process(right)
    one, given = of_right("parts", "pytorch")
    lines, same = verdict(one, [of_right("parts", "tensorflow")[0]], given)
    assert same, "\n".join(lines)
    assert lines[-1] == "verdict: the same to 1e-09 but for constants that Keras rounds"
    (told,) = (line for line in lines if "rounds constants to float32" in line)
    assert all(name in told for name in ("Rescaling 0.00784314", "LeakyReLU 0.2", "gelu"))
    gradients = given.weights.keys() & {"conv2/bias", "attention/key/bias"}
    assert all(np.abs(one.arrays[f"gradients/{name}"]).max() < 1e-15 for name in gradients)


def test_rounding_is_measured_before_a_pass_moves_running_statistics(folder: Path) -> None:
    replace(
        folder / "spec.py",
        '            Tensor("logits/k',
        """            Tensor("norm/scale", (self.hidden,), offset=1.0),
            Tensor("norm/bias", (self.hidden,)),
            Tensor("logits/k""",
    )
    layers = 'layers.Rescaling(1 / 3, dtype=dtype), layers.BatchNormalization(name="norm", dtype=dtype),'
    replace(folder / "tensorflow.py", "layers.Dropout(", f"{layers} layers.Dropout(")
    assert 1e-9 < numbers_of("tensorflow", folder)[0].facts["rounding"] < 1e-6


DOUBLED = "def loss(model, x, labels):\n    return 2.5 * F.cross_entropy(model(x), labels.long())\n\n\ndef build("
SOFTMAX = 'name="logits", activation="softmax"'


@pytest.mark.slow
@needs_frameworks("pytorch")
@pytest.mark.parametrize(("file", "old", "new", "place", "cause"), [
    ("pytorch", "def build(", "def build(", "", ""),
    ("pytorch", "def build(", DOUBLED, "loss", ""),
    ("tensorflow", '="relu"', '="tanh"', "between layer hidden and layer logits", "activation"),
    ("tensorflow", 'name="logits"', SOFTMAX, "logits, after layer logits", "activation"),
], ids=["as-it-is", "loss-doubled", "another-activation", "softmax-at-the-end"])  # fmt: skip
def test_no_layer_of_the_template_is_blamed_for_its_activation(
    file: str, old: str, new: str, place: str, cause: str, folder: Path
) -> None:
    replace(folder / f"{file}.py", old, new)
    registry.register(folder)
    one, given = numbers_of("pytorch", folder)
    other, _ = numbers_of("tensorflow", folder)
    found = checks(one, other, given)
    if not place:
        assert all(check.same for check in found), found
        return
    lines = explanation(one, other, given, found)
    assert lines[0].startswith(f"  differs first: {place}"), lines
    assert cause in lines[1]


@pytest.mark.parametrize(("framework", "old", "new", "words"), [
    ("tensorflow", '"hidden/kernel", (self.features, self.hidden)', '"hidden/kernel", (self.hidden, self.features)',
     "tensor hidden/kernel, (32, 20) in the spec: defaults/keras.py line"),
    ("tensorflow", '"hidden/bias"', '"hidden/shift"',
     "tensor hidden/bias, which the spec does not have (it has hidden/shift); model.canonical_names renames layers:"),
    pytest.param("pytorch", '"hidden/kernel", (self.features, self.hidden)',
        '"hidden/kernel", (self.hidden, self.features)',
        "tensor hidden/kernel, (32, 20) in the spec: defaults/pytorch.py line", marks=pytest.mark.slow),
], ids=["shape", "name", "shape-pytorch"])  # fmt: skip
def test_an_error_on_the_way_in_is_one_line(framework: str, old: str, new: str, words: str, folder: Path) -> None:
    """It names tensor, file and line, and prints no tensor."""
    replace(folder / "spec.py", old, new)
    registry.register(folder)
    facts: Any = numbers_of(framework, folder)[0].facts
    error = facts["failed"]["error"]
    assert facts["failed"]["stage"] == "weights"
    assert error.startswith(words), error
    assert "\n" not in error
    assert "[[" not in error


@needs_frameworks("pytorch")
def test_an_error_is_told_in_the_line_of_its_stage(folder: Path) -> None:
    """That of a pass with dropout, although the evaluations before it were done."""
    raised = "        assert not (self.training and self.dropout.p), 'no generator'\n        return self.logits"
    replace(folder / "pytorch.py", "        return self.logits", raised)
    one, given = numbers_of("pytorch", folder)
    found = {check.name: check for check in checks(one, one, given)}
    assert [name for name, check in found.items() if check.failed] == ["dropout"]
    assert "no generator" in found["dropout"].detail
