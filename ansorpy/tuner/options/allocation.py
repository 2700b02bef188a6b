"""Options that share the trials of a tuning among its tasks, and the objective that they make."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Final

from ansorpy.errors import SpecError
from ansorpy.te.dag import Dag
from ansorpy.tuner.options.networks import NETWORK_PATTERN, Networks, named
from ansorpy.tuner.options.objective import (
    EarlyStopped,
    GeoMeanSpeedup,
    LatencyTargets,
    Objective,
    WeightedSum,
    WithFixed,
)
from ansorpy.tuner.options.option import Option, OptionLimits

if TYPE_CHECKING:
    from ansorpy.tuner.options.tune_options import TuneOptions

THROUGHPUT: Final = "throughput"  # the objective of copies side by side (ADR-0166)

ObjectiveName = Annotated[
    str,
    Option(
        "Number that the tuning improves. latency: the sum over all networks; speedup: the"
        " geometric mean of the speed-ups of the networks, where a fast network counts as much as a"
        " slow one; throughput: calls per second of as many copies of the kernel as there are"
        " cores, one thread each, all at once.",
        OptionLimits(words=("latency", "speedup", THROUGHPUT)),
        budget=True,
    ),
]


def _latencies(command: str, help: str) -> Option:
    """Return an option for latencies in seconds by name."""
    service = OptionLimits(above=0, most=1e6, items=64)
    return Option(help, OptionLimits(above=0), service, budget=True, command=command)


NetworkTargets = Annotated[
    Mapping[str, float],
    _latencies(
        "network-target",
        "Latency in seconds at which a network gets no further trials, by network: a=0.002. The"
        " search ends if all networks are as fast.",
    ),
]
TaskTargets = Annotated[
    Mapping[str, float],
    _latencies(
        "task-target",
        "Latency in seconds at which a task gets no further trials, by task: mm=0.0001. The search"
        " ends if all tasks are as fast.",
    ),
]
Strategy = Annotated[
    str,
    Option(
        "Choice of the next task. gradient: the task that promises most; similar: likewise, and"
        " tasks of equal structure are expected to reach about the same rate; round-robin: equal"
        " trials for all tasks.",
        OptionLimits(words=("gradient", "similar", "round-robin")),
        budget=True,
    ),
]
ChosenTasks = Annotated[
    Sequence[str],
    Option(
        "Names of the tasks to tune, all unless given; of a model, the tasks to search.",
        service=OptionLimits(items=64, pattern=f"^{NETWORK_PATTERN}$"),
        budget=True,
        command="task",
    ),
]


def check_allocation(options: "TuneOptions", networks: Networks, names: Sequence[str]) -> None:
    """Refuse targets of unknown networks and tasks.

    Raises:
        SpecError: names the option.
    """
    for name in options.network_targets_s:
        if not named(networks):
            raise SpecError(
                f"cannot aim at a latency of {name} because the weights name no network; expected"
                f" weights such as {name}/{names[0]}, or target_latency_s for all tasks together"
            )
        if name not in networks:
            raise SpecError(
                f"cannot aim at a latency of {name} because it is no network;"
                f" expected {', '.join(networks)}"
            )
    for name in options.task_targets_s:
        if name not in names:
            raise SpecError(
                f"cannot aim at a latency of {name} because it is no task;"
                f" expected {', '.join(names)}"
            )


def objective_of(
    options: "TuneOptions",
    networks: Networks,
    tasks: Sequence[str],
    fixed_s: Mapping[str, float],
) -> Objective:
    """Return the objective of a search over `tasks`.

    Args:
        networks: with a weight of each task searched and each one in `fixed_s`.
        fixed_s: times of tasks that are not searched, in seconds.
    """
    order = [*tasks, *fixed_s]
    rows = tuple(tuple(row[name] for name in order) for row in networks.values())
    goal: Objective = WeightedSum(rows)
    if options.network_targets_s:
        goal = LatencyTargets(rows, tuple(options.network_targets_s.get(n, 0.0) for n in networks))
    elif options.task_targets_s:
        goal = EarlyStopped(rows, tuple(options.task_targets_s.get(name, 0.0) for name in order))
    elif options.objective == "speedup":  # references scale all gradients alike
        goal = GeoMeanSpeedup(rows, (1.0,) * len(rows))
    return WithFixed(goal, tuple(fixed_s.values())) if fixed_s else goal


def chosen_dags(dags: Sequence[Dag], tasks: Sequence[str]) -> tuple[Dag, ...]:
    """Return the Dags of the chosen tasks in their order, all if none is named.

    Raises:
        SpecError: a name is no task.
    """
    names = [dag.name for dag in dags]
    for name in tasks:
        if name not in names:
            raise SpecError(
                f"cannot choose {name} because it is no task; expected {', '.join(names)}"
            )
    return tuple(dag for dag in dags if not tasks or dag.name in tasks)
