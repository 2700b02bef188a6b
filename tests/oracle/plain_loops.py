"""A second evaluator, element by element in plain Python: the oracle of the reference.

With `rounded` it computes as a kernel does: every operation in the dtype of the node.
"""

import itertools
import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ansorpy.expr.dtypes import FLOATS, INTS
from ansorpy.expr.expr import Binary, Call, Cast, Const, Expr, Read, Select, Var
from ansorpy.te.dag import Compute, ConstantTensor, Dag

Scalar = Any
CALLS: dict[str, Any] = {
    "bitnot": lambda x: ~x,
    "neg": lambda x: -x, "not": lambda x: not x, "abs": abs, "floor": math.floor,
    "ceil": math.ceil, "exp": math.exp, "log": math.log, "tanh": math.tanh, "erf": math.erf,
    "sqrt": math.sqrt, "rsqrt": lambda x: 1 / math.sqrt(x),
    "sigmoid": lambda x: 1 / (1 + math.exp(-x)),
    "round": round, "trunc": math.trunc, "sin": math.sin, "cos": math.cos,
    "atan": math.atan, "log1p": math.log1p,
}  # fmt: skip
BINARY: dict[str, Any] = {
    "add": lambda a, b: a + b, "sub": lambda a, b: a - b, "mul": lambda a, b: a * b,
    "div": lambda a, b: a / b, "floordiv": lambda a, b: a // b, "mod": lambda a, b: a % b,
    "min": min, "max": max, "pow": lambda a, b: a**b, "fmod": math.fmod,
    "lt": lambda a, b: a < b,
    "le": lambda a, b: a <= b, "gt": lambda a, b: a > b, "ge": lambda a, b: a >= b,
    "eq": lambda a, b: a == b, "ne": lambda a, b: a != b,
    "bitand": lambda a, b: a & b, "bitor": lambda a, b: a | b, "bitxor": lambda a, b: a ^ b,
    "shl": lambda a, b: a << b, "shr": lambda a, b: a >> b,  # counts are within the width
}  # fmt: skip
COMBINE: dict[str, str] = {"sum": "add", "prod": "mul", "max": "max", "min": "min"}


class Slow:
    def __init__(self, dag: Dag, inputs: Mapping[str, NDArray[Any]], rounded: bool = False) -> None:
        self.rounded = rounded
        self.tensors: dict[str, list[NDArray[Any]]] = {}
        for node in dag.nodes:
            if isinstance(node, Compute):
                self.tensors[node.name] = self.node(node)
            elif isinstance(node, ConstantTensor):
                array = np.frombuffer(node.data, node.dtype).reshape(node.shape)
                self.tensors[node.name] = [array]
            else:
                self.tensors[node.name] = [np.asarray(inputs[node.name])]
        self.outputs = [array for name in dag.outputs for array in self.tensors[name]]

    def node(self, node: Compute) -> list[NDArray[Any]]:
        outs = [np.empty(node.shape, t if t not in FLOATS else "float64") for t in node.dtypes]
        spatial = [axis.name for axis in node.axes]
        for at in np.ndindex(*node.shape):
            env = dict(zip(spatial, at, strict=True))
            for out, value in zip(outs, self.element(node, env), strict=True):
                out[at] = value
        return outs

    def element(self, node: Compute, env: dict[str, int]) -> tuple[Scalar, ...]:
        if node.combiner is None:
            return (self.value(node.body[0], env),)
        names = [axis.name for axis in node.reduce_axes]
        points = itertools.product(*(range(axis.extent) for axis in node.reduce_axes))
        terms = [
            tuple(
                self.value(body, {**env, **dict(zip(names, at, strict=True))}) for body in node.body
            )
            for at in points
        ]
        if node.combiner in ("argmax", "argmin"):
            pick = max if node.combiner == "argmax" else min
            return pick(terms, key=lambda term: term[0])  # both answer the first
        total = terms[0][0] if node.start is None else self.value(node.start, env)
        for term in terms[node.start is None :]:
            total = self.fit(BINARY[COMBINE[node.combiner]](total, term[0]), node.dtype)
        return (total,)

    def value(self, expr: Expr, env: Mapping[str, int]) -> Scalar:
        match expr:
            case Const(value=value, dtype=dtype):
                return float(np.dtype(dtype).type(value)) if dtype in FLOATS else value
            case Var(name=name):
                return env[name]
            case Read(tensor=tensor, indices=indices, output=output):
                array = self.tensors[tensor][output]
                at = tuple(self.value(index, env) for index in indices)
                assert all(0 <= i < n for i, n in zip(at, array.shape, strict=True)), expr
                return array[at].item()
            case Binary():
                return self.binary(expr, env)
            case Call(fn=fn, a=a):
                return self.fit(CALLS[fn](self.value(a, env)), expr.dtype)
            case Cast(dtype=dtype, a=a):
                value = self.value(a, env)
                if dtype in INTS and isinstance(value, float):
                    value = math.trunc(value)
                return self.fit(value, dtype)
            case Select(cond=cond, then=then, other=other):
                return self.value(then if self.value(cond, env) else other, env)

    def binary(self, expr: Binary, env: Mapping[str, int]) -> Scalar:
        a = self.value(expr.a, env)
        if expr.op in ("and", "or") and bool(a) == (expr.op == "or"):
            return a
        b = self.value(expr.b, env)
        return self.fit(BINARY[expr.op](a, b) if expr.op in BINARY else b, expr.dtype)

    def fit(self, value: Scalar, dtype: str) -> Scalar:
        if dtype in INTS:
            info = np.iinfo(dtype)
            span = int(info.max) - int(info.min) + 1
            return (int(value) - int(info.min)) % span + int(info.min)
        if dtype in FLOATS:
            return float(np.dtype(dtype).type(value)) if self.rounded else float(value)
        return bool(value)
