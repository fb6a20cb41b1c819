"""Options of `pytest suite`: what is refused, in one line and before any launch."""

from __future__ import annotations

import pytest

from suite.plan.cell import FRAMEWORKS
from tests.sessions import Suite, refused, run_lines

#: What is typed, and what is said.
REFUSED = [
    (["--benchmark-save", "suite"], "--benchmark-save took 'suite' for a name: put it last"),
    (["suite", "--matrix=nix", "--benchmark-save"], "unknown matrix 'nix'; there are: smoke, gpu, cpu"),
    (["suite", "--benchmark-only"], "--benchmark-only would skip every launch; leave it out, since `pytest suite`"),
    (["suite", "--matrix", "accuracy", "--epochs=0"], "--epochs is 0; it must be at least 1"),
    (["suite", "--matrix", "accuracy", "--target=86"],
     "--target is 86; it is an accuracy of at most 1, or a test loss of at most 20"),
    (["suite", "--launches=0"], "--launches is 0; it must be at least 1"),
    (["suite", "--min-window=0"], "--min-window is 0; it must be more than 0 seconds and less than 86400"),
    (["suite", "--min-window=86400"], "--min-window is 86400; it must be more than 0 seconds and less than 86400"),
    (["suite", "--phases=train,infr"], "--phases: unknown phase 'infr'; did you mean 'infer'? There are: train"),
    (["suite", "--phases=infer"], "--phases is 'infer'; every launch trains first: write train,infer"),
    (["suite", "--matrix=accuracy", "--phases=train,infer"], "--phases is for timed steps; cells that train to"),
    (["suite", "--profile-memory"], "--profile-memory adds to a profile; give --profile too"),
    (["suite", "--max-time=0min"], "--max-time is 0; it must be more than 0 seconds"),
    (["suite", "--size=smal"], "--size: unknown size 'smal'; did you mean 'small'? There are: full, small"),
    (["suite", "--framework=jax,pytroch"], "unknown framework 'pytroch'; did you mean 'pytorch'? There are: pyt"),
    (["suite", "--workload=cifar100"], "unknown workload 'cifar100'; did you mean 'cifar100_cnn'?"),
    (["suite", "--matrix=precison"], "unknown matrix 'precison'; did you mean 'precision'? There are: smoke, gpu"),
    (["suite", "--loader=tund-prefetch4"], "unknown loader 'tund'; did you mean 'tuned'? There are: naive, w2"),
    (["suite", "--data=rael"], "argument --data: unknown data 'rael'; did you mean 'real'?"),
    (["suite", "--batch=32,many"], "--batch is 'many'; write a number of samples, or auto"),
    (["suite", "--precision=fp32,,bf16"], "--precision is 'fp32,,bf16'; write values with commas between them"),
    (["suite", "--precison=bf16"], "unknown option --precison; did you mean --precision?"),
    (["suite", "--zebra"], "unrecognized arguments: --zebra"),  # what is near to none is left to pytest
]  # fmt: skip


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[int, str]]:
    """What pytest answers to each line; a launch would find no worker."""
    folder = tmp_path_factory.mktemp("refused")
    own = ["-p", "no:cacheprovider", f"--journals={folder / 'journals'}", f"--benchmark-storage={folder / 'runs'}"]
    lines = [[*own, "--device=cpu", *arguments] for arguments, _ in REFUSED]
    workers = {f"SUITE_PYTHON_{name.upper()}": "/bin/false" for name in FRAMEWORKS}
    answers = run_lines(lines, SUITE_CACHE_DIR=str(folder / "cache"), **workers)
    assert not list(folder.iterdir()), "nothing is written before a line is refused"
    return {str(arguments): answer for (arguments, _), answer in zip(REFUSED, answers, strict=True)}


@pytest.mark.parametrize(("arguments", "words"), REFUSED)
def test_wrong_options_are_refused_in_one_line(
    told: dict[str, tuple[int, str]], arguments: list[str], words: str
) -> None:
    status, output = told[str(arguments)]
    assert status == 4, output
    assert "Traceback" not in output
    assert sum(words in line for line in output.splitlines()) == 1, output


def test_a_run_whose_data_is_not_to_be_had_leaves_its_journal_to_others(suite: Suite) -> None:
    (suite.folder / "empty").mkdir()
    (suite.folder / "closing.py").write_text(
        "import atexit\nfrom suite.session.journal import Journal\nclosed, close = [], Journal.close\n"
        "Journal.close = lambda journal: (close(journal), closed.append('x'))[0]\n"
        "atexit.register(lambda: print('journals closed:', len(closed)))\n"
    )
    suite.environment |= {"SUITE_CACHE_DIR": str(suite.folder / "cache"), "SUITE_DATA_DIR": str(suite.folder / "empty")}
    suite.first = f"import sys; sys.path.insert(0, {str(suite.folder)!r})"
    assert "journals closed: 1" in suite("suite", "-p", "closing", data="real").output


def test_real_data_that_is_not_to_be_had_ends_the_session_before_any_launch(suite: Suite) -> None:
    (suite.folder / "empty").mkdir()
    suite.environment |= {"SUITE_CACHE_DIR": str(suite.folder / "cache"), "SUITE_DATA_DIR": str(suite.folder / "empty")}
    refused(suite("suite", "--benchmark-save", data="real"), "no real cifar100 in the cache or in")


def test_an_interpreter_that_is_none_ends_the_session_before_any_launch(suite: Suite) -> None:
    suite.environment["SUITE_PYTHON_JAX"] = "/nowhere/python"
    refused(suite("suite", "--benchmark-save"), "SUITE_PYTHON_JAX is '/nowhere/python', which is not a program")
    done = suite("suite", "--launches=1", "-k", "pytorch")
    assert done.status == 0, "cells that do not need it run"


def test_an_interpreter_that_cannot_be_started_ends_the_session_in_one_line(suite: Suite) -> None:
    broken = suite.folder / "broken"
    broken.write_bytes(b"\x7fELF no more")
    broken.chmod(0o755)
    suite.environment["SUITE_PYTHON_JAX"] = str(broken)
    refused(suite("suite", "--benchmark-save", "-k", "jax"), "cannot start ")
