"""`cifar100_resnet18` in TensorFlow: Keras 3 layers, and TensorFlow's fused batch normalisation.

Keras' own BatchNormalization computes moments and scaling as separate operations, so the layer below calls the fused
kernel, which both other frameworks use. The kernel has no float64 and knows no other device; there the same formula is
written out. Padding is explicit, because "same" with stride 2 pads on one side only.
"""

from __future__ import annotations

from typing import Any

import keras
import tensorflow as tf

from workloads.cifar100_cnn.tensorflow import Normalise
from workloads.cifar100_resnet18.spec import CLASSES, EPSILON, IMAGE, MOMENTUM, Convolution, ResNetSpec
from workloads.defaults.tensorflow import Recomputed, export_weights, import_weights, loss, policy, scores, variables
from workloads.spec import Numbers

__all__ = ("build", "export_weights", "import_weights", "kernels", "loss", "scores", "variables")

#: How kernels start until `import_weights`: eleven million random numbers take longer than the rest of a model, which
#: was built in 0.10 to 0.12 s instead of 0.16 to 0.44 (AMD EPYC, 2 cores, n = 4).
UNSET = "zeros"


class FusedBatchNormalization(keras.layers.Layer):
    """Batch normalisation over (batch, height, width, channels); evaluation takes the running statistics.

    On several devices each has statistics of its own, unless they are ``synchronised``; a checkpoint has the mean of
    the running ones.
    """

    def __init__(self, synchronised: bool = False, **options: Any) -> None:
        super().__init__(**options)
        self.synchronised = synchronised

    def get_config(self) -> dict[str, Any]:
        return super().get_config() | {"synchronised": self.synchronised}

    def build(self, shape: tuple[int, ...]) -> None:
        # Scale, shift and statistics stay in the weights' type in every precision.
        options = {"shape": shape[-1:], "autocast": False}
        self.scale = self.add_weight(**options, initializer="ones", name="scale")
        self.shift = self.add_weight(**options, initializer="zeros", name="shift")
        options |= {"trainable": False, "dtype": self.variable_dtype}
        options |= {"aggregation": "mean", "synchronization": "on_read"}  # `add_weight` takes no synchronization
        self.mean = keras.Variable(keras.initializers.Zeros(), name="mean", **options)
        self.variance = keras.Variable(keras.initializers.Ones(), name="variance", **options)

    def compute_output_spec(self, x: keras.KerasTensor, **_: Any) -> keras.KerasTensor:
        """Of the input's shape and type; said here, as Keras would trace the layer to find out."""
        return keras.KerasTensor(x.shape, self.compute_dtype)

    def call(self, x: tf.Tensor, training: bool | None = None) -> tf.Tensor:
        scale, shift = tf.convert_to_tensor(self.scale), tf.convert_to_tensor(self.shift)
        if training is False:
            numbers = (self.mean, self.variance, shift, scale)
            return tf.nn.batch_normalization(x, *(tf.cast(number, x.dtype) for number in numbers), EPSILON)
        if x.dtype == tf.float64 or self.synchronised:
            y, mean, variance = self._composite(x, scale, shift)
        else:
            y, mean, variance, *_ = tf.raw_ops.FusedBatchNormV3(
                x=x, scale=scale, offset=shift, mean=[], variance=[], epsilon=EPSILON, is_training=True
            )
        self.mean.assign_add(MOMENTUM * (mean - self.mean.value))
        self.variance.assign_add(MOMENTUM * (variance - self.variance.value))
        return y

    def _composite(self, x: tf.Tensor, scale: tf.Tensor, shift: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        """The normalised batch, and its mean and unbiased variance, in the type of the statistics."""
        exact = tf.cast(x, scale.dtype)
        mean, variance = tf.nn.moments(exact, [0, 1, 2])
        count = tf.cast(tf.size(x) / tf.size(mean), scale.dtype)
        # There is no context where Keras traces the layer.
        if self.synchronised and (replica := tf.distribute.get_replica_context()):
            own, kind = mean, tf.distribute.ReduceOp.MEAN
            mean, within, square = replica.all_reduce(kind, [own, variance, tf.square(own)])
            variance = within + tf.maximum(square - tf.square(mean), 0)  # within the devices, and between them
            count *= replica.num_replicas_in_sync
        y = tf.nn.batch_normalization(exact, mean, variance, shift, scale, EPSILON)
        return tf.cast(y, x.dtype), mean, variance * count / (count - 1)


def build(
    spec: ResNetSpec, numbers: Numbers, dropout: bool = True, device: str = "cpu", kernel: str = "auto",
    checkpointing: bool = False, synchronised: bool = False,
) -> keras.Model:  # fmt: skip
    dtype = policy(numbers)
    layers = keras.layers

    def normalise(c: Convolution, x: keras.KerasTensor) -> keras.KerasTensor:
        padded = layers.ZeroPadding2D(c.kernel // 2, dtype=dtype)(x) if c.kernel > 1 else x
        convolution = layers.Conv2D(
            c.outputs, c.kernel, c.stride, use_bias=False, name=c.name, dtype=dtype, kernel_initializer=UNSET
        )
        normalisation = FusedBatchNormalization(synchronised, name=f"{c.name}_normalisation", dtype=dtype)
        return normalisation(convolution(padded))

    def residual(convolutions: list[Convolution], x: keras.KerasTensor) -> keras.KerasTensor:
        first, second, *shortcut = convolutions
        y = normalise(second, layers.ReLU(dtype=dtype)(normalise(first, x)))
        return layers.ReLU(dtype=dtype)(layers.Add(dtype=dtype)([y, normalise(shortcut[0], x) if shortcut else x]))

    images = keras.Input(IMAGE, dtype="uint8")
    x = layers.ReLU(dtype=dtype)(normalise(spec.stem, Normalise(dtype=dtype)(images)))
    for convolutions in spec.blocks:
        if checkpointing:
            entrance = keras.Input(x.shape[1:], dtype=numbers.compute)
            x = Recomputed(keras.Model(entrance, residual(convolutions, entrance)), dtype)(x)
        else:
            x = residual(convolutions, x)
    x = layers.GlobalAveragePooling2D(dtype=dtype)(x)
    logits = layers.Dense(CLASSES, name="logits", dtype=dtype, kernel_initializer=UNSET)
    model = keras.Model(images, logits(x))
    model.canonical_names = {f"{c.name}_normalisation": c.name for c in spec.convolutions}
    return model


def kernels(spec: ResNetSpec, numbers: Numbers, device: str, kernel: str) -> dict[str, str]:
    return {"batch_normalization": "composite" if numbers.compute == "float64" else "fused"}
