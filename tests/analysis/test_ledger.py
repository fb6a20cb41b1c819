"""Every step, batch and second is accounted for: no alarm where nothing is wrong, and rows that are not ranked."""

from __future__ import annotations

from dataclasses import replace

import pytest

from suite.analysis.identity.verdicts import verdicts
from suite.analysis.records.ledger import UNACCOUNTED, find_unaccounted, problems
from suite.analysis.records.load import load
from suite.analysis.records.steps import OVERFLOWS, check_rate
from suite.analysis.rows.blocks import flags_of
from suite.analysis.statistics.fastest import find_fastest
from suite.analysis.statistics.inference import BLOCKS_LEAST
from suite.record.disturbance import CONTAMINATED
from suite.record.parts.evidence import Decoded
from suite.record.parts.history import Ledger
from suite.record.record import Phase, Record, Window
from tests import records
from tests.published import RUNS
from tests.studies.measuring.faults import FAULTS
from tests.studies.measuring.simulated import Fault, Machine, judge, launched


def test_no_published_launch_raises_an_alarm() -> None:
    rows: dict[object, list[Record]] = {}
    for path in RUNS.values():
        for launch in load([path], whole=True).launches:
            if launch.record.outcome.ok:
                rows.setdefault((launch.run, launch.record.cell), []).append(launch.record)
    assert sum(map(len, rows.values())) >= 495
    assert find_unaccounted(rows) == {}
    assert not [record.key for held in rows.values() for record in held if problems(record)]


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_a_fault_of_measurement_is_noticed(fault: Fault) -> None:
    assert bool(judge(fault)) != bool(fault.survives)


@pytest.mark.parametrize("seed", [1, 2])
def test_a_launch_without_a_fault_raises_no_alarm(seed: int) -> None:
    assert problems(launched(seed=seed)) == []


@pytest.mark.parametrize(
    ("slower", "until_s"), [(2.5, 1.0), (8.0, 1.6), (4.0, 2.5), (8.0, 4.0), (2.5, 6.0), (4.0, 9.0)]
)
def test_other_programs_that_end_in_the_middle_raise_no_alarm(slower: float, until_s: float) -> None:
    """After a warm-up, whose windows were long enough, or between two phases."""

    def plant(patch: pytest.MonkeyPatch, machine: Machine) -> None:
        work, end_s = Machine.work, machine.now_s + until_s
        patch.setattr(Machine, "work", lambda self, s: work(self, s * (slower if self.now_s < end_s else 1)))

    made = launched(Fault("others", plant))
    beside = made.phases["train"].spans[0][1] <= 100 + until_s + 1  # in most windows of training
    made = replace(made, flags=(*made.flags, CONTAMINATED)) if beside else made
    assert find_unaccounted({0: [made]}) == {}


def wrong(record: Record) -> Record:
    """The same launch, of which half of the batches are missing."""
    return replace(record, ledger=Ledger(delivered=100))


def test_a_row_that_is_not_accounted_for_is_flagged_and_not_ranked() -> None:
    held = [wrong(each) if each.cell.framework == "tensorflow" else each for each in records.launches(n=BLOCKS_LEAST)]
    table = records.only(held)
    shown = {row["framework"]: row for row in table.frame.to_dict("records")}
    assert shown["tensorflow"]["samples_per_s"] > shown["pytorch"]["samples_per_s"]
    reason = f"the loader delivered 100 batches, and steps took 370 ({BLOCKS_LEAST} of {BLOCKS_LEAST} launches)"
    assert shown["tensorflow"]["identity"] == f"{UNACCOUNTED}: {reason}"
    assert shown["tensorflow"]["flags"] == UNACCOUNTED
    assert shown["tensorflow"]["ratio_verdict"] == ""
    assert shown["tensorflow"]["ratio_reason"].endswith(f": tensorflow {UNACCOUNTED}: {reason}")
    assert {shown[name]["identity_kind"] for name in ("pytorch", "jax")} == {"same"}
    assert all(key[1].framework != "tensorflow" for best in table.leaders.values() for key in best)
    group = table.group
    identities = verdicts({row.key: row.ok for row in group.rows})
    (contest,) = find_fastest(group, identities)
    assert contest.top == "pytorch"
    assert contest.unranked == {"tensorflow": f"tensorflow {UNACCOUNTED}: {reason}"}


