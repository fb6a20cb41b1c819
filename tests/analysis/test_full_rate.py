"""The first steps of the timed object, where the workload's own learning rate amplifies roundings."""

from __future__ import annotations

import pytest

from suite.analysis.tolerances import LARGEST_UPDATE, at_full_rate, tolerance_of
from suite.record.evidence import Trace
from tests import records
from tests.analysis.test_identity import but, kinds


@pytest.mark.parametrize(("factor", "kind"), [(1.005, "same"), (1.02, "differs")])
def test_resnet_s_second_loss_may_differ_by_ten_times_what_rounding_does(factor: float, kind: str) -> None:
    torch, flow, jax = (records.proved(each) for each in records.launches(n=1, workload="cifar100_resnet18"))
    first, second = records.LOSSES[:2]
    timed = Trace((first, second * factor), records.UPDATES)
    assert kinds([torch, but(flow, timed=timed, dropout=None), jax]) == ["same", kind, "same"]


def test_other_bounds_stay() -> None:
    for workload in ("cifar100_cnn", "imdb_lstm", "imdb_transformer"):
        tolerance = tolerance_of(workload, "fp32", cuda=False)
        assert tolerance is not None
        assert at_full_rate(tolerance, workload, "fp32") == tolerance.early
    resnet = tolerance_of("cifar100_resnet18", "fp32", cuda=True)
    assert resnet is not None
    assert at_full_rate(resnet, "cifar100_resnet18", "fp32").updates == LARGEST_UPDATE
