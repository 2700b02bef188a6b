"""Random Dags with dims x random candidates x random sizes: interpreted, compiled and compared.

    python -m tests.fuzz.dims --pairs 20000 --seed 0                the command for the night
    python -m tests.fuzz.dims --pairs 20000 --seed 8 --seconds 600  go on there, ten minutes at most

A pair is a Dag with a candidate, and sizes of its dims; each candidate is built once, for SIZES
pairs. Arrays lie between guard pages, inputs hold NaN beyond the sizes, and outputs must keep the
poison that was there. Every candidate is decided by its seed alone, and runs in a child process.
"""

import argparse
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final

import numpy as np

from ansorpy.codegen.loader import build, build_source, load
from ansorpy.codegen.numba_source import emit
from ansorpy.errors import AnsorError
from ansorpy.frontends.tc.text import parse
from ansorpy.loopir.interp import run as interpret
from ansorpy.loopir.nodes import Program, Scope
from ansorpy.measure.verify.cases import Case, each_case
from ansorpy.measure.verify.check import compare_all, verify
from ansorpy.measure.verify.inputs import Array, constants
from ansorpy.target import Target
from ansorpy.te.dag import Dag
from ansorpy.te.dims import Dim, at_sizes, dims_of, ends_of
from tests.fuzz.pairs import INTERPRETED, Finding, child, draw, points, supervise

SIZES: Final = 8  # pairs of one candidate: both ends, and random sizes
EXTENTS: Final = (1, 2, 3, 4, 5, 7, 8, 9, 13, 16, 17, 24, 31, 33)
STEPS: Final = (1, 1, 1, 1, 2, 3, 4, 8, 16)
SOFTMAX: Final = (
    "m({r}) max=! {x}({r},{l}) e({r},{l}) = exp({x}({r},{l}) - m({r})) s({r}) +=! e({r},{l})"
    " P({r},{l}) = e({r},{l}) / s({r})"
)


