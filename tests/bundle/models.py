"""A small model of real kernels: a convolution, matrix products, a view, a hosted step."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from ansorpy import te
from ansorpy.bundle.plan import HostedFunction, ModelKernel, ModelPlan, SelfTest
from ansorpy.bundle.steps import HostedStep, KernelStep, Step
from ansorpy.codegen.shared_library import build
from ansorpy.graph import Output, ValueInfo, View, Weight
from ansorpy.measure.host import local_target
from ansorpy.model.assemble import model_kernel
from ansorpy.plan.bind import bind
from ansorpy.plan.choices import naive
from ansorpy.plan.plan import Plan
from ansorpy.te.dag import Dag
from ansorpy.te.tensor import Tensor
from ansorpy.tuner.race.export import export_program
from ansorpy.tuner.tasks.task import Task
from tests.plan.test_meaning import packing

Array = npt.NDArray[Any]
THREADS: Final = 2

SORTED: Final = HostedFunction(
    "sort_along",
    '''
def sort_along(arrays, axis):
    """Return the array, sorted along an axis."""
    return [np.sort(arrays[0], axis=axis)]
''',
)


def convolution() -> Tensor:
    """relu(conv(x, w)), 3 x 3, no padding."""
    x = te.placeholder((4, 10, 10), "x")
    w = te.placeholder((8, 4, 3, 3), "w", constant=True)
    c, i, j = (te.reduce_axis((0, n), name) for n, name in ((4, "c"), (3, "i"), (3, "j")))
    conv = te.compute(
        (8, 8, 8), lambda o, y, z: te.sum(x[c, y + i, z + j] * w[o, c, i, j], [c, i, j]), "conv"
    )
    return te.compute((8, 8, 8), lambda o, y, z: te.maximum(conv[o, y, z], 0.0), "relu")


def product(rows: int, inner: int, columns: int) -> Tensor:
    """a @ b + bias; b and bias are weights."""
    a = te.placeholder((rows, inner), "a")
    b = te.placeholder((inner, columns), "b", constant=True)
    bias = te.placeholder((columns,), "bias", constant=True)
    k = te.reduce_axis((0, inner), "k")
    made = te.compute((rows, columns), lambda i, j: te.sum(a[i, k] * b[k, j], k), "m")
    return te.compute((rows, columns), lambda i, j: made[i, j] + bias[j], "sum")


def halved_sum(elements: int) -> Tensor:
    """a / 2 + b."""
    a, b = te.placeholder((elements,), "a"), te.placeholder((elements,), "b")
    return te.compute((elements,), lambda i: a[i] * 0.5 + b[i], "c")


def kernel_of(name: str, dag: Dag, plan: Plan) -> ModelKernel:
    """Build a plan of a Dag with its smallest sizes: many tasks."""
    target = local_target(THREADS)
    row = [size.values[0] if size.values else size.multiple_of for size in plan.sizes]
    task = Task.of(dag, target, "cpu")
    library = build(export_program(task, bind(plan, row, target), f"{task.key} {row}"), target)
    assert library.linked, library.note
    return replace(model_kernel(dag, library, 1e-6), name=name, workload=task.key)


@cache
def kernels() -> tuple[ModelKernel, ...]:
    """Build the kernels of the model, once per process: of products, plans that pack weights."""
    target = local_target(THREADS)
    wide, square = (
        te.dag(product(8, inner, 16), name=name) for name, inner in (("wide", 64), ("square", 16))
    )
    others = te.dag(convolution(), name="conv"), te.dag(halved_sum(128), name="add")
    return (
        *(kernel_of(dag.name, dag, next(packing(dag, "b"))) for dag in (wide, square)),
        *(kernel_of(dag.name, dag, naive(dag, target)) for dag in others),
    )


@dataclass(frozen=True)
class Model:
    """A plan, and the same computation in NumPy."""

    plan: ModelPlan
    weights: Mapping[str, Array]

    def inputs(self, seed: int = 0) -> tuple[Array, ...]:
        rng = np.random.default_rng(seed)
        return (rng.integers(-3, 4, (4, 10, 10)).astype(np.float32),)

    def expected(self, x: Array) -> tuple[Array, ...]:
        """Return the outputs; small integers make every sum exact."""
        w = self.weights
        windows = np.lib.stride_tricks.sliding_window_view(x, (3, 3), (1, 2))
        conv = np.einsum("cyzij,ocij->oyz", windows, w["w0"], optimize=True)
        wide = np.maximum(conv, 0).reshape(8, 64) @ w["w1"] + w["bias"]
        second = wide @ w["w2"] + w["bias"]
        last = second @ w["w3"] + w["bias"]
        if any(isinstance(step, HostedStep) for step in self.plan.steps):
            last = np.sort(last, axis=-1)
        y = (last * np.float32(0.5) + wide).astype(np.float32)
        return y, y.reshape(2, 64), x, wide.astype(np.float32)


def model(hosted: bool = True) -> Model:
    """Return the model of three products, a convolution, a view and, if asked, a hosted step."""
    rng = np.random.default_rng(1)
    shapes = {"w0": (8, 4, 3, 3), "w1": (64, 16), "w2": (16, 16), "w3": (16, 16), "bias": (16,)}
    weights = {n: rng.integers(-2, 3, shape).astype(np.float32) for n, shape in shapes.items()}
    values = {
        "x": (4, 10, 10), "conv": (8, 8, 8), "rows": (8, 64), "wide": (8, 16), "second": (8, 16),
        "last": (8, 16), "sorted": (8, 16), "sum": (8, 16), "halves": (2, 64), **shapes,
    }  # fmt: skip
    steps: Sequence[Step] = (
        KernelStep("conv", ("x", "w0"), ("conv",), ("/conv/Conv", "/conv/Relu")),
        KernelStep("wide", ("rows", "w1", "bias"), ("wide",)),
        KernelStep("square", ("wide", "w2", "bias"), ("second",)),
        KernelStep("square", ("second", "w3", "bias"), ("last",)),
        HostedStep("sort_along", ("last",), ("sorted",), '{"axis": -1}', ("TopK_7",)),
        KernelStep("add", ("sorted" if hosted else "last", "wide"), ("sum",)),
    )
    return Model(
        ModelPlan(
            name="small",
            values={name: ValueInfo(name, shape, "float32") for name, shape in values.items()},
            inputs=("x",),
            outputs=tuple(
                Output(name, value)
                for name, value in (("y", "sum"), ("z", "halves"), ("same", "x"), ("inner", "wide"))
            ),
            weights={name: Weight.of(array) for name, array in weights.items()},
            views={"rows": View("conv"), "halves": View("sum")},
            steps=tuple(step for step in steps if hosted or isinstance(step, KernelStep)),
            kernels=kernels(),
            source_digest="ab" * 32,
            threads=THREADS,
            hosted=(SORTED,) if hosted else (),
        ),
        weights,
    )


def with_self_test(made: Model) -> ModelPlan:
    """Return the plan with a self-test."""
    inputs = made.inputs(7)
    outputs = made.expected(*inputs)
    return replace(made.plan, self_test=SelfTest(inputs, outputs, (0.0,) * len(outputs)))
