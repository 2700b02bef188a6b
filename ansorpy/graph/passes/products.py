"""Matrix products: transposes of their operands as flags of Gemm."""

from collections.abc import Sequence

from ansorpy.graph.graph import Graph, Node
from ansorpy.graph.passes.rewriter import Rewriter, Rewritten, rewrite_nodes


def products(graph: Graph) -> Rewritten:
    """Let a product of matrices read the operands of transposes.

    Condition    MatMul of two matrices, one of which is a Transpose or a constant; Gemm of a
                 Transpose
    Rewrite      MatMul(Transpose(a), b) -> Gemm(a, b, transA=1); MatMul(x, constant) ->
                 Gemm(x, constant), which takes a bias; Gemm(Transpose(a), b) -> Gemm(a, b) with
                 the flag turned over
    Not handled  batch axes: a group of the partition takes in the permutation, as the rule
                 InlineTranspose does
    Rounding     sums may run in another order
    Source       BLAS, level 3: operands are taken as they lie
    """
    return rewrite_nodes(graph, _rule)


def _rule(node: Node, at: Rewriter) -> Sequence[str] | None:
    if node.op not in ("MatMul", "Gemm"):
        return None
    a, b = node.inputs[:2]
    if len(at.shape(a)) != 2 or len(at.shape(b)) != 2:
        return None
    turned = [at.maker(name, "Transpose") for name in (a, b)]
    if not any(turned) and (node.op == "Gemm" or b not in at.weights):
        return None
    if at.before.values[node.outputs[0]].dtype not in ("float32", "float64"):
        return None
    attrs = dict(node.attrs)
    inputs = [a, b, *node.inputs[2:]]
    for position, (flag, one) in enumerate(zip(("transA", "transB"), turned, strict=True)):
        if one is not None:
            inputs[position] = one.inputs[0]
            attrs[flag] = 0 if attrs.get(flag, 0) else 1
    return at.add("Gemm", inputs, node.outputs, attrs, node.name)
