"""What is launched of a reader's script: its command, and its variants."""

from __future__ import annotations

import sys
from argparse import Namespace
from pathlib import Path
from typing import Any

import pytest

from suite.plan.cell import FRAMEWORKS, Cell
from suite.plan.settings.allocators import CHOSEN_BY
from suite.plan.settings.switches import list_switches
from suite.record.parts.words import hide
from suite.script.variants import (
    AS_IT_IS,
    ScriptError,
    Variant,
    digest_of,
    find_command,
    read_variants,
    switches,
    with_argument,
    workload_of,
)


def options(*command: str, **given: Any) -> Namespace:
    return Namespace(**{"command": [*command], "python": None, "env": [], "vary": [], "vs": [], "tried": None} | given)


@pytest.fixture
def script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.chdir(tmp_path)
    Path("train.py").write_text("", encoding="utf-8")
    return "train.py"


def test_a_script_alone_is_one_variant_with_an_interpreter(script: str) -> None:
    (variant,) = read_variants(options(script, "--epochs", "5"))
    assert variant.name == AS_IT_IS
    assert variant.command[1:] == (script, "--epochs", "5")
    assert "python" in variant.command[0]


def test_lists_are_crossed_and_each_variant_has_its_values(script: str) -> None:
    found = read_variants(options(script, env=["OMP_NUM_THREADS=1,2"], vary=["num-workers=0,4"]))
    assert [each.name for each in found] == [
        "OMP_NUM_THREADS=1+num-workers=0", "OMP_NUM_THREADS=1+num-workers=4",
        "OMP_NUM_THREADS=2+num-workers=0", "OMP_NUM_THREADS=2+num-workers=4",
    ]  # fmt: skip
    assert found[1].command[-2:] == ("--num-workers", "4")
    assert found[3].environment == {"OMP_NUM_THREADS": "2"}
    assert len({Cell("script_train", "jax", variant=each.name).id for each in found}) == 4


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("p", "--n", "1"), ("p", "--n", "2")),
        (("p", "--n=1", "x"), ("p", "--n=2", "x")),
        (("p", "x"), ("p", "x", "--n", "2")),
    ],
)
def test_an_argument_is_replaced_where_it_stands(words: tuple[str, ...], expected: tuple[str, ...]) -> None:
    assert with_argument(words, "n", "2") == expected


def test_values_that_no_id_can_have_get_a_digest_and_stay_apart(script: str) -> None:
    found = read_variants(options(script, env=["PLACE=/data/a b,/data/a*b"]))
    assert len({each.name for each in found}) == 2
    for each in found:
        Cell("script_train", "jax", variant=each.name)


def test_the_number_of_a_launch_stands_in_the_arguments(script: str) -> None:
    assert read_variants(options(script, "--out", "run{launch}"))[0].line(3)[-1] == "run3"


@pytest.mark.parametrize(
    ("given", "part"),
    [
        (options(), "name the script"),
        (options("nowhere.py"), "no script nowhere.py"),
        (options("no-such-program"), "no program"),
        (options("train.py", env=["OMP_NUM_THREADS"]), "NAME=VALUE"),
        (options("train.py", vary=["n=1,1"]), "the same"),
        (options("train.py", python="no/python"), "no program"),
        (options("train.py", vs=["python 'x"]), "--vs: no closing quotation"),
        (options("sleep", "1", python=sys.executable), "begins with a script"),
        (options("train.py", tried="kept-memroy"), "kept-memory"),
        (options("train.py", tried="all,one-arena"), "all"),
        (options("train.py", tried="all", vary=["n=1,2"]), "as it is"),
    ],
)
def test_what_cannot_be_launched_is_one_line(script: str, given: Namespace, part: str) -> None:
    with pytest.raises(ScriptError, match=part):
        read_variants(given)


