"""Scoreboard: the node tests of ONNX, through the interpreter or through untuned kernels.

    python -m benchmarks.models.node_tests [--kernels] [--hosted] [--passes] [--operators]
        [--why] [--part N/M] [PATTERN ...]

A case passes if every output has the dtype, the shape and, within the tolerance of the case, the
values that ONNX states. With --kernels every node is computed by machine code of ours, with
--passes after the graph passes.
"""

import argparse
import sys
import time
import warnings
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence

import numpy as np

from ansorpy import local_target
from ansorpy.codegen.loader import Loaded, build, load
from ansorpy.errors import AnsorError, GraphError, LoweringError
from ansorpy.graph.interp import reference
from ansorpy.graph.operator import operator_of
from ansorpy.graph.passes import PASSES
from ansorpy.loopir.nodes import Buffer, Program, Scope
from ansorpy.measure.verify.guard_pages import Arena
from ansorpy.measure.verify.inputs import constants
from ansorpy.plan.bind import bind
from ansorpy.plan.choices import plans
from ansorpy.population.sample import sample
from ansorpy.rules import CPU
from ansorpy.sketch import derive
from ansorpy.te.analysis import workload_key
from ansorpy.te.dag import Dag
from benchmarks.models.node_cases import Array, cases, difference


class Kernels:
    """Untuned kernels in this process, one per workload."""

    def __init__(self) -> None:
        self.target = local_target(cores=1)
        self._loaded: dict[str, tuple[Loaded, tuple[Buffer, ...]]] = {}

    def compute(self, dag: Dag, inputs: Mapping[str, Array]) -> Sequence[Array]:
        """Return the outputs of a Dag by machine code."""
        loaded, buffers = self._kernel(dag)
        arena = Arena(buffers, "right")
        arena.fill({**constants(dag), **inputs}, "nan")
        loaded.run_ahead(arena.addresses)
        loaded.run(arena.addresses)
        return [arena.array(b.name).copy() for b in buffers if b.scope is Scope.OUTPUT]

    def _kernel(self, dag: Dag) -> tuple[Loaded, tuple[Buffer, ...]]:
        key = f"{workload_key(dag)} {[node.name for node in dag.nodes]}"
        if key not in self._loaded:
            program = self._program(dag)
            self._loaded[key] = load(build(program, self.target)), program.buffers
        return self._loaded[key]

    def _program(self, dag: Dag) -> Program:
        """Return the first program of the last sketch that has one."""
        for sketch in reversed(derive(dag, self.target, CPU).sketches):
            for plan in plans(sketch, self.target):
                for row in sample(plan, 1, np.random.default_rng(0)):
                    return bind(plan, row, self.target)
        raise LoweringError("no sketch has a row")


def main() -> int:
    """Print how many cases pass."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("patterns", nargs="*", help="parts of names of cases")
    parser.add_argument("--kernels", action="store_true", help="compute by machine code")
    parser.add_argument("--hosted", action="store_true", help="allow NumPy, counted apart")
    parser.add_argument("--passes", action="store_true", help="run the graph passes first")
    parser.add_argument("--part", default="1/1", help="N/M: every M-th case, from the N-th on")
    parser.add_argument("--operators", action="store_true", help="print a line per operator")
    parser.add_argument("--why", action="store_true", help="print why a case does not pass")
    args = parser.parse_args()
    compute = Kernels().compute if args.kernels else reference
    total: Counter[str] = Counter()
    by_operator: defaultdict[str, Counter[str]] = defaultdict(Counter)
    begin = time.perf_counter()
    part, parts = map(int, args.part.split("/"))
    for number, case in enumerate(cases()):
        if number % parts != part - 1:
            continue
        if args.patterns and not any(one in case.name for one in args.patterns):
            continue
        result, reason = "passed", ""
        try:
            reason, graph = difference(case, compute, args.hosted, PASSES if args.passes else ())
            numpy = any(operator_of(node).hosted for node in graph.nodes)
            kinds = "hosted" if numpy else "passed" if graph.nodes else "folded"
            result = "wrong" if reason else kinds
        except GraphError as error:
            result, reason = "refused", str(error)
        except AnsorError as error:
            result, reason = "failed", f"{type(error).__name__}: {error}"
        except Exception as error:  # noqa: BLE001
            result, reason = "crashed", f"{type(error).__name__}: {error}"
        total[result] += 1
        by_operator[case.operator][result] += 1
        if reason and args.why:
            print(f"{result} {case.name}: {' '.join(reason.split())[:300]}", file=sys.stderr)
    if args.operators:
        for name, counts in sorted(by_operator.items()):
            print(f"{name:28} {dict(counts)}")
    good = sum(set(counts) <= {"passed", "folded", "hosted"} for counts in by_operator.values())
    print(f"{dict(total)} of {total.total()} cases; {good} of {len(by_operator)} operators whole;"
          f" {time.perf_counter() - begin:.0f} s")  # fmt: skip
    return 0


if __name__ == "__main__":
    warnings.filterwarnings("ignore")
    sys.exit(main())
