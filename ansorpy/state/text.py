"""Steps as lines for people and as JSON for records; replay.

The JSON of a step is a list: its code, then its operands in the order of the fields, e.g.
`["SP", "C", "i", 4, []]`. Codes are as in Ansor's records; stages and loops go by name.
"""

from collections.abc import Iterable
from dataclasses import Field, fields
from typing import Any, Final, TypeAlias, get_args

from ansorpy.errors import RecordError, StepError
from ansorpy.state import steps
from ansorpy.state.state import State, Step
from ansorpy.te.dag import Dag

# Every step that has a wire form: a new step is registered here.
KnownStep: TypeAlias = (
    steps.Split
    | steps.FollowSplit
    | steps.FollowFusedSplit
    | steps.Reorder
    | steps.Fuse
    | steps.Annotate
    | steps.ComputeAt
    | steps.ComputeInline
    | steps.ComputeRoot
    | steps.CacheRead
    | steps.CacheWrite
    | steps.Rfactor
    | steps.Join
    | steps.PadRows
    | steps.SplitGroups
    | steps.SplitPhases
    | steps.SkipPadding
    | steps.Winograd
    | steps.RoundOperands
    | steps.Tensorize
)
KINDS: Final[tuple[type[KnownStep], ...]] = get_args(KnownStep)
MAX_PARTS: Final = 64  # largest integer operand (parts, levels, outputs); rules use at most 4
BY_CODE: Final = {kind.code: kind for kind in KINDS}


def step_to_json(step: Step) -> list[object]:
    """Return the wire form of a step; StepError for a step that has none."""
    if not isinstance(step, KINDS):
        raise StepError(f"{step}: a step of type {type(step).__name__} has no wire form")
    operands = (getattr(step, field.name) for field in fields(step))
    return [step.code, *(list(o) if isinstance(o, tuple) else o for o in operands)]


def steps_to_json(state: State) -> list[list[object]]:
    """Return the wire form of the history of a state."""
    return [step_to_json(step) for step in state.steps]


def step_from_json(obj: object) -> Step:
    """Return the step; RecordError names the code, the operand and the expected value."""
    if not isinstance(obj, list) or not obj or not isinstance(obj[0], str):
        raise RecordError(f"step {obj!r}: not a list that begins with a code")
    kind = BY_CODE.get(obj[0])
    if kind is None:
        raise RecordError(f"step {obj!r}: unknown code; there are {', '.join(BY_CODE)}")
    operands = fields(kind)
    if len(obj) != len(operands) + 1:
        raise RecordError(f"step {obj!r}: {len(obj) - 1} operands, {len(operands)} expected")
    values: Any = [
        _operand(obj, field, value) for field, value in zip(operands, obj[1:], strict=True)
    ]
    return kind(*values)


def replay(dag: Dag, steps_json: Iterable[object]) -> State:
    """Apply recorded steps to the naive state of `dag`.

    Raises:
        RecordError: a step is malformed, or cannot be applied; names its position.
    """
    state = State.naive(dag)
    for i, obj in enumerate(steps_json):
        try:
            state = state.do(step_from_json(obj))
        except StepError as error:
            raise RecordError(f"step {i} of {dag.name!r} cannot be applied: {error}") from error
    return state


def history(state: State) -> str:
    """Return the steps as text, one per line."""
    return "\n".join(map(str, state.steps))


def _operand(step: list[object], field: "Field[Any]", value: object) -> object:
    if field.type in (str, int):
        expected, good = field.type.__name__, type(value) is field.type
        if isinstance(value, int) and not 0 <= value <= MAX_PARTS:
            expected, good = f"0 to {MAX_PARTS}", False
    else:
        item = str if field.type == tuple[str, ...] else int
        expected = f"list of {item.__name__}"
        good = isinstance(value, list) and all(type(part) is item for part in value)
    if not good:
        raise RecordError(f"step {step!r}: {field.name} = {value!r}, {expected} expected")
    return tuple(value) if isinstance(value, list) else value
