"""In-memory measuring pools, so that a search can be tested without processes and clocks."""

from collections.abc import Callable, Mapping, Sequence
from hashlib import sha256

from ansorpy.codegen.exported_types import Export
from ansorpy.codegen.kernel import Kernel
from ansorpy.loopir.nodes import Program
from ansorpy.loopir.printer import text
from ansorpy.measure.outcome import Failed, Measured, Outcome
from ansorpy.measure.pool import MeasurePool, Memory
from ansorpy.measure.timing.interleave import PairedTimes
from ansorpy.measure.timing.libraries import Exported
from ansorpy.measure.timing.own_kernel import OwnKernel
from ansorpy.measure.timing.paired_benchmark import SizedTimes
from ansorpy.measure.timing.shortlist import ShortlistTime
from ansorpy.measure.unbound import Unbound
from ansorpy.target import Target
from ansorpy.te.dag import Dag
from ansorpy.tuner.parts.pools import Pools
from tests.measure.in_process import in_process, loops, prebuild

COMPILE_S = 0.75  # time to compile every delivered kernel


def cost_s(program: Program) -> float:
    """Return a time that depends on the loops only: 1 to 2 ms."""
    return 1e-3 * (1 + int(sha256(text(program).encode()).hexdigest()[:6], 16) / 16**6)


class FakePool:
    """A pool whose candidates pass the real pipeline in this process, with times from formulas.

    `verdict` may replace the outcome of a program.
    """

    def __init__(
        self,
        dag: Dag,
        target: Target,
        verdict: Callable[[Program], Outcome] = lambda program: Measured((cost_s(program),)),
        race_s: Mapping[str, float] | None = None,
        fails: bool = False,
    ) -> None:
        self.dag, self.target = dag, target
        self.verdict, self.fails = verdict, fails
        self.race_s = {"naive": 5e-3, "tuned 0": 1.2e-3, "numpy": 3e-3, **(race_s or {})}
        self.numpy_failed: Failed | None = None
        self.closed = False
        self.peak_flop_per_s = 0.0
        self.measured: list[Program] = []
        self.batches = in_process(target, self._outcome, builders=2)

    def measure(
        self,
        candidates: Sequence[Program | Unbound],
        best_s: float | None = None,
        late: Callable[[], bool] = lambda: False,
    ) -> list[Outcome | None]:
        return self.batches.measure(candidates, best_s, late, timeout_s=1.0)

    def _outcome(self, program: Program) -> Outcome:
        self.measured.append(program)
        return self.verdict(program)

    def prebuild(self, *requests: Unbound | Kernel | Export, later: bool = False) -> None:
        """Start to build candidates: races of this pool need no machine code."""
        prebuild(self.batches, [one for one in requests if isinstance(one, Unbound)], later)

    def begin_cases(self) -> None:
        """Do nothing: candidates have no cases."""

    def race(
        self,
        contestants: Mapping[str, Program | Kernel],
        numpy: bool = True,
        first_case_s: Mapping[str, float] | None = None,
        late: Callable[[], bool] = lambda: False,
        beside: Callable[[], object] = lambda: None,
        own: Sequence[OwnKernel] = (),
        peers: bool = False,
    ) -> dict[str, PairedTimes | Failed]:
        beside()
        if self.fails:
            return {name: Failed("wrong", "C[0] is 1, not 2") for name in contestants}
        names = [*contestants, *(f"own: {one.name}" for one in own), *(["numpy"] if numpy else [])]
        raced: dict[str, PairedTimes | Failed] = {
            name: PairedTimes(((self.race_s.get(name, 2e-3),),) * 2) for name in names
        }
        if numpy and self.numpy_failed is not None:
            raced["numpy"] = self.numpy_failed
        return raced

    def rerank(
        self,
        candidates: Sequence[Program | Unbound],
        budget_s: float,
        beside: Kernel | None = None,
    ) -> list[ShortlistTime | None]:
        programs = [loops(one, self.target).program for one in candidates]
        found = [(self.verdict(program), programs.index(program)) for program in programs]
        return [
            ShortlistTime(one.cost_s, code) if isinstance(one, Measured) else None
            for one, code in found
        ]

    def time_sizes(
        self, kernel: Program | Kernel, sizes: Sequence[tuple[int, ...]], numpy: bool
    ) -> SizedTimes | Failed:
        count = 2 if numpy else 1
        return tuple(tuple(1e-6 * max(of) * (1 + k) for k in range(count)) for of in sizes)

    def attainable_flop_per_s(self) -> float:
        return self.peak_flop_per_s

    def verify(self, kernel: Program | Kernel) -> Failed | None:
        return Failed("wrong", "C[0] is 1, not 2") if self.fails else None

    def begin_call(
        self, files: Mapping[str, bytes], meaning: Dag | None = None
    ) -> Callable[[], Failed | float]:
        self.called = files
        return self.end_call

    def end_call(self) -> Failed | float:
        return Failed("wrong", "C[0] is 1, not 2") if self.fails else COMPILE_S

    def export(self, *exports: Export, first_only: bool = False) -> Exported | Failed:
        return Failed("build", "a fake pool has no libraries")

    def close(self) -> None:
        self.closed = True


def fake_pools(
    verdict: Callable[[Program], Outcome] = lambda program: Measured((cost_s(program),)),
    race_s: Mapping[str, float] | None = None,
    fails: bool = False,
) -> Callable[[], Pools]:
    """Return a value for the argument `pools` of `tune.run`."""

    return pools_of(lambda dag, target: FakePool(dag, target, verdict, race_s, fails))


class FakeBackEnd:
    """A back end whose pools a function makes."""

    def __init__(self, make: Callable[[Dag, Target], MeasurePool]) -> None:
        self.make = make

    def open(self, dag: Dag, target: Target, cold_bytes: int) -> MeasurePool:
        return self.make(dag, target)

    def rounds(self) -> int:
        return 1

    def news(self) -> list[str]:
        return []

    def memory(self) -> Memory:
        return Memory()

    def close(self) -> None:
        """Do nothing: `Pools` has closed the pools."""


def pools_of(make: Callable[[Dag, Target], MeasurePool]) -> Callable[[], Pools]:
    """Return a value for the argument `pools` of `tune.run`: `make` opens the pool of a task."""
    return lambda: Pools(FakeBackEnd(make))
