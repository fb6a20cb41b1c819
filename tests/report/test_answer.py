"""The answer of a comparison: few sentences, each of which follows from the tests of the tables."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from suite.analysis.records.load import Launch, load
from suite.analysis.rows.groups import group
from suite.analysis.statistics.accuracy import compare_accuracies, trains_to_the_end
from suite.plan.measuring import CONTROL
from suite.record.parts.history import Epoch, TrainingHistory
from suite.record.record import Phase, Record, Window
from suite.report.tables.frame import table
from suite.report.text.answer import INTERVALS, WORD, WORDS_MOST, Answer, answer
from suite.report.text.fastest import CARD
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
            if by != "framework" and all("no two cells" in sentence for sentence in found.sentences):
                continue
            if by != "framework" and trains_to_the_end(group(launches)[0]):
                continue
            lines += [f"{path.stem} by {by}, on {found.machine}:"]
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


def test_each_setting_has_a_line_with_bounds_where_it_is_decided() -> None:
    half = [x for batch in (32, 64) for x in steps({"pytorch": 1.0, "jax": batch / 40}, batch=batch)]
    first, second = half_told = of(half).sentences[:2]
    assert first.startswith("CIFAR-100 CNN, batch 32 (6 launches): JAX is fastest: 1.25x PyTorch (")
    assert second.startswith("CIFAR-100 CNN, batch 64 (6 launches): PyTorch is fastest: 1.60x JAX (")
    other = of([*half, *steps({"pytorch": 1.0, "jax": 1.0}, batch=128, noise=0.2)])
    assert [each.partition(" (")[0] for each in other.sentences[:2]] == [each.partition(" (")[0] for each in half_told]
    assert [line.partition(": ")[0] for line in other.lines] == [f"CIFAR-100 CNN, batch {n}" for n in (32, 64, 128)]
    assert re.fullmatch(r".*: JAX is fastest: 1.25x PyTorch \(1.2.\u20131.2.\)", other.lines[0])
    assert other.lines[2].endswith(": no difference decided")


def test_the_largest_gain_is_told_with_what_it_does_elsewhere() -> None:
    fast = {"pytorch": 0.5, "tensorflow": 0.8, "jax": 2.2}
    held = steps({"pytorch": 1.0, "tensorflow": 1.0, "jax": 2.0}) + steps(fast, precision="bf16")
    text = of(held).sentences[2]
    assert text == (
        "Largest gain: CIFAR-100 CNN, bf16 instead of fp32 (6 launches): PyTorch 2.0x (faster), "
        "TensorFlow 1.25x (faster), JAX 0.91x (slower)"
    )
    slower = steps({"pytorch": 1.0}) + steps({"pytorch": 1.5}, precision="bf16")
    none, text = of(slower).sentences[1:3]
    assert none == "No other precision makes a framework decidedly faster"
    assert text.startswith("Largest loss: CIFAR-100 CNN, bf16 instead of fp32 (6 launches): PyTorch 0.67x (")


def test_along_an_axis_the_answer_is_of_that_axis() -> None:
    held = steps({"pytorch": 1.0, "jax": 1.0}) + steps({"pytorch": 0.5, "jax": 1.5}, precision="bf16")
    found = of(held, "precision")
    text, bounds = found.sentences
    (line,) = found.lines
    assert line == "CIFAR-100 CNN, bf16 instead of fp32: PyTorch 2.0x, JAX 0.67x"
    assert text == "CIFAR-100 CNN, bf16 instead of fp32 (6 launches): PyTorch 2.0x (faster), JAX 0.67x (slower)"
    assert bounds == INTERVALS
    assert found.cards[0].verdict == "PyTorch 2.0x (bf16), JAX 0.67x (bf16)"


def test_a_loss_beyond_every_gain_is_told_with_it() -> None:
    held = [*steps({"pytorch": 1.0}), *steps({"pytorch": 0.9}, precision="bf16")]
    held += [*steps({"jax": 1.0}), *steps({"jax": 7.0}, batch=64)]
    gain, loss = of(held).sentences[-3:-1]
    assert gain.startswith("Largest gain: CIFAR-100 CNN, bf16 instead of fp32 (6 launches): PyTorch 1.11x (")
    assert loss.startswith("Largest loss: CIFAR-100 CNN, batch 64 instead of 32 (6 launches): JAX 0.29x (")


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


def test_a_framework_without_any_result_is_named() -> None:
    held = [
        records.failed(x, "out-of-memory", "too large") if x.cell.framework == "jax" else x
        for x in steps({"pytorch": 1.0, "tensorflow": 1.5, "jax": 0.5})
    ]
    assert of(held).sentences[0].endswith("; JAX has no result (out-of-memory)")


def test_runs_with_nothing_to_compare_say_so() -> None:
    assert "there is nothing to compare JAX with" in of(steps({"jax": 1.0})).sentences[0]
    failed = [records.failed(x) for x in steps({"pytorch": 1.0, "jax": 1.0})]
    found = of(failed)
    assert "no launch gave a result" in found.sentences[0]
    assert found.cards[0].verdict == "no launch ended well"
    assert of([replace(x, data={"kind": "synthetic", "digest": "d"}) for x in steps({"jax": 1.0})]).cards[0].title == (
        "CIFAR-100 CNN (synthetic data)"
    )


def trained(name: str, seed: int, accuracy: float, step_s: float, **changes: object) -> Record:
    course = TrainingHistory("modern", 1, 0.5, (Epoch(4, 1.6, 4 * step_s, 1.4, accuracy, 0.5),), (1.6,))
    run = {"id": "run-a", "seed": seed}
    phases = {"train": Phase((Window(4, 4 * step_s),))}
    made = records.timed(step_s, name, seed, recipe="modern", course=course, **changes)
    return replace(made, run=run, phases=phases)


@pytest.mark.parametrize(
    ("offset", "words"),
    [(0.0, r"JAX .802 \(\+0.03, -.* to \+.*, same\)"), (0.05, r"JAX .852 \(\+5.03, \+.*, higher\)")],
)
def test_training_runs_tell_accuracy_and_speed(offset: float, words: str) -> None:
    held = [
        trained(name, seed, 0.8 + 0.002 * ((seed * (at + 1)) % 3) + offset * at, 1.0 + at + 0.01 * seed)
        for seed in range(8)
        for at, name in enumerate(("pytorch", "jax"))
    ]
    accuracy, speed, _ = of(held).sentences
    assert re.search(words, accuracy), accuracy
    assert speed.startswith("CIFAR-100 CNN (8 seeds): PyTorch trains fastest: 1.97x JAX (")


def test_a_setting_that_shortens_the_training_says_whether_the_accuracy_stays() -> None:
    held = [
        trained(
            "pytorch", seed, 0.8 + 0.001 * (seed * (2 + at) % 3), step_s * (1 + 0.002 * seed * at), precision=precision
        )
        for seed in range(8)
        for at, (precision, step_s) in enumerate((("fp32", 1.0), ("bf16", 0.5)))
    ]
    text = " ".join(of(held).sentences)
    assert "bf16 instead of fp32 (8 seeds): PyTorch 1.99x (" in text
    assert ", faster); where it is faster, the accuracy is the same" in text


def test_the_machine_is_named_in_words() -> None:
    assert of(steps({"jax": 1.0}, n=1)).machine == "Example CPU 3000, 8 cores, no GPU"
    gpu = {"machine": {"cpu": "Example CPU 3000", "cores": 8, "gpus": ["NVIDIA X", "NVIDIA X"]}}
    held = [replace(x, environment=gpu) for x in steps({"jax": 1.0}, n=1)]
    assert of(held).machine == "Example CPU 3000, 8 cores, 2 x NVIDIA X"
    on_cpu = [replace(x, settings={"device": "cpu"}) for x in held]
    assert of(on_cpu).machine == "Example CPU 3000, 8 cores, 2 x NVIDIA X (not used)"


def test_a_framework_with_too_few_launches_beside_others_with_enough_is_not_beaten() -> None:
    held = [*steps({"pytorch": 1.0, "tensorflow": 2.0}), *steps({"jax": 3.0}, n=3)]
    found = of(held)
    assert "PyTorch is fastest of those tested: " in found.sentences[0]
    assert "not tested)" in found.sentences[0]
    assert "(partly tested)" in found.cards[0].verdict


def test_of_many_settings_a_reader_sees_as_many_first_as_are_read_at_once() -> None:
    held = [
        x
        for workload in ("cifar100_cnn", "imdb_lstm")
        for size in ("full", "small")
        for batch in (32, 64, 128)
        for x in steps({"pytorch": 1.0, "jax": 2.0}, workload=workload, size=size, batch=batch)
    ]
    found = of(held)
    assert len(found.lines) == 12
    assert found.first == found.lines[: len(found.first)]
    assert WORDS_MOST - 10 < sum(len(WORD.findall(line)) for line in found.first) <= WORDS_MOST
    assert sum(found.sentences[at].partition(" (")[0] == line.partition(":")[0] for at, line in
               enumerate(found.lines)) == 12  # fmt: skip
    assert len(found.cards) == 4
