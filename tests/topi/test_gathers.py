"""Gathers, scatters and sums inside of Dags: drawn plans, interpreted and as machine code."""

import json
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Final

import numpy as np
import pytest

import ansorpy
from ansorpy import local_target, te, topi
from ansorpy.codegen.loader import build, load
from ansorpy.features.extract import extract
from ansorpy.loopir.interp import run
from ansorpy.loopir.nodes import Tile
from ansorpy.loopir.rewrite import walk_stmt
from ansorpy.measure.verify.cases import make_cases
from ansorpy.measure.verify.check import verify
from ansorpy.measure.verify.inputs import random_inputs
from ansorpy.oracle.reference import evaluate
from ansorpy.plan.bind import bind
from ansorpy.plan.choices import plans
from ansorpy.population.sample import sample
from ansorpy.records import MemoryStore
from ansorpy.rewrites.intrinsics import VPDPBUSD
from ansorpy.rewrites.tensorize import find_dot
from ansorpy.rules import CPU
from ansorpy.sketch import derive
from ansorpy.target import Target

Draw = np.random.Generator
SMALL: Final = Target(cores=2, vector_bits=128)


def sizes(rng: Draw, count: int) -> list[int]:
    return [int(n) for n in rng.integers(3, 24, count)]


def embedding(rng: Draw) -> te.Tensor:
    rows, width, batch, length = sizes(rng, 4)
    ids = te.placeholder((batch, length), "ids", str(rng.choice(("int32", "uint8"))))
    return topi.take(te.placeholder((rows, width), "T"), ids) + te.placeholder((length, width), "P")


def bag(rng: Draw) -> te.Tensor:
    rows, width, batch, length = sizes(rng, 4)
    ids = te.placeholder((batch, length), "ids", "int64")
    return topi.sum(topi.take(te.placeholder((rows, width), "T"), ids), 1)


def elements(rng: Draw) -> te.Tensor:
    rows, width = sizes(rng, 2)
    ids = te.placeholder((rows, width), "ids", "int32")
    data = topi.exp(te.placeholder((rows, width), "T"))
    return topi.gather_elements(data, ids, int(rng.integers(2)))


def product(rng: Draw) -> te.Tensor:
    rows, inner, columns, count = sizes(rng, 4)
    table = topi.tanh(te.placeholder((rows, inner), "T"))
    ids = te.placeholder((count,), "ids", "int64")
    weights = te.placeholder((inner, columns), "W", constant=True)
    return topi.relu(topi.matmul(topi.take(table, ids), weights))


def experts(rng: Draw) -> te.Tensor:
    count, batch, inner, columns = sizes(rng, 4)
    x, w = te.placeholder((batch, inner), "X"), te.placeholder((count, inner, columns), "W")
    chosen, k = te.placeholder((batch,), "chosen", "int64"), te.reduce_axis((0, inner))

    def body(b: te.Scalar, j: te.Scalar) -> te.Reduction:
        return te.sum(x[b, k] * w[te.clamped(chosen[b], 0, count - 1), k, j], axis=k)

    return te.compute((batch, columns), body, "experts")


def looked_up_twice(rng: Draw) -> te.Tensor:
    rows, width, words, count = sizes(rng, 4)
    order = te.placeholder((count,), "order", "int32")
    ids = topi.take(te.placeholder((words,), "words", "int64"), order)
    return topi.take(topi.pad(te.placeholder((rows, width), "T"), [1, 0], [2, 1]), ids)


def best_rows(rng: Draw) -> te.Tensor:
    rows, width, batch, count = sizes(rng, 4)
    best = topi.argmax(te.placeholder((batch, count), "scores"), 1)
    return topi.take(te.placeholder((rows, width), "T"), best)


def window(rng: Draw) -> te.Tensor:
    rows, width = sizes(rng, 2)
    length = int(rng.integers(1, width + 1))
    data, start = te.placeholder((rows, width), "T"), te.placeholder((), "start", "int64")

    def body(i: te.Scalar, j: te.Scalar) -> te.Scalar:
        return data[i, te.clamped(start[()], 0, width - length) + j] * 2.0

    return te.compute((rows, length), body, "window")


def cache(rng: Draw) -> te.Tensor:
    rows, width, count = sizes(rng, 3)
    data, new = te.placeholder((rows, width), "cache"), te.placeholder((count, width), "new")
    at = te.placeholder((count, 1), "at", "int64")
    return topi.relu(topi.scatter_nd(data, at, new * 2.0))


def sums(rng: Draw) -> te.Tensor:
    length, width = 40 + int(rng.integers(0, 40)), sizes(rng, 1)[0]
    return topi.cumsum(te.placeholder((length, width), "T"), 0, reverse=True)


