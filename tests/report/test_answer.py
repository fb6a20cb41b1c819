"""The answer of a comparison: few sentences, each of which follows from the tests of the tables."""

from __future__ import annotations

import re
from dataclasses import replace

from suite.analysis.records.load import Launch, load
from suite.analysis.rows.groups import group
from suite.analysis.statistics.accuracy import compare_accuracies, trains_to_the_end
from suite.plan.measuring import CONTROL
from suite.record.record import Record
from suite.record.saved import run_name
from suite.report.tables.frame import table
from suite.report.text.answer import WORD, WORDS_MOST, Answer, answer
from suite.report.text.fastest import CARD, over_settings
from tests import records
from tests.expected import golden
from tests.published import RUNS


def answered(launches: list[Launch], by: str = "framework") -> Answer:
    groups = group(launches, by)
    baseline = "pytorch" if by == "framework" else None
    return answer(
        [table(each, baseline) for each in groups if not trains_to_the_end(each)],
        [compare_accuracies(each, "pytorch") for each in groups if trains_to_the_end(each)],
    )


def of(held: list[Record], by: str = "framework") -> Answer:
    return answered([Launch(record, str(record.run["id"]), "0001_a.json") for record in held], by)


def steps(seconds: dict[str, float], n: int = 6, noise: float = 0.01, **changes: object) -> list[Record]:
    """``n`` blocks of one cell per framework with these step times, which scatter a little and not all alike."""
    return [
        records.timed(step_s * (1 + noise * ((block * (at + 2)) % 5 - 2)), name, block, **changes)
        for block in range(n)
        for at, (name, step_s) in enumerate(seconds.items())
    ]


def test_the_answers_of_the_published_runs() -> None:
    lines = []
    for path in RUNS.values():
        launches = list(load([path]).launches)
        for by in ("framework", "precision", "batch", "loader", "compile"):
            if by != "framework" and len({str(getattr(launch.record.cell, by)) for launch in launches}) == 1:
                continue
            found = answered(launches, by)
            if by != "framework" and all("nothing to compare" in sentence for sentence in found.sentences):
                continue
            if by != "framework" and trains_to_the_end(group(launches)[0]):
                continue
            lines += [f"{run_name(path)} by {by}, on {found.machine}:"]
            lines += [f"  {line}" for line in found.lines]
            lines += [f"    {sentence}" for sentence in found.sentences]
            lines += [f"  [{card.title}, n = {card.launches}] {card.verdict}" for card in found.cards]
            assert sum(len(WORD.findall(line)) for line in found.first) <= WORDS_MOST
            assert not any("`" in sentence for sentence in (*found.lines, *found.sentences))
            assert all(len(card.verdict) <= CARD for card in found.cards)
    golden("answers.txt", "\n".join(lines) + "\n")


def test_the_fastest_is_named_only_if_it_is_decidedly_ahead_of_each_other() -> None:
    decided = of(steps({"pytorch": 1.2, "tensorflow": 1.0, "jax": 2.0}))
    # The pair without the baseline is tested too.
    assert "(6 launches): TensorFlow is fastest: 1.20x PyTorch (1.18 to 1.23), 2.0x JAX (1." in decided.sentences[0]
    assert decided.cards[0].verdict == "TensorFlow is fastest: 1.20x PyTorch, 2.0x JAX"
    tied = of(steps({"pytorch": 1.01, "tensorflow": 1.0, "jax": 2.0}, noise=0.03))
    assert "PyTorch and TensorFlow cannot be told apart: TensorFlow 1.01x PyTorch (0.9" in tied.sentences[0]
    assert ", 2.0x JAX (1." in tied.sentences[0]
    assert re.search(r": PyTorch and TensorFlow cannot be told apart: TensorFlow 2.0x JAX \(", tied.lines[0]), (
        "whose ratio it is"
    )
    equal = of(steps({"pytorch": 1.001, "tensorflow": 1.0, "jax": 2.0}, noise=0.001))
    assert "PyTorch and TensorFlow are equally fast" in equal.sentences[0]


def test_what_was_not_tested_is_not_called_undecided() -> None:
    all_tested = steps({"pytorch": 1.0, "tensorflow": 1.01, "jax": 2.0}, noise=0.2)
    held = [each for each in all_tested if each.cell.framework != "jax" or each.launch < 2]
    assert of(held).lines == ("CIFAR-100 CNN: no difference decided; not tested for JAX",)


def test_with_few_launches_nothing_is_claimed() -> None:
    found = of(steps({"pytorch": 1.0, "jax": 2.0}, n=2))
    assert found.sentences[0].startswith("CIFAR-100 CNN (2 launches, not tested): PyTorch ran fastest: 2.0x")
    assert found.sentences[0].endswith("; a test needs 6 launches")
    assert found.cards[0].verdict.endswith("(n = 2, not tested)")
    assert " is fastest" not in " ".join(found.sentences)


