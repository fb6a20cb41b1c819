"""What PyTorch is told for CUDA, as far as a CPU can tell: its switches answer without a device."""

from __future__ import annotations

import json
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from suite.plan.cell import Cell
from suite.plan.settings.frameworks import MEMORY_FRACTION
from tests.frameworks import batches, module, needs_frameworks
from workloads.spec import Numbers, specification

pytestmark = needs_frameworks("pytorch")

#: In a fork for every order, sets the switches in it and answers with what each getter says then.
SWITCHES = """
import json, os, sys
import torch
from suite.worker.frameworks.pytorch import training as pytorch

cudnn, matmul = torch.backends.cudnn, torch.backends.cuda.matmul
for order in sys.argv[1:]:
    if not os.fork():
        for precision in order.split("-"):
            pytorch.set_fp32("tf32" if precision == "tf32" else "ieee")
        print(json.dumps({
            "old": [cudnn.allow_tf32, matmul.allow_tf32, torch.get_float32_matmul_precision()],
            "new": [each.fp32_precision for each in (cudnn, cudnn.conv, cudnn.rnn, matmul)],
        }), flush=True)
        os._exit(0)
    assert not os.wait()[1], order
"""
ANSWERS = {
    "fp32": {"old": [False, False, "highest"], "new": ["ieee"] * 4},
    "tf32": {"old": [True, True, "high"], "new": ["tf32"] * 4},
}


def test_every_precision_switch_answers_and_all_agree() -> None:
    """In fresh processes: Inductor reads old ones, which raise where only new ones were set."""
    orders = ("fp32", "tf32", "tf32-fp32", "fp32-tf32")
    command = [sys.executable, "-c", SWITCHES, *orders]
    root = Path(__file__).parents[2]
    done = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr[-1000:]
    answers = map(json.loads, done.stdout.splitlines())
    for order, answer in zip(orders, answers, strict=True):
        assert answer == ANSWERS[order.rpartition("-")[2]], order


def test_what_prepare_sets_for_cuda(monkeypatch: pytest.MonkeyPatch) -> None:
    import torch

    code: Any = import_module("suite.worker.frameworks.pytorch.training")
    fractions: list[float] = []
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda: "A GPU")
    monkeypatch.setattr(torch.cuda, "set_per_process_memory_fraction", fractions.append)
    try:
        device, settings = code.prepare(Cell("cifar100_cnn", "pytorch", precision="tf32", compile="max"), "auto", 0)
    finally:
        code.set_fp32("ieee")
    assert (device, settings["device_name"]) == ("cuda", "A GPU")
    assert {settings[f"fp32_{what}"] for what in ("convolution", "rnn", "matmul")} == {"tf32"}
    assert fractions == [settings["memory_fraction"]] == [MEMORY_FRACTION]
    assert settings["cuda_graphs"], "of torch.compile's max-autotune"


def test_a_cpu_has_no_such_budget() -> None:
    code: Any = import_module("suite.worker.frameworks.pytorch.training")
    assert "memory_fraction" not in code.prepare(Cell("cifar100_cnn", "pytorch"), "cpu", 0)[1]


def test_the_lstm_in_bfloat16_by_hand_is_the_layer_and_trains_its_weights() -> None:
    """What CUDA gets in bf16: a state in bfloat16, within rounding of float32's, and gradients for the weights."""
    import torch

    spec = specification("imdb_lstm", "small")
    model = module("imdb_lstm", "pytorch").build(spec, Numbers("bfloat16"))
    module("imdb_lstm", "pytorch").import_weights(model, spec.reference_weights(0))
    words = model.embedding(torch.from_numpy(batches(spec, 8)[0][0]))
    state, (_, (usual, _)) = model.state_in_bfloat16(words), model.lstm(words)
    assert (state.dtype, state.shape) == (torch.bfloat16, usual[-1].shape)
    assert torch.allclose(state.float(), usual[-1], atol=2e-2)
    state.float().sum().backward()
    assert model.lstm.weight_hh_l0.grad.abs().sum() > 0
    assert model.lstm.weight_hh_l0.grad.dtype == torch.float32
