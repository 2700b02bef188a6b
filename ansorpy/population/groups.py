"""Groups of columns: the tile sizes of one axis are sampled and repaired together."""

from dataclasses import dataclass

from ansorpy.plan.plan import Plan
from ansorpy.plan.remember import per_plan


@dataclass(frozen=True, slots=True)
class Group:
    """The columns of one axis.

    `columns` are positions in a row, from the outermost tile size to the innermost one, which is
    a multiple of `multiple_of`.
    """

    name: str
    extent: int
    columns: tuple[int, ...]
    multiple_of: int = 1

    @property
    def units(self) -> int:
        """The extent counted in `multiple_of` steps, rounded up."""
        return -(-self.extent // self.multiple_of)


@per_plan
def groups(plan: Plan) -> tuple[Group, ...]:
    """Return the groups of tile sizes, in order of first appearance."""
    members: dict[str, list[int]] = {}
    for i, size in enumerate(plan.sizes):
        if size.role == "tile":
            members.setdefault(size.group or size.name, []).append(i)
    found = []
    for name, columns in members.items():
        columns.sort(key=lambda i: plan.sizes[i].part)
        inner = plan.sizes[columns[-1]]
        found.append(Group(name, inner.extent, tuple(columns), inner.multiple_of))
    return tuple(found)


@per_plan
def value_columns(plan: Plan) -> tuple[int, ...]:
    """Return the columns that take one of a list of values (unroll budgets, vector counts)."""
    return tuple(i for i, size in enumerate(plan.sizes) if size.role != "tile")
