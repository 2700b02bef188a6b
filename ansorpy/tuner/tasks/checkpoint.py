"""Checkpoints of a tuning that may be interrupted: written after every round, read on resumption.

A round is stored whole or not at all: its trials, and the state of the search after them. A resumed
tuning measures the candidates of an uninterrupted tuning: the random numbers continue from their
state, and the cost model learns the same trials again.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from ansorpy.events import RoundDone
from ansorpy.records import MEASURED, Record, RecordStore


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """The state of a search after a round, as plain JSON.

    seconds     the tuning has taken so far
    scheduler   `TaskScheduler.snapshot`
    picking     state of the random numbers that propose candidates
    dealing     and of those that deal out turns
    tasks       seconds spent on each task
    latencies   (trials, weighted latency) after every round that had one
    held        (plan as text, row) of the deferred candidates of each task
    searches    memory of the search strategy of each task that keeps one
    """

    seconds: float
    scheduler: Mapping[str, Any]
    picking: Mapping[str, Any]
    dealing: Mapping[str, Any]
    tasks: Mapping[str, float]
    latencies: Sequence[tuple[int, float]] = ()
    held: Mapping[str, Sequence[tuple[str, Sequence[int]]]] = field(default_factory=dict)
    searches: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class StoredSearch:
    """The stored part of an interrupted tuning: rounds (task, trials) in order, and races."""

    checkpoint: Checkpoint | None = None
    rounds: tuple[tuple[str, tuple[Record, ...]], ...] = ()
    races: Mapping[str, Record] = field(default_factory=dict)  # by task


class Journal(Protocol):
    """The storage of the rounds of one tuning; a method returns once its arguments are stored."""

    def stored(self) -> StoredSearch:
        """Return the stored part of an earlier attempt at the same tuning."""
        ...

    def append_round(self, done: RoundDone, records: Sequence[Record], after: Checkpoint) -> None:
        """Keep a round: all of it or nothing."""
        ...

    def append_race(self, task: str, record: Record) -> None:
        """Keep the race that ends a task."""
        ...


class StoreJournal:
    """The journal of a tuning without resumption: its records go to a store."""

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
