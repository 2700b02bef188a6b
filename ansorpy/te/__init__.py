"""Tensor expressions: the Python API, the Dag, its checks and its analysis.

Names of higher floors (notations, the oracle) are public here, too; they load on first use.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from ansorpy.te.build import dag
from ansorpy.te.dag import Attrs, Axis, Compute, ConstantTensor, Dag, Node, Placeholder
from ansorpy.te.dims import Dim, dim
from ansorpy.te.functions import (
    ArgReduction,
    Axes,
    ReduceAxis,
    Reduction,
    abs,
    all,
    any,
    argmax,
    argmin,
    atan,
    cast,
    ceil,
    clamped,
    cos,
    erf,
    exp,
    floor,
    fmod,
    log,
    log1p,
    max,
    max_value,
    maximum,
    min,
    min_value,
    minimum,
    pow,
    prod,
    round,
    rsqrt,
    select,
    sigmoid,
    sign,
    sin,
    sqrt,
    sum,
    tanh,
    tf32,
    trunc,
)
from ansorpy.te.scalar import Operand, Scalar, const
from ansorpy.te.tensor import (
    Tensor,
    TensorOperand,
    compute,
    constant,
    elementwise,
    placeholder,
    reduce_axis,
)

if TYPE_CHECKING:
    from ansorpy.frontends.einsum import einsum as einsum
    from ansorpy.frontends.json.write import from_json as from_json
    from ansorpy.frontends.json.write import to_json as to_json
    from ansorpy.frontends.tc.text import parse as parse
    from ansorpy.oracle.error_bounds import Bounded as Bounded
    from ansorpy.oracle.reference import evaluate as evaluate
    from ansorpy.oracle.reference import evaluate_bounded as evaluate_bounded

_HOMES = {
    "Bounded": "ansorpy.oracle.error_bounds",
    "einsum": "ansorpy.frontends.einsum",
    "evaluate": "ansorpy.oracle.reference",
    "evaluate_bounded": "ansorpy.oracle.reference",
    "from_json": "ansorpy.frontends.json.write",
    "parse": "ansorpy.frontends.tc.text",
    "to_json": "ansorpy.frontends.json.write",
}

__all__ = [
    "ArgReduction",
    "Attrs",
    "Axes",
    "Axis",
    "Bounded",
    "Compute",
    "ConstantTensor",
    "Dag",
    "Dim",
    "Node",
    "Operand",
    "Placeholder",
    "ReduceAxis",
    "Reduction",
    "Scalar",
    "Tensor",
    "TensorOperand",
    "abs",
    "all",
    "any",
    "argmax",
    "argmin",
    "atan",
    "cast",
    "ceil",
    "clamped",
    "compute",
    "const",
    "constant",
    "cos",
    "dag",
    "dim",
    "einsum",
    "elementwise",
    "erf",
    "evaluate",
    "evaluate_bounded",
    "exp",
    "floor",
    "fmod",
    "from_json",
    "log",
    "log1p",
    "max",
    "max_value",
    "maximum",
    "min",
    "min_value",
    "minimum",
    "parse",
    "placeholder",
    "pow",
    "prod",
    "reduce_axis",
    "round",
    "rsqrt",
    "select",
    "sigmoid",
    "sign",
    "sin",
    "sqrt",
    "sum",
    "tanh",
    "tf32",
    "to_json",
    "trunc",
]


def __getattr__(name: str) -> Any:
    """Load a public name of a higher floor on first use (PEP 562)."""
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'ansorpy.te' has no attribute {name!r}")
