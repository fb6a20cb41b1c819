"""Layers of two frameworks, of which one may have as several what is one in the other."""

from __future__ import annotations

from typing import Any

import numpy as np

from suite.prove.layers import Pair
from suite.prove.numbers import Given, Numbers


def side(framework: str, arrays: dict[str, Any], *layers: tuple[str, ...]) -> Numbers:
    facts = {"layers": [{"path": "", "tensors": list(tensors), "lines": []} for tensors in layers]}
    return Numbers({"framework": framework, **facts}, arrays)


def test_layers_that_are_one_in_the_other_framework_are_compared_as_a_whole() -> None:
    """PyTorch's attention has the kernel of its output, which is a layer of its own in Keras."""
    draw = np.random.default_rng(0)
    words = draw.standard_normal((8, 5, 6))
    tensors = {name: draw.standard_normal((6, 6)) for name in ("attention/query", "attention/out")}
    whole = side("pytorch", {"layers/0/input": words, "layers/0/output": 2 * words}, tuple(tensors))
    parts = {"layers/0/input": words, "layers/0/output": 9 * words, "layers/1/input": 5 * words}
    split = side("tensorflow", parts | {"layers/1/output": 2 * words}, *((name,) for name in tensors))
    for one, other in ((whole, split), (split, whole)):
        (layer,) = Pair(one, other, Given(tensors, [])).layers
        assert np.array_equal(*layer.pair("output"))
        assert layer.tensors.keys() == tensors.keys()
        assert layer.name == "attention"
