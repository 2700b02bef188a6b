"""The formulas of the suite with their sizes, which every contestant computes.

Plain data without a tensor library: a peer reads it in an environment of its own. Everything is
float32. `inputs` are in the order of the formula; weights are inputs that a deployed model knows
ahead of time.
"""

from math import prod
from typing import Final

from benchmarks.suite.forms.common import Input, Shape
from benchmarks.suite.forms.conv import Capsule, Conv, MaxPool, TransposedConv
from benchmarks.suite.forms.linear import (
    Attention,
    BatchMatmul,
    Matmul,
    MatmulGelu,
    TransposedBatchMatmul,
)
from benchmarks.suite.forms.rowwise import Elementwise, LayerNorm, Norm, Softmax, SumOf

__all__ = [
    "EPSILON", "ITEM_BYTES", "Attention", "BatchMatmul", "Capsule", "Conv", "Elementwise", "Form",
    "Input", "LayerNorm", "Matmul", "MatmulGelu", "MaxPool", "Norm", "Shape", "Softmax", "SumOf",
    "TransposedBatchMatmul", "TransposedConv", "has_weights", "moved_bytes",
]  # fmt: skip

EPSILON: Final = 1e-5  # epsilon of layer norm, the default of most libraries
ITEM_BYTES: Final = 4

Form = (
    Matmul | BatchMatmul | Conv | TransposedConv | Capsule | Norm | TransposedBatchMatmul
    | Softmax | LayerNorm | MatmulGelu | Attention | Elementwise | SumOf | MaxPool
)  # fmt: skip


def moved_bytes(form: Form) -> int:
    """Return the least traffic: every input read once, the output written once."""
    elements = sum(prod(given.shape) for given in form.inputs) + prod(form.output)
    return ITEM_BYTES * elements


def has_weights(form: Form) -> bool:
    """Return whether an input of the formula is known ahead of the call."""
    return any(given.weight for given in form.inputs)
