"""Which category an operation belongs to, by its name: one table for all profilers.

An operator that only calls others or makes a view leaves its own time to the host. XLA's instructions are placed by
their opcodes too (`suite.worker.profilers.xla`).
"""

from __future__ import annotations

import re
from functools import cache

from suite.worker.profilers.timeline import OTHER, OVERHEAD

#: By kind of name, patterns and their categories: the first that fits decides.
RULES: dict[str, tuple[tuple[str, str], ...]] = {
    # of cuDNN, cuBLAS, CUTLASS, Triton, NCCL and Eigen, from their documentation and public traces: none was seen here
    "kernel": (
        (r"nccl", "communication"),
        (r"memcpy|memset", "copy and layout change"),
        (r"wgrad|bprop_filter|backward_?filter|conv\w*BackwardWeight", "convolution weight gradient"),
        (r"dgrad|bprop_data|backward_?data|conv\w*BackwardInput", "convolution input gradient"),
        (r"nchwToNhwc|nhwcToNchw|nchw2nhwc|nhwc2nchw|transpose|permute|CatArray|copy_kernel|direct_copy|convert_element"
         r"|SwapDimension|ShuffleInTensor|cudnn::ops::.*(scale|cvt|convertTensor)|tensorTransform",
         "copy and layout change"),
        (r"fprop|implicit_(conv|gemm)|winograd|convolve|conv2d|scudnn|cudnn.*conv", "convolution forward"),
        (r"rnn|lstm|gru_|persist.*(elementwise|gemm)", "recurrent kernel"),
        (r"philox|dropout|bernoulli|threefry|curand|distribution|FillPhilox|rng_", "random numbers and dropout"),
        (r"bn_(fw|bw)|batch_?norm|layer_?norm|group_?norm|RMSNorm", "normalisation"),
        (r"multi_tensor_apply|adam|sgd|momentum|optimizer", "optimizer"),
        (r"gemm|gemv|cutlass|splitK|cublas|_tn_|_nt_|_nn_|matmul|ampere_\w+_s?[0-9]+x[0-9]+|sm\d\d_xmma|nvjet",
         "matrix product"),
        (r"embedding|gather|scatter|index|segment", "embedding and gather"),
        (r"triton_(red|per)_|reduce|pool|softmax|argm(ax|in)|nll_loss|cub::|norm_kernel|cross_entropy",
         "reduction and pooling"),
        (r"triton_(poi|fus)|loop_\w*fusion|elementwise|vectorized|unrolled|Eigen(Meta|::internal)|BiasGrad|BiasNHWC|relu|fill"
         r"|add_|mul_|_kernel_impl|\w*fusion(_\d+)?$", "element-wise"),
    ),
    # of PyTorch, without ``aten::``
    "aten": (
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
    ),
    # that PyTorch itself writes, and nodes of autograd
    "span": (
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
    ),
    # of TensorFlow's executor, besides operations
    "event": (
        (r"ExecutorState::Process", OVERHEAD),
        (r"(Base)?Collective(OpV2Kernel|Executor)::.*", "communication"),
    ),
    # of an operation's name in TensorFlow: they go first, whatever the type
    "scope": (
        (r"^(sgd|adam(_w)?|lars|lamb|loss_scale_optimizer)(_\d+)?/", "optimizer"),
        (r"(^|/)dropout(_\d+)*/", "random numbers and dropout"),
    ),
    # of an operation of TensorFlow, without oneDNN's prefix
    "type": (
        (r"(Fused)?(Depthwise)?Conv\dD\w*BackpropFilter\w*", "convolution weight gradient"),
        (r"(Fused)?(Depthwise)?Conv\dD\w*BackpropInput\w*", "convolution input gradient"),
        (r"(Pad\w*)?(Fused)?(Depthwise)?Conv\dD\w*", "convolution forward"),
        (r"(Fused|Batch|Sparse)*MatMul(V\d|Grad)?\w*|Einsum", "matrix product"),
        (r"CudnnRNN\w*|(LSTM|GRU)Block\w*|BlockLSTM\w*", "recurrent kernel"),
        (r"(Fused)?(Batch|Layer)Norm\w*|_?FusedBatchNorm\w*|L2Loss", "normalisation"),
        (r"(Resource|Sparse)+Apply\w+|Assign(Sub|Add)VariableOp", "optimizer"),
        (r"(Stateless)?(Random|Multinomial|TruncatedNormal|ParameterizedTruncated)\w*|StatelessRandom\w*|Philox\w*",
         "random numbers and dropout"),
        (r"Gather\w*|ResourceGather\w*|Scatter\w*|UnsortedSegment\w*|Segment\w*|Embedding\w*|SparseSegment\w*|Unique\w*"
         r"|OneHot|DynamicStitch|DynamicPartition", "embedding and gather"),
        (r"(Max|Avg|FractionalMax)Pool\w*|(Reduce)?(Sum|Mean|Max|Min|Prod|All|Any)|ArgMax|ArgMin|TopK\w*|InTopK\w*"
         r"|\w*Softmax\w*|BiasAddGrad|Cumsum|Norm|EuclideanNorm", "reduction and pooling"),
        (r"Collective\w*|Nccl\w*|_?Send|_?Recv|_Host(Send|Recv)", "communication"),
        (r"(Conjugate)?Transpose|Concat\w*|Pack|Unpack|Split\w*|(Strided)?Slice\w*|Pad\w*|MirrorPad\w*|Tile|Copy\w*|Snapshot"
         r"|Reverse\w*|DeepCopy|ToTf|MklToTf|InputConversion|Cast|TensorList(Stack|FromTensor|Concat\w*|Split|GetItem|SetItem"
         r"|Gather|ScatterV?2?\w*)|StridedSliceGrad|TensorStridedSliceUpdate|InvertPermutation|SpaceToBatch\w*"
         r"|BatchToSpace\w*|AssignVariableOp|_?Arg|_?Retval", "copy and layout change"),
        (r"Less\w*|LoopCond|Enter|Exit|Merge|Switch|NextIteration|While|StatelessWhile|If|StatelessIf|(Stateful)?Partitioned"
         r"Call|NoOp|Const|VarHandleOp|ReadVariableOp|Identity\w*|Reshape|ExpandDims|Squeeze|Shape\w*|Rank|Size|Placeholder\w*"
         r"|TensorList\w*|EmptyTensorList|Accumulator\w*|ControlTrigger|StopGradient|PreventGradient|Assert|VarIsInitializedOp"
         r"|BroadcastGradientArgs|BroadcastArgs|Range|SymbolicGradient|StackV\d|StackPushV?\d?|StackPopV?\d?"
         r"|Iterator\w*|OptionalGetValue|SyncDevice|LogicalAnd|LogicalNot|_SwitchN|GuaranteeConst|HostConst|DestroyTemp\w*"
         r"|TemporaryVariable|Xla\w*|FunctionRun|EnsureShape|RandomSeed\w*|GetSeed\w*|Bitcast|_?VarHandlesOp"
         r"|StatelessRandomGet\w*|VariableShape", OVERHEAD),
        (r"AddN|(Zeros|Ones)Like|AddV?2?|Sub|Mul(NoNan)?|RealDiv|Div(NoNan|ide)?|FloorDiv|FloorMod|Maximum|Minimum|Neg|Sqrt|Rsqrt|Square\w*|Exp|Expm1"
         r"|Log|Log1p|Pow|Tanh\w*|Sigmoid\w*|Relu\w*|Elu\w*|Selu\w*|Gelu\w*|Swish\w*|Softplus\w*|LeakyRelu\w*|Select(V2)?|Where|BiasAdd"
         r"|Fill|BroadcastTo|Equal|NotEqual|Greater\w*|Less\w*|Logical\w*|Abs|Sign|Round|Floor|Ceil|Erf\w*|Reciprocal\w*|IsFinite"
         r"|IsNan|ClipByValue|Fused(Eltwise|Add|Mul)\w*|Cos|Sin|ReciprocalGrad|RsqrtGrad|SqrtGrad|BitwiseAnd|BitwiseOr"
         r"|RightShift|LeftShift|_?UnaryOpsComposition", "element-wise"),
    ),
    # of a custom call of XLA: a library
    "target": (
        (r"convBackwardFilter", "convolution weight gradient"),
        (r"convBackwardInput", "convolution input gradient"),
        (r"conv", "convolution forward"),
        (r"rnn|lstm", "recurrent kernel"),
        (r"gemm|matmul|dot|cublas", "matrix product"),
        (r"threefry|rng|random", "random numbers and dropout"),
        (r"norm", "normalisation"),
        (r"softmax|topk|reduce|sort", "reduction and pooling"),
        (r"callback|host|placement", OVERHEAD),
    ),
    # JAX's or TensorFlow's name for an instruction of XLA, whatever its opcode
    "op_name": (
        (r"threefry|random_bits|random_uniform|bernoulli|[Dd]ropout|StatelessRandom|erf_inv"
         r"|\(_?(truncated_)?(normal|uniform)(_real)?\)", "random numbers and dropout"),
        (r"normali[sz]ation|[Bb]atch_?[Nn]orm|[Ll]ayer_?[Nn]orm", "normalisation"),
        (r"^(jit\(\w+\)/)?(sgd|adam|lars|lamb)/|^jit\(\w+\)/[a-z_]+$|/(Resource)?Apply|Assign(Sub|Add)?VariableOp",
         "optimizer"),
    ),
}  # fmt: skip