def guarded(rng: Draw) -> te.Tensor:
    rows, width, count = sizes(rng, 3)
    data, ids = te.placeholder((rows, width), "T"), te.placeholder((count,), "ids", "int64")

    def body(i: te.Scalar, j: te.Scalar) -> te.Scalar:
        row = data[te.clamped(ids[i - 1], 0, rows - 1), j]
        return te.select(te.all(i >= 1, i <= count), row, 0.0)

    return te.compute((count + 3, width), body, "guarded")


FORMS: Final[tuple[Callable[[Draw], te.Tensor], ...]] = (
    embedding, bag, elements, product, experts, looked_up_twice, best_rows, window, guarded,
    cache, sums,
)  # fmt: skip


@pytest.mark.parametrize("form", FORMS, ids=lambda form: form.__name__)
def test_a_gather_survives_every_sketch(form: Callable[[Draw], te.Tensor]) -> None:
    rng = np.random.default_rng([7, *form.__name__.encode()])
    dag = te.dag(form(rng), form.__name__)
    inputs = random_inputs(dag, rng)
    (wanted,) = evaluate(dag, inputs)[-1:]
    cases = make_cases(dag, 7)
    for target in (SMALL, local_target(cores=2)):
        for sketch in derive(dag, target, CPU).sketches[:4]:
            found = plans(sketch, target)
            plan = found[int(rng.integers(len(found)))]
            rows = sample(plan, 2, rng)
            assert np.isfinite(extract(plan, rows, target)).all()
            program = bind(plan, rows[0].tolist(), target)
            if target is SMALL:
                (*_, got) = run(program, inputs, strict=True).values()
                np.testing.assert_allclose(got, wanted, rtol=1e-4, atol=1e-4)
            else:
                assert verify(load(build(program, target)), program.buffers, cases, {}) is None


def test_rows_are_read_as_vectors_of_their_own_dtype() -> None:
    table, ids = te.placeholder((100, 64), "T"), te.placeholder((8,), "ids", "int64")
    dag, target = te.dag(topi.take(table, ids)), Target(vector_bits=256)
    (sketch,) = derive(dag, target, CPU).sketches
    plan = plans(sketch, target)[0]
    (row,) = sample(plan, 1, np.random.default_rng(0))
    (phase,) = bind(plan, row.tolist(), target).phases
    tiles = [part for part in walk_stmt(phase.body) if isinstance(part, Tile)]
    assert {tile.lane[1] for tile in tiles if tile.lane} == {8}


def test_a_dot_product_of_gathered_rows_is_no_instruction() -> None:
    table = te.placeholder((10, 64), "T", "uint8")
    ids, w = te.placeholder((16,), "ids", "int64"), te.placeholder((64, 32), "W", "int8")
    k = te.reduce_axis((0, 64))

    def body(i: te.Scalar, j: te.Scalar) -> te.Reduction:
        row = table[te.clamped(ids[i], 0, 9), k]
        return te.sum(te.cast(row, "int32") * te.cast(w[k, j], "int32"), axis=k)

    (node,) = te.dag(te.compute((16, 32), body, "C")).computes
    dot, why = find_dot(node, VPDPBUSD[0])
    assert dot is None
    assert str(why) == "no: C gathers: vpdpbusd needs operands at known distances"


@pytest.mark.night
@pytest.mark.usefixtures("few_candidates")
def test_a_tuned_gather_is_raced_and_its_files_test_themselves(tmp_path: Path) -> None:
    table, ids = te.placeholder((301, 65), "table"), te.placeholder((3, 17), "ids", "int32")
    dag = te.dag(topi.relu(topi.take(table, ids)), "rows", inputs=[table, ids])
    result = ansorpy.tune(dag, trials=8, cores=1, store=MemoryStore(), out=tmp_path)
    values = np.random.default_rng(0).standard_normal((301, 65)).astype("float32")
    chosen = np.arange(-20, 31, dtype="int32").reshape(3, 17) * 17  # some beyond both ends
    (wanted,) = evaluate(dag, {"table": values, "ids": chosen})
    assert np.array_equal(result.kernels["rows"](values, chosen), wanted)
    (package,) = tmp_path.glob("rows-*.zip")
    with zipfile.ZipFile(package) as box:
        box.extractall(tmp_path / "files")
        manifest = json.loads(box.read("manifest.json"))
    assert [one.get("span") for one in manifest["inputs"]] == [None, [-76, 377]]
    command = [sys.executable, "kernel.py", "--selftest"]
    done = subprocess.run(command, cwd=tmp_path / "files", capture_output=True, text=True)
    assert done.stdout == "selftest passed\n", done.stderr
