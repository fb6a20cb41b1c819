"""PyTorch's steps on fake CUDA tensors: devices, types and waits on a machine without a GPU.

A fake tensor has a shape, a type and a device, and no numbers. The suite's own `Training` runs with them as it would on
CUDA: tensors on two devices raise, types that do not fit raise, and so does a host that asks for a number.

What is left out: autograd asks CUDA for a device even to record what it is to go back through. So the forward pass, the
loss scale, the optimizer and the evaluation are CUDA's, with gradients set by hand; the backward pass runs on meta
tensors, in fp32. Fused optimizers and the loss scale have no fake kernels, so what they get is checked. Which LSTM and
which attention runs is decided by asking the device: here the LSTM is `scan`, and the attention `plain`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from importlib import import_module
from typing import Any

import pytest

from suite.plan.cell import WORKLOADS, Cell
from tests.frameworks import batches, each_workload, framework_of, module, narrow, needs_frameworks
from workloads.spec import Lamb, Lars, Optimizer

pytestmark = needs_frameworks("pytorch")

#: The type that products and convolutions take.
COMPUTE = {"fp32": "float32", "tf32": "float32", "bf16": "bfloat16", "fp16": "float16"}
#: The last three are seen in inference mode, where nothing is taken apart for autograd.
PRODUCTS = ("mm", "addmm", "bmm", "baddbmm", "convolution", "linear", "matmul", "conv2d")
KERNELS = {"gpt_small": "plain", "imdb_lstm": "scan", "imdb_transformer": "plain"}
BATCH = 4
#: A copy to the device, as (from, to, without waiting).
PUT = ("cpu", "cuda", True)


@dataclass
class Seen:
    """Copies between devices, and the types that products took."""

    copies: list[tuple[str, str, bool]] = field(default_factory=list)
    products: set[str] = field(default_factory=set)

    def call(self, operation: Any, arguments: Any, options: Any) -> Any:
        """Call an operation, or check the arguments of one that has no fake kernel."""
        import torch

        name = operation.overloadpacket.__name__
        if name.startswith(("_fused_adam", "_fused_sgd", "_amp_")):
            return _checked(arguments, options)
        result = operation(*arguments, **options)
        tensors = [each for each in arguments if isinstance(each, torch.Tensor)]
        if name in PRODUCTS:
            self.products |= {str(tensor.dtype).removeprefix("torch.") for tensor in tensors}
        if name in ("_to_copy", "copy_", "to") and tensors[-1].device != result.device:
            waits_not = options.get("non_blocking", len(arguments) > 2 and arguments[2])
            self.copies.append((tensors[-1].device.type, result.device.type, waits_not))
        return result


def _checked(arguments: Any, options: Any) -> Any:
    """What a fused kernel returns: all it got is on the device, and what is kept of a weight lies as the weight."""
    import torch
    from torch.utils._pytree import tree_leaves

    tensors = [each for each in tree_leaves((arguments, options)) if isinstance(each, torch.Tensor)]
    assert {each.device.type for each in tensors} == {"cuda"}
    for together in zip(*(each for each in arguments[:4] if isinstance(each, list) and each), strict=True):
        assert len({(tensor.shape, tensor.dtype, tensor.stride()) for tensor in together}) == 1
    return arguments[0] if isinstance(arguments[0], torch.Tensor) else None


def _move(model: Any, change: Callable[[Any], Any], recurse: bool = True) -> Any:
    """Do what `Module._apply` does, which would exchange the insides of fake tensors."""
    from torch.nn import Parameter

    for child in model.children():
        child._apply(change)
    for name, weight in model._parameters.items():
        if weight is not None:
            model._parameters[name] = Parameter(change(weight.detach()), weight.requires_grad)
    for name, tensor in model._buffers.items():
        model._buffers[name] = change(tensor)
    return model


def _copy(target: Any, source: Any, non_blocking: bool = False) -> Any:
    import torch

    return torch.ops.aten.copy_.default(target, source, non_blocking)


def _pick(tensor: Any, index: Any) -> Any:
    axis = 0
    for each in index if isinstance(index, tuple) else (index,):
        if isinstance(each, int):
            tensor = tensor.select(axis, each)
            continue
        if each is None:
            tensor = tensor.unsqueeze(axis)
        elif each != slice(None):
            start, stop, step = each.indices(tensor.shape[axis])
            assert step == 1
            tensor = tensor.narrow(axis, start, stop - start)
        axis += 1
    return tensor


def _put(tensor: Any, index: Any, value: Any) -> None:
    _copy(_pick(tensor, index), value)


@pytest.fixture
def ahead(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    """A context with a `Training` on fake CUDA tensors, a batch, and what is seen of both."""
    import torch
    from torch._subclasses.fake_tensor import FakeTensorMode
    from torch.overrides import TorchFunctionMode
    from torch.utils._python_dispatch import TorchDispatchMode

    monkeypatch.setattr(torch.nn.Module, "_apply", _move)
    # The usual ones make CUDA's device the current one, before anything is dispatched.
    monkeypatch.setattr(torch.Tensor, "copy_", _copy)
    monkeypatch.setattr(torch.Tensor, "__getitem__", _pick)
    monkeypatch.setattr(torch.Tensor, "__setitem__", _put)
    monkeypatch.setattr(torch.Tensor, "__invert__", lambda tensor: tensor.bitwise_not())
    monkeypatch.setattr(torch.backends.cudnn, "enabled", False)
    monkeypatch.setattr("torch.cuda.amp.common.amp_definitely_not_available", lambda: False)
    monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda: True)

    class Numbered(TorchFunctionMode):
        """Gives ``cuda`` its number, for which CUDA would be asked."""

        def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            known, kwargs = {"cuda": torch.device("cuda", 0)}, kwargs or {}
            args = [known.get(str(each), each) if isinstance(each, str | torch.device) else each for each in args]
            return func(*args, **{name: known.get(str(each), each) for name, each in kwargs.items()})

    @contextmanager
    def begin(workload: str, optimizer: Optimizer | None = None, **settings: Any) -> Iterator[Any]:
        cell = Cell(workload, "pytorch", batch=BATCH, kernel=KERNELS.get(workload, "auto"), size="small", **settings)
        code, spec, seen = framework_of("pytorch"), narrow(workload), Seen()
        spec = replace(spec, optimizer=optimizer or spec.optimizer)

        class Watch(TorchDispatchMode):
            def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
                return seen.call(func, args, kwargs or {})

        with FakeTensorMode(allow_non_fake_inputs=True), Numbered(), torch.no_grad():
            training = code.Training(cell, spec, module(workload, "pytorch"), spec.reference_weights(0), "cuda")
            training.model.requires_grad_(False)  # autocast records its casts of trained weights, whatever is asked for

            def backward(loss: Any) -> None:
                for weight in (each for group in training.optimizer.param_groups for each in group["params"]):
                    weight.grad = torch.zeros_like(weight) + (0 if weight.grad is None else weight.grad)

            monkeypatch.setattr(torch.Tensor, "backward", backward)
            with Watch():
                yield training, training.put(batches(spec, BATCH * cell.accumulate)[0]), seen

    return begin


#: The CNN in every precision, and each other workload in the one whose operands are not the weights' type.
cells = pytest.mark.parametrize(
    ("workload", "precision"),
    [*(("cifar100_cnn", kind) for kind in COMPUTE), *((name, "bf16") for name in WORKLOADS if name != "cifar100_cnn")],
)


@cells
def test_a_step_stays_on_the_device_and_in_its_type(workload: str, precision: str, ahead: Callable[..., Any]) -> None:
    with ahead(workload, precision=precision) as (training, batch, seen):
        assert seen.copies == [PUT, PUT], "inputs and labels"
        results = [training.step(batch), training.step(batch), *training.evaluate(batch)]
        assert seen.copies == [PUT, PUT], "no step copies anything to the device or back"
    kept = [each for state in training.optimizer.state.values() for each in state.values() if each is not None]
    assert kept
    assert {tensor.device.type for tensor in (*results, *kept, *training.model.parameters())} == {"cuda"}
    assert {str(tensor.dtype) for tensor in (*results[:2], *kept, *training.model.parameters())} == {"torch.float32"}
    assert seen.products == {COMPUTE[precision]}


@cells
def test_what_serves_stays_on_the_device_and_in_its_type(
    workload: str, precision: str, ahead: Callable[..., Any]
) -> None:
    with ahead(workload, precision=precision) as (training, batch, seen):
        model, copies = import_module("suite.worker.frameworks.pytorch.inference").Model(training), [*seen.copies]
        results = [model.predict(batch[0])]
        if narrow(workload).decodes:
            state = model.prefill(batch[0][:, :2])
            for _ in range(2):
                words, state = model.decode(state)
                results += [words, state[0], *state[1]]
            assert state[2] == 4, "the place is a number of the host, which nobody waits for"
        model.close()
        assert seen.copies == copies, "nothing goes through the host"
    assert {tensor.device.type for tensor in results} == {"cuda"}
    assert seen.products == {COMPUTE[precision]}


def test_accumulated_batches_stay_on_the_device(ahead: Callable[..., Any]) -> None:
    with ahead("cifar100_cnn", precision="fp16", accumulate=2) as (training, batch, seen):
        assert training.step(batch).device.type == "cuda"
        assert seen.copies == [PUT, PUT]


@pytest.mark.parametrize("optimizer", [Lars(1.0), Lamb(0.1)], ids=["lars", "lamb"])
def test_layerwise_optimizers_do_not_wait_in_fp16(optimizer: Optimizer, ahead: Callable[..., Any]) -> None:
    with ahead("cifar100_cnn", optimizer, precision="fp16") as (training, batch, seen):
        training.step(batch)
        training.step(batch)
        assert seen.copies == [PUT, PUT]


def test_what_would_wait_or_lie_elsewhere_is_noticed(ahead: Callable[..., Any]) -> None:
    with ahead("cifar100_cnn") as (training, batch, seen):
        usual = training.loss
        training.loss = lambda *given: usual(*given) * float(usual(*given))
        with pytest.raises(RuntimeError):
            training.step(batch)
        training.loss = lambda *given: usual(*given).cpu()
        training.step(batch)
        assert seen.copies == [PUT, PUT, ("cuda", "cpu", False)]
        training.loss = lambda model, images, labels: usual(model, images, labels.cpu())
        with pytest.raises(RuntimeError, match="at least two devices"):
            training.step(batch)


@each_workload
def test_the_backward_pass_asks_for_no_number(workload: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """On meta tensors, which autograd takes: they have no numbers, so that whoever asks for one gets an error."""
    code, spec = framework_of("pytorch"), narrow(workload)
    monkeypatch.setattr(code, "_autocast", lambda *_: nullcontext())
    monkeypatch.setattr(code, "optimizer", lambda *_: None)  # fused ones refuse meta tensors
    cell = Cell(workload, "pytorch", batch=BATCH, kernel=KERNELS.get(workload, "auto"), size="small")
    training = code.Training(cell, spec, module(workload, "pytorch"), spec.reference_weights(0), "meta")
    (loss,) = training.backward(training.put(batches(spec, BATCH)[0]))
    gradients = [weight.grad for weight in training.model.parameters() if weight.requires_grad]
    assert {(each.device.type, str(each.dtype)) for each in (loss, *gradients)} == {("meta", "torch.float32")}
    with pytest.raises(RuntimeError, match="meta tensors"):
        float(loss)
