"""Timed calls that go round copies of the weights."""

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import pytest

from ansorpy.codegen.loader import build, load
from ansorpy.expr.expr import Const
from ansorpy.frontends.tc.text import parse
from ansorpy.loopir.nodes import SIZES, Buffer, Scope
from ansorpy.measure.host import local_target
from ansorpy.measure.timing import paired_benchmark
from ansorpy.measure.timing.cold_weights import (
    LEAST_BYTES,
    MOST,
    affordable,
    cold_bytes,
    has_cold_weights,
    in_turns,
)
from ansorpy.measure.timing.paired_benchmark import BenchmarkJob
from ansorpy.measure.timing.sampling import SamplingOptions
from ansorpy.measure.timing.workplace import Workplace
from ansorpy.measure.verify.cases import Case, make_cases
from ansorpy.measure.verify.guard_pages import PAGE_BYTES
from ansorpy.measure.verify.inputs import Array
from ansorpy.plan.bind import bind
from ansorpy.plan.choices import naive
from ansorpy.target import Target
from ansorpy.te.analysis import weight_bytes
from tests.measure.fake import FakeBuilt

PRIVATE, CACHE = 1 << 16, 1 << 20  # bytes of the L2 cache of a core, and of the last-level cache
SHARED = Target(l2_bytes=PRIVATE, l3_bytes=CACHE)
ELEMENTS = 1000
MATMUL = """def mm(float({m},{k}) A, const float({k},{n}) B) -> (C) {{
  C(i,j) +=! A(i,k) * B(k,j)
}}"""


@pytest.mark.parametrize(
    ("model", "expected"),
    [
        (0, 0), (PRIVATE, 0), (PRIVATE + 1, PRIVATE + 1), (CACHE, 2 * PRIVATE),
        (CACHE + 1, CACHE + 1), (2 * CACHE, 2 * CACHE), (9 * CACHE, 2 * CACHE),
    ],
)  # fmt: skip
def test_copies_exceed_the_cache_that_the_weights_of_the_model_exceed(
    model: int, expected: int
) -> None:
    assert cold_bytes(model, SHARED) == expected


def test_the_cores_of_a_kernel_have_an_l2_cache_each() -> None:
    assert cold_bytes(2 * PRIVATE, SHARED) == 2 * PRIVATE
    assert cold_bytes(2 * PRIVATE, replace(SHARED, cores=2)) == 0


