"""The identity of a task: the fields that never change during a tuning."""

from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256

from ansorpy.measure.timing.cold_weights import has_cold_weights
from ansorpy.records import Carried, carried, task_key
from ansorpy.state.rule import Rule
from ansorpy.target import Target
from ansorpy.te.analysis import flop_count, workload_key
from ansorpy.te.dag import Dag
from ansorpy.tuner.rule_sets.files import identity


@dataclass(frozen=True)  # no slots, for the cached properties
class Identity:
    """One workload on one target, as records name it."""

    dag: Dag
    target: Target
    rules: str  # name and version of the rule set
    copies_bytes: int = 0  # size of the copies of the weights if a task has enough of them; 0: hot
    estimated: bool = False  # trials are estimates of an analytic model (ADR-0143)
    measured_by: str = ""  # measuring back end of another package (ADR-0156); "": ours
    copies: int = 1  # kernels that run at once in every trial
    twins: tuple[Dag, ...] = ()  # equal Dags of other names, which get the same kernel
    parts: tuple[tuple[str, str, str], ...] = ()  # as records name them

    @cached_property
    def cold_bytes(self) -> int:
        """Size of all copies of the weights that timed calls go round; 0: hot."""
        return self.copies_bytes if has_cold_weights(self.dag) else 0

    @cached_property
    def workload(self) -> str:
        """The key of the Dag, regardless of the names of its nodes."""
        return workload_key(self.dag)

    @cached_property
    def flop(self) -> int:
        """The floating-point operations of a call."""
        return flop_count(self.dag)

    @cached_property
    def key(self) -> str:
        """The key of the records."""
        return task_key(
            self.workload, self.target, self.cold_bytes, self.estimated, self.measured_by,
            self.copies,
        )  # fmt: skip

    @cached_property
    def carried(self) -> Carried:
        """The Dag and its structure, as the records of the task carry them."""
        return carried(self.dag)


def rules_name(kind: str, rules: tuple[Rule, ...]) -> str:
    """Return name and version of a rule set.

    The version is a digest of rules, parameters, and the files that rules are from.
    """
    texts = ", ".join(map(identity, rules)) + ("," if len(rules) == 1 else "")
    return f"{kind}@{sha256(f'({texts})'.encode()).hexdigest()[:12]}"
