"""Verification of a whole model: a bundle against an oracle that shares nothing with us.

The oracle is a program of others that runs the model's file (`oracles`); without one it is the
interpreter of graphs, and the reference says so (ADR-0190).
"""

import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import inf
from pathlib import Path
from typing import Final

import numpy as np

from ansorpy.artifact.harness import widened
from ansorpy.bundle.plan import SelfTest
from ansorpy.errors import RunError
from ansorpy.expr.dtypes import FLOATS
from ansorpy.graph.graph import Array, Graph
from ansorpy.graph.interp import run
from ansorpy.graph.sizes import at_sizes
from ansorpy.model.answers import Answers, Opinions
from ansorpy.model.check_bounds import (
    MOST_BOUND,
    OWN_ERROR,
    Opinion,
    dtypes_of,
    element_bounds,
    is_near,
    least_bound,
    rough_bounds,
)
from ansorpy.model.check_inputs import (
    Inputs,
    checked_sizes,
    hard_inputs,
    is_one_operator,
    nudged,
    random_inputs,
)
from ansorpy.model.oracles import oracles_of
from ansorpy.model.race import PREPARE_S, Entry, distance

BUDGET_S: Final = 60.0  # seconds of an oracle for hard inputs
BUDGET_BYTES: Final = 1 << 30  # inputs and outputs of all cases
HARD_SIZES: Final = 2  # sizes of dims that hard inputs are checked at: the largest, the middle ones
STORED: Final = 2  # cases of a self-test beside the largest sizes: the middle, the least


@dataclass(frozen=True, slots=True, eq=False)
class HardCase:
    """Inputs that are hard in one way, and the right outputs, floats as float64.

    Args:
        bounds: largest differences, each of a shape that broadcasts to its output; infinite where
            the oracle says nothing.
    """

    name: str
    inputs: Inputs
    outputs: tuple[Array, ...]
    bounds: tuple[Array, ...]

    def fault(self, results: Sequence[Array], dtypes: Sequence[str]) -> str:
        """Return how outputs are wrong, "" if they are not."""
        if len(results) != len(self.outputs):
            return f"{len(results)} outputs in place of {len(self.outputs)}"
        for number, (given, wanted, bound, dtype) in enumerate(
            zip(results, self.outputs, self.bounds, dtypes, strict=True)
        ):
            result = widened(given, dtype)
            if result.shape != wanted.shape:
                return f"output {number} has shape {list(result.shape)}, not {list(wanted.shape)}"
            wrong = ~is_near(result, wanted, bound, dtype)
            if wrong.any():
                at = np.unravel_index(int(np.argmax(wrong)), wrong.shape)
                place, limit = [int(n) for n in at], np.broadcast_to(bound, wrong.shape)[at]
                return (
                    f"{int(wrong.sum())} of {wrong.size} elements of output {number} are off, as at"
                    f" {place}: {result[at]:.9g}, right {wanted[at]:.9g} within {limit:.1e}"
                )
        return ""


