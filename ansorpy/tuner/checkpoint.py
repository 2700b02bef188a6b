"""What a tuning that may be interrupted leaves behind after every round, and begins again from.

A round is kept whole or not at all: its trials, and where the search stands after them. A tuning
that goes on from there measures what it would have measured, had nothing happened: the random
numbers are where they were, and the cost model learns again from the same trials.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from ansorpy.events import RoundDone
from ansorpy.records import MEASURED, Record, RecordStore


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """Where a search stands after a round; all of it is plain JSON.

    seconds     the tuning has taken so far
    scheduler   `TaskScheduler.snapshot`
    picking     state of the random numbers that propose candidates
    dealing     and of those that deal out turns
    tasks       seconds spent on each task
    latencies   (trials, weighted latency) after every round that had one
    held        of each task, (plan as text, row) of what the next round measures first
    """

    seconds: float
    scheduler: Mapping[str, Any]
    picking: Mapping[str, Any]
    dealing: Mapping[str, Any]
    tasks: Mapping[str, float]
    latencies: Sequence[tuple[int, float]] = ()
    held: Mapping[str, Sequence[tuple[str, Sequence[int]]]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class StoredSearch:
    """What an interrupted tuning left: every stored round (task, trials) in order, its races."""

    checkpoint: Checkpoint | None = None
    rounds: tuple[tuple[str, tuple[Record, ...]], ...] = ()
    races: Mapping[str, Record] = field(default_factory=dict)  # by task


class Journal(Protocol):
    """Where the rounds of one tuning go. What a method was given is safe when it returns."""

    def stored(self) -> StoredSearch:
        """Return what an earlier attempt at the same tuning left."""
        ...

    def append_round(self, done: RoundDone, records: Sequence[Record], after: Checkpoint) -> None:
        """Keep a round: all of it or nothing."""
        ...

    def append_race(self, task: str, record: Record) -> None:
        """Keep the race that ends a task."""
        ...


class StoreJournal:
    """The journal of a tuning that nobody resumes: its records go to a store."""

    def __init__(self, store: RecordStore) -> None:
        self._store = store

    def stored(self) -> StoredSearch:
        """Return nothing."""
        return StoredSearch()

    def append_round(self, done: RoundDone, records: Sequence[Record], after: Checkpoint) -> None:
        """Keep the trials."""
        self._store.append(records, MEASURED)

    def append_race(self, task: str, record: Record) -> None:
        """Keep the race."""
        self._store.append([record], MEASURED)


def state_of(rng: np.random.Generator) -> Mapping[str, Any]:
    """Return the state of random numbers as JSON."""
    state: Mapping[str, Any] = rng.bit_generator.state
    return state


def set_state(rng: np.random.Generator, state: Mapping[str, Any]) -> None:
    """Bring random numbers to a state that `state_of` gave."""
    rng.bit_generator.state = dict(state)
