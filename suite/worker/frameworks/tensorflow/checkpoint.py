"""How TensorFlow saves a training: `tf.train.Checkpoint`, which has an option that lets a thread go on.

Of TensorFlow's own variables: Keras' cannot be saved asynchronously, as it makes each copy inside of a `tf.function`
(TensorFlow 2.21, Keras 3.15).
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import tensorflow as tf

WAYS = {"checkpoint": "tf.train.Checkpoint", "checkpoint_async": "tf.train.Checkpoint, asynchronous"}
NAME = "training"


class Saver:
    def __init__(self, training: Any, name: str, rank: int = 0) -> None:
        del rank  # one process
        self.way, self.asynchronous = WAYS[name], name == "checkpoint_async"
        self.checkpoint = tf.train.Checkpoint(**self.state(training))
        self.options = tf.train.CheckpointOptions(experimental_enable_async_checkpoint=self.asynchronous)

    def state(self, training: Any) -> dict[str, Any]:
        """What a checkpoint has; the model's variables include the seeds of dropout."""
        parts = {"model": training.model, "optimizer": training.optimizer}
        return {name: [variable.value for variable in part.variables] for name, part in parts.items()}

    def save(self, folder: Path) -> None:
        folder.mkdir(parents=True)
        self.index = folder / f"{NAME}.index"
        self.checkpoint.write(str(folder / NAME), options=self.options)

    def wait(self) -> None:
        """Wait; `sync` tells nothing of a thread that could not write, and the index is written last."""
        if self.asynchronous:
            self.checkpoint.sync()
            if not self.index.exists():
                raise OSError(f"TensorFlow's thread did not write {self.index.name}: is the disk full?")

    def restore(self, shared: Path, own: Path) -> None:
        del own
        self.checkpoint.read(str(shared / NAME)).assert_existing_objects_matched()

    def close(self) -> None:
        if self.asynchronous:
            self.checkpoint.sync()