def test_switches_are_those_that_the_training_can_feel() -> None:
    script = Variant(AS_IT_IS, ("python", "train.py"))
    names = [each.name for each in switches("all", "pytorch", "cpu", script)]
    assert names[0] == AS_IT_IS
    assert {"kept-memory", "one-arena"} <= {*names}
    assert not {"tf32", "xla-clusters", "expandable"} & {*names}
    assert "expandable" in [each.name for each in switches("all", "pytorch", "cuda", script)]
    with pytest.raises(ScriptError, match="kept-memory"):
        switches("kept-memroy", "jax", "cpu", script)


def test_ranks_are_given_the_threads_of_their_own_cores() -> None:
    for ranks, threads in ((1, {"1", "4"}), (2, {"1", "2", "4"}), (8, {"1"})):
        found = list_switches("pytorch", 8, ranks).values()
        assert {value for each in found if (value := each.variables.get("OMP_NUM_THREADS"))} == threads, ranks


def test_a_switch_whose_variable_is_set_is_not_tried_unless_it_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MALLOC_ARENA_MAX", "2")
    script = Variant(AS_IT_IS, ("python", "train.py"))
    assert "one-arena" not in [each.name for each in switches("all", "jax", "cpu", script)]
    assert [each.name for each in switches("one-arena", "jax", "cpu", script)] == [AS_IT_IS, "one-arena"]


def test_switches_of_the_suites_own_settings_are_none_of_a_second_list() -> None:
    for framework, chosen in CHOSEN_BY.items():
        known = list_switches(framework)
        for name, variables in chosen.items():
            assert not variables or variables.items() <= known[name].variables.items()


def test_every_switch_is_a_variant_whose_prefix_sets_it() -> None:
    for each in (switch for framework in FRAMEWORKS for switch in list_switches(framework).values()):
        prefix = Variant(each.name, ("python",), each.variables).prefix
        assert all(f"{variable}=" in prefix for variable in each.variables)


def test_the_workload_is_called_after_the_script() -> None:
    assert workload_of(["python", "some/My-Train.py"]) == "script_my_train"
    assert find_command(["--", "sh", "-c", "true"])[0] == "sh"


SECRETS = {"env": ["HF_TOKEN=hunter-1,hunter-2"], "vary": ["api-key=hunter-3"], "vs": ["sleep --password hunter-4 1"]}


def test_what_may_be_a_secret_is_in_no_name_and_no_command(script: str) -> None:
    found = read_variants(options(script, "--auth-token=hunter-5", "--data", "/home/someone/own/images", **SECRETS))
    assert len({each.name for each in found}) == 3
    for each in found:
        printed = each.redact(f"no login with {each.environment} and {each.command}")
        for shown in (each.name, each.prefix, each.public(), printed):
            assert "hunter" not in shown
            assert "someone" not in shown


def test_another_script_or_argument_is_another_run(script: str) -> None:
    before = digest_of(read_variants(options(script)))
    assert digest_of(read_variants(options(script))) == before
    assert digest_of(read_variants(options(script, "--n", "1"))) != before
    Path(script).write_text("changed", encoding="utf-8")
    assert digest_of(read_variants(options(script))) != before


@pytest.mark.parametrize(
    ("words", "shown"),
    [
        (["p", "--max-tokens", "5", "--tokenizer", "bert"], ["p", "--max-tokens", "5", "--tokenizer", "bert"]),
        (["p", "http://me:pass@place/x"], ["p", "http://place/x"]),
        (["p", "--init=/a/my folder/f"], ["p", "--init=.../f"]),
        (["sh", "-c", "cd x; A_KEY=abc p --secret abc"], ["sh", "-c", "cd x; A_KEY=<set> p --secret <set>"]),
        (["p", "--key", "-abc", "rest"], ["p", "--key", "<set>", "rest"]),
    ],
)
def test_words_of_a_command_are_shown_unless_they_may_be_private(words: list[str], shown: list[str]) -> None:
    assert hide(words) == shown
