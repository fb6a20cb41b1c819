"""Which integers of a traced TensorFlow function stay in a GPU's memory, told without a GPU.

TensorFlow places an operation on the host where it has no GPU kernel for its types, and many GPU kernels take int32 in
the host's memory. Either way a batch that is on the device already travels back and forth inside the step.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator

import tensorflow as tf

#: Types of integer (and bool) arguments that a GPU kernel takes in device memory, by the sources of TensorFlow's
#: kernels in `tensorflow/core/kernels`. What is missing here is to be looked up there before it is added.
DEVICE_TYPES = {
    "AddV2": {"int64"},  # mlir_generated/gpu_op_add.cc
    "Cast": {"bool", "uint8", "int32", "int64"},  # cast_op.cc
    "Equal": {"bool", "int64"},  # mlir_generated/gpu_op_equal.cc
    "GatherV2": {"int32", "int64"},  # gather_op.cc; the indices, as parameters also uint8
    "Greater": {"int64"},  # mlir_generated/gpu_op_greater.cc
    "Identity": {"bool", "uint8", "int64"},  # identity_op.cc
    "Less": {"int64"},  # mlir_generated/gpu_op_less.cc
    "LessEqual": {"int64"},  # mlir_generated/gpu_op_less_equal.cc
    "Reshape": {"uint8", "int64"},  # reshape_op.cc
    "SelectV2": {"bool", "int64"},  # mlir_generated/gpu_op_select.cc; bool is the condition
    "SparseSoftmaxCrossEntropyWithLogits": {"int32", "int64"},  # sparse_xent_op.cc
    "StridedSlice": {"bool", "uint8", "int64"},  # strided_slice_op.cc
    "UnsortedSegmentSum": {"int32", "int64"},  # segment_reduction_ops_impl.h; the segments' numbers
}
#: Operations that look at a shape only, wherever the values are.
SHAPES = ("Rank", "Shape", "ShapeN", "Size")
WHOLE = (tf.bool, tf.uint8, tf.int8, tf.uint16, tf.int16, tf.int32, tf.int64)


def uses(tensors: Iterable[tf.Tensor]) -> Iterator[tuple[tf.Operation, int]]:
    """Every operation that takes one of these integers, or such as are made of them, and by which input."""
    waiting = deque(tensor for tensor in tensors if tensor.dtype in WHOLE)
    seen = {tensor.name for tensor in waiting}
    while waiting:
        tensor = waiting.popleft()
        for operation in tensor.consumers():
            if operation.type in SHAPES:
                continue
            yield from ((operation, i) for i, taken in enumerate(operation.inputs) if taken.name == tensor.name)
            made = [each for each in operation.outputs if each.dtype in WHOLE and each.name not in seen]
            seen.update(each.name for each in made)
            waiting.extend(made)


def on_the_host(tensors: Iterable[tf.Tensor]) -> set[str]:
    """Which integers among these tensors, and among all that is made of them, are not in a GPU's memory.

    By `DEVICE_TYPES`.
    """
    found = {f"argument {tensor.name}: int32" for tensor in tensors if tensor.dtype == tf.int32}
    taken = {(operation.type, operation.inputs[i].dtype.name) for operation, i in uses(tensors)}
    return found | {f"{kind}: {name}" for kind, name in taken if name not in DEVICE_TYPES.get(kind, ())}
