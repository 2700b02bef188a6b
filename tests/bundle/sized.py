"""A model with dims: attention over a length, in batches, and rows of two other lengths."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from typing import Final

import numpy as np

from ansorpy.bundle.plan import ModelKernel, ModelPlan, SelfTest
from ansorpy.bundle.steps import HostedStep, KernelStep
from ansorpy.frontends.tc.text import parse
from ansorpy.graph import Output, ValueInfo, View, Weight
from ansorpy.measure.host import local_target
from ansorpy.plan.choices import naive
from ansorpy.te.dims import Dim, spread
from tests.bundle.models import SORTED, THREADS, Array, kernel_of
from tests.plan.test_meaning import packing

B, L, M = Dim("B", 1, 4), Dim("L", 2, 24), Dim("M", 1, 24)
K: Final = 16
Sizes = Mapping[str, int]

TEXT: Final = """
def projected(float(N in 1..4, T in 1..24, 16) a, const float(16, 16) b) -> (y) {
    y(n,i,j) +=! a(n,i,k) * b(k,j)
}
def scores(float(N in 1..4, T in 1..24, 16) q, float(N, T) mask) -> (y) {
    t(n,i,j) +=! q(n,i,k) * q(n,j,k)
    y(n,i,j) = t(n,i,j) + mask(n,j)
}
def softmax(float(N in 1..4, T in 1..24, T) a) -> (y) {
    m(n,i) max=! a(n,i,j)
    e(n,i,j) = exp(a(n,i,j) - m(n,i))
    s(n,i) +=! e(n,i,j)
    y(n,i,j) = e(n,i,j) / s(n,i)
}
def mixed(float(N in 1..4, T in 1..24, T) p, float(N, T, 16) v) -> (y) {
    y(n,i,k) +=! p(n,i,j) * v(n,j,k)
}
def pooled(float(T in 1..24, N in 1..4) mask, float(N, T, 16) v) -> (y) {
    y(n,k) +=! mask(t,n) * v(n,t,k)
}
def rows(float(R in 1..24, 16) a, const float(16, 16) b) -> (y) {
    t(i,j) +=! a(i,k) * b(k,j)
    y(i,j) = fmax(t(i,j), 0)
}
"""
SHAPES: Final[Mapping[str, tuple[int, ...]]] = {
    "x": (B, L, K), "mask": (B, L), "turned": (L, B), "other": (1, M, K), "third": (L, K),
    "w": (K, K), "q": (B, 1, L, K), "scores": (B, L, L), "p": (B, L, L), "o": (B, L, K),
    "z": (B, K), "sorted": (B, L, K), "other_rows": (M, K), "r1": (M, K), "r2": (L, K),
    "r1_view": (1, 1, M, K),
}  # fmt: skip


@cache
def kernels() -> tuple[ModelKernel, ...]:
    """Build the kernels, once per process; those with weights pack them."""
    target = local_target(THREADS)
    return tuple(
        kernel_of(
            dag.name,
            dag,
            next(packing(dag, "b")) if "b" in dag.index else naive(dag, target),
        )
        for dag in parse(TEXT)
    )


@dataclass(frozen=True)
class SizedModel:
    """A plan, and the same computation in NumPy at any sizes."""

    plan: ModelPlan
    w: Array

    def inputs(self, sizes: Sizes, seed: int = 0) -> tuple[Array, ...]:
        """Return random inputs."""
        rng = np.random.default_rng(seed)
        shapes = [at(SHAPES[name], sizes) for name in self.plan.inputs]
        return tuple(rng.uniform(-1, 1, shape).astype(np.float32) for shape in shapes)

    def expected(self, *inputs: Array) -> tuple[Array, ...]:
        """Return the outputs by float64."""
        x, mask, turned, other, third = (one.astype(np.float64) for one in inputs)
        q = x @ self.w
        scores = np.einsum("nik,njk->nij", q, q) + mask[:, None]
        e = np.exp(scores - scores.max(-1, keepdims=True))
        p = e / e.sum(-1, keepdims=True)
        o = p @ x
        z = np.einsum("tn,ntk->nk", turned, o)
        named = {
            "o": o, "z": z, "p": p, "x": x, "other": other, "q": q[:, None],
            "r1": np.maximum(other @ self.w, 0)[None], "r2": np.maximum(third @ self.w, 0),
            "sorted": np.sort(o, axis=1), "o_again": o,
        }  # fmt: skip
        return tuple(named[output.name] for output in self.plan.outputs)


def at(shape: tuple[int, ...], sizes: Sizes) -> tuple[int, ...]:
    """Return a shape in numbers."""
    return tuple(sizes[one.name] if isinstance(one, Dim) else one for one in shape)


def sized_model(hosted: bool = True) -> SizedModel:
    """Return the model; one kernel serves rows of two dims."""
    w = np.random.default_rng(5).uniform(-0.5, 0.5, (K, K)).astype(np.float32)
    steps = (
        KernelStep("projected", ("x", "w"), ("q",)),
        KernelStep("scores", ("q", "mask"), ("scores",)),
        KernelStep("softmax", ("scores",), ("p",)),
        KernelStep("mixed", ("p", "x"), ("o",)),
        KernelStep("pooled", ("turned", "o"), ("z",)),
        KernelStep("rows", ("other_rows", "w"), ("r1",)),
        KernelStep("rows", ("third", "w"), ("r2",)),
        HostedStep("sort_along", ("o",), ("sorted",), '{"axis": 1}'),
    )
    outputs = {"o": "o", "z": "z", "p": "p", "x": "x", "other": "other", "q": "q", "r1": "r1_view",
               "r2": "r2", "sorted": "sorted", "o_again": "o"}  # fmt: skip
    plan = ModelPlan(
        name="sized",
        values={name: ValueInfo(name, shape, "float32") for name, shape in SHAPES.items()},
        inputs=("x", "mask", "turned", "other", "third"),
        outputs=tuple(Output(n, v) for n, v in outputs.items() if hosted or n != "sorted"),
        weights={"w": Weight.of(w)},
        views={"other_rows": View("other"), "r1_view": View("r1")},
        steps=tuple(one for one in steps if hosted or isinstance(one, KernelStep)),
        kernels=kernels(),
        threads=THREADS,
        hosted=(SORTED,) if hosted else (),
    )
    return SizedModel(plan, w)


def with_self_tests(made: SizedModel) -> ModelPlan:
    """Return the plan with a self-test at each of the timed sizes, the largest first."""
    cases = []
    for sizes in reversed(spread(made.plan.dims)):
        inputs = made.inputs(sizes, 7)
        outputs = tuple(one.astype(np.float32) for one in made.expected(*inputs))
        cases.append(SelfTest(inputs, outputs, (1e-4,) * len(outputs)))
    return replace(made.plan, self_test=replace(cases[0], others=tuple(cases[1:])))
