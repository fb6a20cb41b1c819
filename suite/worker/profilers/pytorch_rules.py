"""Which category an operation of PyTorch belongs to, by its name in a trace of `torch.profiler`.

Names are those of ATen's operators, of autograd's nodes and of the spans that PyTorch itself writes. An operator that
only calls others or makes a view leaves its own time to the host.
"""

from __future__ import annotations

import math
import re
from typing import Any

from suite.worker.profilers.timeline import OTHER, OVERHEAD

#: The first pattern that an ATen operator's name matches, without ``aten::``, decides.
OPERATORS = [
    (re.compile(pattern), category)
    for pattern, category in (
        (r"(mkldnn_|miopen_|cudnn_|thnn_|_slow_)?conv(olution)?\w*backward\w*", OTHER),  # split by `onednn`, or not
        (r"(conv[123]d|convolution|_convolution\w*|lstm|gru|linear|matmul|max_pool2d|dropout|relu|relu_|embedding)",
         OVERHEAD),
        (r"(mkldnn_|cudnn_|miopen_|slow_|thnn_)\w*conv\w*", "convolution forward"),
        (r"\w*(mkldnn_rnn|_cudnn_rnn|cudnn_rnn|lstm_mps|_thnn_fused)\w*", "recurrent kernel"),
        (r"(mm|addmm|bmm|baddbmm|addbmm|addmv|mv|dot|mkldnn_linear\w*|_scaled_mm|\w*linear_(un|bin)ary|einsum"
         r"|_scaled_dot_product\w*)", "matrix product"),
        (r"\w*(batch_norm|layer_norm|group_norm|instance_norm|_local_scalar_norm)\w*", "normalisation"),
        (r"(bernoulli_?|rand\w*|normal_|uniform_|native_dropout\w*|_fused_dropout|_masked_scale|random_|exponential_)",
         "random numbers and dropout"),
        (r"\w*(embedding|gather|scatter|index)\w*", "embedding and gather"),
        (r"(_fused_\w*(sgd|adam\w*|adagrad)_?|_foreach_\w+)", "optimizer"),
        (r"(select_backward|slice_backward|copy_|_to_copy|clone|contiguous|cat|stack|_pin_memory|pin_memory|_reshape_copy|permute_copy|pad"
         r"|constant_pad_nd|\w*reorder\w*|to_mkldnn|to_dense|\w*_copy|roll|flip|repeat|im2col|col2im|_chunk_cat|mkldnn_reorder\w*)",
         "copy and layout change"),
        (r"(?!clamp)\w*(pool|softmax\w*|_log_softmax\w*|sum|mean|amax|amin|max|min|norm|argmax|argmin|var\w*|std|cumsum|logsumexp"
         r"|nll_loss\w*|any|all|count_nonzero|topk|sort)(\d?d?)?(_with_indices)?(_forward|_backward\w*|_out|_data)*",
         "reduction and pooling"),
        (r"(empty\w*|resize_?|as_strided_?|view|_?reshape\w*|_unsafe_view|t|transpose_?|permute|slice|select|narrow|expand"
         r"|unsqueeze_?|squeeze_?|unflatten|flatten|split\w*|chunk|unbind|detach_?|alias|lift_fresh|to|item|type_as"
         r"|_local_scalar_dense|result_type|set_|is_\w+|broadcast_\w+|unsafe_split\w*|_conj|_nnpack_available|zeros"
         r"|zeros_like|ones|ones_like|full|full_like|new_\w+|scalar_tensor|arange|dropout|_has_compatible\w*|expand_as"
         r"|movedim|_amp_\w+|unfold|numpy_T|mT|feature_dropout|one_hot|data|cross_entropy_loss|nll_loss_nd|unsafe_chunk"
         r"|resolve_conj|resolve_neg|\w*_is_acceptable|lstm_cell|tensor_split|swapaxes|rsub|_\w*_fallback)", OVERHEAD),
        (r"(fill_|zero_|add\w*|sub\w*|mul\w*|div\w*|neg_?|sqrt_?|rsqrt_?|exp_?|log\w*|pow_?|tanh\w*|sigmoid\w*|where|gelu\w*"
         r"|silu\w*|clamp\w*|threshold\w*|eq_?|ne_?|lt_?|le_?|gt_?|ge_?|abs_?|sign|masked_fill\w*|lerp\w*|maximum|minimum"
         r"|bitwise\w*|logical\w*|square_?|reciprocal\w*|hardtanh\w*|leaky_relu\w*|elu\w*|binary_cross_entropy\w*|isnan"
         r"|isfinite|round|floor\w*|ceil|remainder|fmod|erf|erfc|sin|cos|_log_sigmoid\w*|softplus\w*|_foreach_\w+)",
         "element-wise"),
    )
]  # fmt: skip