def test_a_flag_that_most_launches_have_stands_in_the_headline() -> None:
    held = steps({"pytorch": 1.0, "jax": 2.0})
    flagged = of([replace(x, flags=("contaminated",)) if at > 3 else x for at, x in enumerate(held)])
    assert flagged.sentences[0].endswith("; 8 of 12 launches are flagged contaminated")
    assert flagged.cards[0].verdict == "PyTorch is fastest: 2.0x JAX (contaminated 8/12)"
    half = of([replace(x, flags=("contaminated",)) if at > 5 else x for at, x in enumerate(held)])
    assert "contaminated" not in half.sentences[0] + half.cards[0].verdict


def test_a_control_that_differs_takes_the_answer_back() -> None:
    held = steps({"pytorch": 1.0, "jax": 2.0})
    copies = [replace(x, launch=x.launch + CONTROL) for x in steps({"pytorch": 1.5})]
    doubted = of([*held, *copies])
    assert doubted.sentences[0].startswith("DO NOT TRUST (a second copy of a cell came out different): CIFAR")
    assert doubted.cards[0].verdict == "DO NOT TRUST (control differs): PyTorch is fastest: 2.0x JAX"
    assert "DO NOT" not in of(held).sentences[0]


def test_what_is_not_proved_identical_is_not_ranked() -> None:
    held = [
        replace(x, identity=None) if x.cell.framework == "jax" else x
        for x in steps({"pytorch": 1.0, "tensorflow": 1.5, "jax": 0.5})
    ]
    text = of(held).sentences[0]
    assert "PyTorch is fastest: 1.50x TensorFlow (1.47 to 1.53);" in text
    assert "JAX is not ranked: jax no evidence" in text


def test_a_framework_with_too_few_launches_beside_others_with_enough_is_not_beaten() -> None:
    held = [*steps({"pytorch": 1.0, "tensorflow": 2.0}), *steps({"jax": 3.0}, n=3)]
    found = of(held)
    assert "PyTorch is fastest of those tested: " in found.sentences[0]
    assert "not tested)" in found.sentences[0]
    assert "(partly tested)" in found.cards[0].verdict


def test_along_a_setting_of_a_training_to_its_end_what_the_setting_changes_comes_first() -> None:
    found = answered(list(load([next(path for path in RUNS.values() if "0009" in path.stem)]).launches), "precision")
    assert "bf16 instead of fp32" in found.lines[0]
    assert "PyTorch 1.97x" in found.lines[0]


def test_a_framework_that_has_no_launch_of_a_workload_is_named_beside_its_winner() -> None:
    lstm = steps({"pytorch": 1.0, "tensorflow": 2.0}, workload="imdb_lstm")
    told = [line.partition("; ")[2] for line in of([*steps({"pytorch": 1.0, "jax": 2.0}), *lstm]).lines]
    assert told == ["TensorFlow has no result (not launched)", "JAX has no result (not launched)"]


def test_the_machine_is_named_in_words() -> None:
    assert of(steps({"jax": 1.0}, n=1)).machine == "Example CPU 3000, 8 cores, no GPU"
    gpu = {"machine": {"cpu": "Example CPU 3000", "cores": 8, "gpus": ["NVIDIA X", "NVIDIA X"]}}
    held = [replace(x, environment=gpu) for x in steps({"jax": 1.0}, n=1)]
    assert of(held).machine == "Example CPU 3000, 8 cores, 2 x NVIDIA X"
    on_cpu = [replace(x, settings={"device": "cpu"}) for x in held]
    assert of(on_cpu).machine == "Example CPU 3000, 8 cores, 2 x NVIDIA X (not used)"


def test_where_no_launch_ended_well_no_card_names_a_winner_and_synthetic_data_are_named() -> None:
    found = of([records.failed(each) for each in steps({"pytorch": 1.0, "jax": 1.0})])
    assert "no launch gave a result" in found.sentences[0]
    assert found.cards[0].verdict == "no launch ended well"
    synthetic = of([replace(each, data={"kind": "synthetic", "digest": "d"}) for each in steps({"jax": 1.0})])
    assert synthetic.cards[0].title.endswith(" (synthetic data)")


def test_ratios_of_two_settings_stand_in_their_order_and_of_more_are_the_ends() -> None:
    assert over_settings([1.31, 1.3]) == "1.31x and 1.30x"
    assert over_settings([1.3, 1.3]) == "1.30x"
    assert over_settings([1.5, 1.2, 2.5]) == "1.20x to 2.50x"


def test_the_base_of_an_axis_can_be_compared_with_others() -> None:
    """A usual mode has no compile cache, so that it has no row besides."""
    made = [table(each) for each in group(load([RUNS["0037_warm"]]).launches, "cache")]
    assert {str(each.base) for each in made} == {"cold"}
    assert all(any(cell.ratio.verdict for cell in each.cells) for each in made)
