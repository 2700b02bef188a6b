"""Count the single mutants of kernels for a GPU that the emulator catches.

    python -m tests.codegen.simt.mutants [--each 4] [--only softmax] [--seed 0]

A mutant is caught if the log finds a race, if a thread makes a fault (an access outside of a
buffer, a loop without end), or if a result is wrong in a case of a trial. It is equivalent by one
of these arguments, and missed otherwise:

    no race        of a barrier: without it, the log has no race, so that all loads see the same
    never differs  of a mask: both comparisons agree wherever they are made, in all cases
    unused word    of a shuffle: garbage in place of the words that differ changes no result
    same places    of an index: no access of any thread has another address, in all cases, or all
                   accesses to an array in shared memory have moved together
    same stores    of a mask: all stores of all threads that change memory are the same, and all
                   bits of the results; a turn of a loop that does nothing is no mistake
    same bits      of a shuffle: no bit of a result differs in any case, as if a maximum takes a
                   word of its own warp twice; the weakest argument, so the share without it is
                   printed as well
"""

import argparse
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Final

import numpy as np

from ansorpy.codegen.simt.launch import SimtCode
from ansorpy.errors import RunError
from ansorpy.expr.dtypes import FLOATS
from ansorpy.loopir.nodes import Buffer, Scope
from ansorpy.measure.verify.cases import Case, case_of, make_cases
from ansorpy.measure.verify.check import verify
from ansorpy.measure.verify.guard_pages import Arena
from ansorpy.measure.verify.inputs import (
    Array,
    Inputs,
    constants,
    decode,
    encode,
    random_inputs,
)
from ansorpy.measure.verify.reformulated import reformulated
from ansorpy.te.dag import Dag
from ansorpy.topi.suites import SUITE_SMALL
from tests.codegen.simt.mutations import KINDS, Mutation, changing, mutations
from tests.codegen.simt.test_library import WHOLE, drawn, written
from tests.emulation.log import LoggedKernel

SEEDS = 4  # trials from which edge values come
PEAK: Final = 300.0  # exp of the distance to other numbers overflows in float32
CAUGHT = ("race", "fault", "wrong")
EQUIVALENT = ("no race", "never differs", "unused word", "same places", "same stores", "same bits")


@dataclass(frozen=True, slots=True)
class Subject:
    """A program for a GPU, and the cases of its trial.

    Args:
        peaks: further cases in which each element of a row is its extreme once, as a thread that
            leaves an element out of a maximum is found by no other.
    """

    code: SimtCode
    buffers: Sequence[Buffer]
    cases: Sequence[Case]
    constants: Inputs
    peaks: Callable[[], tuple[Case, ...]] = tuple

    def failure(self, code: SimtCode) -> str | None:
        """Return by which of CAUGHT a program fails; None if it does not."""
        kernel = LoggedKernel(code)
        arena = Arena(self.buffers, "left")
        arena.fill({**self.constants, **self.cases[0].inputs}, "nan")
        try:
            if kernel.races(arena.addresses):
                return "race"
            failed = verify(kernel, self.buffers, self.cases, self.constants)
        except RunError:
            return "fault"
        return None if failed is None else "wrong"

    def verdict(self, mutation: Mutation) -> str:
        """Return one of CAUGHT, of EQUIVALENT, or `missed`."""
        caught = self.failure(mutation.code)
        if caught is not None:
            return caught
        kind, probes = mutation.kind, mutation.probes
        if kind == "barrier":
            return "no race"
        if probes and all(self.failure(probe) in (None, "race") for probe in probes):
            return "never differs" if kind == "mask" else "unused word"
        loads = kind == "index"
        codes = [mutation.code, self.code]
        if kind == "mask":
            codes = [changing(code) for code in codes]
        one, other = (self.trace(code, loads) for code in codes)
        if one == other:
            return {"mask": "same stores", "index": "same places"}.get(kind, "same bits")
        kernel = LoggedKernel(mutation.code)
        return "wrong" if verify(kernel, self.buffers, self.peaks(), self.constants) else "missed"

    def trace(self, code: SimtCode, loads: bool) -> list[bytes]:
        """Return the stores of all threads, or all accesses, and the results, case by case."""
        kernel, found = LoggedKernel(code), []
        for case in self.cases:
            arena = Arena(self.buffers, "left")
            arena.fill({**self.constants, **case.inputs}, "nan")
            parts = groupby(kernel.records(arena.addresses), key=lambda part: part[:2])
            for (launch, block), taken in parts:
                rows = self.rows(kernel, launch, [part for *_, part in taken], loads, arena)
                found.append(b"%d %d " % (launch, block) + rows.tobytes())
            outputs = (one for one in self.buffers if one.scope is Scope.OUTPUT)
            found += [arena.array(one.name).tobytes() for one in outputs]
        return found

    def rows(
        self, kernel: LoggedKernel, launch: int, parts: list[Array], loads: bool, arena: Arena
    ) -> Array:
        """Return number, thread and place of the accesses of a block, in order for each thread.

        A place in shared memory counts from the first place of its array that the block accesses.
        """
        sites = kernel.sites(launch)
        records = np.concatenate([part[part["site"] < len(sites)] for part in parts])
        roots = np.array([site.root for site in sites], np.int64)[records["site"]]
        places = records["address"].astype(np.int64)
        for root in np.unique(roots):
            mine = roots == root
            inside = root < len(arena.addresses)
            places[mine] -= arena.addresses[root] if inside else places[mine].min()
        stores = np.array([loads or site.access.store for site in sites], bool)
        rows = np.stack([records["site"], records["thread"], places])[:, stores[records["site"]]]
        return rows[:, np.argsort(rows[1], kind="stable")]


