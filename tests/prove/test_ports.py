"""Models with what ports have, by the defaults alone: three frameworks compute the same, and one mistake is none."""

from __future__ import annotations

from pathlib import Path

import pytest

from suite.prove.output import verdict
from tests.frameworks import needs_frameworks
from tests.isolation import in_own_process
from tests.prove.mistakes import right

PORTS = Path(__file__).parent / "ports"
pytestmark = [needs_frameworks, pytest.mark.usefixtures("unoptimized")]


@pytest.mark.parametrize("port", ["mixed", "picture"])
@pytest.mark.parametrize("other", ["tensorflow", "jax"])
def test_defaults_are_the_same_in_all_frameworks(port: str, other: str) -> None:
    """`mixed` has several inputs and outputs, tied and frozen tensors, a bag, a GRU, an LSTM both ways, RMSNorm.

    `picture` is a regression with batch normalisation and a transposed convolution.
    """
    of_right = in_own_process(right)
    one, of = of_right(port, "pytorch")
    lines, same = verdict(one, [of_right(port, other)[0]], of)
    assert same, "\n".join(lines)
    assert {name for layer in one.facts["layers"] for name in layer["tensors"]} >= {
        name for name in of.weights if name.endswith("kernel") and "lstm" not in name
    }