def test_passes_with_loading_take_a_batch_each() -> None:
    served = records.serving(records.record())
    taken = {name: sum(window.steps for window in phase.windows) for name, phase in served.phases.items()}
    taken = {name: steps + sum(w.steps for w in served.phases[name].warmup) for name, steps in taken.items()}
    trained = taken["train"] + taken["input"]
    (problem,) = problems(replace(served, ledger=Ledger(trained)))
    assert problem == f"the loader delivered {trained} batches, and steps took {trained + taken['infer_loaded']}"
    assert problems(replace(served, ledger=Ledger(trained + taken["infer_loaded"]))) == []


def test_words_take_their_operations() -> None:
    """Where a word takes a microsecond, the words do more operations than the device can."""
    served = records.serving(records.record())
    assert served.inference
    flops = {"training_flops_per_sample": 3e3, "flops_per_sample": 1e3, "answer_flops_per_sample": 1e3}
    slow, fast = (Decoded(1, 8, 8, 1.0, seconds) for seconds in (1.0, 1e-9))
    found = []
    for each in (slow, fast):
        decoding = replace(served, inference=replace(served.inference, decoded=(each,)))
        found.append([*check_rate(replace(decoding, workload=served.workload | flops), 1e10)])
    assert found == [[], ["decoding reaches 5000% of the highest rate that was measured"]]


def test_one_of_several_launches_is_enough() -> None:
    first, *others = records.launches(["pytorch"], n=3)
    (found,) = verdicts({"row": [*others, wrong(first)]}).values()
    assert (found.kind, found.detail.endswith("(1 of 3 launches)")) == (UNACCOUNTED, True)
    differing = replace(first, identity=None)
    assert find_unaccounted({"row": [differing]}) == {}


def test_phases_are_in_a_wrong_order_where_all_launches_have_them_so() -> None:
    half = next(fault for fault in FAULTS if fault.name == "half a batch in each training step")
    wrong, right = launched(half), launched(seed=2)
    assert "of which that is a part (2 of 2 launches)" in find_unaccounted({"x": [wrong, wrong]})["x"]
    assert find_unaccounted({"x": [wrong, right]}) == {}, "other work may disturb a phase of one launch"
    lean = replace(right, phases={"train": right.phases["train"]})
    assert "(1 of 2 launches)" in find_unaccounted({"x": [wrong, lean]})["x"], "which has one phase alone"
    busy = replace(wrong, flags=("contaminated",))
    assert find_unaccounted({"x": [busy]}) == {}, "whose phases other programs disturbed, each by its own share"


def test_what_failed_is_not_judged() -> None:
    assert problems(records.failed(wrong(records.record()))) == []


def test_in_fp16_steps_that_overflow_are_no_updates() -> None:
    record = records.record(precision="fp16")
    batches = 370  # of train and input, and as many steps of train and compute
    ledger = Ledger(batches, updates=batches - OVERFLOWS)
    assert problems(replace(record, ledger=ledger)) == []
    assert problems(replace(record, ledger=replace(ledger, updates=batches - OVERFLOWS - 1)))
    assert problems(replace(record, cell=record.cell.but(precision="fp32"), ledger=ledger))


def at(share: float, launch: int, peak: float = 1e12) -> Record:
    """A launch that reaches so much of 1 TFLOP/s, and measured a peak."""
    made = records.record(launch=launch)
    flops = share * 1e12 / (made.samples_per_s or 1)
    return replace(made, workload={"training_flops_per_sample": flops}, settings={"peak_flops_per_s": peak})


def test_the_peak_is_that_of_several_launches() -> None:
    """One launch alone may be disturbed while it measures the peak, so that it seems to be beyond that."""
    alone = at(0.9, 0, peak=0.55e12)
    assert problems(alone) == []
    assert find_unaccounted({"row": [alone, at(0.9, 1), at(0.9, 2)]}) == {}
    (found,) = find_unaccounted({"row": [at(0.9, 0), at(0.9, 1), at(1.1, 2)]}).values()
    assert found.endswith("of the highest rate that was measured (1 of 3 launches)")
    assert problems(at(2.1, 0))