def test_small_weights_are_hot_in_a_large_model() -> None:
    small, large = (parse(MATMUL.format(m=4, k=k, n=LEAST_BYTES // 4 // 16))[0] for k in (15, 16))
    assert not has_cold_weights(small)
    assert has_cold_weights(large)
    assert weight_bytes(large) == {"B": LEAST_BYTES}


def test_copies_stay_within_a_share_of_the_memory() -> None:
    assert affordable(1 << 60, 1) < 1 << 50
    assert affordable(1 << 60, 4) <= affordable(1 << 60, 1) // 4 + 1
    assert affordable(100, 2) == 100


class Recorder:
    """Code whose calls record the addresses that they are bound to."""

    def __init__(self) -> None:
        self.called: list[tuple[int, ...]] = []
        self.ahead = 0

    def run_ahead(self, addresses: Sequence[int]) -> None:
        self.ahead += 1

    def bind(self, addresses: Sequence[int]) -> Callable[[], None]:
        return lambda: self.called.append(tuple(addresses))

    def bind_parallel(self, addresses: Sequence[int], threads: int) -> Callable[[], None]:
        return self.bind(addresses)

    run = run_backwards = run_ahead


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize(("total", "turns"), [(0, 1), (1, 1), (8001, 2), (80_000, 10)])
def test_calls_go_round_copies_of_the_steady_weights_only(
    total: int, turns: int, threads: int
) -> None:
    scopes = {
        "A": Scope.INPUT, "W": Scope.INPUT, "raw": Scope.INPUT, "C": Scope.OUTPUT,
        "packed": Scope.GLOBAL, "scratch": Scope.GLOBAL,
    }  # fmt: skip
    shape = (Const(ELEMENTS),)
    buffers = tuple(Buffer(name, "float32", shape, scope) for name, scope in scopes.items())
    built = FakeBuilt("x", buffers, steady=("A", "W", "packed"))
    given = np.arange(ELEMENTS, dtype=np.float32)
    case = Case("x", dict.fromkeys(("A", "W", "raw"), given), (), constant=("W", "raw"))
    code = Recorder()
    bound = Workplace((case,), {}).bind(code, built, case, threads, cold_bytes=total)
    for _ in range(2 * turns):
        bound.call()
    assert code.ahead == 1
    assert code.called[:turns] == code.called[turns:]
    places = dict(zip(scopes, zip(*code.called[:turns], strict=True), strict=True))
    for name, found in places.items():
        assert len(set(found)) == (turns if name in ("W", "packed") else 1), name
        assert len({at % PAGE_BYTES for at in found}) == 1
    assert len(bound.copies) == turns - 1
    for copy in bound.copies:
        np.testing.assert_array_equal(copy["W"], given)
        np.testing.assert_array_equal(copy["packed"], bound.memory.array("packed"))


def test_calls_of_numpy_go_round_copies_of_the_weights(monkeypatch: pytest.MonkeyPatch) -> None:
    dag = parse(MATMUL.format(m=5, k=64, n=300))[0]
    case, called = make_cases(dag, 0)[0], list[dict[str, Array]]()
    monkeypatch.setattr(paired_benchmark, "numpy_call", lambda _: called.append)
    options = SamplingOptions(cold_bytes=3 * 64 * 300 * 4)
    job = BenchmarkJob("simd", (("naive", FakeBuilt("x", ())),), "", options, 1, 1, dag)
    call = paired_benchmark.numpy_turns(job, Workplace((case,), {}))
    for _ in range(4):
        call()
    places = {name: [one[name].ctypes.data for one in called] for name in ("A", "B")}
    assert len(set(places["A"])) == 1
    assert len(set(places["B"])) == 3
    assert places["B"][0] == places["B"][3]
    for given in called:
        np.testing.assert_array_equal(given["B"], case.inputs["B"])


def test_the_number_of_copies_is_bounded() -> None:
    buffers = (Buffer("W", "float32", (Const(1),), Scope.INPUT),)
    case = Case("x", {"W": np.ones(1, np.float32)}, (), constant=("W",))
    built = FakeBuilt("x", buffers, steady=("W",))
    bound = Workplace((case,), {}).bind(Recorder(), built, case, cold_bytes=1 << 40)
    assert len(bound.copies) == MOST


def test_a_kernel_is_right_on_every_copy() -> None:
    dag, target = parse(MATMUL.format(m=5, k=64, n=300))[0], local_target(1)
    plan = naive(dag, target)
    built = build(bind(plan, plan.smallest_row, target), target)
    assert "B" in built.steady
    case = make_cases(dag, 0)[0]
    bound = Workplace((case,), {}).bind(load(built), built, case, cold_bytes=5 * 64 * 300 * 4)
    assert len(bound.copies) == 4
    found = []
    for _ in range(5):
        bound.memory.array("C").fill(np.nan)
        bound.call()
        found.append(bound.memory.array("C").copy())
    (expected,) = case.expected
    np.testing.assert_allclose(found[0], expected.value, rtol=1e-4, atol=1e-4)
    for other in found[1:]:
        np.testing.assert_array_equal(other, found[0])


def test_one_call_is_its_own_turn() -> None:
    def call() -> None:
        raise AssertionError

    assert in_turns([call]) is call


@pytest.mark.parametrize(("total", "turns"), [(4001, 2), (28_000, 7)])
def test_calls_of_any_size_go_round_the_copies(total: int, turns: int) -> None:
    scopes = {"A": Scope.INPUT, "W": Scope.INPUT, "packed": Scope.GLOBAL, SIZES: Scope.SIZES}
    buffers = tuple(
        Buffer(name, "int64" if name == SIZES else "float32", (Const(n),), scope)
        for (name, scope), n in zip(scopes.items(), (ELEMENTS, 500, 500, 1), strict=True)
    )
    built = FakeBuilt("x", buffers, steady=("A", "W", "packed"))
    weight = np.ones(500, np.float32)
    cases = tuple(
        Case(
            f"{size}", {"A": np.zeros(ELEMENTS, np.float32), "W": weight}, (),
            constant=("W",), sizes=(size,), weight=1.0,
        )
        for size in (1, 4, 9)
    )  # fmt: skip
    code = Recorder()
    bound = Workplace(cases, {}).bind_timed(code, built, cold_bytes=total)
    for _ in range(2 * turns):
        bound.call()
    weights = [place[1] for place in code.called]
    assert len(set(weights)) == len({place[2] for place in code.called}) == turns
    assert len({place[0] for place in code.called}) == 3  # inputs differ by size only
    assert all(len(set(weights[k : k + turns])) == turns for k in range(5 * turns))
