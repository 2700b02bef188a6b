"""Feature group 1: the operations of a store, and the annotations of the loops around it."""

from collections import Counter
from collections.abc import Mapping, Sequence
from functools import reduce
from typing import Final

from ansorpy.expr.dtypes import FLOATS
from ansorpy.expr.expr import (
    BITS,
    COMPARISONS,
    LOGICAL,
    Binary,
    Call,
    Cast,
    Const,
    Expr,
    Read,
    Select,
    Var,
    variables,
    walk,
)
from ansorpy.expr.functions import BINARY_FUNCTIONS, FUNCTIONS
from ansorpy.features.column_program import ColumnBuilder, ColumnValue
from ansorpy.features.integers import divides
from ansorpy.features.walk import EnclosingLoop, StoreStatement
from ansorpy.loopir.nodes import LoopKind, Store

_CLASSES: Final = ("mad", "addsub", "mul", "divmod", "cmp", "math_func", "other_func")
OPERATIONS: Final = (
    *(f"float_{name}" for name in _CLASSES), *(f"int_{name}" for name in _CLASSES),
    "bool_op", "select_op",
)  # fmt: skip
POSITIONS: Final = (
    "none", "inner_spatial", "middle_spatial", "outer_spatial",
    "inner_reduce", "middle_reduce", "outer_reduce", "mixed",
)  # fmt: skip
_KINDS: Final[Mapping[str, LoopKind]] = {
    "vec": LoopKind.VECTOR, "unroll": LoopKind.UNROLL, "parallel": LoopKind.PARALLEL,
}  # fmt: skip
_THREADS: Final = (
    "block_x_len", "block_y_len", "block_z_len",
    "thread_x_len", "thread_y_len", "thread_z_len", "vthread_len",
)  # fmt: skip
NAMES: Final = (
    *OPERATIONS,
    *(
        f"{kind}_{what}" for kind in _KINDS
        for what in ("num", "prod", "len", *(f"type.{p}" for p in POSITIONS))
    ),
    "is_gpu", *_THREADS,
)  # fmt: skip
_BINARY_CLASS: Final[Mapping[str, str]] = {
    "add": "addsub", "sub": "addsub", "mul": "mul", "div": "divmod", "floordiv": "divmod",
    "mod": "divmod", "min": "cmp", "max": "cmp",
    **dict.fromkeys(BINARY_FUNCTIONS, "math_func"),
    **dict.fromkeys(BITS, "addsub"),
}  # fmt: skip
_CALL_CLASS: Final[Mapping[str, str]] = {
    "neg": "addsub", "bitnot": "addsub", "abs": "other_func",
    **{name: "other_func" for name, function in FUNCTIONS.items() if function.whole},
}  # fmt: skip
_COMBINER_CLASS: Final[Mapping[str, str]] = {
    "sum": "addsub", "prod": "mul", "max": "cmp", "min": "cmp", "argmax": "cmp", "argmin": "cmp",
}  # fmt: skip


def features(builder: ColumnBuilder, statement: StoreStatement) -> list[ColumnValue]:
    """Return the 57 features of the group, in the order of NAMES; `is_gpu` is left at 0."""
    one = builder.const(1)
    # The steps of a dot-product instruction count as one operation.
    loops = (loop for loop in statement.loops if loop.kind is not LoopKind.DOT)
    iterations = reduce(ColumnValue.__mul__, (loop.extent for loop in loops), one)
    counts = operations(statement.store)
    answer = [iterations * counts[name] for name in OPERATIONS]
    for kind in _KINDS.values():
        answer += _annotation(builder, statement, kind)
    return [*answer, builder.const(0), *[one] * len(_THREADS)]


def operations(store: Store) -> Counter[str]:
    """Count the operations of one execution of a store.

    A sum of products is one `mad` per product. A select counts its condition and the larger of
    its branches. Index arithmetic counts only if it divides by a number, or decides a select: a
    division by a tile size is the index into a packed operand, which folds once sizes are bound.
    """
    total: Counter[str] = Counter()
    for value in store.values:
        total += _operations(value)
    if store.combiner is None:
        return total
    kind = "float" if store.values[0].dtype in FLOATS else "int"
    value = store.values[0]
    if store.combiner == "sum" and isinstance(value, Binary) and value.op == "mul":
        return total - Counter((f"{kind}_mul",)) + Counter((f"{kind}_mad",))
    total[f"{kind}_{_COMBINER_CLASS[store.combiner]}"] += 1
    if store.combiner.startswith("arg"):
        total["select_op"] += 1
    return total


def flops(counts: Mapping[str, int]) -> int:
    """Return the number of arithmetic operations; a `mad` is two."""
    plain = sum(n for name, n in counts.items() if name not in ("bool_op", "select_op"))
    return plain + counts["float_mad"] + counts["int_mad"]


def _operations(expr: Expr) -> Counter[str]:
    match expr:
        case Const() | Var():
            return Counter()
        case Read(indices=indices):
            return Counter(int_divmod=sum(map(_divisions, indices)))
        case Select(cond=cond, then=then, other=other):
            a, b = _operations(then), _operations(other)
            return _operations(cond) + max(a, b, key=lambda c: c.total()) + Counter(select_op=1)
        case Cast(a=a):
            return _operations(a)
        case Call(fn=fn, a=a):
            own = "bool_op" if fn == "not" else _typed(a, _CALL_CLASS.get(fn, "math_func"))
            return _operations(a) + Counter((own,))
        case Binary(op=op, a=a, b=b):
            return _operations(a) + _operations(b) + Counter((_binary(op, a),))


def _binary(op: str, operand: Expr) -> str:
    if op in LOGICAL:
        return "bool_op"
    return _typed(operand, "cmp" if op in COMPARISONS else _BINARY_CLASS[op])


def _typed(operand: Expr, name: str) -> str:
    return f"{'float' if operand.dtype in FLOATS else 'int'}_{name}"


def _divisions(index: Expr) -> int:
    return sum(map(divides, walk(index)))


def _annotation(
    builder: ColumnBuilder, statement: StoreStatement, kind: LoopKind
) -> list[ColumnValue]:
    """Return number, product, innermost extent and position one-hot of the loops of a kind."""
    zero, one = builder.const(0), builder.const(1)
    loops = [loop for loop in statement.loops if loop.kind is kind]
    # A loop that runs once does not count; in a population, that depends on the row.
    number = reduce(
        ColumnValue.__add__, (builder.where(loop.extent > 1, 1, 0) for loop in loops), zero
    )
    product = reduce(ColumnValue.__mul__, (loop.extent for loop in loops), one)
    innermost = loops[-1].extent if loops else one
    position = POSITIONS.index(_position(statement, loops))
    one_hot = [one if i == position else zero for i in range(len(POSITIONS))]
    return [number, product, innermost, *one_hot]


def _position(statement: StoreStatement, loops: Sequence[EnclosingLoop]) -> str:
    if not loops:
        return "none"
    stored = frozenset[str]().union(*map(variables, statement.store.index))
    spatial = [loop for loop in statement.loops if loop.var in stored]
    reduced = [loop for loop in statement.loops if loop.var not in stored]
    seen = set()
    for loop in loops:
        band, name = (spatial, "spatial") if loop.var in stored else (reduced, "reduce")
        at = band.index(loop)
        place = "inner" if at == len(band) - 1 else "outer" if at == 0 else "middle"
        seen.add(f"{place}_{name}")
    return seen.pop() if len(seen) == 1 else "mixed"
