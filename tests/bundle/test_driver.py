"""The native driver: its functions through ctypes, without the runner of a bundle."""

import ctypes
import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ansorpy.bundle.driver import driver_prefix, driver_text
from ansorpy.bundle.library import model_library
from ansorpy.bundle.memory import ModelMemory, memory_of
from ansorpy.bundle.plan import ModelPlan
from ansorpy.bundle.tensor_file import raw
from ansorpy.codegen.runtime.thread_pool import ThreadPool
from ansorpy.errors import BuildError
from ansorpy.graph import Output, ValueInfo, View
from tests.bundle.models import Array, kernels, model
from tests.codegen.programs import guarded


class Driver:
    """A loaded library of a model and the memory that it takes, between guard pages."""

    def __init__(self, plan: ModelPlan, folder: Path) -> None:
        self.memory: ModelMemory = memory_of(plan)
        self.prefix = driver_prefix(plan, self.memory)
        path = folder / f"{self.prefix}.so"
        path.write_bytes(model_library(plan, self.memory, self.prefix))
        self.library = ctypes.CDLL(str(path))
        sizes = {
            "weights": self.memory.weights.size_bytes,
            "packed": self.memory.packed_bytes,
            "arena": self.memory.arena.size_bytes,
            "scratch": self.memory.scratch_bytes,
        }
        self.areas = {name: guarded((size,), np.uint8) for name, size in sizes.items()}
        for name in self.memory.weights.order:
            data = np.frombuffer(raw(plan.weights[name].array), np.uint8)
            at = self.memory.weights.places[name]
            self.areas["weights"][at : at + data.size] = data
        assert self.call("supported") == 1
        self.call("prepare", *(self.pointer(n) for n in ("weights", "packed", "scratch")))

    def pointer(self, area: str) -> ctypes.c_void_p:
        return ctypes.c_void_p(self.areas[area].ctypes.data)

    def call(self, name: str, *arguments: Any) -> Any:
        return getattr(self.library, f"{self.prefix}_{name}")(*arguments)

    def arguments(self, inputs: Sequence[Array], outputs: Sequence[Array]) -> Any:
        arrays = [*inputs, *outputs, *self.areas.values()]
        return (ctypes.c_void_p * len(arrays))(*(array.ctypes.data for array in arrays))


@pytest.mark.parametrize("threads", [0, 1, 3])
def test_a_model_without_hosted_steps_is_one_call(threads: int, tmp_path: Path) -> None:
    made = model(hosted=False)
    driver = Driver(made.plan, tmp_path)
    with ThreadPool(max(1, threads)) as pool:
        for seed in range(3):  # the second finds the arena of the first
            inputs = tuple(map(guard, made.inputs(seed)))
            expected = made.expected(*inputs)
            outputs = [guarded(array.shape, array.dtype) for array in expected]
            driver.call(
                "run",
                driver.arguments(inputs, outputs),
                ctypes.c_void_p(pool.address if threads else None),
            )
            for found, wanted in zip(outputs, expected, strict=True):
                np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("outputs", ["pair", "second", "pair second", "second pair last", "y"])
def test_values_are_computed_where_they_are_joined(outputs: str, tmp_path: Path) -> None:
    made = model(hosted=False)
    plan = replace(
        made.plan,
        values={**made.plan.values, "pair": ValueInfo("pair", (16, 16), "float32")},
        views={**made.plan.views, "second": View("pair"), "last": View("pair", 128)},
        outputs=tuple(Output(n, "sum" if n == "y" else n) for n in outputs.split()),
    )
    driver = Driver(plan, tmp_path)
    (x,) = map(guard, made.inputs())
    y, _, _, wide = made.expected(x)
    second = wide @ made.weights["w2"] + made.weights["bias"]
    last = second @ made.weights["w3"] + made.weights["bias"]
    wanted = {"pair": np.concatenate([second, last]), "second": second, "last": last, "y": y}
    found = [guarded(wanted[output.name].shape, np.float32) for output in plan.outputs]
    driver.call("run", driver.arguments([x], found), None)
    for array, output in zip(found, plan.outputs, strict=True):
        np.testing.assert_array_equal(array, wanted[output.name])


def guard(array: Array) -> Array:
    found = guarded(array.shape, array.dtype)
    found[...] = array
    return found


def test_a_model_with_a_hosted_step_runs_in_ranges(tmp_path: Path) -> None:
    made = model()
    driver = Driver(made.plan, tmp_path)
    assert not hasattr(driver.library, f"{driver.prefix}_run")
    inputs = made.inputs()
    expected = made.expected(*inputs)
    outputs = [np.empty_like(array) for array in expected]
    arguments, place = driver.arguments(inputs, outputs), driver.memory.places
    driver.call("run_steps", arguments, None, ctypes.c_int64(0), ctypes.c_int64(4))
    arena = driver.areas["arena"]
    last, goal = (arena[place[n].at :][: 8 * 16 * 4].view(np.float32) for n in ("last", "sorted"))
    goal[...] = np.sort(last.reshape(8, 16), axis=-1).reshape(-1)
    driver.call("run_steps", arguments, None, ctypes.c_int64(4), ctypes.c_int64(7))
    for found, wanted in zip(outputs, expected, strict=True):
        np.testing.assert_array_equal(found, wanted)


def test_equal_weights_of_equal_kernels_are_stored_and_packed_once() -> None:
    plan = model().plan
    memory = memory_of(plan)
    assert [packing.kernel for packing in memory.packings] == ["wide", "square", "square"]
    twice = replace(plan, weights={**plan.weights, "w3": plan.weights["w2"]})
    shared = memory_of(twice)
    assert [packing.kernel for packing in shared.packings] == ["wide", "square"]
    assert shared.packed_at[2] == shared.packed_at[3]
    assert "w3" not in shared.weights.order
    assert shared.weights.size_bytes < memory.weights.size_bytes


def test_scratch_is_that_of_the_largest_kernel() -> None:
    sizes = [kernel.library.scratch_bytes for kernel in kernels()]
    assert memory_of(model().plan).scratch_bytes == max(sizes) > 0


def test_a_step_writes_where_the_caller_reads_and_only_other_outputs_are_copied() -> None:
    plan = model().plan
    memory = memory_of(plan)
    assert [memory.places[name].argument for name in ("sum", "wide", "halves")] == [1, 4, 1]
    assert [copy.goal.argument for copy in memory.copies] == [2, 3]
    single = replace(plan, outputs=(Output("y", "sum"),))
    assert memory_of(single).copies == ()


def test_symbols_follow_from_machine_code_and_steps_and_names_of_users_stay_out() -> None:
    plan = model().plan
    memory = memory_of(plan)
    prefix = driver_prefix(plan, memory)
    assert prefix == driver_prefix(replace(plan, name="other\n"), memory)
    other = model(hosted=False).plan
    assert prefix != driver_prefix(other, memory_of(other))
    text = driver_text(plan, memory, prefix)
    assert not any(f'"{name}"' in text or f"@{name}" in text for name in plan.values)


def test_a_machine_without_linker_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    plan = model().plan
    memory = memory_of(plan)
    monkeypatch.setattr(shutil, "which", lambda _name: None)
    with pytest.raises(BuildError, match="cannot build the library of model 'small' because no"):
        model_library(plan, memory, "ansorpy_model_test")
