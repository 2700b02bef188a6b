"""Steps that copy rows: each size of a call, in arrays that end at guard pages."""

import ctypes
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from ansorpy.bundle.driver import driver_text
from ansorpy.bundle.layout import rows_of
from ansorpy.bundle.memory import memory_of
from ansorpy.bundle.plan import ModelPlan
from ansorpy.bundle.steps import CopyStep, Rows
from ansorpy.graph import Output, ValueInfo
from ansorpy.te.dims import Dim, sum_of
from tests.bundle.sized import at
from tests.bundle.test_driver import Driver
from tests.codegen.programs import guarded

B, P, S = Dim("B", 1, 3), Dim("P", 0, 5), Dim("S", 1, 4)
T = sum_of("T", [P, S])
APPEND = (Rows(0, 0, 0, P), Rows(1, 0, P, S))
# By name: the extents before the rows, and behind them.
SHAPES: dict[str, tuple[tuple[int, ...], tuple[int, ...]]] = {
    "rows": ((), (3,)), "batch": ((B, 2), (3,)), "heads": ((2, 1), (5,)), "inner": ((2, B), ()),
    "mask": ((1,), (T,)),
}  # fmt: skip


def plan_of(outer: tuple[int, ...], inner: tuple[int, ...], dtype: str = "float32") -> ModelPlan:
    """Return the model that appends y to x, and reads the rows behind the past of z."""
    shapes = {
        name: (*outer, rows, *inner) for name, rows in zip("xyzjw", (P, S, T, T, S), strict=True)
    }
    axis = len(outer)
    sizes = {"b": (B, 1)} if B not in (*outer, *inner) else {}
    return ModelPlan(
        name="rows",
        values={n: ValueInfo(n, shape, dtype) for n, shape in (shapes | sizes).items()},
        inputs=("x", "y", "z", *sizes),
        outputs=(Output("j", "j"), Output("w", "w")),
        weights={},
        views={},
        steps=(
            CopyStep(axis, APPEND, ("x", "y"), ("j",)),
            CopyStep(axis, (Rows(0, P, 0, S),), ("z",), ("w",)),
        ),
        kernels=(),
    )


@pytest.mark.parametrize("dtype", ["float32", "int8"])
@pytest.mark.parametrize("name", SHAPES)
def test_rows_of_every_size_are_copied(name: str, dtype: str, tmp_path: Path) -> None:
    plan = plan_of(*SHAPES[name], dtype)
    driver, axis = Driver(plan, tmp_path), len(SHAPES[name][0])
    every = [(b, p, s) for b in (1, 3) for p in (0, 1, 5) for s in (1, 3, 4)]
    for number, (b, p, s) in enumerate(every):
        sizes = {"B": b, "P": p, "S": s, "T": p + s}
        most = {"B": 3, "P": 5, "S": 4, "T": 9}
        arrays = {}
        for value in (*plan.inputs, "j", "w"):
            shape = plan.values[value].fixed_shape
            rows = rows_of(shape)
            single = sum(isinstance(one, Dim) for one in shape) == 1 and rows is not None
            arrays[value] = guarded(at(shape, sizes if single else most), np.dtype(dtype))
        rng = np.random.default_rng(number)
        for value in plan.inputs:
            arrays[value][...] = rng.integers(-99, 99, arrays[value].shape)
        told = np.array([sizes[one.name] for one in plan.dims], np.int64)
        words = [*arrays.values(), told, *driver.areas.values()]
        driver.call("run", (ctypes.c_void_p * len(words))(*(a.ctypes.data for a in words)), None)
        actual = {
            n: a[tuple(map(slice, at(plan.values[n].fixed_shape, sizes)))]
            for n, a in arrays.items()
        }
        joined = np.concatenate([actual["x"], actual["y"]], axis)
        np.testing.assert_array_equal(actual["j"], joined)
        window = np.take(actual["z"], np.arange(p, p + s), axis)
        np.testing.assert_array_equal(actual["w"], window)


def test_rows_that_lie_in_their_place_stay(tmp_path: Path) -> None:
    plan = plan_of((2,), (3,))
    driver = Driver(plan, tmp_path)
    cache = guarded((2, 9, 3), np.dtype("float32"))
    y, z, b = np.ones((2, 4, 3), np.float32), np.zeros((2, 9, 3), np.float32), np.ones((3, 1))
    cache[...] = np.arange(54).reshape(2, 9, 3)
    before, w = cache.copy(), np.zeros((2, 4, 3), np.float32)
    order = [plan.dims.index(one) for one in (P, S, T)]
    told = np.ones(len(plan.dims), np.int64)
    told[order] = 3, 2, 5
    words = [cache, y, z, b, cache, w, told, *driver.areas.values()]
    driver.call("run", (ctypes.c_void_p * len(words))(*(a.ctypes.data for a in words)), None)
    np.testing.assert_array_equal(cache[:, :3], before[:, :3])
    np.testing.assert_array_equal(cache[:, 3:5], y[:, :2])
    np.testing.assert_array_equal(cache[:, 5:], before[:, 5:])


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (Rows(0, 0, 1, P), None),
        (Rows(0, 0, T, P), "'j' has fewer rows than it copies"),
        (Rows(0, 1, 0, P), "'x' has fewer rows than it copies"),
        (Rows(0, 0, 0, Dim("Q", 1, 5)), "it copies by the dim Q in 1..5, which no input has"),
    ],
)
def test_rows_beyond_a_value_are_refused(rows: Rows, message: str | None) -> None:
    made = plan_of((2,), (3,))

    def change() -> ModelPlan:
        step = CopyStep(1, (rows,), ("x",), ("j",))
        return replace(made, steps=(step, made.steps[1]))

    if message is None:
        assert "memcpy" in driver_text(change(), memory_of(change()), "p")
        return
    with pytest.raises(ValueError, match=message):
        change()