@dataclass(frozen=True, slots=True)
class ModelReference:
    """Inputs of a model with the outputs that are right, and how far a result may be off.

    Args:
        bound: the largest difference allowed, as a share of the largest element of an output.
        source: the name of the oracle, with the reason if it is not an independent one.
        dtypes: of the outputs; arrays of bfloat16 are uint16 bit patterns.
        cases: further inputs, which are no part of a bundle.
        left_out: the cases that were not made, each with the reason.
        others: of a model with dims, whose largest sizes the inputs have, at other sizes.
    """

    inputs: Mapping[str, Array]
    outputs: tuple[Array, ...]
    bound: float
    source: str
    dtypes: tuple[str, ...]
    cases: tuple[HardCase, ...] = ()
    left_out: tuple[str, ...] = ()
    others: tuple["ModelReference", ...] = ()

    @property
    def told(self) -> str:
        """The oracle, and the inputs that it was asked about, for people."""
        names = ["normal", *(case.name for case in self.cases if case.name != "normal")]
        on = f" on {', '.join(names)} inputs" if self.cases else ""
        on += f" at {1 + len(self.others)} sizes" if self.others else ""
        out = f"; left out: {', '.join(self.left_out)}" if self.left_out else ""
        return f"{self.source}{on}{out}"

    def within(self, seconds: float, call_s: float) -> "ModelReference":
        """Return the reference without the cases for which there is no time.

        Args:
            seconds: of all calls of the model.
            call_s: of one call.
        """
        left = seconds / call_s - 1 if call_s > 0 else inf
        others = self.others[: int(max(0.0, min(left, len(self.others))))]
        cases = sum(len(one.cases) for one in (self, *others))
        most = int(max(0.0, min(left - len(others), cases)))
        if most == cases:
            return replace(self, others=others)
        out = tuple(f"{case.name} (no time left)" for case in self.cases[most:])
        return replace(
            self,
            cases=self.cases[:most],
            left_out=(*self.left_out, *out),
            others=tuple(replace(one, cases=()) for one in others),
        )

    @property
    def self_test(self) -> SelfTest:
        """The reference as the test of a bundle."""
        largest = [
            float(np.max(np.abs(one), initial=0.0, where=np.isfinite(one)))
            if dtype in FLOATS
            else 0.0
            for dtype, one in (
                (t, widened(a, t)) for t, a in zip(self.dtypes, self.outputs, strict=True)
            )
        ]
        bounds = tuple(self.bound * one for one in largest)
        others = tuple(one.self_test for one in self.others[:STORED])
        return SelfTest(tuple(self.inputs.values()), self.outputs, bounds, self.told, others)


Ask = Callable[[Inputs, float], list[Opinion]]  # the opinions of an oracle, within seconds


def reference_of(
    graph: Graph, file: Path | None, seed: int, budget_s: float = BUDGET_S
) -> ModelReference:
    """Return inputs and right outputs of a model.

    Args:
        graph: as imported: before passes.
        file: the ONNX file that the graph was read from, None if there is none.
        budget_s: seconds of an oracle for other inputs than normal ones.

    Raises:
        GraphError: the interpreter cannot run the graph.
    """
    refusals: list[str] = []
    with tempfile.TemporaryDirectory(prefix="ansorpy-oracle-") as name:
        for oracle in () if file is None else oracles_of(file, Path(name), refusals):
            try:
                with Opinions(graph, oracle) as ask:
                    source = "; ".join([oracle.name, *refusals])
                    return _sized(graph, ask, source, seed, budget_s)
            except RunError as error:  # operators or dtypes that it does not have
                refusals.append(f"{oracle.name} cannot run it: {_kind(error)}")
    reasons = refusals if file is not None else ["the graph came without its file"]
    source = f"our own interpreter only ({'; '.join(reasons)})"

    def own(inputs: Inputs, _: float) -> list[Opinion]:
        made = run(graph, inputs)
        return [[made[output.name] for output in graph.outputs]]

    return _sized(graph, own, source, seed, budget_s, independent=False)


def check(bundle: Path, reference: ModelReference, threads: int, name: str) -> float:
    """Return the largest error of a bundle on normal inputs, as a share of the largest element.

    Args:
        name: of the model.

    Raises:
        RunError: the bundle cannot be run, or its outputs are wrong.
    """
    with Answers(Entry("ansorpy", bundle), threads) as answers:
        every = (reference, *reference.others)  # the largest sizes leave most in memory
        return max(_checked(answers, one, name) for one in every)


def _checked(answers: Answers, reference: ModelReference, name: str) -> float:
    """Return the error of a bundle at the sizes of a reference, as `check` does."""
    results = answers.outputs(reference.inputs)
    shapes, wanted = ([one.shape for one in each] for each in (results, reference.outputs))
    if shapes != wanted:
        raise RunError(
            f"cannot deliver {name!r} because its outputs have shapes {shapes}; expected"
            f" {wanted} ({reference.source})"
        )
    error = distance(results, reference.outputs, reference.dtypes)
    if not error <= reference.bound:
        raise RunError(
            f"cannot deliver {name!r} because its outputs are off by {error:.1e} of the"
            f" largest; expected at most {reference.bound:.1e} ({reference.source})"
        )
    for case in reference.cases:
        fault = case.fault(answers.outputs(case.inputs), reference.dtypes)
        if fault:
            raise RunError(
                f"cannot deliver {name!r} because of its outputs for {case.name} inputs:"
                f" {fault}; expected those of {reference.source}"
            )
    return error


