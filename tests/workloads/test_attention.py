"""The attention of the Transformer and the GPT: the fused kernel computes what the formula does."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from suite.plan.cell import KERNELS_OF
from tests.frameworks import batches, distance, module, narrow, needs_frameworks, training

pytestmark = pytest.mark.usefixtures("unoptimized")

each_with_attention = pytest.mark.parametrize("name", ["imdb_transformer", "gpt_small"])


@needs_frameworks("pytorch")
@each_with_attention
@pytest.mark.parametrize("precision", ["fp64", "fp32"])
def test_pytorch_s_fused_kernel_computes_what_the_formula_does(name: str, precision: str) -> None:
    import torch

    spec, found = narrow(name), []
    for kernel in KERNELS_OF[name]:
        with training(name, "pytorch", precision, spec=spec) as running:
            for block in running.model.blocks:
                assert block.kernel == "fused", "what PyTorch takes by itself"
                block.kernel = kernel
            batch = running.put(batches(spec, 8)[0])
            found.append((running.logits(batch), running.gradients(batch)[1]))
    bound = {"fp64": 1e-12, "fp32": 1e-4}[precision]
    assert distance(found[0][0], found[1][0]) < bound
    assert max(distance(found[0][1][name], found[1][1][name]) for name in found[0][1]) < bound
    formula = torch.nn.attention.SDPBackend.MATH
    assert formula not in module("imdb_transformer", "pytorch").FUSED, "no formula under another name"


@needs_frameworks("pytorch")
@pytest.mark.parametrize(("name", "kernel"), [("imdb_transformer", "plain"), ("gpt_small", "fused")])
def test_torch_compile_takes_the_whole_model_as_one_graph(name: str, kernel: str) -> None:
    """Traced only: what a back end makes of the graph is its own affair."""
    import torch

    spec = replace(narrow(name), layers=1)
    with training(name, "pytorch", "fp32", spec=spec) as running:
        for block in running.model.blocks:
            block.kernel = kernel
        batch = running.put(batches(spec, 8)[0])
        traced = torch.compile(running.module.loss, fullgraph=True, dynamic=False, backend="eager")
        found, expected = (loss(running.model, *batch).item() for loss in (traced, running.loss))
        assert found == pytest.approx(expected)


@needs_frameworks("jax")
@each_with_attention
def test_jax_hands_cudnn_what_masks(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The length of every review, or the causal mask; the formula is in cuDNN's place, which needs a device."""
    import jax

    handed: list[tuple[str, str]] = []

    def stand_in(query: Any, key: Any, value: Any, *, implementation: str, **mask: Any) -> Any:
        handed.append((str(query.dtype), implementation))
        expected = {"is_causal"} if name == "gpt_small" else {"key_value_seq_lengths"}
        assert set(mask) == expected
        positions = query.shape[1]
        seen = np.tri(positions, dtype=bool)
        if not mask.get("is_causal"):
            seen = np.arange(positions) < mask["key_value_seq_lengths"][:, None, None, None]
        return module(name, "jax").plain_attention(query, key, value, seen)

    monkeypatch.setattr(jax.nn, "dot_product_attention", stand_in)
    spec, found = narrow(name), []
    for kernel in KERNELS_OF[name]:
        with training(name, "jax", "bf16", spec=spec) as running:
            running.model = running.model.clone(kernel=kernel)
            found.append(running.logits(running.put(batches(spec, 8)[0])).tolist())
    assert found[0] == found[1]
    assert handed == [("bfloat16", "cudnn")] * spec.layers
