"""Cursors to put a rule on."""

from collections.abc import Iterator

from ansorpy import rules
from ansorpy.state.rule import Cursor, Rule, Verdict
from ansorpy.state.state import State
from ansorpy.state.text import history
from ansorpy.target import CpuTarget, GpuTarget, Target
from ansorpy.te.dag import Dag

CPU = CpuTarget(cores=4)
CUDA = GpuTarget(warp=32)


def at(dag: Dag | State, stage: str, target: Target = CPU) -> Cursor:
    state = State.naive(dag) if isinstance(dag, Dag) else dag
    return Cursor(state, state.index[stage], target)


def every_cursor(dag: Dag, target: Target) -> Iterator[Cursor]:
    """All cursors that the rule set of the target comes to on `dag`."""
    start = State.naive(dag)
    work = [Cursor(start, len(start.stages) - 1, target)]
    while work:
        cursor = work.pop()
        if cursor.index < 0:
            continue
        yield cursor
        for rule in rules.released(target):
            verdict = rule.condition(cursor)
            if verdict is not Verdict.SKIP:
                work += rule.rewrite(cursor)
            if verdict is Verdict.APPLY_ALONE:
                break


def shown(rule: Rule, cursor: Cursor) -> str:
    """The successors of a rule for a golden file: where each stands, its state, its steps."""
    parts = []
    for successor in rule.rewrite(cursor):
        where = successor.name if successor.index >= 0 else "the end"
        parts.append(f"next: {where}\n{successor.state}\n--\n{history(successor.state)}")
    return "\n\n".join(parts)
