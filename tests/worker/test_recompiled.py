"""What has to compile inside a window ends the launch."""

from __future__ import annotations

import numpy as np
import pytest

from suite.worker.frameworks import RecompiledError
from tests.frameworks import needs_frameworks, training


@needs_frameworks("jax")
def test_another_shape_inside_the_windows_ends_jax_s_launch_as_recompiled() -> None:
    """Ahead of time JAX compiles once, so that another shape was a TypeError, and no count ever changed."""
    import jax

    with training("imdb_lstm", "jax") as running:
        inputs, labels = running.put((np.zeros((4, 20), np.int32), np.zeros(4, np.float32)))
        running.compile((inputs, labels))
        running.step((inputs, labels))
        assert running.count_compiled() == {"graphs": 1, "graph_breaks": 0}
        with pytest.raises(RecompiledError, match="would have to compile inside the windows"):
            running.step((inputs[:, :10], labels))
        running.jitted = jax.jit(running._step)
        for length in (20, 10):
            running.step((inputs[:, :length], labels))
        assert running.count_compiled()["graphs"] == 2