def test_a_peak_that_was_measured_beside_others_is_not_held_against_a_launch() -> None:
    """Another launch of the run measured three times as much, or this one says that others ran; as submitted, it is."""
    low, other = at(0.9, 0, peak=0.3e12), at(0.9, 1)
    busy = replace(low, flags=(CONTAMINATED,))
    for launches in ([low, other], [low, replace(other, flags=(CONTAMINATED,))], [busy]):
        assert find_unaccounted({"row": launches}) == {}
        assert find_unaccounted({"row": launches}, submitted=True)
    assert UNACCOUNTED not in flags_of(low)
    threaded = replace(other, cell=other.cell.but(threads=4))
    forged = replace(at(2.1, 0, peak=0.3e12), flags=(CONTAMINATED,))
    for rows in ([low], [low, threaded], [at(2.1, 0), other], [forged], [forged, other]):
        assert find_unaccounted({each.key: [each] for each in rows})


def test_a_training_to_its_end_is_accounted_for_by_its_epochs() -> None:
    record = records.trained()
    spans = replace(record.phases["train"], spans=((10.0, 16.1),))
    record = replace(record, compile_s=None, phases={"train": spans})
    assert problems(replace(record, ledger=Ledger(8, 8, seen_s={"train": (2.6, 3.6)}))) == []
    assert problems(replace(record, ledger=Ledger(6, 8))) == ["the loader delivered 6 batches, and epochs took 8"]
    assert problems(replace(record, ledger=Ledger(8, 4))) == ["the optimizer counted 4 steps, and 8 were taken"]
    assert problems(replace(record, phases={"train": replace(spans, spans=((10.0, 13.0),))}))


def test_short_bursts_may_wait_for_a_core() -> None:
    """As in a launch of a few milliseconds beside other programs: 93 % of 0.02 s is no sign, and of 20 s it is."""

    def filling(share: float, seconds: float) -> Record:
        window = Window(1, share * seconds)
        return replace(records.record(), phases={"input": Phase((window,), spans=((0.0, seconds),))})

    assert problems(filling(0.93, 0.02)) == []
    assert problems(filling(0.93, 20.0)) == ["windows of input fill 93% of the time in which they were taken"]


def read_late(own_s: float, seen_s: float, others: float = 0.8, late_s: float | None = None) -> Record:
    """A launch whose one burst took so long by both clocks, beside others who took so much."""
    phase = Phase((Window(1, own_s),), spans=((0.0, own_s),))
    late = None if late_s is None else {"input": (late_s,)}
    return replace(
        records.record(), phases={"input": phase}, flags=(CONTAMINATED,),
        metrics={"host": {"disturbance": {"others_share": others}}},
        ledger=Ledger(1, 1, {}, {"input": (seen_s,)}, late),
    )  # fmt: skip


@pytest.mark.parametrize(("own_s", "seen_s"), [(0.992, 1.222), (0.855, 0.656)])
def test_a_parent_may_read_late_beside_other_programs(own_s: float, seen_s: float) -> None:
    """As in two launches of ResNet-18 on two cores, beside programs that kept a dozen busy; two seconds are a fault."""
    assert problems(read_late(own_s, seen_s)) == []
    for fault in (read_late(own_s, seen_s, 0.2), read_late(own_s + 2, seen_s)):
        (problem,) = problems(fault)
        assert "passed outside" in problem


@pytest.mark.parametrize("by_s", [0.68, -0.68])
def test_a_parent_that_had_no_core_may_read_later_still(by_s: float) -> None:
    """By as much as the kernel counted; in launches that were not disturbed, that is no excuse."""
    assert problems(read_late(2.0, 2.0 + by_s, late_s=0.7)) == []
    for fault in (
        read_late(2.0, 2.0 + by_s),
        read_late(2.0, 2.0 + by_s, 0.2, 0.7),
        read_late(2.0, 2.0 + 3 * by_s, late_s=0.7),
    ):
        assert problems(fault)
    assert "late_s" not in read_late(2.0, 2.0).to_json()["ledger"], "as before there was any"


def test_the_ledger_is_a_part_of_a_record() -> None:
    record = launched()
    assert record.ledger
    assert len(record.ledger.seen_s["train"]) == len(record.phases["train"].spans)
    assert Record.from_json(record.to_json()) == record
    assert "ledger" not in records.record().to_json()
