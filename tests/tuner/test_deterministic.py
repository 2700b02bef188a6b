"""The option `deterministic`: a search that repeats itself from recorded times (ADR-0030)."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ansorpy.errors import SpecError
from ansorpy.events import Event, Finished, RoundDone
from ansorpy.frontends.tc.text import parse
from ansorpy.loopir.nodes import Program
from ansorpy.measure.outcome import Failed, Measured, Outcome
from ansorpy.records import MEASURED, MemoryStore
from ansorpy.target import Target
from ansorpy.tuner.options.conflicts import RequestKind, check_conflicts
from ansorpy.tuner.options.tune_options import TuneOptions
from ansorpy.tuner.requests.request import Request
from ansorpy.tuner.rule_sets.sets import find_rules
from ansorpy.tuner.tune import run
from tests.fakes import cost_s, fake_pools

pytestmark = pytest.mark.usefixtures("few_candidates")

TARGET = Target(cores=2)
MM = "def mm(float(24,32) A, float(32,16) B) -> (C) { C(i,j) +=! A(i,k) * B(k,j) }"
RELU = "def relu(float(64,64) X) -> (Y) { Y(i,j) = fmax(X(i,j), 0) }"


class Machine:
    """Times with noise: the same candidate never takes the same time twice, and some fail."""

    def __init__(self, seed: int) -> None:
        self.rng, self.trials = np.random.default_rng(seed), 0

    def __call__(self, program: Program) -> Outcome:
        self.trials += 1
        if self.rng.random() < 0.1:
            return Failed("wrong", "C[0] is 1, not 2")
        return Measured((cost_s(program) * float(self.rng.uniform(0.5, 2.0)),))


def events(
    what: str, store: MemoryStore, machine: Machine, out: Path, **options: Any
) -> Iterator[Event]:
    request = Request(parse(what), TARGET, **{"trials": 24, "deterministic": True, **options})
    return run(request, find_rules("cpu"), store, out, pools=fake_pools(machine))


def played(found: Iterator[Event]) -> tuple[list[Event], Finished]:
    told = list(found)
    end = told[-1]
    assert isinstance(end, Finished)
    return told, end


def trials_of(store: MemoryStore) -> list[tuple[str, tuple[int, ...], Outcome]]:
    """Return the candidates and outcomes of the trials in a store, in order."""
    return [(one.plan, one.row, one.outcome) for one in store.export() if one.race is None]


def only_trials(store: MemoryStore) -> MemoryStore:
    kept = MemoryStore()
    kept.append([one for one in store.export() if one.race is None], MEASURED)
    return kept


@pytest.mark.parametrize("what", [MM, MM + RELU], ids=["one", "two"])
def test_a_search_repeats_itself_from_recorded_times(tmp_path: Path, what: str) -> None:
    store, first = MemoryStore(), Machine(1)
    told, end = played(events(what, store, first, tmp_path / "a"))
    kept = only_trials(store)
    before = trials_of(kept)
    assert len(before) == 24
    again = Machine(2)
    repeated, same = played(events(what, kept, again, tmp_path / "b"))
    # The leaders alone are timed, in turns before the final race, as in any tuning.
    assert again.trials < first.trials / 2
    assert trials_of(kept) == [*before, *before]
    rounds, others = (
        [(one.task, one.trials, one.best_s) for one in found if isinstance(one, RoundDone)]
        for found in (told, repeated)
    )
    assert rounds == others
    assert [one.trials for one in same.results] == [one.trials for one in end.results]


def test_the_same_request_gets_the_kernel_that_is_on_record(tmp_path: Path) -> None:
    store = MemoryStore()
    _, end = played(events(MM, store, Machine(1), tmp_path / "a"))
    again = Machine(2)
    _, same = played(events(MM, store, again, tmp_path / "b"))
    assert same.stopped == "store"
    assert again.trials == 0
    one, other = end.results[0].kernel, same.results[0].kernel
    assert one is not None
    assert other is not None
    assert one.name == other.name


def test_another_request_with_fewer_trials_is_not_answered_by_it(tmp_path: Path) -> None:
    store = MemoryStore()
    played(events(MM, store, Machine(1), tmp_path))
    _, end = played(events(MM, store, Machine(2), tmp_path, trials=16))
    assert end.stopped == "trials"
    plain = Request(parse(MM), TARGET, trials=16)
    _, found = played(run(plain, find_rules("cpu"), store, tmp_path, pools=fake_pools(Machine(3))))
    assert found.stopped == "store"


def test_records_start_nothing_but_their_own_candidates(tmp_path: Path) -> None:
    """A store with trials of another seed changes no candidate of the search."""
    alone, mixed = MemoryStore(), MemoryStore()
    played(events(MM, mixed, Machine(7), tmp_path, seed=5))
    others = len(trials_of(mixed))
    played(events(MM, alone, Machine(1), tmp_path, trials=8))
    played(events(MM, mixed, Machine(1), tmp_path, trials=8))
    ours = [trial[:2] for trial in trials_of(alone)]
    assert [trial[:2] for trial in trials_of(mixed)[others:]] == ours


def test_a_whole_model_is_refused() -> None:
    with pytest.raises(SpecError, match="cannot tune a model with deterministic because"):
        check_conflicts(TuneOptions(deterministic=True), RequestKind(model=True))


@pytest.mark.parametrize(("option", "value"), [("seconds", 5.0), ("fresh", True)])
def test_an_option_that_cannot_repeat_is_refused(option: str, value: Any) -> None:
    with pytest.raises(SpecError, match=f"cannot tune with {option} and deterministic because"):
        Request(parse(MM), TARGET, deterministic=True, **{option: value})
