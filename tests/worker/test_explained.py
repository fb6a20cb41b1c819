"""Steps beside the optimizer's formula."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np

from suite.worker.evidence.fingerprint import explained
from workloads.spec import specification


def test_a_state_moved_to_a_later_rate_holds_arrays_still() -> None:
    """PyTorch's FSDP takes nothing else; a number of steps is an array of no dimension."""
    states: list[dict[str, Any]] = []
    training: Any = SimpleNamespace(
        weights=lambda: {"kernel": np.zeros(3)}, put=lambda batch: batch, restore=states.append,
        checkpoint=lambda: {"optimizer/0/step": np.array(2.0, np.float32), "model/kernel": np.zeros(3)},
    )  # fmt: skip
    subject: Any = SimpleNamespace(
        tools=SimpleNamespace(explained_step=lambda training, batch: (1.0, {"kernel": np.zeros(3)}))
    )
    explained(subject, training, specification("imdb_lstm").optimizer, [(np.zeros(1), np.zeros(1))] * 3, np.ones(20))
    assert [float(state["optimizer/0/step"]) for state in states] == [2.0 + 6, 2.0 + 7]
    assert all(isinstance(array, np.ndarray) for state in states for array in state.values())
