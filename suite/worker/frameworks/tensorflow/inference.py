"""How a trained model of TensorFlow serves from Python: a `tf.function` of the forward pass, by XLA if training is.

The usual way by TensorFlow's own guide ("Better performance with tf.function"). A workload whose answers are not the
model's output has a function `answers`.
"""

from __future__ import annotations

from collections import deque
from typing import Any

import numpy as np
import tensorflow as tf

from suite.worker.frameworks.tensorflow.device import place_array, synchronise
from suite.worker.frameworks.tensorflow.training import COMPILE_MODES
from workloads.data.dataset import Array

#: Logits, caches, and the place of the next word. It is counted on the host and travels as int32, which TensorFlow
#: leaves there, as the bounds of a slice must be: from the device it would be waited for and read back at every word.
Decoding = tuple[tf.Tensor, list[tf.Variable], int]

#: Answers of a window that must be waited for: a device computes them one after the other.
PENDING = 1
#: Whether the framework's peak of memory can be forgotten, so that the next one is inference's own.
FORGETS_PEAKS = True


class Model:
    def __init__(self, training: Any) -> None:
        self.device, self.model = training.device, training.model
        self.module, self.answers = training.module, getattr(training.module, "answers", None)
        self.caches: dict[int, list[tf.Variable]] = {}  # by the number of prompts
        compiled = COMPILE_MODES[training.cell.compile]
        self.forward, self.prefilled, self.decoded = (
            tf.function(each, jit_compile=compiled, autograph=False)
            for each in (self._forward, self._prefill, self._decode)
        )

    def _forward(self, inputs: tf.Tensor) -> tf.Tensor:
        return self.answers(self.model, inputs) if self.answers else self.model(inputs, training=False)

    def predict(self, inputs: tf.Tensor) -> tf.Tensor:
        return self.forward(inputs)

    def answer(self, inputs: Array) -> Array:
        return self.predict(place_array(inputs, self.device)).numpy()

    def prefill(self, inputs: tf.Tensor) -> Decoding:
        logits, filled = self.prefilled(inputs)
        if len(inputs) not in self.caches:
            self.caches[len(inputs)] = [tf.Variable(each, trainable=False) for each in filled]
        caches = self.caches[len(inputs)]
        for cache, each in zip(caches, filled, strict=True):
            cache.assign(each)
        return logits, caches, inputs.shape[1]

    def decode(self, state: Decoding) -> tuple[tf.Tensor, Decoding]:
        logits, caches, at = state
        words, logits = self.decoded(logits, caches, tf.constant(at))
        return words, (logits, caches, at + 1)

    def _prefill(self, inputs: tf.Tensor) -> tuple[tf.Tensor, list[tf.Tensor]]:
        return self.module.prefill(self.model, inputs)

    def _decode(self, logits: tf.Tensor, caches: list[tf.Variable], at: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        words = tf.argmax(logits, -1)
        return words, self.module.decode(self.model, words, caches, at)[0]

    def fence(self, pending: deque[tf.Tensor]) -> None:
        if pending:
            synchronise(self.device)

    def on_host(self, logits: tf.Tensor) -> Array:
        return np.asarray(logits.numpy())

    def count_compiled(self) -> int:
        functions = self.forward, self.prefilled, self.decoded
        return sum(each.experimental_get_tracing_count() for each in functions)

    def keeps_gradient(self, inputs: Array) -> bool:
        """Whether a traced pass has operations of a gradient, or gives out more than the logits."""
        del inputs
        traced = self.forward._list_all_concrete_functions()
        names = (operation.name for each in traced for operation in each.graph.get_operations())
        return any("gradient_tape" in name for name in names) or any(len(each.outputs) > 1 for each in traced)

    def close(self) -> None:
        """Give the model back for training: nothing of it was changed."""
