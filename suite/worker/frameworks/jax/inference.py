"""How a trained model of JAX serves from Python: its forward pass under `jax.jit`, over the weights as they are.

The usual way by JAX's own documentation ("Just-in-time compilation"). A workload whose `logits` are those of training,
since it has batch statistics, has `answers` besides.
"""

from __future__ import annotations

from collections import deque
from functools import partial
from typing import Any

import jax
import numpy as np

from suite.worker.frameworks.jax.device import graphs
from workloads.data.dataset import Array

#: Answers of a window that must be waited for: on a CPU, JAX may compute several at once, in any order.
PENDING = None
#: Whether the framework's peak of memory can be forgotten, so that the next one is inference's own.
FORGETS_PEAKS = False


class Model:
    """The model of a `Training` in evaluation mode, and the function that is measured; `close` gives it back."""

    def __init__(self, training: Any) -> None:
        self.state = training.state
        module = training.module
        answers = partial(getattr(module, "answers", module.logits), training.model)
        self.forward = jax.jit(answers, compiler_options=training.options or None)

    def predict(self, inputs: Any) -> jax.Array:
        """The logits of inputs that are on the device, still there."""
        return self.forward(self.state.weights, self.state.statistics, inputs)

    def answer(self, inputs: Array) -> Array:
        """A request: inputs from the host, their logits back on it, as they are of use there."""
        return np.asarray(self.predict(inputs))

    def fence(self, pending: deque[jax.Array]) -> None:
        """Wait until the device has computed these answers."""
        jax.block_until_ready([*pending])

    def on_host(self, logits: jax.Array) -> Array:
        """Answers of `predict`, on the host."""
        return np.asarray(logits)

    def compiled(self) -> int:
        """The number of programs that were compiled so far."""
        return graphs(self.forward)

    def keeps_gradient(self, inputs: Array) -> bool:
        """Whether the program gives out more than the logits; what it gives to nobody, XLA leaves out."""
        shapes = jax.eval_shape(self.forward, self.state.weights, self.state.statistics, inputs)
        return len(jax.tree.leaves(shapes)) > 1

    def close(self) -> None:
        """Give the model back for training: the weights that the next step is given."""
        self.state = None
