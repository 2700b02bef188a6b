"""Random Dags x random plans x random rows: emitted, compiled, run and compared.

    python -m tests.fuzz.pairs --count 2000 --seed 0        the command for the night
    python -m tests.fuzz.pairs --suite --count 2200         the suite's operators at odd sizes
    python -m tests.fuzz.pairs --narrow --count 500         Dags of 16-bit floats

Every pair is decided by its seed alone. The work is done in child processes, so that a crash is
one finding, with its seed, and not the end of the run.
"""

import argparse
import json
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from math import prod

import numpy as np

from ansorpy.codegen.loader import Loaded, build, build_source, load
from ansorpy.codegen.numba_source import emit
from ansorpy.errors import AnsorError
from ansorpy.expr.expr import Const, walk
from ansorpy.loopir.interp import run as interpret
from ansorpy.loopir.nodes import For, Program, Stmt, Tile
from ansorpy.loopir.rewrite import stmt_children
from ansorpy.measure.verify.cases import Case, make_cases
from ansorpy.measure.verify.check import compare_all, verify
from ansorpy.measure.verify.inputs import constants
from ansorpy.measure.verify.reformulated import reformulated
from ansorpy.plan.bind import bind
from ansorpy.plan.choices import plans
from ansorpy.plan.plan import Plan
from ansorpy.population import sample
from ansorpy.rules import CPU, WINOGRAD2, WINOGRAD4
from ansorpy.sketch import derive
from ansorpy.state.rule import Rule
from ansorpy.target import Target
from ansorpy.te.dag import Dag
from tests.fuzz.suite_dags import suite_dag
from tests.random_dag import DagLimits, random_dag

RULES = (CPU, (*WINOGRAD2, *CPU), (*WINOGRAD4, *CPU))
LIMITS = DagLimits(computes=4, extent=20, points=30_000)
NARROW = DagLimits(3, 40, 30_000, dtypes=("float16", "bfloat16", "float16", "float32"))
PLANS = 12  # plans per sketch, one of which is drawn
INTERPRETED = 1_000_000  # elements stored up to which the interpreter also runs
BATCH = 25  # pairs of one child
CHILD_TIMEOUT_S = 600


@dataclass(frozen=True)
class Finding:
    """The result of one pair; `error` is None if all results agree."""

    seed: int
    back_end: str
    error: str | None


def check_pair(
    seed: int, source: bool = False, suite: bool = False, limits: DagLimits = LIMITS
) -> Finding:
    """Draw one pair and compare it with the float64 reference.

    Args:
        source: go through numba as delivered kernels do, else straight to LLVM.
        suite: draw an operator of the benchmark suite, else a random Dag.
        limits: of the random Dag.
    """
    rng = np.random.default_rng(seed)
    dag = suite_dag(seed, rng) if suite else random_dag(rng, limits)
    back_end = "numba" if source else "llvm"
    target = Target(cores=int(rng.integers(1, 5)))
    small = replace(
        target, features=("avx512f",), l3_bytes=64
    )  # its outputs are stored past the caches
    made_for = small if seed % 2 else target
    try:
        program, plan, row = draw(dag, made_for, rng, RULES if suite else RULES[:1])
    except AnsorError as raised:
        return Finding(seed, "lowering", f"{type(raised).__name__}: {raised}")
    cases = make_cases(dag, seed)
    if program.meaning is not None:
        cases = reformulated(cases, program.meaning)
    wrong = interpreted(dag, program, cases)
    if wrong is not None:
        return Finding(seed, "interpreter", f"{wrong}\n{plan.choices}\n{row}")
    loaded = _loaded(program, target, source)
    failed = verify(loaded, program.buffers, cases, constants(dag))
    error = None if failed is None else f"{failed.kind}: {failed.message}\n{plan.choices}\n{row}"
    return Finding(seed, back_end, error)


def draw(
    dag: Dag, target: Target, rng: np.random.Generator, sets: tuple[tuple[Rule, ...], ...] = (CPU,)
) -> tuple[Program, Plan, tuple[int, ...]]:
    """Return a random candidate of a Dag by one of the rule sets: its program, plan and row."""
    sketches = derive(dag, target, sets[int(rng.integers(len(sets)))]).sketches
    sketch = sketches[int(rng.integers(len(sketches)))]
    every = plans(sketch, target, PLANS)
    plan = every[int(rng.integers(len(every)))]
    rows = sample(plan, 1, rng)
    if not len(rows):  # no sizes of this plan fit the target
        return draw(dag, target, rng, sets)
    (row,) = rows
    numbers = tuple(int(value) for value in row)
    return bind(plan, numbers, target), plan, numbers


