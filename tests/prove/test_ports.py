"""Models with what ports have, by the defaults alone: three frameworks compute the same, in proofs and in launches."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from suite.plan.cell import FRAMEWORKS, Cell
from suite.prove.output import verdict
from suite.worker.evidence.fingerprint import (
    draws,
    movement,
    take_fingerprint,
    take_float64_fingerprint,
    take_own_fingerprint,
)
from suite.worker.evidence.layers import owners
from suite.worker.evidence.subject import EvidenceContext
from tests.frameworks import framework_of, module, needs_frameworks, switches_restored
from tests.isolation import in_own_process
from tests.prove.mistakes import PORTS, right
from workloads import registry
from workloads.data.own import data_of
from workloads.spec import specification

pytestmark = pytest.mark.usefixtures("unoptimized")


@needs_frameworks
@pytest.mark.parametrize("port", ["mixed", "picture"])
@pytest.mark.parametrize("other", ["tensorflow", "jax"])
def test_defaults_are_the_same_in_all_frameworks(port: str, other: str) -> None:
    """`mixed` has several inputs and outputs, tied and frozen tensors, a bag, a GRU, an LSTM both ways, RMSNorm.

    `picture` is a regression with batch and weight normalisation and a transposed convolution.
    """
    of_right = in_own_process(right)
    one, of = of_right(port, "pytorch")
    lines, same = verdict(one, [of_right(port, other)[0]], of)
    assert same, "\n".join(lines)
    kernels = {name for name in of.weights if name.endswith("kernel") and "lstm" not in name}
    assert {name for layer in one.facts["layers"] for name in layer["tensors"]} >= kernels


@in_own_process
def evidence(framework: str) -> dict[str, Any]:
    """What a launch of `mixed` would record."""
    (name,) = registry.register(PORTS / "mixed")
    cell = Cell(name, framework, batch=8, size="small")
    with switches_restored(framework):
        code = framework_of(framework)
        code.prepare(cell, "cpu", 0)
        spec, given = specification(name, "small"), data_of(name)
        subject = EvidenceContext(cell, code, module(name, framework), "cpu", spec, given)
        return (
            take_fingerprint(subject)[0]
            | take_own_fingerprint(subject)
            | take_float64_fingerprint(subject)
            | {"layers": draws(subject).layers}
        )


@needs_frameworks
@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_a_launch_s_evidence_holds_all_optimizers_and_frozen_tensors(framework: str) -> None:
    found, reference = evidence(framework), evidence("pytorch")
    assert found["optimizer"] < 1e-12
    assert found["own_optimizer"] < 1e-3
    assert "bag/table" not in found["updates"]
    assert all(found["updates"].values())
    for trace in ("own", "float64"):
        one, other = found[trace], reference[trace]
        assert one.losses == pytest.approx(other.losses, rel=1e-9 if trace == "float64" else 1e-4)
        assert one.updates == pytest.approx(other.updates, rel=1e-9 if trace == "float64" else 1e-2)
    assert set(found["layers"].values()) == {0.0}  # there is no dropout


def test_a_tensor_that_two_layers_share_is_the_first_one_s_and_what_is_frozen_is_not_to_move() -> None:
    table, bias = np.arange(6.0).reshape(2, 3), np.ones(2)
    calls = [("encoder", 0, 0), ("inner", 0, 0), ("outer", 0, 0), ("decoder", 0, 0)]
    owned = {"encoder": [table], "outer": [bias], "inner": [bias], "decoder": [table]}
    assert owners(owned, {"table": table, "bias": bias}, calls) == {"encoder": ["table"], "inner": ["bias"]}
    assert movement({"a": bias, "b": bias}, {"a": bias, "b": 2 * bias}, ("a",)) == {"b": 1.0}


@needs_frameworks("pytorch")
@pytest.mark.filterwarnings("ignore:`torch.nn.utils.weight_norm` is deprecated:FutureWarning")
def test_both_forms_of_pytorch_s_weight_normalisation_have_a_default() -> None:
    from torch import nn

    from workloads.defaults.pytorch import export_weights, import_weights

    given = {"0/kernel": np.ones((2, 3, 4)), "0/scale": np.arange(4.0), "0/bias": np.ones(4)}
    for normalise in (nn.utils.weight_norm, nn.utils.parametrizations.weight_norm):
        model = nn.Sequential(normalise(nn.Conv1d(3, 4, 2)))
        import_weights(model, given)
        exported = export_weights(model)
        assert all(np.array_equal(exported[name], array) for name, array in given.items())
        assert exported.keys() == given.keys()
