"""What PyTorch's `Training` shows of itself for the evidence in a record; nothing here is timed."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch._dynamo.utils import counters
from torch.utils._python_dispatch import TorchDispatchMode

from suite.catalog.settings import LAYOUTS
from suite.plan.cell import Cell
from suite.worker.evidence.layers import once, part
from suite.worker.frameworks import NUMBERS, build, find_kernel
from suite.worker.frameworks.pytorch.device import allocator, threads
from suite.worker.frameworks.pytorch.traced import Traced
from suite.worker.frameworks.pytorch.training import _autocast
from workloads.data.dataset import Array
from workloads.spec import WorkloadSpec

#: Modules whose tensors have the channels second.
CHANNELS_SECOND = (nn.Conv1d, nn.Conv2d, nn.ConvTranspose2d, nn.BatchNorm1d, nn.BatchNorm2d, nn.GroupNorm)


def count_trained(training: Any) -> int:
    """How many parameters the optimizer moves."""
    return sum(parameter.numel() for group in training.optimizer.param_groups for parameter in group["params"])


@contextmanager
def calls(
    training: Any, note: Callable[[str], object] = str, of: Callable[..., Any] | None = None
) -> Iterator[list[tuple[str, Any, Any]]]:
    """A context that lists the calls of layers: path, first input and first output, channels last.

    After each it calls ``note`` with the path. In place of the arrays on the host stands what ``of`` makes of a tensor.
    """
    listed: list[tuple[str, Any, Any]] = []

    def hook(path: str) -> Any:
        def called(layer: nn.Module, inputs: tuple[Any, ...], output: Any) -> None:
            first = output[0] if isinstance(output, tuple) else output
            taken, given = (of(each) if of else _array(layer, each) for each in (inputs[0] if inputs else None, first))
            listed.append((path, taken, given))
            note(path)

        return called

    hooks = [layer.register_forward_hook(hook(path)) for path, layer in training.model.named_modules() if path]
    try:
        yield listed
    finally:
        for each in hooks:
            each.remove()


def load(training: Any, weights: dict[str, Array]) -> None:
    """Set every tensor from canonical weights."""
    training.module.import_weights(training.model, weights)


def initial(cell: Cell, spec: WorkloadSpec, module: ModuleType, inputs: Array) -> Callable[[int], dict[str, Array]]:
    """What draws every tensor in canonical layout by a seed, as the workload's own builder does; for such inputs."""
    del inputs

    def draw(seed: int) -> dict[str, Array]:
        torch.manual_seed(seed)
        model = build(module, cell, spec, NUMBERS[cell.precision], True, "cpu")
        return dict(module.export_weights(model))

    return draw


def forward(training: Any, batch: Any) -> float:
    """The loss of a forward pass in training mode."""
    with torch.no_grad():
        return float(training.loss(training.model, *batch))


def gradients(training: Any, batch: Any) -> tuple[float, dict[str, Array]]:
    """The loss and its gradient by canonical names, zeros where there is none."""
    loss = training.loss(training.model, *batch)
    loss.backward()
    for parameter in training.model.parameters():
        if parameter.grad is None:
            parameter.grad = torch.zeros_like(parameter)
    exported: dict[str, Array] = training.module.export_weights(training.model, of="grad")
    training.model.zero_grad(set_to_none=True)
    return float(loss.detach()), exported


def parameters_by_layer(training: Any) -> dict[str, list[Array]]:
    """The parameters of each layer by its path, in the layouts that they have there."""
    return {
        path: [parameter.detach().cpu().numpy() for parameter in layer.parameters(recurse=False)]
        for path, layer in training.model.named_modules()
    }


def statistics(training: Any) -> dict[str, dict[str, Array]]:
    """The running mean and variance of each layer that has them, by its path."""
    return {
        path: {"mean": layer.running_mean.cpu().numpy().copy(), "variance": layer.running_var.cpu().numpy().copy()}
        for path, layer in training.model.named_modules()
        if getattr(layer, "running_mean", None) is not None
    }


def _array(layer: nn.Module, tensor: Any) -> Array | None:
    if not isinstance(tensor, Tensor):
        return None
    if isinstance(layer, CHANNELS_SECOND) and tensor.ndim > 2:
        tensor = tensor.movedim(1, -1)
    return tensor.detach().cpu().numpy().copy()


#: Operators that only a forward pass has, so that a backward pass with one of them computes activations again.
FORWARD_ONLY = {f"aten::{name}" for name in (
    "convolution", "native_layer_norm", "native_batch_norm", "cudnn_batch_norm", "relu", "gelu", "embedding",
    "max_pool2d_with_indices", "_softmax", "_log_softmax",
)}  # fmt: skip


def on_host() -> AbstractContextManager[Any]:
    """A context in which a `Training` on ``cpu`` computes there, in float64 if its cell asks for it."""
    return nullcontext()  # tensors say so themselves


@contextmanager
def compile_cache(folder: str, how: str) -> Iterator[None]:
    """A context in which compiled programs are kept in the folder and taken from there."""
    del how  # what is small runs eagerly, and no program depends on where it is kept
    places = {"TORCHINDUCTOR_CACHE_DIR": Path(folder, "inductor"), "TRITON_CACHE_DIR": Path(folder, "triton")}
    previous = {name: os.environ.get(name) for name in places}
    try:
        os.environ.update({name: str(place) for name, place in places.items()})  # read at every compilation
        yield
    finally:
        for name, value in previous.items():
            os.environ.pop(name) if value is None else os.environ.update({name: value})


def without_dropout(training: Any) -> None:
    """Train without dropout from now on."""
    for module in training.model.modules():
        if isinstance(module, torch.nn.Dropout):
            module.p = 0.0
    getattr(training.loss, "graphs", {}).clear()  # in which rates are constants


