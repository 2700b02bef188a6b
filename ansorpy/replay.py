"""Serialization of plans: the identity of a plan as text, from which a record is replayed."""

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np

from ansorpy.errors import AnsorError, LoweringError, RecordError, SpecError, StepError, shown
from ansorpy.frontends.json.strict import parse_json
from ansorpy.frontends.json.write import loads
from ansorpy.loopir.nodes import Program
from ansorpy.plan.bind import bind
from ansorpy.plan.join import join_plans
from ansorpy.plan.lower import lower
from ansorpy.plan.plan import Plan, RangePlan, StageChoice
from ansorpy.population import legal
from ansorpy.records import Record
from ansorpy.state.state import Attached, Inlined, Location, Root
from ansorpy.state.text import replay as replay_steps
from ansorpy.state.text import steps_to_json
from ansorpy.target import Target
from ansorpy.te.analysis import workload_key
from ansorpy.te.dag import Dag
from ansorpy.te.dims import Dim, in_range, ranges_of

# Exceptions that the plan of a hostile record may raise during rewriting and lowering.
UNFIT: Final = (
    AnsorError,
    ArithmeticError,
    AssertionError,
    AttributeError,
    LookupError,
    RecursionError,
    TypeError,
    ValueError,
)


def plan_text(plan: Plan) -> str:
    """Return the canonical JSON of a plan: the steps of its sketch and its structural choices.

    A joined plan has the steps and choices of each part, with its range.
    """
    return json.dumps(_plan_to_json(plan), separators=(",", ":"))


def _plan_to_json(plan: Plan) -> dict[str, Any]:
    if plan.parts:
        return {"parts": [[*one.sizes.facts, _plan_to_json(one.plan)] for one in plan.parts]}
    return {
        "steps": steps_to_json(plan.state),
        "choices": {name: choice_to_json(choice) for name, choice in plan.choices},
    }


def plan_from_text(dag: Dag, target: Target, text: str) -> Plan:
    """Return the plan again, from the naive state of `dag`.

    Raises:
        RecordError: the text is malformed, or does not apply to `dag`.
    """
    try:
        return _plan_from_json(dag, target, parse_json(text))
    except RecordError:
        raise
    except (StepError, LoweringError) as error:
        raise RecordError(f"the plan does not fit {dag.name!r}: {error}") from error
    except UNFIT as error:
        raise RecordError(f"not a plan: {type(error).__name__} {shown(error)}") from error


def _plan_from_json(dag: Dag, target: Target, obj: Any) -> Plan:
    if "parts" in obj:
        return _joined_from_json(dag, target, obj["parts"])
    state = replay_steps(dag, obj["steps"])
    choices = tuple((name, choice_from_json(c)) for name, c in obj["choices"].items())
    return lower(state, choices, target)


def _joined_from_json(dag: Dag, target: Target, parts: Sequence[Sequence[Any]]) -> Plan:
    ranges = tuple(Dim(*facts) for *facts, _ in parts)
    if len(ranges) < 2 or ranges != ranges_of(dag, len(ranges)):
        raise RecordError(f"the ranges {', '.join(map(str, ranges))} are none of {dag.name!r}")
    plans = [
        _plan_from_json(in_range(dag, sizes), target, obj)
        for sizes, (*_, obj) in zip(ranges, parts, strict=True)
    ]
    return join_plans([RangePlan(sizes, plan) for sizes, plan in zip(ranges, plans, strict=True)])


def replay(dag: Dag, target: Target, record: Record) -> Program:
    """Return the very program that a record measured.

    Raises:
        RecordError: the record does not fit `dag` (other names, or another version of a rule).
    """
    plan = plan_from_text(dag, target, record.plan)
    try:
        check_row(plan, record.row)
        return bind(plan, record.row, target)
    except UNFIT as error:
        row = shown(record.row)
        raise RecordError(f"row {row} does not fit {dag.name!r}: {shown(error)}") from error


def carried_dag(record: Record) -> Dag:
    """Return the Dag that a record carries.

    Raises:
        RecordError: the record carries none, as records of earlier versions, or the Dag is invalid
            or computes another workload.
    """
    if not record.dag:
        raise RecordError(
            f"cannot replay record {record.id[:12]} alone because it carries no Dag; expected a"
            " record of this version, of a Dag without large constants"
        )
    try:
        dag = loads(record.dag)
    except SpecError as error:
        raise RecordError(f"the Dag of record {record.id[:12]} is invalid: {error}") from error
    if workload_key(dag) != record.workload:
        raise RecordError(
            f"cannot replay record {record.id[:12]} because its Dag has workload"
            f" {workload_key(dag)[:12]}; expected {shown(record.workload, 12)}"
        )
    return dag


def check_row(plan: Plan, row: tuple[int, ...]) -> None:
    """Raise RecordError unless a search could have made this row of the plan.

    Before it is bound: sizes that are out of range may ask for any amount of time.
    """
    if len(row) != len(plan.sizes):
        raise RecordError(f"its row has {len(row)} sizes, expected {len(plan.sizes)}")
    if not legal(plan, np.array([row], np.int64).reshape(1, len(row))).all():
        raise RecordError(f"its row {shown(row)} is not legal")


def choice_to_json(choice: StageChoice) -> dict[str, Any]:
    """Return the wire form of the structural choices of a stage."""
    match choice.location:
        case Root():
            location: object = "root"
        case Inlined():
            location = "inlined"
        case Attached(stage=stage, loop=loop):
            location = [stage, loop]
    return {
        "at": location,
        "parallel": choice.parallel,
        "lane": choice.lane,
        "pack": list(choice.pack),
    }


def choice_from_json(obj: Mapping[str, Any]) -> StageChoice:
    """Return the choices again; RecordError or another of `UNFIT` if the form is wrong."""
    location: Location
    match obj["at"]:
        case "root":
            location = Root()
        case "inlined":
            location = Inlined()
        case [str(stage), str(loop)]:
            location = Attached(stage, loop)
        case other:
            raise RecordError(f"location {other!r}: expected root, inlined or [stage, loop]")
    lane = None if obj["lane"] is None else str(obj["lane"])
    return StageChoice(location, int(obj["parallel"]), lane, tuple(map(str, obj["pack"])))
