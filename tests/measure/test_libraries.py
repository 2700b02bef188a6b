"""The choice among several libraries, with builders and a slot that answer from a list."""

from collections.abc import Mapping, Sequence

from ansorpy.codegen.exported_types import Export, Library
from ansorpy.loopir.nodes import Program
from ansorpy.measure.code_cache import CodeCache
from ansorpy.measure.outcome import Failed, Measured, Outcome
from ansorpy.measure.protocols import BuildRequest, BuildResult, CheckRequest, TrialRequest
from ansorpy.measure.timing.libraries import Exported, fastest
from ansorpy.measure.workers.build_queue import BuildQueue
from ansorpy.target import Target
from tests.measure.in_process import InProcessBuilder, InProcessSlot

WRONG = Failed("wrong", "C[0] is 1, not 2")


class Linker(InProcessBuilder):
    """A builder of empty libraries; `broken` are the prefixes that cannot be built."""

    def __init__(self, broken: Sequence[str] = ()) -> None:
        super().__init__()
        self.broken = broken

    def submit(self, requests: Sequence[BuildRequest], timeout_s: float) -> None:
        self.built += requests
        self._results = [self._library(one.what) for one in requests]
        self._tell()

    def _library(self, what: object) -> BuildResult | Failed:
        assert isinstance(what, Export)
        if what.prefix in self.broken:
            return Failed("build", f"no {what.prefix}")
        return BuildResult(Library(b"", b"", (), (), what.prefix, (), 0, 0), 0.0)


class Listed(InProcessSlot):
    """A slot with an outcome for every prefix."""

    def __init__(self, outcomes: Mapping[str, Outcome]) -> None:
        super().__init__(lambda _: WRONG)
        self.outcomes = outcomes
        self.asked: list[TrialRequest] = []

    def submit(self, request: TrialRequest | CheckRequest) -> None:
        assert isinstance(request, TrialRequest)
        assert isinstance(request.built, Library)
        self.asked.append(request)
        self._answer = self.outcomes[request.built.prefix]
        self._tell()


def raced(slot: Listed, broken: Sequence[str] = (), first_only: bool = False) -> Exported | Failed:
    queue = BuildQueue([Linker(broken)], frozenset(), CodeCache())
    empty = Program("mm", (), ())
    exports = [Export(empty, (), (), {"bias": b""}, name) for name in slot.outcomes]
    return fastest(queue, slot, exports, Target(), first_only, 5.0)


def test_the_library_of_least_cost_wins_beside_the_first_as_the_reference() -> None:
    slot = Listed({
        "a": Measured((2e-3,)),
        "b": Measured((9e-3,), slowdown=9.0),
        "c": Measured((1.5e-3,)),
    })  # fmt: skip
    done = raced(slot, first_only=True)
    assert isinstance(done, Exported)
    assert (done.library.prefix, done.outcome.cost_s) == ("b", 1e-3)
    assert [one.best_s for one in slot.asked] == [None, 2e-3, 1e-3]
    references = [one.reference and one.reference[1] for one in slot.asked]
    assert references == [None, 2e-3, 2e-3]
    assert [one.fresh for one in slot.asked] == [True, False, False]
    assert all(one.first_only for one in slot.asked)


def test_libraries_that_fail_are_passed_over() -> None:
    slot = Listed({"a": WRONG, "b": Measured((1e-3,)), "c": WRONG, "d": Measured((2e-3,))})
    done = raced(slot, broken=["d"])
    assert isinstance(done, Exported)
    assert done.library.prefix == "b"
    assert [one.best_s for one in slot.asked] == [None, None, 1e-3]


def test_without_a_library_the_first_failure_is_the_answer() -> None:
    assert raced(Listed({"a": WRONG, "b": Measured((1.0,))}), broken=["b"]) == WRONG


def test_a_very_slow_library_is_no_reference() -> None:
    slot = Listed({"a": Measured((3.0,)), "b": Measured((1e-3,)), "c": Measured((2e-3,))})
    raced(slot)
    assert [one.reference and one.reference[1] for one in slot.asked] == [None, None, 1e-3]
