"""Join plans for ranges of a dim to one plan: a call runs the program of its size."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from ansorpy.expr.expr import Var, substitute
from ansorpy.plan.plan import Plan, RangePlan, Size


def join_plans(parts: Sequence[RangePlan]) -> Plan:
    """Return the plan of at least two parts, whose rows are the rows of the parts, end to end.

    The sizes of all parts but the last have a prefix: the features of the joined plan are features
    of the last part, whose sizes they name.

    Args:
        parts: from the least sizes to the largest; their ranges follow each other.
    """
    sizes: list[Size] = []
    conditions = []
    for number, part in enumerate(parts):
        mark = "" if part is parts[-1] else f"{number}/"
        names = {size.name: Var(mark + size.name) for size in part.plan.sizes}
        sizes += (_marked(size, mark) for size in part.plan.sizes)
        conditions += [substitute(one, names) for one in part.plan.conditions]
    last = parts[-1].plan
    return replace(last, sizes=tuple(sizes), conditions=tuple(conditions), parts=tuple(parts))


def rows_of(plan: Plan, row: Sequence[int]) -> Iterator[tuple[RangePlan, tuple[int, ...]]]:
    """Yield the parts of a joined plan with their rows."""
    begin = 0
    for part in plan.parts:
        end = begin + len(part.plan.sizes)
        yield part, tuple(row[begin:end])
        begin = end


def _marked(size: Size, mark: str) -> Size:
    group = mark + size.group if size.group else ""
    return replace(size, name=mark + size.name, group=group)
