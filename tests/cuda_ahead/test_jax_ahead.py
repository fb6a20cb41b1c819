"""JAX's steps compiled for an H100 on a machine without one: `tox run -e cuda-ahead`."""

from __future__ import annotations

from functools import cache
from importlib.util import find_spec

import pytest

from suite.plan.cell import Cell
from tests.cuda_ahead.steps import Compiled, compile_ahead, compile_serving_ahead

pytestmark = pytest.mark.skipif(not find_spec("jax_plugins"), reason="needs JAX's CUDA plugin: tox run -e cuda-ahead")

#: The precision that products ask for; narrow types ask for none.
PRODUCTS = {"fp32": {("highest", "highest")}, "tf32": {("high", "high")}, "bf16": set(), "fp16": set()}


@cache
def ahead(
    workload: str, precision: str = "fp32", kernel: str = "auto", batch: int = 8, size: str = "small"
) -> Compiled:
    return compile_ahead(Cell(workload, "jax", precision=precision, batch=batch, kernel=kernel, size=size))


def calls_of(one: Compiled, library: str) -> int:
    return sum(count for name, count in one.calls.items() if library in name)


@pytest.mark.parametrize("precision", PRODUCTS)
@pytest.mark.parametrize("workload", ["cifar100_cnn", "imdb_lstm"])
def test_a_step_becomes_code_for_hopper_in_the_precision_asked_for(workload: str, precision: str) -> None:
    one = ahead(workload, precision, "auto" if workload == "cifar100_cnn" else "scan")
    assert one.machine_code == {"sm_90a"}
    assert one.products == PRODUCTS[precision]
    assert not calls_of(one, "callback"), "nothing goes back to the host"


def test_convolutions_are_cudnn_s() -> None:
    assert calls_of(ahead("cifar100_cnn"), "__cudnn$conv") == 17, "six forward, six for weights, five for inputs"


def test_the_lstm_is_cudnn_s_or_a_loop_each_way() -> None:
    fused = ahead("imdb_lstm", kernel="cudnn")
    assert (calls_of(fused, "dnn_rnn"), fused.count("while")) == (2, 0)
    scanned = ahead("imdb_lstm", kernel="scan")
    assert (calls_of(scanned, "dnn_rnn"), scanned.count("while")) == (0, 2)


@pytest.mark.parametrize("workload", ["gpt_small", "imdb_transformer"])
def test_the_fused_attention_is_cudnn_s(workload: str) -> None:
    assert calls_of(ahead(workload, "bf16", "fused"), "__cudnn$fmha") > 0


def test_what_serves_becomes_code_for_hopper() -> None:
    (forward,) = compile_serving_ahead(Cell("cifar100_cnn", "jax", batch=8, size="small")).values()
    assert calls_of(forward, "__cudnn$conv") == 6
    assert forward.machine_code == {"sm_90a"}


def test_decoding_changes_its_cache_in_place() -> None:
    made = compile_serving_ahead(Cell("gpt_small", "jax", precision="bf16", batch=8, kernel="fused", size="small"))
    assert made.keys() == {"forward", "prefill", "decode"}
    assert calls_of(made["prefill"], "__cudnn$fmha") > 0
    assert calls_of(made["decode"], "__cudnn$fmha") == 0, "one query has no kernel of cuDNN's"
    assert "may-alias" in made["decode"].text
    assert not any(calls_of(each, "callback") for each in made.values())


def test_the_usual_mode_has_cuda_graphs_and_another_has_none() -> None:
    assert ahead("cifar100_cnn").graphs > 0
    assert compile_ahead(Cell("cifar100_cnn", "jax", batch=8, compile="nographs", size="small")).graphs == 0


@pytest.mark.slow
def test_the_plain_attention_takes_13_gib_at_batch_128() -> None:
    one = ahead("imdb_transformer", kernel="plain", batch=128, size="full")
    assert one.peak_bytes / 2**30 == pytest.approx(13.4, abs=0.1)