@dataclass
class Drawing:
    """Draws extents of one Dag: numbers, and one or two dims."""

    rng: np.random.Generator
    made: int = 0

    def number(self) -> int:
        """Return a number: a lane less, a lane more, 1."""
        return int(self.rng.choice(EXTENTS))

    def dim(self, longest: int = 70) -> str:
        """Return a dim as a text has it for the first time; its name is D0, D1, ..."""
        step = int(self.rng.choice(STEPS))
        most = max(1, longest // step)
        low, high = sorted(int(n) for n in self.rng.integers(1, most + 1, 2))
        low = low if self.rng.integers(3) else 1
        self.made += 1
        return f"D{self.made - 1} in {low * step}..{high * step} step {step}"

    def extents(self, count: int, longest: int = 70) -> list[str]:
        """Return extents, one or two of which are dims."""
        chosen = self.rng.permutation(count)[: 1 + int(self.rng.integers(2))]
        return [self.dim(longest) if k in chosen else str(self.number()) for k in range(count)]

    def chance(self) -> bool:
        """Return whether to take the second of two ways."""
        return bool(self.rng.integers(2))


def again(extent: str) -> str:
    """Return an extent as a text repeats it."""
    return extent.partition(" ")[0]


def _product(d: Drawing) -> str:
    m, k, n = d.extents(3)
    weight = "const " if d.chance() and not {k[0], n[0]} & {"D"} else ""
    end = "C(i,j) = T(i,j)"
    if d.chance():
        end = "C(i,j) = fmax(T(i,j) * 2 + 1, 0)"
    b, at = (f"{again(k)}, {n}", "k,j") if d.chance() else (f"{n}, {again(k)}", "j,k")
    a, to = (f"{m}, {k}", "i,k") if d.chance() else (f"{k}, {m}", "k,i")
    return f"float({a}) A, {weight}float({b}) B) -> (C) {{ T(i,j) +=! A({to}) * B({at}) {end} }}"


def _batched(d: Drawing) -> str:
    b, m, k, n = d.extents(4, 24)
    return (
        f"float({b}, {m}, {k}) A, float({again(b)}, {again(k)}, {n}) B) -> (C)"
        " { C(b,i,j) +=! A(b,i,k) * B(b,k,j) }"
    )


def _softmax(d: Drawing) -> str:
    r, w = d.extents(2)
    body = SOFTMAX.format(x="X", r="i", l="j")
    if d.chance():
        return f"float({r}, {w}) X) -> (P) {{ {body} }}"
    b = d.number()
    return f"float({b}, {r}, {w}) X) -> (P) {{ {SOFTMAX.format(x='X', r='b,i', l='j')} }}"


def _layer_norm(d: Drawing) -> str:
    rows, width = d.dim(), d.number() + 1
    extra = f"{d.number()}, " if d.chance() else ""
    i = "b,i" if extra else "i"
    return (
        f"float({extra}{rows}, {width}) X, float({width}) g) -> (Y)"
        f" {{ s({i}) +=! X({i},j) m({i}) = s({i}) / {width}"
        f" v({i}) +=! (X({i},j) - m({i})) * (X({i},j) - m({i}))"
        f" Y({i},j) = (X({i},j) - m({i})) * rsqrt(v({i}) / {width} + 1) * g(j) }}"
    )


def _attention(d: Drawing) -> str:
    queries, width = d.dim(24), d.number()
    keys = d.dim(24) if d.chance() else again(queries)
    heads = d.number() % 5 + 1
    head, h = (f"{heads}, ", "h,") if d.chance() else ("", "")
    softmax = SOFTMAX.format(x="S", r=f"{h}i", l="j")
    return (
        f"float({head}{queries}, {width}) Q, float({head}{keys}, {width}) K,"
        f" float({head}{again(keys)}, {width}) V) -> (O)"
        f" {{ S({h}i,j) +=! Q({h}i,k) * K({h}j,k) {softmax} O({h}i,d) +=! P({h}i,j) * V({h}j,d) }}"
    )


def _convolution(d: Drawing) -> str:
    batch, size = d.dim(6), int(d.rng.integers(4, 11))
    taps, inputs, outputs = int(d.rng.integers(1, 4)), d.number() % 7 + 1, d.number()
    if d.chance():
        return (
            f"float({batch}, {inputs}, {size}) X, const float({outputs}, {inputs}, {taps}) W)"
            " -> (Y) { Y(b,f,x) +=! X(b,c,x+r) * W(f,c,r) }"
        )
    return (
        f"float({batch}, {inputs}, {size}, {size}) X,"
        f" const float({outputs}, {inputs}, {taps}, {taps}) W) -> (Y)"
        " { Y(b,f,y,x) +=! X(b,c,y+r,x+s) * W(f,c,r,s) }"
    )


def _reduction(d: Drawing) -> str:
    extents = d.extents(3, 40)
    kept = [n for n, stays in zip("ijk", d.rng.integers(0, 2, 3), strict=True) if stays]
    op = str(d.rng.choice(["+=!", "max=!", "min=!"]))
    value = "X(i,j,k) * X(i,j,k)" if d.chance() else "X(i,j,k) + 1"
    end = f"Y({','.join(kept)}) = s({','.join(kept)}) * 2"
    if len(kept) == 3:
        return f"float({', '.join(extents)}) X) -> (Y) {{ Y(i,j,k) = {value} }}"
    return f"float({', '.join(extents)}) X) -> (Y) {{ s({','.join(kept)}) {op} {value} {end} }}"


def _chain(d: Drawing) -> str:
    a, b = d.extents(2)
    first = "T(i,j) = X(i,j) * v(j) + u(i)"
    second = "Y(j,i) = fmax(T(i,j), 0) - T(i,j) * T(i,j)" if d.chance() else "Y(i,j) = exp(T(i,j))"
    outputs = "(T, Y)" if d.chance() else "(Y)"
    return (
        f"float({a}, {b}) X, float({again(b)}) v, float({again(a)}) u) -> {outputs}"
        f" {{ {first} {second} }}"
    )


def _argmax(d: Drawing) -> str:
    kind = str(d.rng.choice(["argmax", "argmin"]))
    a, b = d.extents(2)
    if d.chance():
        return f"float({a}, {b}) X) -> (V, I) {{ (V, I)(i) = {kind}(k, X(i,k)) }}"
    return f"float({a}, {b}) X) -> (V, I) {{ (V, I)(j) = {kind}(k, X(k,j)) }}"


KINDS: Final[Mapping[str, Callable[[Drawing], str]]] = {
    "product": _product, "batched product": _batched, "softmax": _softmax,
    "layer norm": _layer_norm, "attention": _attention, "convolution": _convolution,
    "reduction": _reduction, "chain": _chain, "argmax": _argmax,
}  # fmt: skip


def drawn_dag(rng: np.random.Generator) -> tuple[str, Dag]:
    """Return a text of a random kind, and its Dag."""
    text = f"def f({KINDS[str(rng.choice(list(KINDS)))](Drawing(rng))}"
    return text, parse(text)[0]


def drawn_sizes(dag: Dag, rng: np.random.Generator) -> list[dict[str, int]]:
    """Return SIZES sizes: both ends, and random ones, often beside a power of 2."""

    def size(one: Dim) -> int:
        low, high = one.counts
        near = 2 ** int(rng.integers(0, 7)) + int(rng.integers(-1, 2))
        random = int(rng.integers(low, high + 1))
        return one.step * (min(max(low, near), high) if rng.integers(2) else random)

    dims = dims_of(dag)
    others = [{one.name: size(one) for one in dims} for _ in range(SIZES - 2)]
    return [*ends_of(dag), *others]


def check_candidate(seed: int, source: bool) -> Finding:
    """Draw a candidate, and compare SIZES of its sizes with the float64 reference.

    Args:
        source: go through numba as delivered kernels do, else straight to LLVM.
    """
    rng = np.random.default_rng(seed)
    text, dag = drawn_dag(rng)
    back_end = "numba" if source else "llvm"
    target = Target(cores=int(rng.integers(1, 5)))
    small = replace(target, features=("avx512f",), l3_bytes=64)  # stores past the caches
    try:
        program, plan, row = draw(dag, small if seed % 2 else target, rng)
    except AnsorError as raised:
        return Finding(seed, "lowering", f"{type(raised).__name__}: {raised}\n{text}")
    loaded = load(build_source(emit(program, target), target) if source else build(program, target))
    sizes = drawn_sizes(dag, rng)
    for number, at in enumerate(sizes):
        cases = cases_of(dag, at, seed, every=number == len(sizes) - 1)
        wrong = interpreted(dag, program, cases[0], at)
        if wrong is not None:
            back_end = "interpreter"
        else:
            failed = verify(loaded, program.buffers, cases, constants(dag))
            wrong = None if failed is None else f"{failed.kind}: {failed.message}"
        if wrong is not None:
            return Finding(seed, back_end, f"{wrong}\n{at}\n{text}\n{plan.choices}\n{row}")
    return Finding(seed, back_end, None)


def cases_of(dag: Dag, sizes: Mapping[str, int], seed: int, every: bool) -> tuple[Case, ...]:
    """Return the dense case of some sizes, or every case."""
    found = each_case(at_sizes(dag, sizes), seed)
    cases = tuple(found) if every else (next(found),)
    return tuple(replace(case, sizes=tuple(sizes.values())) for case in cases)


def interpreted(dag: Dag, program: Program, case: Case, sizes: Mapping[str, int]) -> str | None:
    """Return the fault of the interpreter's results; None if right, or if it takes long."""
    if sum(points(phase.body) for phase in program.phases) > INTERPRETED:
        return None
    inputs = {name: _padded(dag, name, array) for name, array in case.inputs.items()}
    counts = {one.var.name: sizes[one.name] // one.step for one in program.dims}
    with np.errstate(all="ignore"):
        got = interpret(program, {**inputs, **constants(dag)}, counts)
    failed = compare_all(case, lambda name: got[name], program.by_name)
    if failed is not None:
        return f"{failed.kind}: {failed.message}"
    for buffer in program.buffers:
        if buffer.scope is Scope.OUTPUT and got[buffer.name].dtype.kind == "f":
            beyond = np.ones(got[buffer.name].shape, bool)
            beyond[case.part(buffer.name)] = False
            if not np.isnan(got[buffer.name][beyond]).all():
                return f"out-of-bounds: wrote beyond the sizes of {buffer.name}"
    return None


def _padded(dag: Dag, name: str, array: Array) -> Array:
    """Return memory for the largest sizes, with an array at its start."""
    whole: Array = np.full([int(n) for n in dag.node(name).shape], np.nan, array.dtype)
    region: Any = (*map(slice, array.shape), ...)
    whole[region] = array
    return whole


def main() -> int:
    """Run many pairs; 0 where none is wrong."""
    options = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    options.add_argument("--pairs", type=int, default=20_000)
    options.add_argument("--seed", type=int, default=0, help="of the first candidate")
    options.add_argument("--every", type=int, default=20, help="a candidate in so many is of numba")
    options.add_argument("--seconds", type=float, help="end after these, with the next seed")
    options.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    options.add_argument("--count", type=int, default=0, help=argparse.SUPPRESS)
    given = options.parse_args()
    if given.child:
        return child(given.seed, given.count, lambda n: check_candidate(n, n % given.every == 0))
    count = -(-given.pairs // SIZES)
    run = partial(supervise, "tests.fuzz.dims", given.seed, count, given.every, ())
    done = run(seconds=given.seconds)
    outside = sum("out-of-bounds" in str(one.error) for one in done.wrong)
    outside += sum(one.back_end == "crash" for one in done.wrong)
    sys.stdout.write(
        f"{SIZES * done.count} pairs of {done.count} candidates ({dict(done.back_ends)}):"
        f" {len(done.wrong) - outside} wrong results, {outside} accesses outside;"
        f" next seed {given.seed + done.count}\n"
    )
    return 1 if done.wrong else 0


if __name__ == "__main__":
    sys.exit(main())
