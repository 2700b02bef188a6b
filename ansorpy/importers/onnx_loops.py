"""Loops of ONNX with a known number of steps: their bodies are written out, step by step."""

from collections.abc import Sequence
from typing import Final, Protocol

import numpy as np
import onnx

from ansorpy.errors import GraphError
from ansorpy.graph.builder import GraphBuilder
from ansorpy.graph.graph import Array, Attribute
from ansorpy.graph.remedies import bind_option
from ansorpy.importers.onnx_empty import empty
from ansorpy.importers.onnx_values import dtype_of

MOST_STEPS: Final = 64  # steps of a loop that is written out

Scope = dict[str, str]  # the name of a value in ONNX -> its name in the graph


class Importer(Protocol):
    """The part of `NodeImporter` that adds the body of a loop."""

    builder: GraphBuilder

    def fresh(self, name: str) -> str:
        """Return a name that no value has."""

    def initializers(self, graph: onnx.GraphProto, scope: Scope) -> None:
        """Add the initializers of a body."""

    def nodes(self, nodes: Sequence[onnx.NodeProto], scope: Scope, within: str, depth: int) -> None:
        """Add nodes in order."""


def loop(at: Importer, node: onnx.NodeProto, scope: Scope, place: str, depth: int) -> None:
    """Add the body of a Loop once per step.

    Raises:
        GraphError: the trip count or a condition is computed at run time, or there are too many
            steps.
    """
    body = _body(node, place)
    given = [scope[name] if name else "" for name in node.input]
    count, go, *state = [*given, *[""] * (2 - len(given))]
    results = len(body.output) - 1 - len(state)
    if len(body.input) != 2 + len(state) or results < 0:
        raise GraphError(
            f"cannot import {place} because its body takes {len(body.input)} values and gives"
            f" {len(body.output)}; expected {2 + len(state)}, and at least {1 + len(state)}"
        )
    steps = int(_known(at, count, "trip count", place).item()) if count else None
    going = not go or bool(_known(at, go, "condition", place).item())
    rows: list[list[str]] = [[] for _ in range(results)]
    step = 0
    while going and (steps is None or step < steps):
        if max(step + 1, steps or 0) > MOST_STEPS:
            raise GraphError(
                f"cannot import {place} because it has {steps or 'more'} steps;"
                f" expected at most {MOST_STEPS}"
            )
        known = [np.array(step), np.array(True)]
        values = [at.builder.constant(at.fresh(f"{node.name}.{step}"), one) for one in known]
        more, *ends = _step(at, node, body, [*values, *state], scope, step, depth)
        state = ends[: len(state)]
        for found, name in zip(rows, ends[len(state) :], strict=True):
            found.append(_unsqueezed(at, name, 0))
        step += 1
        if step != steps:  # the last condition decides nothing
            going = bool(_known(at, more, "condition after a step", place).item())
    made = [
        _joined(at, found, 0) if found else _no_rows(at, info, place)
        for found, info in zip(rows, body.output[1 + len(state) :], strict=True)
    ]
    scope |= {
        name: value for name, value in zip(node.output, [*state, *made], strict=False) if name
    }


def scan(at: Importer, node: onnx.NodeProto, scope: Scope, place: str, depth: int) -> None:
    """Add the body of a Scan once per element of its sequences.

    Raises:
        GraphError: there are no sequences, or too many steps.
    """
    body = _body(node, place)
    attrs = {one.name: one for one in node.attribute}
    count = int(attrs["num_scan_inputs"].i) if "num_scan_inputs" in attrs else 0
    states = len(node.input) - count
    results = len(body.output) - states
    if not 0 < count <= len(node.input) == len(body.input) or results < 0:
        raise GraphError(
            f"cannot import {place} because {count} of its {len(node.input)} values are sequences,"
            f" and its body takes {len(body.input)}; expected 1 or more, and as many values"
        )
    taken = [
        (scope[name], axis % max(1, len(at.builder.values[scope[name]].shape)), back)
        for name, axis, back in zip(
            node.input[states:],
            _numbers(attrs, "scan_input_axes", count, place),
            _numbers(attrs, "scan_input_directions", count, place),
            strict=True,
        )
    ]
    axes = _numbers(attrs, "scan_output_axes", results, place)
    turned = _numbers(attrs, "scan_output_directions", results, place)
    extents = {at.builder.values[name].fixed_shape[axis : axis + 1] for name, axis, _ in taken}
    steps = next(iter(extents), ())[0] if extents != {()} else 0
    if len(extents) != 1 or not 0 < steps <= MOST_STEPS:
        raise GraphError(
            f"cannot import {place} because it has {steps} steps; expected 1 to {MOST_STEPS}, as"
            " many for each sequence"
        )
    state = [scope[name] for name in node.input[:states]]
    rows: list[list[str]] = [[] for _ in range(results)]
    for step in range(steps):
        slices = []
        for name, axis, back in taken:
            index = np.array(steps - 1 - step if back else step)
            place_of = at.builder.constant(at.fresh(f"{node.name}.{step}"), index)
            slices.append(_added(at, "Gather", [name, place_of], name, {"axis": axis}))
        ends = _step(at, node, body, [*state, *slices], scope, step, depth)
        state = ends[:states]
        for found, name, axis in zip(rows, ends[states:], axes, strict=True):
            found.append(_unsqueezed(at, name, axis))
    made = [
        _joined(at, found[::-1] if back else found, axis)
        for found, axis, back in zip(rows, axes, turned, strict=True)
    ]
    scope |= {
        name: value for name, value in zip(node.output, [*state, *made], strict=False) if name
    }


