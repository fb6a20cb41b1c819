"""``python -m tests.studies.mutants``: does the evidence in a record notice what spoils comparisons?

Plants every mutant of the catalogue in turn, rehearses its launch in this process, and compares it with the other
frameworks' unchanged launches, each in a process of its own. Ends with 1 where a mutant survives, where a part of the
evidence misses what it must notice, or where unchanged launches are not found the same.
"""

from __future__ import annotations

import argparse
import json
import os
import secrets
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path

# Before any framework is imported: logs that nobody reads, one thread where models are too small for two, and those
# of JAX's programs that no mutant changes compiled once.
os.environ |= {"TF_CPP_MIN_LOG_LEVEL": "3", "JAX_PLATFORMS": "cpu", "CUDA_VISIBLE_DEVICES": "", "OMP_NUM_THREADS": "1"}
if __name__ == "__main__":  # and not again in a process that this one starts, which inherits them
    _COMPILED = tempfile.TemporaryDirectory(prefix="mutants-compiled-")
    os.environ |= {
        "JAX_COMPILATION_CACHE_DIR": _COMPILED.name,
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
        "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "0",
    }

import tests.frameworks  # noqa: F401 - sets what each framework needs before it is imported
from tests.studies.mutants.catalogue import MUTANTS, part_of
from tests.studies.mutants.drawn import drawn
from tests.studies.mutants.mutant import Mutant
from tests.studies.mutants.page import page, shares
from tests.studies.mutants.study import FAILED, Judgement, false_alarms, judge


def main() -> int:
    options = _options()
    every = (*MUTANTS, *drawn(options.drawn, options.seed))
    chosen = [mutant for mutant in every if options.only in f"{mutant.kind} {mutant.id} {mutant.workload}"]
    if options.part:
        chosen = part_of(chosen, *map(int, options.part.split("/")))
    elif options.jobs > 1:
        return _side_by_side(options)
    known = _read(options.journal)
    judged: dict[Mutant, Judgement] = {}
    problems = []
    for number, mutant in enumerate(chosen, 1):
        if mutant.key not in known:
            start = time.perf_counter()
            known[mutant.key] = judge(mutant)
            _note(options.journal, mutant, known[mutant.key])
            print(f"[{number}/{len(chosen)}] {time.perf_counter() - start:5.1f} s", end="  ")
        judged[mutant] = known[mutant.key]
        problem = mutant.problem(judged[mutant].noticed, judged[mutant].killed, judged[mutant].kind == FAILED)
        problems += [f"{mutant.kind}: {mutant.id}: {problem}"] if problem else []
        print(f"{mutant.kind}: {mutant.id}: {judged[mutant].words or 'survives'}", flush=True)
    # A strategy that only one framework has is looked at there.
    cells = dict.fromkeys(
        mutant.cell if mutant.settings.get("strategy") else mutant.cell.but(framework="pytorch") for mutant in chosen
    )
    for cell in () if options.part else cells:
        problems += [f"{cell.id}: a false alarm in {name}: {words}" for name, words in false_alarms(cell).items()]
    if options.write:
        options.write.write_text(
            page(judged, len(cells), len(every) - len(judged), datetime.now(UTC), options.seed), encoding="utf-8"
        )
    killed = sum(judgement.killed for judgement in judged.values())
    print(f"{killed} of {len(judged)} killed", *shares(judged), *problems, sep="\n")
    return 1 if problems else 0


def _side_by_side(options: argparse.Namespace) -> int:
    """Judge parts of the mutants in processes of their own, which share a journal; then say and write what it holds."""
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
        journal = options.journal or Path(folder) / "journal.jsonl"
        command = [sys.executable, "-m", "tests.studies.mutants", "--only", options.only, "--journal", str(journal)]
        command += ["--drawn", str(options.drawn), "--seed", str(options.seed)]
        parts = range(1, options.jobs + 1)
        judging = [subprocess.Popen([*command, "--part", f"{part}/{options.jobs}"]) for part in parts]
        try:
            for process in judging:
                process.wait()
        finally:
            for process in judging:
                process.terminate()
        written = ["--write", str(options.write)] if options.write else []
        return subprocess.run([*command, *written], check=False).returncode


def _read(journal: Path | None) -> dict[str, Judgement]:
    lines = journal.read_text(encoding="utf-8").splitlines() if journal and journal.exists() else []
    return {line.pop("mutant"): Judgement(**line) for line in map(json.loads, lines)}


def _note(journal: Path | None, mutant: Mutant, judgement: Judgement) -> None:
    if journal:
        with journal.open("a", encoding="utf-8") as file:
            file.write(json.dumps({"mutant": mutant.key, **asdict(judgement)}) + "\n")


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m tests.studies.mutants", description=(__doc__ or "").split("\n\n")[1]
    )
    parser.add_argument("--only", default="", metavar="TEXT", help="mutants whose kind, name or workload holds this")
    parser.add_argument("--drawn", type=int, default=0, metavar="N", help="so many more, drawn at random (default: 0)")
    parser.add_argument("--seed", type=int, default=secrets.randbelow(2**31), help="of those (default: a new one)")
    parser.add_argument("--write", type=Path, metavar="FILE", help="write the kill table here, as Markdown")
    parser.add_argument("--jobs", type=int, default=1, metavar="N", help="processes side by side (default: 1)")
    parser.add_argument("--part", default="", metavar="I/N", help=argparse.SUPPRESS)
    parser.add_argument("--journal", type=Path, metavar="FILE", help="keep what was found here, and go on from it")
    return parser.parse_args()


if __name__ == "__main__":
    status = main()
    _COMPILED.cleanup()
    sys.stdout.flush()
    os._exit(status)  # the end of three frameworks' threads in one process was seen to hang
