"""Builds that a child makes before they are asked for."""

import pytest

from ansorpy.errors import LoweringError
from ansorpy.loopir.nodes import Program
from ansorpy.measure.draft import Draft, drafted
from ansorpy.measure.workers import worker_main
from ansorpy.measure.workers.worker_main import BuildDone, BuildJob
from ansorpy.plan.choices import naive
from ansorpy.target import Target
from tests.measure import fake

TARGET = Target(cores=1)
DAG = fake.matmul()


@pytest.fixture
def built(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return the names of the programs that the back end makes, in order."""
    names: list[str] = []
    make = fake.build

    def noted(program: Program, target: Target) -> fake.FakeBuilt:
        names.append(program.name)
        return make(program, target)

    monkeypatch.setattr(fake, "build", noted)
    return names


def job_of(row: tuple[int, ...]) -> BuildJob:
    return BuildJob(fake.BACKEND, drafted(naive(DAG, TARGET), row), TARGET)


def test_a_draft_that_was_built_ahead_is_not_built_again(built: list[str]) -> None:
    job = job_of(naive(DAG, TARGET).smallest_row)
    worker_main.build_ahead((job,))
    assert len(built) == 1
    assert isinstance(worker_main.build(job), BuildDone)
    assert len(built) == 1
    worker_main.build(job)  # an answer is handed out once
    assert len(built) == 2


def test_a_draft_that_cannot_be_built_ahead_fails_when_it_is_asked_for(built: list[str]) -> None:
    row = naive(DAG, TARGET).smallest_row
    bad = job_of((*row, 1))
    worker_main.build_ahead((bad, job_of(row)))
    assert len(built) == 1
    with pytest.raises(LoweringError, match="sizes"):
        worker_main.build(bad)
    assert isinstance(bad.what, Draft)


def test_builds_that_nobody_asked_for_are_forgotten(built: list[str]) -> None:
    job = job_of(naive(DAG, TARGET).smallest_row)
    worker_main.build_ahead((job,))
    worker_main.build_ahead(())
    worker_main.build(job)
    assert len(built) == 2
