"""A space generator: the half of the derived sketches that take the fewest steps."""

from collections.abc import Sequence

from ansorpy.sketch import derive
from ansorpy.state.rule import Rule
from ansorpy.state.state import State
from ansorpy.target import Target
from ansorpy.te.dag import Dag


class FewSteps:
    """A small space for short searches: most caches and second levels of tiles are left out."""

    def __init__(self, target: Target, seed: int) -> None:
        """Need neither: the target comes with each Dag."""

    def sketches(self, dag: Dag, target: Target, rules: tuple[Rule, ...]) -> Sequence[State]:
        """Return sketches of the rules, those of the fewest steps first."""
        found = sorted(derive(dag, target, rules).sketches, key=lambda state: len(state.steps))
        return found[: (len(found) + 1) // 2]
