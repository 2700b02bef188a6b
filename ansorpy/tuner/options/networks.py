"""The networks of a tuning, read from the weights of its tasks.

A *network* is a program in which tasks occur. Weights of a single network name tasks: `mm=3`.
Weights of several networks name a network and a task: `a/mm=3`, `b/mm=1`, `b/conv=2`; a task
without a weight in a network does not occur there.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, Protocol

from ansorpy.errors import SpecError
from ansorpy.events import NetworkResult
from ansorpy.tuner.options.objective import Timed

NETWORK_PATTERN: Final = "[A-Za-z_][A-Za-z0-9_]{0,62}"
WEIGHT_PATTERN: Final = (
    f"^({NETWORK_PATTERN}/)?{NETWORK_PATTERN}$"  # the form of names in `weights`
)
ONLY: Final = ""  # the name of a single network

Networks = Mapping[str, Mapping[str, float]]  # network -> task -> weight, 0 if it does not occur


class ComparedTask(Timed, Protocol):
    """The result of a task."""

    @property
    def baseline_s(self) -> float | None:
        """The time of the untuned kernel or of NumPy in seconds."""
        ...


def networks_of(weights: Mapping[str, float], names: Sequence[str]) -> Networks:
    """Return the weight of every task in every network; 1 in a single network unless given.

    Args:
        names: the tasks.

    Raises:
        SpecError: a weight names no task or no network, or a task occurs in no network.
    """
    weights_of: dict[str, dict[str, float]] = {}
    for key, weight in weights.items():
        network, slash, task = key.rpartition("/")
        if task not in names:
            subject = task if slash else "it"
            raise SpecError(
                f"cannot weight {key} because {subject} is no task; expected {', '.join(names)}"
            )
        if slash and not re.fullmatch(NETWORK_PATTERN, network):
            raise SpecError(f"cannot weight {key} because of its form; expected NETWORK/{task}")
        weights_of.setdefault(network, {})[task] = weight
    if not weights_of or ONLY in weights_of:
        if len(weights_of) > 1:
            plain, other = next(iter(weights_of[ONLY])), next(key for key in weights if "/" in key)
            raise SpecError(
                f"cannot weight {plain} beside {other} because it names no network;"
                f" expected NETWORK/{plain}"
            )
        return {ONLY: {name: weights_of.get(ONLY, {}).get(name, 1.0) for name in names}}
    rows = {net: {name: row.get(name, 0.0) for name in names} for net, row in weights_of.items()}
    for name in names:
        if not any(row[name] for row in rows.values()):
            raise SpecError(
                f"cannot tune {name} because it occurs in no network;"
                f" expected a weight such as {next(iter(rows))}/{name}"
            )
    return rows


def task_weights(weights: Mapping[str, float], names: Sequence[str]) -> dict[str, float]:
    """Return the weight of every task, summed over the networks; as `networks_of`."""
    return totals(networks_of(weights, names))


def totals(networks: Networks) -> dict[str, float]:
    """Return the weight of every task, summed over the networks."""
    first, *others = networks.values()
    return {name: sum((row[name] for row in others), weight) for name, weight in first.items()}


def named(networks: Networks) -> bool:
    """Return True if the weights name networks."""
    return ONLY not in networks


def network_results(
    networks: Networks, results: Iterable[ComparedTask], targets_s: Mapping[str, float]
) -> tuple[NetworkResult, ...]:
    """Return the latency of every network that has a name.

    Args:
        results: of all tasks.
        targets_s: latencies asked for, by network.
    """
    if not named(networks):
        return ()
    times = {one.name: (one.best_s, one.baseline_s) for one in results}
    return tuple(
        NetworkResult(
            name,
            _sum_s(row, {task: best_s for task, (best_s, _) in times.items()}),
            _sum_s(row, {task: base_s for task, (_, base_s) in times.items()}),
            targets_s.get(name),
        )
        for name, row in networks.items()
    )


def _sum_s(row: Mapping[str, float], times: Mapping[str, float | None]) -> float | None:
    """Return the latency of a network; None if a task that occurs in it has no time."""
    total_s = 0.0
    for task, weight in row.items():
        one_s = times.get(task)
        if weight and one_s is None:
            return None
        total_s += weight * (one_s or 0.0)
    return total_s
