"""How JAX saves a training: Orbax, by its `Checkpointer`, or its `AsyncCheckpointer`, whose thread goes on."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jax

from suite.worker.frameworks import UnsupportedError

try:
    import orbax.checkpoint as ocp
except ImportError:
    raise UnsupportedError("checkpoints of JAX take Orbax: pip install orbax-checkpoint") from None

WAYS = {"checkpoint": "orbax Checkpointer", "checkpoint_async": "orbax AsyncCheckpointer"}


class Saver:
    def __init__(self, training: Any, name: str, rank: int = 0) -> None:
        del rank  # one process
        self.training, self.way, self.asynchronous = training, WAYS[name], name == "checkpoint_async"
        kind = ocp.AsyncCheckpointer if self.asynchronous else ocp.Checkpointer
        self.checkpointer = kind(ocp.StandardCheckpointHandler())

    def state(self) -> Any:
        """What a checkpoint has: all that a step changes, dropout's key as plain numbers."""
        state = self.training.state
        return state._replace(key=jax.random.key_data(state.key))

    def save(self, folder: Path) -> None:
        self.checkpointer.save(folder, args=ocp.args.StandardSave(self.state()))

    def wait(self) -> None:
        if self.asynchronous:
            self.checkpointer.wait_until_finished()

    def restore(self, shared: Path, own: Path) -> None:
        del own
        self.wait()
        state = self.checkpointer.restore(shared, args=ocp.args.StandardRestore(self.state()))
        self.training.state = state._replace(key=jax.random.wrap_key_data(state.key, impl=self.training.prng))

    def close(self) -> None:
        self.checkpointer.close()