#: Spans that are no ATen operators, likewise.
SPANS = [
    (re.compile(pattern), category)
    for pattern, category in (
        (r"Optimizer\.(step|zero_grad)#.*", "optimizer"),
        (r"enumerate\(DataLoader\)#.*", "input pipeline"),
        (r"autograd::engine::evaluate_function: .*|torch::autograd::\w+|\w+Backward\d*|\w+BackwardBackward\d*|detach",
         OVERHEAD),
        (r"fsdp::\w+|FSDP::all_gather_copy_(in|out)|torch\.distributed\.ddp\.reducer::copy\w+",
         "copy and layout change"),
        (r"torch::distributed::reducer::mul_out", "element-wise"),
        # What a rank does and waits for around its exchange; the model's own layers are operators within the others.
        (r"FSDP::(all_gather|post_backward_reduce)", "communication"),
        (r"DistributedDataParallel\.\w+|FSDP::\w+", OVERHEAD),
        (r"(c10d|gloo|nccl|mpi)\b.*|\w*(all_?reduce|all_?gather|broadcast|reduce_scatter)\w*",
         "communication"),
        (r"Torch-Compiled Region.*|## Call CompiledFxGraph.*|CompiledFunction|inductor::.*", "element-wise"),
        (r"TorchDynamo Cache Lookup|Pregraph bytecode|AOTDispatcher.*|mkldnn::_\w*reorder\w*", OVERHEAD),
        (r"mkldnn::_convolution\w*", "convolution forward"),
        (r"mkldnn::_linear\w*|mkl::_mkl_linear", "matrix product"),
        (r"ProfilerStep.*|\[pytorch\|profiler\].*|cuda\w+|cu[A-Z]\w+|suite: .*", ""),
        (r"triton_\w+|cpp_fused_\w+", "element-wise"),
    )
]  # fmt: skip

#: Operators whose inner operators count as theirs, and the category of these.
OUTER = {
    "aten::dropout": "random numbers and dropout",
    "Optimizer.step": "optimizer",
    "Optimizer.zero_grad": "optimizer",
}


def category_of(name: str) -> str:
    """The category of an operator or a span of PyTorch; `OTHER` where no rule knows it."""
    rules, bare = (OPERATORS, name[6:]) if name.startswith("aten::") else (SPANS, name)
    return next((category for pattern, category in rules if pattern.fullmatch(bare)), OTHER)


#: Bytes of an element by the names that the profiler gives to types.
SIZES = {
    "float": 4, "double": 8, "c10::BFloat16": 2, "c10::Half": 2, "int": 4, "long int": 8, "long": 8, "short": 2,
    "unsigned char": 1, "signed char": 1, "bool": 1,
}  # fmt: skip


def moved_bytes(name: str, arguments: dict[str, Any]) -> int | None:
    """Bytes that an operator reads and writes, by the shapes and types of its arguments; None where they are unknown.

    The profiler does not tell shapes of results. That of a convolution and of a matrix product follow from the
    operands, a gradient has the shape of its operand, and anything else is taken to be as large as its largest operand.
    """
    sizes = [_tensor(dims, kind) for dims, kind in _tensors(arguments)]
    if not sizes:
        return None
    shapes = [dims for dims, _ in _tensors(arguments)]
    element = SIZES.get(_tensors(arguments)[0][1], 4)
    bare = name.removeprefix("aten::")
    if bare.endswith("_") or "fused" in bare:  # in place; an optimizer also writes its parameters and state
        return sum(sizes) + (sum(sizes) if "fused" in bare else sizes[0])
    if "backward" in bare and "conv" in bare and len(sizes) >= 3:
        return sum(sizes) + sizes[1] + sizes[2]
    if "conv" in bare and len(shapes) >= 2 and len(shapes[0]) == len(shapes[1]) >= 3:
        return sum(sizes) + _count_convolved(shapes[0], shapes[1], arguments) * element
    if bare in ("mm", "addmm"):
        left, right = shapes[-2:]
        return sum(sizes) + (left[0] * right[-1] * element if left and right else 0)
    return sum(sizes) + max(sizes)


def _tensors(arguments: dict[str, Any]) -> list[tuple[list[int], str]]:
    """Shapes and types of all tensors among the arguments, those in lists too."""
    found: list[tuple[list[int], str]] = []
    for dims, kind in zip(arguments.get("Input Dims", ()), arguments.get("Input type", ()), strict=False):
        if kind in SIZES and all(isinstance(size, int) for size in dims):
            found.append((dims, kind))
        elif kind == "TensorList":
            found += [(each, "float") for each in dims if isinstance(each, list)]
    return found


def _tensor(dims: list[int], kind: str) -> int:
    return math.prod(dims) * SIZES[kind]


def _count_convolved(images: list[int], kernel: list[int], arguments: dict[str, Any]) -> int:
    """Elements of a convolution's result; by padding and stride where the profiler tells them."""
    lists = [text for text in arguments.get("Concrete Inputs", ()) if re.fullmatch(r"\[\d+(, \d+)*\]", str(text))]
    numbers = [[int(number) for number in text[1:-1].split(", ")] for text in lists]
    spatial = len(images) - 2
    fitting = [each for each in numbers if len(each) == spatial]
    padding, stride = (fitting[0], fitting[1]) if len(fitting) >= 2 else ([0] * spatial, [1] * spatial)
    sides = [
        (side + 2 * pad - size) // step + 1
        for side, size, pad, step in zip(images[2:], kernel[2:], padding, stride, strict=True)
    ]
    return images[0] * kernel[0] * math.prod(sides)
