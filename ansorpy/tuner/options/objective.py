"""The objective of several tasks: a number to minimise, and its exact gradient.

A *network* is a weight per task: how often the task occurs in it; its latency is the weighted
sum of the costs. Gradients are analytic: the released scheduler takes differences with a step of
1e-4 s, longer than many kernels run, which is wrong for everything but f1.

Source: Ansor, OSDI 2020, table 2 (f1 to f4).
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.float64]
Networks = tuple[tuple[float, ...], ...]  # one row per network, one weight per task


class Timed(Protocol):
    """A task, or the result of one."""

    @property
    def name(self) -> str:
        """The name of the Dag."""
        ...

    @property
    def best_s(self) -> float | None:
        """The best time in seconds, None if there is none yet."""
        ...


def weighted_latency_s(tasks: Iterable[Timed], weights: Mapping[str, float]) -> float | None:
    """Return the weighted sum of the times, weight 1 unless given; None if one misses."""
    total_s = 0.0
    for task in tasks:
        if task.best_s is None:
            return None
        total_s += weights.get(task.name, 1.0) * task.best_s
    return total_s


class Objective(Protocol):
    """A function of the best costs of the tasks, in seconds, shape (tasks,).

    A task without a result has cost 0: it must not decide about the others.
    """

    def value(self, costs_s: FloatArray) -> float:
        """Return the number to minimise."""
        ...

    def gradient(self, costs_s: FloatArray) -> FloatArray:
        """Return the derivative by every cost, shape (tasks,)."""
        ...

    def reached(self, costs_s: FloatArray) -> bool:
        """Return True if no lower cost of a task would lower the value; all have a result."""
        ...


@dataclass(frozen=True, slots=True)
class WeightedSum:
    """f1: the latencies of all networks together."""

    networks: Networks

    def value(self, costs_s: FloatArray) -> float:
        """Return seconds."""
        return float(_latencies(self.networks, costs_s).sum())

    def gradient(self, costs_s: FloatArray) -> FloatArray:
        """Return the weights."""
        answer: FloatArray = _weights(self.networks).sum(axis=0)
        return answer

    def reached(self, costs_s: FloatArray) -> bool:
        """Return False."""
        return False


@dataclass(frozen=True, slots=True)
class LatencyTargets:
    """f2: a network that is as fast as its target earns nothing further."""

    networks: Networks
    targets_s: tuple[float, ...]  # one per network

    def value(self, costs_s: FloatArray) -> float:
        """Return seconds."""
        return float(np.maximum(_latencies(self.networks, costs_s), self.targets_s).sum())

    def gradient(self, costs_s: FloatArray) -> FloatArray:
        """Return the weights of the networks that miss their target."""
        late = _latencies(self.networks, costs_s) > np.asarray(self.targets_s)
        return late.astype(np.float64) @ _weights(self.networks)

    def reached(self, costs_s: FloatArray) -> bool:
        """Return True if no network misses its target."""
        return bool((_latencies(self.networks, costs_s) <= np.asarray(self.targets_s)).all())


@dataclass(frozen=True, slots=True)
class GeoMeanSpeedup:
    """f3: less the geometric mean of the speed-ups of the networks over given references."""

    networks: Networks
    references_s: tuple[float, ...]  # one per network

    def value(self, costs_s: FloatArray) -> float:
        """Return minus the mean speed-up; networks without any result do not count."""
        latencies = _latencies(self.networks, costs_s)
        known = latencies > 0
        if not known.any():
            return 0.0
        ratios = np.asarray(self.references_s)[known] / latencies[known]
        return -float(np.exp(np.log(ratios).mean()))

    def gradient(self, costs_s: FloatArray) -> FloatArray:
        """Return mean speed-up / networks * weight / latency, summed over the networks."""
        latencies = _latencies(self.networks, costs_s)
        known = latencies > 0
        shares = np.divide(1.0, latencies, out=np.zeros_like(latencies), where=known)
        answer: FloatArray = (
            -self.value(costs_s) / max(1, int(known.sum())) * (shares @ _weights(self.networks))
        )
        return answer

    def reached(self, costs_s: FloatArray) -> bool:
        """Return False."""
        return False


@dataclass(frozen=True, slots=True)
class EarlyStopped:
    """f4: a task that is as fast as its limit earns nothing further."""

    networks: Networks
    limits_s: tuple[float, ...]  # one per task

    def value(self, costs_s: FloatArray) -> float:
        """Return seconds."""
        return float(_latencies(self.networks, np.maximum(costs_s, self.limits_s)).sum())

    def gradient(self, costs_s: FloatArray) -> FloatArray:
        """Return the weights of the tasks that are slower than their limit."""
        answer: FloatArray = _weights(self.networks).sum(axis=0) * (
            costs_s > np.asarray(self.limits_s)
        )
        return answer

    def reached(self, costs_s: FloatArray) -> bool:
        """Return True if no task is slower than its limit."""
        return bool((costs_s <= np.asarray(self.limits_s)).all())


@dataclass(frozen=True, slots=True)
class WithFixed:
    """An objective over more tasks than are searched: the last ones have fixed costs."""

    whole: Objective
    fixed_s: tuple[float, ...]

    def value(self, costs_s: FloatArray) -> float:
        """Return the value of the whole."""
        return self.whole.value(self._all(costs_s))

    def gradient(self, costs_s: FloatArray) -> FloatArray:
        """Return the derivative by the costs of the tasks that are searched."""
        return self.whole.gradient(self._all(costs_s))[: len(costs_s)]

    def reached(self, costs_s: FloatArray) -> bool:
        """Return True if the whole is reached."""
        return self.whole.reached(self._all(costs_s))

    def _all(self, costs_s: FloatArray) -> FloatArray:
        return np.concatenate([costs_s, self.fixed_s])


def _weights(networks: Networks) -> FloatArray:
    return np.asarray(networks, dtype=np.float64)


def _latencies(networks: Networks, costs_s: FloatArray) -> FloatArray:
    return _weights(networks) @ costs_s
