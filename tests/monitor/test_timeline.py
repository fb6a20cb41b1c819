"""What is made of samples: rates, energy and lines, cut to the windows of a phase; pure functions."""

from __future__ import annotations

import pytest

from suite.monitor.timeline import Sample, Span, cut, energy_j, grown, line, rates, summary
from suite.record.saved import POINTS, decode_line


def stream(name: str, values: list[float], every_s: float = 1.0) -> list[Sample]:
    return [Sample(index * every_s, {name: value}) for index, value in enumerate(values)]


def test_a_counter_that_wraps_or_is_reset_has_no_rate_there() -> None:
    samples = rates(stream("energy_j", [100.0, 200.0, 350.0, 10.0, 60.0]), {"energy_j": "power_w"})
    assert [sample.values.get("power_w") for sample in samples] == [None, 100.0, 150.0, None, 50.0]
    assert grown(stream("energy_j", [100.0, 350.0, 10.0]), "energy_j", [Span(0.0, 9.0)]) is None
    assert grown(stream("energy_j", [100.0, 350.0]), "energy_j", [Span(0.0, 9.0)]) == (250.0, 1.0)


def test_missing_fields_leave_holes_and_never_zeros() -> None:
    samples = [Sample(0.0, {"a": 1.0}), Sample(1.0, {}), Sample(2.0, {"a": 3.0, "b": 5.0})]
    assert summary(samples)["a"] | {"p5": 0, "p95": 0} == {"median": 2.0, "p5": 0, "p95": 0, "max": 3.0, "n": 2}
    assert decode_line(line(samples, 0.0))["values"] == {"a": [1.0, None, 3.0], "b": [None, None, 5.0]}


def test_energy_is_the_counter_s_over_five_seconds_and_labelled_where_it_is_not() -> None:
    samples = [Sample(t / 10, {"energy_j": 30.0 * t, "power_w": 100.0}) for t in range(200)]
    assert energy_j(samples, [Span(2.0, 12.0)]) == (pytest.approx(3000.0), "counter")
    assert energy_j(samples, [Span(2.0, 4.0)]) is None, "too short for the counter, and polling is no stand-in for it"
    assert energy_j(samples[:40], [Span(2.0, 12.0)]) is None, "two seconds are not ten"
    assert energy_j([], [Span(0.0, 10.0)]) is None
    polled = [Sample(t / 10, {"power_w": 100.0}) for t in range(200)]
    assert energy_j(polled, [Span(2.0, 4.0)]) == (pytest.approx(200.0), "polled power")


def test_a_line_is_thinned_to_its_most_points() -> None:
    thinned = decode_line(line(stream("a", [1.23456789] * 5000, 0.1), begin_s=-1.0))
    assert thinned
    assert POINTS / 2 < len(thinned["at_s"]) <= POINTS
    assert (thinned["at_s"][0], thinned["values"]["a"][0]) == (1.0, 1.23)


def test_of_a_short_launch_the_host_keeps_every_sample_and_a_gpu_as_many() -> None:
    host = decode_line(line(stream("a", [1.0] * 60, 0.4995), begin_s=0.0))
    gpu = decode_line(line(stream("a", [1.0] * 300, 0.1), begin_s=0.0))
    assert host
    assert gpu
    assert len(host["at_s"]) == 60
    assert 60 <= len(gpu["at_s"]) <= 75
    assert line([], 0.0) == {"at_ms": [], "lines": {}}
    assert len(line(stream("a", [1.0, 2.0], 0.0), 0.0)["at_ms"]) == 2


def test_a_sampler_that_fell_behind_gives_fewer_samples_and_the_same_energy() -> None:
    samples = [Sample(t, {"energy_j": 300.0 * t}) for t in (0.0, 0.1, 3.0, 3.1, 9.5, 12.0)]
    assert energy_j(samples, [Span(0.0, 10.0)]) == (pytest.approx(3000.0), "counter")
    assert len(cut(samples, [Span(1.0, 9.0)])) == 2


#: Ten seconds of training, in turns of two seconds with something else.
BURSTS = [Span(4.0 * turn, 4.0 * turn + 2.0) for turn in range(5)]


def in_turns(name: str, every_s: float, rate: float, others: float) -> list[Sample]:
    """A counter that grows by ``rate`` a second in the bursts, and by ``others`` between them."""
    samples, total = [], 0.0
    for tick in range(round(20 / every_s)):
        at_s = tick * every_s
        samples.append(Sample(at_s, {name: total}))
        total += every_s * (rate if any(span.begin_s <= at_s < span.end_s for span in BURSTS) else others)
    return samples


def test_a_phase_that_takes_turns_is_told_from_what_ran_between() -> None:
    energy = in_turns("energy_j", 0.1, rate=300.0, others=50.0)
    assert energy_j(energy, BURSTS) == (pytest.approx(3000.0), "counter")
    assert grown(energy, "energy_j", BURSTS) == (pytest.approx(300 * 10.0, rel=0.02), pytest.approx(10.0, rel=0.02))
    polled = [Sample(x.at_s, {"power_w": 300.0 if cut([x], BURSTS) else 50.0}) for x in energy]
    assert energy_j(polled, BURSTS) == (pytest.approx(3000.0), "polled power")


def test_a_rate_is_of_the_phase_that_filled_the_time_between_its_two_readings() -> None:
    cpu = in_turns("cpu_s", 0.5, rate=2.0, others=1.0)
    shifted = [Sample(sample.at_s + 0.2, sample.values) for sample in cpu]  # so that readings straddle each edge
    seen = summary(rates(shifted, {"cpu_s": "cpu_cores"}, BURSTS))["cpu_cores"]
    assert seen["median"] == 2.0
    assert seen["n"] >= 3 * len(BURSTS)
    assert summary(rates(shifted, {"cpu_s": "cpu_cores"}, [Span(0.0, 0.3)])) == {}, "too short for two readings"
