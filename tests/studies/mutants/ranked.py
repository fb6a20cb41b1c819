"""A rehearsal of a cell with several processes, with a mutant planted in each of them.

``python -m tests.studies.mutants.ranked CELL OUTPUT [MUTANT]`` is one rank, with the variables of one; rank 0 writes
the record.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path

from suite.plan.cell import Cell
from suite.record.record import Record
from suite.session.launches import ranks

ROOT = Path(__file__).parents[3]
WITHIN_S = 300


def rehearse_ranks(cell: Cell, mutant: str = "") -> Record:
    """The record of a launch of this cell on the CPU, with the mutant of this key in every process."""
    base = os.environ | {"CUDA_VISIBLE_DEVICES": "", "JAX_PLATFORMS": "cpu", "OMP_NUM_THREADS": "1"}
    with tempfile.TemporaryDirectory(prefix="mutants-ranks-") as folder, ExitStack() as started:
        output = Path(folder) / "record.json"
        base["TMPDIR"] = folder  # a rank ends without cleaning up
        command = [sys.executable, "-m", __name__, json.dumps(cell.to_json()), str(output), mutant]
        processes = []
        for own in ranks.environments(cell, "cpu") if cell.processes > 1 else [{}]:
            pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
            processes.append(started.enter_context(subprocess.Popen(command, cwd=ROOT, env=base | own, **pipes)))  # type: ignore[call-overload]
            started.callback(processes[-1].kill)
        said = [process.communicate(timeout=WITHIN_S)[0] for process in processes]
        if not output.is_file():
            raise RuntimeError("\n".join(each[-3000:] for each in said))
        return Record.from_json(json.loads(output.read_text(encoding="utf-8")))


def main(cell_text: str, output: str, key: str = "") -> None:
    """One rank."""
    import tests.frameworks  # noqa: F401 - sets what each framework needs before it is imported
    from suite.worker.distributed.ranks import join_ranks
    from tests.studies.mutants.catalogue import MUTANTS
    from tests.studies.mutants.rehearsal import rehearse

    own = join_ranks()
    cell = Cell.from_json(json.loads(cell_text))
    with ExitStack() as planted:
        for mutant in MUTANTS:
            if mutant.key == key:
                planted.enter_context(mutant.planted())
        record = rehearse(cell, own)
    if not own.rank:
        Path(output).write_text(json.dumps(record.to_json()), encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)
