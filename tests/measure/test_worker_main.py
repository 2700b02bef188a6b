"""Builds in a child process, one by one and in batches."""

import pytest

from ansorpy.errors import LoweringError
from ansorpy.measure.outcome import Failed
from ansorpy.measure.protocols import BuildRequest, BuildResult
from ansorpy.measure.unbound import unbound
from ansorpy.measure.workers.worker_main import BuildBatch, build, build_batch
from ansorpy.plan.choices import naive
from ansorpy.target import Target
from tests.measure import fake

TARGET = Target(cores=1)
DAG = fake.matmul()
ROW = naive(DAG, TARGET).smallest_row


def request_of(row: tuple[int, ...]) -> BuildRequest:
    return BuildRequest(fake.BACKEND, unbound(naive(DAG, TARGET), row), TARGET)


def test_an_unbound_candidate_is_bound_and_built() -> None:
    assert isinstance(build(request_of(ROW)), BuildResult)
    with pytest.raises(LoweringError, match="one per size"):
        build(request_of((*ROW, 1)))


def test_a_batch_has_one_result_per_request_and_failures_are_values() -> None:
    first, bad, last = build_batch(
        BuildBatch(fake.BACKEND, (request_of(ROW), request_of((*ROW, 1)), request_of(ROW)))
    )
    assert isinstance(first, BuildResult)
    assert isinstance(last, BuildResult)
    assert isinstance(bad, Failed)
    assert bad.kind == "build"
    assert "LoweringError" in bad.message
    assert "Traceback" in bad.excerpt