def _sized(
    graph: Graph, ask: Ask, source: str, seed: int, budget_s: float, independent: bool = True
) -> ModelReference:
    """Return the reference of a model, with dims at several sizes.

    All have the largest of their bounds: the models differ in sizes only.

    Raises:
        RunError: the oracle cannot run the model.
    """
    if not graph.dims:
        return _reference(graph, ask, source, seed, budget_s, independent)
    made = []
    for number, sizes in enumerate(checked_sizes(graph.dims, np.random.default_rng(seed))):
        at = ", ".join(f"{name} = {size}" for name, size in sizes.items())
        hard_s = budget_s / HARD_SIZES if number < HARD_SIZES else None
        given = at_sizes(graph, sizes), ask, f"{source} at {at}", seed + number
        made.append(_reference(*given, hard_s, independent))
    bound = max(one.bound for one in made)
    first, *others = (replace(one, bound=bound) for one in made)
    return replace(first, source=source, others=tuple(others))


def _reference(
    graph: Graph, ask: Ask, source: str, seed: int, budget_s: float | None, independent: bool = True
) -> ModelReference:
    """Return the reference of a model by an oracle.

    Args:
        budget_s: seconds for hard cases; there are none if it is None.

    Raises:
        RunError: the oracle cannot run the model.
    """
    rng = np.random.default_rng(seed)
    inputs = random_inputs(graph, rng)
    first, *others = ask(inputs, PREPARE_S)
    if independent and not others:
        others = ask(nudged(graph, inputs, rng), PREPARE_S)
    apart = max((distance(one, first, dtypes_of(graph)) for one in others), default=0.0)
    bound = max(min(OWN_ERROR * apart, MOST_BOUND), least_bound(graph))
    cases, left_out = list[HardCase](), list[str]()
    if budget_s is not None:
        cases, left_out = _hard_cases(graph, ask, inputs, first, rng, budget_s)
    return ModelReference(
        inputs, tuple(first), bound, source, dtypes_of(graph), tuple(cases), tuple(left_out)
    )


def _hard_cases(
    graph: Graph,
    ask: Ask,
    inputs: Inputs,
    right: Opinion,
    rng: np.random.Generator,
    budget_s: float,
) -> tuple[list[HardCase], list[str]]:
    """Return the cases that an oracle can answer, and the names of the others with reasons."""
    shapes = [graph.values[output.value].fixed_shape for output in graph.outputs]
    if shapes != [one.shape for one in right]:  # the bundle will be refused
        return [], []
    begin_s, longest_s = time.monotonic(), 0.0
    drawn = {"normal": inputs} if is_one_operator(graph) else {}
    drawn |= hard_inputs(graph, rng)
    each_bytes = sum(graph.values[name].size_bytes for name in graph.inputs) + sum(
        graph.values[output.value].size_bytes for output in graph.outputs
    )
    cases: list[HardCase] = []
    left_out: list[str] = []
    for name, given in drawn.items():
        case_s = time.monotonic()
        left_s = budget_s - (case_s - begin_s)
        if left_s < longest_s or left_s <= 0:
            left_out.append(f"{name} (more than {budget_s:.0f} s)")
            continue
        if (len(cases) + 1) * each_bytes > BUDGET_BYTES:
            left_out.append(f"{name} (more than {BUDGET_BYTES >> 20} MiB)")
            continue
        try:
            opinions = ask(given, left_s)
            rough = ask(nudged(graph, given, None if name == "equal" else rng), left_s)
            bounds = rough_bounds(graph, [*opinions, *rough])
            if is_one_operator(graph):
                bounds = element_bounds(graph, given, opinions, name, bounds)
        except RunError as error:
            left_out.append(f"{name} ({_kind(error)})")
            continue
        finally:
            longest_s = max(longest_s, time.monotonic() - case_s)
        if all(np.isinf(bound).all() for bound in bounds):
            left_out.append(f"{name} (no result is finite and stable)")
            continue
        wanted = zip(opinions[0], dtypes_of(graph), strict=True)
        cases.append(HardCase(name, given, tuple(widened(*pair) for pair in wanted), bounds))
    return cases, left_out


def _kind(error: RunError) -> str:
    """Return the kind of the exception of a runtime: its text may have names of the user."""
    return str(error).split(": ")[1][:80]