#: Kinds whose patterns are of the whole name, and those in which case does not matter.
WHOLE, ANY_CASE = ("aten", "span", "event", "type"), ("kernel", "target")

#: Kernels that copy from a device to the host, as PyTorch, JAX and TensorFlow name them.
FROM_DEVICE = re.compile(r"memcpy\s?d(to|2)h", re.IGNORECASE)
#: What Inductor puts into a Triton kernel's name: triton_poi_fused_add_relu_3 holds an add and a relu.
_FUSED = re.compile(r"(?:triton_\w{3}|cpp)_fused_+(?P<held>\w+?)(?:_\d+)?$")
_ONEDNN = re.compile(r"^_?(Mkl(Native|Eager|Layout)?|OneDnn)")


@cache
def category_of(kind: str, name: str, unknown: str = OTHER) -> str:
    """The category of a name of this kind; `OTHER`, or another word, where no pattern fits."""
    for pattern, category in _compile(kind):
        if pattern.fullmatch(name) if kind in WHOLE else pattern.search(name):
            return category
    return unknown


@cache
def _compile(kind: str) -> list[tuple[re.Pattern[str], str]]:
    flags = re.IGNORECASE if kind in ANY_CASE else re.NOFLAG
    return [(re.compile(pattern, flags), category) for pattern, category in RULES[kind]]


def pytorch_category(name: str) -> str:
    """The category of an operator or a span of PyTorch; empty for a span that is no operation."""
    return category_of("aten", name[6:]) if name.startswith("aten::") else category_of("span", name)


def tensorflow_category(name: str, kind: str) -> str:
    """The category of an operation of TensorFlow by its name and type."""
    category = category_of("type", bare_type(kind))
    if category in (OVERHEAD, "communication"):  # an optimizer's gradients are summed in its scope
        return category
    return category_of("scope", name, category)


def bare_type(kind: str) -> str:
    """The type without oneDNN's prefix: ``_MklNativeConv2DBackpropInput`` is ``Conv2DBackpropInput``."""
    return _ONEDNN.sub("", kind).removeprefix("_")


def kernel_contents(name: str) -> tuple[str, ...]:
    """What a kernel of Inductor holds, in the order of its name; the name joins all words by underscores."""
    match = _FUSED.search(name)
    return tuple(dict.fromkeys(word for word in match["held"].split("_") if word)) if match else ()
