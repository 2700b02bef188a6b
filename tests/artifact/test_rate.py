"""Rates of kernels: executed, effective, or not shown."""

from dataclasses import replace

import pytest

from ansorpy.artifact.rate import Rate, rate_of
from ansorpy.frontends.tc.text import parse
from ansorpy.measure.roofline import attainable_flop_per_s
from ansorpy.records import Race
from ansorpy.state.state import State
from ansorpy.state.steps import SkipPadding, SplitPhases, Winograd, executed_flop
from ansorpy.target import Target
from ansorpy.te.analysis import flop_count
from ansorpy.te.dag import Dag
from ansorpy.topi.workloads import Window, conv2d, matmul, transposed_conv2d

MM = matmul(64, 64, 64)
FLOP = 2 * 64**3
RACE = Race(
    "tuned", "tuned", (1e-3, 2e-3), (), (), (-1.0, 1.0), (1e-3,), 0, 64, 1.0, "00",
    flop=FLOP, peak_flop_per_s=FLOP / 1e-3,
)  # fmt: skip
CONV = conv2d(1, 8, 8, 16, 16, 3, Window(padding=1))
COPY = parse("def copy(float(64) A) -> (B) { B(i) = A(i) }")[0]


@pytest.mark.parametrize(
    ("dag", "race", "told"),
    [
        (MM, RACE, "0.5 GFLOP/s, 100 % of the arithmetic peak"),
        (MM, replace(RACE, peak_flop_per_s=0.0), "0.5 GFLOP/s"),
        (MM, replace(RACE, flop=0, peak_flop_per_s=0.0), "0.5 effective GFLOP/s"),  # an old record
        (
            MM,
            replace(RACE, tuned_s=(0.97e-3,)),
            "0.5 GFLOP/s, 100 % of the arithmetic peak",
        ),  # drift
        (MM, replace(RACE, tuned_s=(0.7e-3,)), "None"),
        (
            MM,
            replace(RACE, tuned_s=(0.7e-3,), flop=FLOP // 2),
            "0.7 effective GFLOP/s, 71 % of the arithmetic peak",
        ),
        (MM, replace(RACE, tuned_s=(0.4e-3,), flop=FLOP // 2), "None"),
        (COPY, RACE, "None"),
    ],
)
def test_no_rate_exceeds_the_bound_of_the_executed_operations(
    dag: Dag, race: Race, told: str
) -> None:
    assert str(rate_of(dag, race)) == told


def test_a_rate_counts_the_operations_of_the_definition() -> None:
    assert rate_of(MM, replace(RACE, flop=FLOP // 2)) == Rate(FLOP / 1e-3, True, 0.5)


def test_executed_operations_are_counted_from_the_sketch() -> None:
    naive = State.naive(CONV)
    assert executed_flop(naive) == flop_count(CONV)
    winograd = naive.do(Winograd("conv", 4))
    assert 0 < executed_flop(winograd) < flop_count(CONV)
    assert executed_flop(naive.do(SkipPadding("conv", "pad"))) == 0  # how many is not counted
    back = State.naive(transposed_conv2d(1, 2, 5, 6, 16, 4, stride=2, padding=1))
    assert executed_flop(back.do(SplitPhases("conv", "spread"))) == 0


@pytest.mark.parametrize(
    ("dag", "features", "cores", "peak"),
    [
        (MM, (), 2, 200.0),
        (matmul(8, 8, 8, dtype="float64"), (), 1, 50.0),
        (matmul(8, 8, 8, dtype="float16"), (), 1, 200.0),
        (matmul(8, 8, 8, dtype="float16"), ("amx-fp16", "amx-tile"), 1, 0.0),
        (MM, ("amx-tile",), 1, 100.0),
    ],
)
def test_the_peak_depends_on_the_narrowest_type(
    dag: Dag, features: tuple[str, ...], cores: int, peak: float
) -> None:
    assert attainable_flop_per_s(dag, Target(cores=cores, features=features), 100.0) == peak