def interpreted(dag: Dag, program: Program, cases: tuple[Case, ...]) -> str | None:
    """Return the difference of the interpreter's results; None if right, or if it takes long."""
    if sum(points(phase.body) for phase in program.phases) > INTERPRETED:
        return None
    case = cases[0]
    with np.errstate(all="ignore"):
        got = interpret(program, {**case.inputs, **constants(dag)})
    failed = compare_all(case, lambda name: got[name], program.by_name)
    return None if failed is None else failed.message


def points(stmt: Stmt) -> int:
    """Return how many elements a statement stores, at most: plans may compute some many times."""
    if isinstance(stmt, Tile):
        return prod(extent for _, extent in stmt.spans)
    times = 1
    if isinstance(stmt, For):  # dynamic extents are tails: their first term is the whole tile
        numbers = [e.value for e in walk(stmt.extent) if isinstance(e, Const)]
        times = max(1, *(abs(int(number)) for number in numbers), 1)
    return times * sum(points(part) for part in stmt_children(stmt))


def _loaded(program: Program, target: Target, source: bool) -> Loaded:
    return load(build_source(emit(program, target), target) if source else build(program, target))


def main() -> int:
    """Run many pairs; 0 where none is wrong."""
    options = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    options.add_argument("--count", type=int, default=2000)
    options.add_argument("--seed", type=int, default=0, help="of the first pair")
    options.add_argument("--every", type=int, default=10, help="one pair in so many through numba")
    options.add_argument("--suite", action="store_true", help="operators of the suite, odd sizes")
    options.add_argument("--narrow", action="store_true", help="Dags of float16 and bfloat16")
    options.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    given = options.parse_args()
    if given.child:
        limits = NARROW if given.narrow else LIMITS
        return child(
            given.seed, given.count,
            lambda seed: check_pair(seed, seed % given.every == 0, given.suite, limits),
        )  # fmt: skip
    kinds = [f"--{name}" for name in ("suite", "narrow") if getattr(given, name)]
    done = supervise("tests.fuzz.pairs", given.seed, given.count, given.every, kinds)
    sys.stdout.write(f"{done.count} pairs ({dict(done.back_ends)}), {len(done.wrong)} wrong\n")
    return 1 if done.wrong else 0


def child(first: int, count: int, check: Callable[[int], Finding]) -> int:
    """Check some seeds, and write a line before and after each."""
    for seed in range(first, first + count):
        sys.stdout.write(json.dumps({"start": seed}) + "\n")
        sys.stdout.flush()
        try:
            found = check(seed)
        except Exception as error:  # noqa: BLE001 - any surprise is a finding with its seed
            found = Finding(seed, "raised", f"{type(error).__name__}: {error}")
        sys.stdout.write(json.dumps(found.__dict__) + "\n")
        sys.stdout.flush()
    return 0


@dataclass
class Done:
    """Seeds that were checked: how many, by which back end, and the findings."""

    count: int = 0
    back_ends: Counter[str] = field(default_factory=Counter)
    wrong: list[Finding] = field(default_factory=list)


def supervise(
    module: str, first: int, count: int, every: int, kinds: Sequence[str],
    seconds: float | None = None,
) -> Done:  # fmt: skip
    """Check seeds in children of a module, until `seconds` are over; print the findings."""
    start, done = time.monotonic(), Done()
    while done.count < count and (seconds is None or time.monotonic() - start < seconds):
        seed = first + done.count
        end = _batch(module, seed, min(BATCH, count - done.count), every, kinds, done)
        done.count = end - first
        rate = done.count / (time.monotonic() - start)
        sys.stderr.write(f"\r{done.count} of {count}, {len(done.wrong)} wrong, {rate:.1f}/s ")
    for finding in done.wrong:
        sys.stdout.write(f"seed {finding.seed} ({finding.back_end}): {finding.error}\n")
    return done


def _batch(module: str, seed: int, count: int, every: int, kinds: Sequence[str], done: Done) -> int:
    """Run one child; return the next seed."""
    command = [sys.executable, "-m", module, "--child"]
    numbers = ["--seed", str(seed), "--count", str(count), "--every", str(every), *kinds]
    try:
        answer = subprocess.run(
            command + numbers, capture_output=True, text=True, timeout=CHILD_TIMEOUT_S
        )
        output, ending = answer.stdout, f"exit {answer.returncode}: {answer.stderr[-500:]}"
        if answer.returncode > 0:  # a pair never ends a child this way: the harness is broken
            raise SystemExit(f"seed {seed}: {ending}")
    except subprocess.TimeoutExpired as late:
        output, ending = (late.stdout or b"").decode(), "hung"
    running = None
    for line in output.splitlines():
        message = json.loads(line)
        if "start" in message:
            running = int(message["start"])
            continue
        finding = Finding(**message)
        running = None
        done.back_ends[finding.back_end] += 1
        if finding.error is not None:
            done.wrong.append(finding)
    if running is not None:
        done.back_ends["crash"] += 1
        done.wrong.append(Finding(running, "crash", ending))
        return running + 1
    return seed + count


if __name__ == "__main__":
    sys.exit(main())
