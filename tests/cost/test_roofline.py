from dataclasses import replace

import numpy as np
import pytest

from ansorpy.cost.model import Batch, CostModel
from ansorpy.cost.roofline import LONG_VECTORS, SHORT_VECTORS, RooflineModel, rates_of
from ansorpy.features import NAMES, extract
from ansorpy.target import CpuTarget
from tests.cost.contract import CostModelContract
from tests.features.hand import tiled_plan

TARGET = CpuTarget(cores=4, vector_bits=512)


class TestRooflineModel(CostModelContract):
    def make(self) -> CostModel:
        return RooflineModel(TARGET)


class TestRooflineModelOfShortVectors(CostModelContract):
    def make(self) -> CostModel:
        return RooflineModel(replace(TARGET, vector_bits=256, registers=16))


def store(**counts: float) -> Batch:
    """One candidate with one store that has these features, given before their logarithm."""
    row = np.zeros(len(NAMES), np.float32)
    for name, count in counts.items():
        row[NAMES.index(name.replace("__", "."))] = np.log2(1 + count)
    return row[None, None, :]


def cycles(**counts: float) -> float:
    return float(RooflineModel(TARGET).cycles(store(**counts))[0, 0])


def timed(**counts: float) -> float:
    return cycles(core__timed=1, **counts)


ADDS = {"float_addsub": 16e6, "outer_prod": 16e6}


def test_phases_that_run_ahead_cost_nothing() -> None:
    assert cycles(**ADDS, core__steps=1e6) == pytest.approx(1.0)
    assert timed(**ADDS, core__steps=1e6) == pytest.approx(1e6, rel=1e-4)


def test_arithmetic_counts_executed_vectors() -> None:
    scalar, full = timed(**ADDS, core__steps=16e6), timed(**ADDS, core__steps=1e6)
    assert scalar == pytest.approx(16 * full, rel=1e-4)
    # Ragged: every other vector is half empty.
    assert timed(**ADDS, core__steps=1.5e6) == pytest.approx(1.5 * full, rel=1e-4)


def test_cores_share_work_in_whole_tasks() -> None:
    alone = timed(**ADDS, core__steps=1e6)
    assert timed(**ADDS, core__steps=1e6, parallel_prod=4) == pytest.approx(alone / 4, rel=1e-2)
    assert timed(**ADDS, core__steps=1e6, parallel_prod=5) == pytest.approx(alone / 2.5, rel=1e-2)
    many = timed(**ADDS, core__steps=1e6, parallel_prod=1e6)
    assert many > alone  # handing out tiny tasks costs more than the work


def test_few_cores_saturate_the_bandwidth_beyond_l2() -> None:
    stream = timed(core__past_l2_bytes=1e9)
    assert stream > 20 * timed(core__past_l2_bytes=1e9 / 26)
    two, four = (timed(core__past_l2_bytes=1e9, parallel_prod=n) for n in (2, 4))
    assert stream / 2 == pytest.approx(two, rel=1e-2)
    assert two == pytest.approx(four, rel=1e-2)


def test_each_restart_of_a_walk_beyond_l2_waits_for_memory() -> None:
    stream = timed(core__past_l2_bytes=64e6)
    broken = timed(core__past_l2_bytes=64e6, core__past_l2_waits=64e6 / 4096)
    assert broken > 1.5 * stream


def test_a_single_accumulator_has_the_latency_of_its_chain() -> None:
    sums = {"float_mad": 16e6, "outer_prod": 16e6, "core__steps": 1e6}
    alone = RooflineModel(TARGET).cycles(accumulating(**sums, core__chains=1))[0, 0]
    eight = RooflineModel(TARGET).cycles(accumulating(**sums, core__chains=8))[0, 0]
    assert alone > 2.5 * eight
    assert timed(**sums, core__chains=1) == pytest.approx(1e6, rel=1e-3)  # no reduction


def test_two_short_vectors_at_once_need_more_accumulators() -> None:
    """A core with AVX2 starts two multiply-adds per cycle; each of them takes four cycles."""
    short = replace(TARGET, vector_bits=256, registers=16)
    assert (rates_of(short), rates_of(TARGET)) == (SHORT_VECTORS, LONG_VECTORS)
    sums = {"float_mad": 16e6, "outer_prod": 16e6, "core__steps": 1e6}
    ratios = []
    for target in (TARGET, short):
        model = RooflineModel(target)
        four, twelve = (
            model.cycles(accumulating(**sums, core__chains=chains))[0, 0] for chains in (4, 12)
        )
        ratios.append(four / twelve)
    assert ratios[1] > 1.15 * ratios[0]


def accumulating(**counts: float) -> Batch:
    batch = store(core__timed=1, **counts)
    batch[:, :, NAMES.index("B0.access_type.read_write")] = 1
    return batch


def test_gathers_cost_more_than_loads_and_broadcasts_less() -> None:
    loads, gathers, broadcasts = (
        timed(**{f"core__{kind}": 1e6}) for kind in ("loads", "gathers", "broadcasts")
    )
    assert broadcasts < loads < gathers / 3


def test_accumulators_that_do_not_fit_are_spilt() -> None:
    few = timed(core__tiles=1e6, core__registers=30, core__chains=24)
    many = timed(core__tiles=1e6, core__registers=40, core__chains=34)
    assert many > 4 * few


def test_close_limits_add_up_and_distant_limits_overlap() -> None:
    work = {**ADDS, "core__steps": 1e6}
    alone = timed(**work)
    assert timed(**work, core__loads=1e5) == pytest.approx(alone, rel=1e-2)
    assert timed(**work, core__loads=1e6) == pytest.approx(alone * 2 ** (1 / 3), rel=1e-2)


def test_the_roofline_ranks_a_register_tile_before_single_vectors() -> None:
    plan = tiled_plan(512)
    good = {"C.i.2": 4, "C.i.3": 4, "C.j.2": 2, "C.j.3": 32, "C.k.1": 16, "C.unroll": 64}
    tiny = {"C.j.3": 16}
    rows = [[row.get(size.name, 1) for size in plan.sizes] for row in (good, tiny)]
    (scores,) = RooflineModel(TARGET).predict(
        [extract(plan, np.array(rows, dtype=np.int64), TARGET)]
    )
    assert scores[0] > 1.5 * scores[1]
