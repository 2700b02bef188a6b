"""Plans of bundles: each defect is refused by name."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from ansorpy.bundle.plan import HostedFunction, ModelPlan
from ansorpy.bundle.steps import HostedStep, KernelStep
from ansorpy.graph import Output, ValueInfo, View
from ansorpy.te.dims import Dim
from tests.bundle.models import model
from tests.bundle.sized import B, L, M, sized_model


def step(plan: ModelPlan, number: int, **changes: Any) -> ModelPlan:
    steps = list(plan.steps)
    steps[number] = replace(steps[number], **changes)
    return replace(plan, steps=tuple(steps))


def kernel(plan: ModelPlan, **changes: Any) -> ModelPlan:
    return replace(plan, kernels=(replace(plan.kernels[0], **changes), *plan.kernels[1:]))


Change = Callable[[ModelPlan], ModelPlan]
DEFECTS: dict[str, Change] = {
    r"step 1 \(wide\) reads 'sum', which is not written before": lambda plan: step(
        plan, 1, reads=("sum", "w1", "bias")
    ),
    r"step 2 \(square\) writes 'wide'; expected a value that is not yet written": lambda plan: step(
        plan, 2, writes=("wide",)
    ),
    r"step 0 \(conv\) writes 'part'; expected .* not yet written": lambda plan: replace(
        plan,
        values={
            **plan.values,
            "part": ValueInfo("part", (8, 8, 8), "float32"),
            "x": ValueInfo("x", (8, 10, 10), "float32"),
        },
        views={**plan.views, "part": View("x")},
        inputs=("x",),
        steps=(replace(plan.steps[0], writes=("part",)), *plan.steps[1:]),
    ),
    r"step 1 \(wide\): 2 values for 3 arguments": lambda plan: step(plan, 1, reads=("rows", "w1")),
    r"step 1 \(wide\): 'w2' is float32\[16, 16\]; expected float32\[64, 16\]": lambda plan: step(
        plan, 1, reads=("rows", "w2", "bias")
    ),
    r"step 3 .*: argument 1 is packed ahead, and 'cube' no weight": lambda plan: replace(
        plan,
        values={**plan.values, "cube": ValueInfo("cube", (16, 16), "float32")},
        inputs=("x", "cube"),
        steps=(
            *plan.steps[:3],
            KernelStep("square", ("second", "cube", "bias"), ("last",)),
            *plan.steps[4:],
        ),
    ),
    r"step 0 \(none\): there is no kernel of this name": lambda plan: step(plan, 0, kernel="none"),
    r"step 4 \(none\): there is no hosted function": lambda plan: step(plan, 4, function="none"),
    r"attributes are \[1\]; expected a JSON object": lambda plan: step(plan, 4, attributes="[1]"),
    r"output 'y' is 'lost', which no step writes": lambda plan: replace(
        plan, outputs=(Output("y", "lost"),)
    ),
    r"its outputs are \[\]; expected at least one": lambda plan: replace(plan, outputs=()),
    r"its outputs are \['y', 'y'\]; expected .* each name once": lambda plan: replace(
        plan, outputs=(Output("y", "sum"), Output("y", "wide"))
    ),
    "value 'q' has no dtype and shape": lambda plan: replace(plan, inputs=("x", "q")),
    "two of its inputs, weights and views share a name": lambda plan: replace(
        plan, inputs=("x", "x")
    ),
    "view 'rows' has not the dtype and bytes of 'wide'": lambda plan: replace(
        plan, views={**plan.views, "rows": View("wide")}
    ),
    "weight 'w1' is float32": lambda plan: replace(
        plan, weights={**plan.weights, "w1": plan.weights["w2"]}
    ),
    "two kernels share a name": lambda plan: replace(plan, kernels=plan.kernels * 2),
    r"kernel 'wide' has 3 inputs, not \(3,\)": lambda plan: kernel(plan, weights=(3,)),
    "kernel 'wide' has the prefix": lambda plan: kernel(
        plan, library=replace(plan.kernels[0].library, prefix="a b")
    ),
    "two kernels have the prefix .* other machine code": lambda plan: kernel(
        plan, library=replace(plan.kernels[0].library, prefix=plan.kernels[1].library.prefix)
    ),
    "hosted function 'a b' has no name of a function": lambda plan: replace(
        plan, hosted=(HostedFunction("a b", ""),)
    ),
}


@pytest.mark.parametrize("message", DEFECTS)
def test_a_defect_is_refused_by_name(message: str) -> None:
    plan = model().plan
    with pytest.raises(ValueError, match=f"cannot plan model 'small' because .*{message}"):
        DEFECTS[message](plan)


def test_a_view_of_itself_is_refused() -> None:
    plan = model().plan
    with pytest.raises(ValueError, match="view 'rows' is of itself"):
        replace(plan, views={**plan.views, "rows": View("flat"), "flat": View("rows")}, values={
            **plan.values, "flat": ValueInfo("flat", (8, 64), "float32")
        })  # fmt: skip


def test_roots_follow_chains_of_views() -> None:
    plan = model().plan
    flat = ValueInfo("flat", (512,), "float32")
    deep = replace(
        plan, values={**plan.values, "flat": flat}, views={**plan.views, "flat": View("rows")}
    )
    assert deep.roots["flat"] == "conv"
    assert deep.roots["x"] == "x"
    assert isinstance(deep.steps[4], HostedStep)


def sized(**changes: ValueInfo) -> Change:
    return lambda plan: replace(plan, values={**plan.values, **changes})


def f32(name: str, *shape: int) -> ValueInfo:
    return ValueInfo(name, shape, "float32")


SIZED_DEFECTS: dict[str, Change] = {
    r"step 4 \(pooled\): 'turned' is float32\[B in 1..4, L in 2..24\]; expected": sized(
        turned=f32("turned", B, L)
    ),
    r"step 1 \(scores\): 'scores' is float32\[B in 1..4, L in 2..24, M in 1..24\]; expected": sized(
        scores=f32("scores", B, L, M)
    ),
    r"step 1 \(scores\): 'mask' has M in 1..24 as T; expected L in 2..24": sized(
        mask=f32("mask", B, M)
    ),
    r"step 6 \(rows\): 'third' is float32\[24, 16\]; expected float32\[R in 1..24, 16\]": sized(
        third=f32("third", 24, 16)
    ),
    r"step 6 \(rows\): 'third' is float32\[N in 1..23, 16\]": sized(
        third=f32("third", Dim("N", 1, 23), 16)
    ),
    r"value 'z' has the dim Q in 1..4, which no input has": sized(z=f32("z", Dim("Q", 1, 4), 16)),
    r"its inputs have the dims .*L in 1..24.*; expected one range for each name": sized(
        third=f32("third", Dim("L", 1, 24), 16)
    ),
    r"weight 'w' is float32\[16, 16\]; expected": sized(w=f32("w", Dim("L", 2, 16), 16)),
    r"view 'other_rows' has not the dtype and bytes of 'other'": sized(
        other_rows=f32("other_rows", 24, 16)
    ),
    r"kernel 'projected' takes 2 sizes, not of \(\)": lambda plan: kernel(plan, dims=()),
}


@pytest.mark.parametrize("message", SIZED_DEFECTS)
def test_a_defect_of_dims_is_refused_by_name(message: str) -> None:
    plan = sized_model().plan
    with pytest.raises(ValueError, match=f"cannot plan model 'sized' because .*{message}"):
        SIZED_DEFECTS[message](plan)
