"""Constant folding: evaluate nodes whose operands are known."""

from collections.abc import Sequence
from math import prod
from typing import Final

from ansorpy import te
from ansorpy.errors import SpecError
from ansorpy.graph.builder import FOLD_BYTES
from ansorpy.graph.graph import Graph, Node
from ansorpy.graph.interp import evaluate
from ansorpy.graph.operator import operator_of, tensors
from ansorpy.graph.passes.rewriter import Rewriter, Rewritten, rewrite_nodes
from ansorpy.te.analysis.flops import flop_count
from ansorpy.te.dag import Placeholder

# Operations of one node that are done while a graph is simplified: some seconds of NumPy.
FOLD_OPERATIONS: Final = 1 << 28


def fold(graph: Graph) -> Rewritten:
    """Replace a node whose operands are all known by the constants that it computes.

    Condition    the values of every operand are at hand; the results hold at most 1 MiB, or no
                 more bytes than the operands; they take at most 2^28 operations
    Rewrite      the outputs are constants, by the meaning of the operator, rounded to their dtypes
    Not handled  weights whose values are not at hand; a node that cannot be evaluated stays
    Source       Aho, Lam, Sethi and Ullman, Compilers, 2nd edition, section 8.5.4
    """
    return rewrite_nodes(graph, _rule)


def _rule(node: Node, at: Rewriter) -> Sequence[str] | None:
    read = [name for name in node.inputs if name]
    if not read or operator_of(node).build is None:
        return None
    arrays = {name: array for name in read if (array := at.known(name)) is not None}
    if len(arrays) < len(set(read)):
        return None
    wanted = [at.before.values[name] for name in node.outputs if name]
    given = sum(at.values[name].size_bytes for name in set(read))
    if sum(value.size_bytes for value in wanted) > max(FOLD_BYTES, given):
        return None
    try:
        if _operations(node, at) > FOLD_OPERATIONS:
            return None
        made = evaluate(node, arrays, at.weights)
    except SpecError:
        return None
    for name, array in zip(node.outputs, made, strict=False):
        if name:
            at.constant(name, array, at.before.values[name].dtype)
    return node.outputs


def _operations(node: Node, at: Rewriter) -> int:
    """Return the arithmetic operations and written elements of a node."""
    results = tensors(
        node, lambda name: te.placeholder(at.shape(name), name, at.values[name].dtype), at.weights
    )
    return sum(
        0 if isinstance(one.draft.node, Placeholder)
        else flop_count(te.dag(one)) + prod(one.shape)
        for one in results
    )  # fmt: skip
