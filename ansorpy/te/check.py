"""The validator of every Dag, from Python, text or JSON.

After the check, names are unique ASCII identifiers, producers come first, dtypes agree, sizes are
within `DagLimits`, and every index of every read is proved to be in range.
"""

from collections.abc import Iterable, Mapping, Sequence
from math import prod

from ansorpy.errors import SpecError, quoted, shown
from ansorpy.expr.dtypes import SIZE_BYTES
from ansorpy.te.check_basics import Tensors, check_dtypes, check_name, check_shape
from ansorpy.te.check_compute import ComputeCheck
from ansorpy.te.dag import Compute, ConstantTensor, Dag, Node, Placeholder
from ansorpy.te.dims import MOST_DIMS, Dim, dims_of, extents_at, too_large
from ansorpy.te.limits import LIMITS, DagLimits

__all__ = ["check", "check_node", "check_tasks", "signature"]


def check_tasks(dags: Sequence[Dag]) -> None:
    """Refuse Dags to tune together that are not valid, or that share a name.

    Raises:
        SpecError: as `check`; or a name occurs twice.
    """
    names = [dag.name for dag in dags]
    for dag in dags:
        check(dag)
        if names.count(dag.name) > 1:
            raise SpecError(
                f"cannot take {names.count(dag.name)} tasks of the name {dag.name!r} because names"
                " identify tasks; expected 1"
            )


def check(dag: Dag, limits: DagLimits = LIMITS) -> None:
    """Refuse a Dag that is not valid.

    Raises:
        SpecError: names the node, the value, and the limit or the expected value.
    """
    check_name(dag.name, "the dag")
    if not 1 <= len(dag.nodes) <= limits.nodes:
        raise SpecError(f"dag {dag.name!r}: {len(dag.nodes)} nodes, not 1 to {limits.nodes}")
    tensors: dict[str, tuple[tuple[int, ...], tuple[str, ...]]] = {}
    later = {node.name for node in dag.nodes}
    terms = 0
    for node in dag.nodes:
        terms += check_node(node, tensors, later, limits)
        tensors[node.name] = signature(node)
        if terms > limits.all_terms:
            raise SpecError(f"dag {dag.name!r}: {terms} expression parts, limit {limits.all_terms}")
    _dims(dag)
    _total_bytes(dag, tensors, limits)
    _outputs(dag)


def check_node(
    node: Node, tensors: Tensors, later: Iterable[str] = (), limits: DagLimits = LIMITS
) -> int:
    """Refuse a node that is not valid after the nodes in `tensors`; return its expression parts.

    Args:
        tensors: shape and dtypes of every node before this one.
        later: names that come at or after it, for a better message.

    Raises:
        SpecError: names the node and the fault.
    """
    where = f"node {quoted(node.name)}"
    check_name(node.name, where)
    if node.name in tensors:
        raise SpecError(f"{where}: the name is taken by an earlier node")
    match node:
        case Placeholder() | ConstantTensor():
            check_dtypes((node.dtype,), where)
            check_shape(node.shape, where, limits)
            if isinstance(node, ConstantTensor):
                _data(node, where, limits)
            return 0
        case Compute():
            return ComputeCheck(node, tensors, frozenset(later), limits, where).run()


def signature(node: Node) -> tuple[tuple[int, ...], tuple[str, ...]]:
    """Return shape and dtypes, as `check_node` wants them for the nodes after it."""
    return node.shape, node.dtypes if isinstance(node, Compute) else (node.dtype,)


def _data(node: ConstantTensor, where: str, limits: DagLimits) -> None:
    expected = prod(node.shape) * SIZE_BYTES[node.dtype]
    if expected > limits.constant_bytes:
        raise SpecError(f"{where}: {expected} bytes of constants, limit {limits.constant_bytes}")
    if len(node.data) != expected:
        raise SpecError(
            f"{where}: {len(node.data)} bytes of data, but its shape and dtype need {expected}"
        )


def _total_bytes(dag: Dag, tensors: Tensors, limits: DagLimits) -> None:
    every = [(shape, dtype) for shape, dtypes in tensors.values() for dtype in dtypes]

    def bytes_at(sizes: Mapping[str, int]) -> int:
        return sum(prod(extents_at(shape, sizes)) * SIZE_BYTES[dtype] for shape, dtype in every)

    dims = dims_of(dag)
    total = bytes_at({one.name: one.high for one in dims})
    if total > limits.bytes and dims:
        what = f"cannot take dag {dag.name!r}"
        raise too_large(what, dims, bytes_at, limits.bytes, "{} bytes of tensors".format)
    if total > limits.bytes:
        raise SpecError(f"dag {dag.name!r}: {total} bytes of tensors, limit {limits.bytes}")
    constants = sum(len(node.data) for node in dag.nodes if isinstance(node, ConstantTensor))
    if constants > limits.constant_bytes:
        raise SpecError(
            f"dag {dag.name!r}: {constants} bytes of constants, limit {limits.constant_bytes}"
        )


def _dims(dag: Dag) -> None:
    """Refuse two ranges of one dim, weights and constants with dims, and too many dims."""
    dims = dims_of(dag)
    for one in dims:
        others = [other for other in dims if other.name == one.name and other != one]
        if others:
            raise SpecError(
                f"cannot take dag {dag.name!r} because dim {one.name} is {one!r} and {others[0]!r};"
                " expected one range"
            )
    if len(dims) > MOST_DIMS:
        raise SpecError(f"cannot take {len(dims)} dims in dag {dag.name!r}; expected {MOST_DIMS}")
    for node in dag.nodes:
        fixed = isinstance(node, ConstantTensor) or (
            isinstance(node, Placeholder) and node.constant
        )
        for extent in node.shape if fixed else ():
            if isinstance(extent, Dim):
                raise SpecError(
                    f"cannot give the constant {node.name!r} the dim {extent.name} because its"
                    " values are known before any call; expected a number"
                )
    told = {extent for node in dag.placeholders for extent in node.shape}
    for one in dims:
        if one in told:
            continue
        raise SpecError(
            f"cannot take dim {one.name} of dag {dag.name!r} because no input has it;"
            " expected an input whose shape tells its size"
        )


def _outputs(dag: Dag) -> None:
    if not dag.outputs:
        raise SpecError(f"dag {dag.name!r}: no outputs")
    if len(set(dag.outputs)) < len(dag.outputs):
        raise SpecError(f"dag {dag.name!r}: outputs {shown(dag.outputs)} name a node twice")
    computed = {node.name for node in dag.computes}
    for name in dag.outputs:
        if name not in computed:
            what = "an input" if name in dag.index else "not there"
            raise SpecError(f"dag {dag.name!r}: output {quoted(name)} is {what}")
    used = {read.tensor for node in dag.computes for read in node.reads} | set(dag.outputs)
    for node in dag.nodes:
        if node.name not in used and not isinstance(node, Placeholder):
            raise SpecError(f"node {node.name!r}: nothing reads it and it is not an output")
