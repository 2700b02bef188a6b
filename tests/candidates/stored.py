"""384 stored candidates: twelve operators, 32 rows each, for named processors.

    python -m tests.candidates.stored    choose them anew (only if operators or plans are to change)

A candidate is the text of a plan, as records keep it, and a row. Half of an operator's rows are
the first of the analytic cost model, and half are random rows of other plans, so that the set holds
good candidates and typical ones.
"""

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

import numpy as np

from ansorpy.cost.model import ForTask
from ansorpy.frontends.tc.text import parse
from ansorpy.population import sample
from ansorpy.replay import plan_from_text
from ansorpy.rules import CPU, WINOGRAD4
from ansorpy.search import Candidate, EvolutionSettings, evolve
from ansorpy.state.rule import Rule
from ansorpy.target import Target
from ansorpy.te.dag import Dag
from ansorpy.topi.workloads import (
    Window,
    attention,
    conv2d,
    conv2d_bias_relu,
    conv2d_nhwc,
    depthwise_conv2d,
    layer_norm,
    matmul,
    matmul_relu,
    max_pool2d,
    softmax,
)
from ansorpy.tuner.parts.plugged import default_model
from ansorpy.tuner.tasks.task import Task

FOLDER: Final = Path(__file__).parent / "data"
ROWS: Final = 32
RANKED: Final = 16  # rows that the cost model ranks first
PLANS: Final = 24  # plans that are opened
SEARCH: Final = EvolutionSettings(population=512, iterations=2, keep=RANKED, keep_of_plan=4)

# Features of the named processors, written out: no digest depends on the machine that makes it.
_AVX2: Final = "avx,avx2,bmi,bmi2,f16c,fma,lzcnt,popcnt,sse,sse2,sse3,sse4.1,sse4.2,ssse3"
_AVX512: Final = f"{_AVX2},avx512bf16,avx512bw,avx512cd,avx512dq,avx512f,avx512vl,avx512vnni"
_AMX: Final = f"{_AVX512},amx-bf16,amx-int8,amx-tile"
ZEN4: Final = Target(features=tuple(sorted(_AVX512.split(","))), cpu="znver4")
TWO_THREADS: Final = Target(features=ZEN4.features, cpu="znver4", cores=2)
ZEN3: Final = Target(
    features=tuple(sorted(_AVX2.split(","))), cpu="znver3", vector_bits=256, registers=16
)
RAPIDS: Final = Target(features=tuple(sorted(_AMX.split(","))), cpu="sapphirerapids")

BF16: Final = """def mm16(bfloat16(64,96) A, bfloat16(96,80) B) -> (C) {
  C(i,j) +=! float(A(i,k)) * float(B(k,j))
}"""
_SAME: Final = Window(padding=1)


@dataclass(frozen=True, slots=True)
class Operator:
    """A workload, the processor for which it is compiled, and the rules that open its plans."""

    make: Callable[[], Dag]
    target: Target = ZEN4
    rules: tuple[Rule, ...] = CPU


OPERATORS: Final = {
    "matmul": Operator(partial(matmul, 512, 512, 512)),
    "matmul_odd": Operator(partial(matmul_relu, 197, 131, 113), ZEN3),
    "matmul_int8": Operator(partial(matmul, 64, 80, 96, dtype="int8")),
    "matmul_bf16": Operator(lambda: parse(BF16)[0], RAPIDS),
    "conv2d": Operator(partial(conv2d_bias_relu, 1, 32, 28, 28, 48, 3, _SAME), TWO_THREADS),
    "conv2d_winograd": Operator(
        partial(conv2d, 1, 32, 28, 28, 32, 3, _SAME), rules=(*WINOGRAD4, *CPU)
    ),
    "conv2d_nhwc": Operator(partial(conv2d_nhwc, 16, 28, 28, 64, 64, 1)),
    "depthwise": Operator(partial(depthwise_conv2d, 1, 32, 56, 56, 3, _SAME)),
    "max_pool2d": Operator(partial(max_pool2d, 1, 64, 56, 56, 3, 2, 1)),
    "softmax": Operator(partial(softmax, 4608, 1000)),
    "layer_norm": Operator(partial(layer_norm, 256, 768), TWO_THREADS),
    "attention": Operator(partial(attention, 128, 128, 64)),
}


@dataclass(frozen=True, slots=True)
class Stored:
    """One candidate, as text and numbers."""

    plan: str
    row: tuple[int, ...]


def candidates(name: str) -> Iterator[Stored]:
    """Yield the stored candidates of an operator, in order."""
    for entry in json.loads((FOLDER / f"{name}.json").read_text()):
        for row in entry["rows"]:
            yield Stored(entry["plan"], tuple(row))


def choose(operator: Operator) -> list[Stored]:
    """Return 32 candidates: the ranked ones first, then random ones, each once."""
    rng = np.random.default_rng(0)
    task = Task.of(operator.make(), operator.target, "stored")
    task.space.explore(operator.rules, PLANS)
    model = ForTask(default_model(operator.target, 0), task.key)
    ranked = evolve(task.space.plans, model, (), rng, SEARCH, target=operator.target)
    chosen = dict.fromkeys(scored.candidate for scored in ranked)
    while len(chosen) < ROWS:
        number = int(rng.integers(len(task.space.plans)))
        for row in sample(task.space.plans[number], 1, rng):
            chosen[Candidate(number, tuple(map(int, row)))] = None
    return [Stored(task.space.texts[one.plan], one.row) for one in chosen]


def write(name: str, chosen: list[Stored]) -> None:
    """Store candidates, the text of a plan once."""
    rows: dict[str, list[tuple[int, ...]]] = {}
    for one in chosen:
        rows.setdefault(one.plan, []).append(one.row)
    entries = [{"plan": plan, "rows": found} for plan, found in rows.items()]
    FOLDER.mkdir(exist_ok=True)
    (FOLDER / f"{name}.json").write_text(json.dumps(entries, indent=1) + "\n")


def main() -> None:
    """Choose the candidates of every operator anew."""
    for name, operator in OPERATORS.items():
        chosen = choose(operator)
        for one in chosen:
            plan_from_text(operator.make(), operator.target, one.plan)
        write(name, chosen)


if __name__ == "__main__":
    main()