def peaks(dag: Dag, seed: int) -> tuple[Case, ...]:
    """Return cases in which each element of the last axis is the extreme of its row once."""
    return tuple(
        case_of(dag, f"peak {k}", peak_inputs(dag, np.random.default_rng(seed), k, sign))
        for k in range(max(node.shape[-1] for node in dag.placeholders if node.shape))
        for sign in signs(dag)
    )


def signs(dag: Dag) -> tuple[int, ...]:
    """Return 1 if a Dag has a maximum, and -1 if it has a minimum."""
    found = {node.combiner for node in dag.computes}
    pairs = ((1, {"max", "argmax"}), (-1, {"min", "argmin"}))
    return tuple(sign for sign, names in pairs if names & found)


def peak_inputs(dag: Dag, rng: np.random.Generator, at: int, sign: int) -> dict[str, Array]:
    """Return random numbers with a large one in each row, in another place of each."""
    inputs = random_inputs(dag, rng)
    for node in dag.placeholders:
        if node.dtype in FLOATS and node.shape:
            rows = decode(inputs[node.name], node.dtype).reshape(-1, node.shape[-1])
            places = (np.arange(len(rows)) + at) % node.shape[-1]
            rows[np.arange(len(rows)), places] = sign * PEAK
            inputs[node.name] = encode(rows.reshape(node.shape), node.dtype)
    return inputs


def subject(dag: Dag, seed: int) -> Subject | None:
    """Return a random candidate of an operator; None if CUDA refuses it."""
    program, target = drawn(dag, seed)
    code = written(program, target)
    if isinstance(code, str):
        return None
    cases = make_cases(dag, seed)
    more = (case for n in range(1, SEEDS) for case in make_cases(dag, seed + n))
    cases += tuple(case for case in more if case.name == "edge")
    meaning = program.meaning

    def own(cases: tuple[Case, ...]) -> tuple[Case, ...]:
        return cases if meaning is None else reformulated(cases, meaning)

    return Subject(code, program.buffers, own(cases), constants(dag), lambda: own(peaks(dag, seed)))


def sampled(code: SimtCode, each: int, rng: np.random.Generator) -> list[Mutation]:
    """Return at most `each` mutants of every kind."""
    found = mutations(code)
    chosen = []
    for kind in KINDS:
        some = [one for one in found if one.kind == kind]
        chosen += [some[k] for k in sorted(rng.permutation(len(some))[:each])]
    return chosen


def counted(name: str, made: Subject, each: int, seed: int) -> Counter[tuple[str, str]]:
    """Return the number of mutants by kind and verdict; print those that are missed."""
    counts: Counter[tuple[str, str]] = Counter()
    for mutation in sampled(made.code, each, np.random.default_rng(seed)):
        verdict = made.verdict(mutation)
        counts[mutation.kind, verdict] += 1
        if verdict == "missed":
            line = made.code.texts[mutation.launch].splitlines()[mutation.line - 1].strip()
            sys.stdout.write(f"{name}: missed {mutation.kind} in line {mutation.line}: {line}\n")
    return counts


def share(counts: Counter[tuple[str, str]], weak: bool = True) -> float:
    """Return the share of caught mutants among those that are not equivalent.

    Args:
        weak: whether `same bits` is an argument.
    """
    found = sum(n for (_, verdict), n in counts.items() if verdict in CAUGHT)
    bad = ("missed",) if weak else ("missed", "same bits")
    missed = sum(n for (_, verdict), n in counts.items() if verdict in bad)
    return found / (found + missed) if found + missed else 1.0


def main() -> None:
    """Print one line per operator, and the sum."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--each", type=int, default=4, help="mutants of each kind")
    parser.add_argument("--only", default="", help="part of the name of an operator")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    total: Counter[tuple[str, str]] = Counter()
    operators = [*SUITE_SMALL.items(), *((f"{name} (rows)", make) for name, make in WHOLE.items())]
    for name, make in operators:
        made = subject(make(), options.seed) if options.only in name else None
        if made is None:
            continue
        counts = counted(name, made, options.each, options.seed)
        total += counts
        sys.stdout.write(f"{name:32s} {sum(counts.values()):4d} mutants, {share(counts):.3f}\n")
        sys.stdout.flush()
    for kind in KINDS:
        verdicts = {verdict: n for (of, verdict), n in sorted(total.items()) if of == kind}
        sys.stdout.write(f"{kind:8s} {verdicts}\n")
    sys.stdout.write(
        f"caught of those that are not equivalent: {share(total):.4f};"
        f" if same bits is no argument: {share(total, weak=False):.4f}\n"
    )


if __name__ == "__main__":
    main()