def _body(node: onnx.NodeProto, place: str) -> onnx.GraphProto:
    found: list[onnx.GraphProto] = [one.g for one in node.attribute if one.name == "body"]
    if not found:
        raise GraphError(f"cannot import {place} because body is absent; expected a graph")
    return found[0]


def _known(at: Importer, name: str, what: str, place: str) -> Array:
    """Return the element of a constant that decides about the steps of a loop."""
    weight = at.builder.weights.get(name)
    if weight is None or weight.load is None or weight.elements != 1:
        told = " ".join(map(bind_option, at.builder.scalars(name)[:4]))
        raise GraphError(
            f"cannot import {place} because its {what} is computed at run time; expected a"
            " constant" + (f", as by {told}" if told else ": it depends on no scalar input to bind")
        )
    return weight.array.reshape(-1)[0]  # type: ignore[no-any-return]


def _step(
    at: Importer, node: onnx.NodeProto, body: onnx.GraphProto, values: Sequence[str],
    scope: Scope, step: int, depth: int,
) -> list[str]:  # fmt: skip
    """Add the body for one step; return its outputs."""
    local = {**scope, **{one.name: v for one, v in zip(body.input, values, strict=True)}}
    at.initializers(body, local)
    at.nodes(body.node, local, f"{node.name}.{step}", depth + 1)
    missing = [one.name for one in body.output if one.name not in local]
    if missing:
        raise GraphError(
            f"cannot import node {node.name[:80]!r} ({node.op_type}) because output"
            f" {missing[0][:80]!r} of its body is not defined; expected a value of the body"
        )
    return [local[one.name] for one in body.output]


def _numbers(attrs: dict[str, onnx.AttributeProto], name: str, count: int, place: str) -> list[int]:
    """Return the integers of an attribute, by default 0 for each sequence."""
    found = list(attrs[name].ints) if name in attrs else [0] * count
    if len(found) != count:
        raise GraphError(
            f"cannot import {place} because {name} has {len(found)} numbers; expected {count}"
        )
    return found


def _unsqueezed(at: Importer, name: str, axis: int) -> str:
    axes = at.builder.constant(at.fresh(f"{name}.axis"), np.array([axis]))
    return _added(at, "Unsqueeze", [name, axes], name, {})


def _joined(at: Importer, rows: list[str], axis: int) -> str:
    return _added(at, "Concat", rows, "rows", {"axis": axis})


def _no_rows(at: Importer, info: onnx.ValueInfoProto, place: str) -> str:
    """Return the result of a loop without steps: its shape is known if it is declared."""
    kind = info.type.tensor_type
    if not kind.HasField("shape") or not all(one.HasField("dim_value") for one in kind.shape.dim):
        raise GraphError(
            f"cannot import {place} because it has no steps, and the shape of {info.name[:80]!r} is"
            " not declared; expected a step, or numbers for all extents"
        )
    shape = (0, *(one.dim_value for one in kind.shape.dim))
    dtype = dtype_of(kind.elem_type, place)
    return at.builder.constant(at.fresh(info.name), *empty(shape, dtype))


def _added(at: Importer, op: str, inputs: list[str], name: str, attrs: dict[str, Attribute]) -> str:
    return at.builder.add(op, inputs, [at.fresh(name)], attrs)[0]
