"""A Dag as text for people: a line per node, with its dtype, its axes and its formula."""

from ansorpy.te.dag import Axis, Compute, Dag


def text(dag: Dag) -> str:
    """Return the whole Dag, producers first."""
    lines = [f"dag {dag.name} -> {', '.join(dag.outputs)}"]
    for node in dag.nodes:
        if isinstance(node, Compute):
            over = f"[{_axes(node.axes)}]: {', '.join(node.dtypes)} = {_formula(node)}"
            lines.append(f"  {node.name}{over}")
        else:
            extents = ", ".join(map(str, node.shape))
            lines.append(f"  {node.name}[{extents}]: {node.dtype}")
    return "\n".join(lines) + "\n"


def _formula(node: Compute) -> str:
    values = ", ".join(map(str, node.body))
    if node.combiner is None:
        return values
    start = "" if node.start is None else f" from {node.start}"
    return f"{node.combiner} over {_axes(node.reduce_axes)}{start} of {values}"


def _axes(axes: tuple[Axis, ...]) -> str:
    return ", ".join(f"{axis.name}:{axis.extent}" for axis in axes)