def explain_step(training: Any, batch: Any) -> tuple[float, dict[str, Array]]:
    """One update as `Training.step` makes it; returns the loss before it and its gradient, in canonical layout."""
    losses = training.backward(batch)
    scale = training.scaler.get_scale() if training.scaler else 1.0
    gradients: dict[str, Array] = {name: each / scale for name, each in training.weights("grad").items()}
    training.update()
    return sum(training.read(losses)), gradients


def updates(training: Any) -> int | None:
    """How many steps the optimizer of a `Training` has counted itself; None where it keeps no count, as SGD."""
    counts = [int(state["step"]) for state in training.optimizer.state.values() if "step" in state]
    return min(counts, default=None)


def draws(training: Any, batch: Any, count: int) -> tuple[Array, dict[str, Array]]:
    """The logits of ``count`` forward passes in training mode, each with new dropout masks: (count, b, classes).

    And the input of each layer that is called once, of as many samples as `part` takes.
    """
    logits, inputs = [], []
    for _ in range(count):
        with calls(training, of=lambda x: part(x).float().cpu().numpy() if isinstance(x, Tensor) else None) as called:
            logits.append(training.logits(batch))  # the model is in training mode
        inputs.append(once(called))
    return np.stack(logits), {path: np.stack([each[path] for each in inputs]) for path in inputs[0]}


def seed_draws(seed: int) -> None:
    """Start the generator that dropout draws from anew."""
    torch.manual_seed(seed)


def count_kept_bytes(training: Any, batch: Any) -> int:
    """Bytes that a forward pass keeps for the backward pass, besides weights, statistics and the batch."""
    saved: list[Tensor] = []  # which also keeps them alive, so that no two have the same place

    def keep(tensor: Tensor) -> Tensor:
        saved.append(tensor)
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        training._forward(*batch)
    known = [*training.model.parameters(), *training.model.buffers(), *batch]
    sizes = {tensor.untyped_storage().data_ptr(): tensor.untyped_storage().nbytes() for tensor in saved}
    for tensor in known:
        sizes.pop(tensor.untyped_storage().data_ptr(), None)
    return sum(sizes.values())


def applied(training: Any, batch: Any) -> dict[str, Any]:
    """The settings of a cell that PyTorch applies, read back from what ran: `suite.worker.launch.applied`."""
    forward, backward = _list_operators(training, batch)
    layouts = {layout for each in (forward, backward) for layout in each.layouts}
    return read_process(training) | {
        "kernel": find_kernel(training.cell, forward.names),
        "layout": " and ".join(sorted(layouts)) or LAYOUTS[0],
        "checkpointing": "on" if FORWARD_ONLY & {*backward.names} else "off",
    }


def read_process(training: Any) -> dict[str, Any]:
    """What Inductor and this process show of the settings, whatever drives the training.

    Compiled is what Inductor made code of, or took from its cache.
    """
    metrics = sys.modules.get("torch._inductor.metrics")
    cached = counters["inductor"]["fxgraph_cache_hit"] + counters["aot_autograd"]["autograd_cache_hit"]
    is_compiled = metrics and metrics.generated_kernel_count + counters["inductor"]["extern_calls"] + cached
    program = getattr(training.model, "_compiled_call_impl", None) or getattr(training, "loss", None)
    configured = getattr(program, "get_compiler_config", None)
    options = configured() if configured else None
    mode = "max" if options and options["max_autotune"] else "compile"
    return {
        "compile": "trace" if isinstance(program, Traced) and program.runs() else mode if is_compiled else "eager",
        "threads": threads(),
        "allocator": allocator() if training.device == "cuda" else "default",
    }


class _Operators(TorchDispatchMode):
    """Lists the operators that run within it, and the memory layouts of the images that convolutions take."""

    def __init__(self) -> None:
        super().__init__()
        self.names: list[str] = []
        self.layouts: set[str] = set()

    def __torch_dispatch__(self, operator: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.names.append(operator.name().partition(".")[0])
        images = args[0] if args else None
        if "convolution" in self.names[-1] and isinstance(images, Tensor) and images.dim() == 4:
            last = images.is_contiguous(memory_format=torch.channels_last)
            if last != images.is_contiguous():  # with one channel, or one pixel, it lies in both
                self.layouts.add(LAYOUTS[0] if last else LAYOUTS[1])
        return operator(*args, **(kwargs or {}))


def _list_operators(training: Any, batch: Any) -> tuple[_Operators, _Operators]:
    """The operators of a forward pass of two samples, and of its backward pass; neither changes anything.

    With several devices there is the forward pass alone, since in the backward pass they would exchange gradients; and
    where the layers are divided over devices, not even that.
    """
    forward, backward, model = _Operators(), _Operators(), training.model
    if training.cell.strategy == "split":
        return forward, backward
    was_training = model.training
    model.eval()  # in which dropout draws nothing, and statistics stay as they are
    rates = {module: module.dropout for module in model.modules() if isinstance(module, torch.nn.RNNBase)}
    for module in rates:  # of which cuDNN has a backward pass in training mode only
        module.train()
        module.dropout = 0.0
    try:
        several = training.cell.devices > 1
        with torch.set_grad_enabled(not several), _autocast(training.cell, training.device), forward:
            run = model if several and training.cell.strategy == "fsdp" else model.forward
            output = run(batch[0][:2])
        if not several:
            weights = [weight for weight in model.parameters() if weight.requires_grad]
            with backward:
                torch.autograd.grad(output.float().sum(), weights, allow_unused=True)
    finally:
        for module, rate in rates.items():
            module.dropout = rate
        model.train(was_training)
    return forward, backward
