"""The text of a NumPy function, as a bundle holds it: without annotations, which need imports."""

import ast
import inspect
from collections.abc import Callable, Sequence
from textwrap import dedent

from ansorpy.graph.graph import Array


def function_text(function: Callable[..., Sequence[Array]]) -> str:
    """Return Python that defines the function under its own name, given `np` and `math`."""
    tree = ast.parse(dedent(inspect.getsource(function)))
    for node in ast.walk(tree):
        if isinstance(node, ast.arg):
            node.annotation = None
        if isinstance(node, ast.FunctionDef):
            node.returns = None
    return ast.unparse(_Plain().visit(tree))


class _Plain(ast.NodeTransformer):
    """Turn annotated assignments into plain ones."""

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AST | None:
        if node.value is None:
            return None
        return ast.copy_location(ast.Assign([node.target], node.value), node)
