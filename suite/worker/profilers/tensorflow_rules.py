"""Which category an operation of TensorFlow belongs to, by its type and by the scope in its name.

On a thread of the executor an event is called ``scope/name:Type``; types with ``_Mkl`` in front are oneDNN's. Keras'
optimizers name their scope after their class.
"""

from __future__ import annotations

import re

from suite.worker.profilers.timeline import OTHER, OVERHEAD

#: An operation's event: its name, its type, and its shapes where the profiler was asked for details.
OPERATION = re.compile(r"^(?P<name>[\w./\-]+):(?P<type>_?[A-Z]\w*)(?:#.*)?$")

#: What runs a collective operation, and waits for the other processes, on a thread of its own.
COLLECTIVE = re.compile(r"^(Base)?Collective(OpV2Kernel|Executor)::")

#: Scopes that decide, whatever the type.
SCOPES = [
    (re.compile(pattern), category)
    for pattern, category in (
        (r"^(sgd|adam(_w)?|lars|lamb|loss_scale_optimizer)(_\d+)?/", "optimizer"),
        (r"(^|/)dropout(_\d+)*/", "random numbers and dropout"),
    )
]

#: The first pattern that a type matches as a whole, without oneDNN's prefix, decides.
TYPES = [
    (re.compile(pattern), category)
    for pattern, category in (
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
    )
]  # fmt: skip

_ONEDNN = re.compile(r"^_?(Mkl(Native|Eager|Layout)?|OneDnn)")


def category_of(name: str, kind: str) -> str:
    """The category of an operation by its name and type; `OTHER` where no rule knows it."""
    bare = bare_type(kind)
    found = next((category for pattern, category in TYPES if pattern.fullmatch(bare)), OTHER)
    if found in (OVERHEAD, "communication"):  # an optimizer's gradients are summed in its scope
        return found
    return next((category for pattern, category in SCOPES if pattern.search(name)), found)


def bare_type(kind: str) -> str:
    """The type without oneDNN's prefix: ``_MklNativeConv2DBackpropInput`` is ``Conv2DBackpropInput``."""
    return _ONEDNN.sub("", kind).removeprefix("_")


def holds(name: str, kind: str) -> tuple[str, ...]:
    """What a fused operation holds: ``conv1a/Relu`` of type ``FusedConv2D`` ends with the activation."""
    bare = bare_type(kind)
    if bare.startswith(("Fused", "PadFused")):
        return bare.removeprefix("Pad").removeprefix("Fused"), name.rpartition("/")[2]
    if "WithBias" in bare:
        return bare.replace("WithBias", ""), "BiasAddGrad"
    return ()


#: Layers of a loop's name that only say how Keras and the executor nest it.
_NOISE = re.compile(
    r"gradient_tape/|sequential(_\d+)*/|functional(_\d+)*/|while/body/_\d+/|while/\w*/?while_grad/body/_\d+/|gradients/"
)


def title(name: str, kind: str) -> str:
    """A name for people: the end of the scope, and the type."""
    kept = _NOISE.sub("", name).split("/")
    backward = "gradient of " if "gradient_tape/" in name else ""
    return f"{bare_type(kind)}: {backward}{'/'.join(kept[-3:])}"
