import numpy as np
import pytest

from ansorpy.cost.model import Batch, CostModel
from ansorpy.cost.roofline import RooflineModel
from ansorpy.features import NAMES, extract
from ansorpy.target import Target
from tests.cost.contract import CostModelContract
from tests.features.hand import tiled_plan

TARGET = Target(cores=4, vector_bits=512)


class TestRooflineModel(CostModelContract):
    def make(self) -> CostModel:
        return RooflineModel(TARGET)


def store(**counts: float) -> Batch:
    """One candidate with one store that has these features, given before their logarithm."""
    row = np.zeros(len(NAMES), np.float32)
    for name, count in counts.items():
        row[NAMES.index(name.replace("__", "."))] = np.log2(1 + count)
    return row[None, None, :]


def cycles(**counts: float) -> float:
    return float(RooflineModel(TARGET).cycles(store(**counts))[0, 0])


WORK = {"float_mul": 1e9, "outer_prod": 1e9}


def test_full_vectors_are_as_many_times_faster_as_they_have_lanes() -> None:
    scalar = cycles(**WORK)
    assert scalar == pytest.approx(0.75e9, rel=1e-4)
    assert cycles(**WORK, vec_len=16) == pytest.approx(scalar / 16, rel=1e-4)
    # 17 elements are two vectors, the second nearly empty.
    assert cycles(**WORK, vec_len=17) == pytest.approx(scalar / 8.5, rel=1e-4)


def test_cores_share_work_in_whole_tasks() -> None:
    alone = cycles(**WORK)
    assert cycles(**WORK, parallel_prod=64) == pytest.approx(alone / 4, rel=1e-3)
    assert cycles(**WORK, parallel_prod=5) == pytest.approx(alone / 2.5, rel=1e-3)
    many = cycles(**WORK, parallel_prod=1e8)
    assert many > alone  # handing out tiny tasks costs more than the work


def test_memory_bounds_what_does_little_arithmetic() -> None:
    stream = {"B0__bytes": 1e9, "B0__lines": 1e9 / 64, "B0__unique_lines": 1e9 / 64}
    light = {"float_addsub": 1e6, "outer_prod": 1e6}
    bound = cycles(**light, **stream)
    assert bound == pytest.approx(1e9 / 4, rel=1e-3)
    assert cycles(**light, **stream, parallel_prod=4) == pytest.approx(bound, rel=1e-3)


def test_reuse_in_cache_and_registers_saves_traffic() -> None:
    base = {"B0__bytes": 1e9, "B0__lines": 1e9 / 64, "B0__unique_lines": 1e3, "vec_len": 16.0}
    far = cycles(**base, B0__reuse_ct=8, B0__reuse_dis_bytes=1e9, B0__reuse_dis_iter=1e8,
                 B0__unique_bytes=1e9)  # fmt: skip
    near = cycles(**base, B0__reuse_ct=8, B0__reuse_dis_bytes=1e4, B0__reuse_dis_iter=1e3)
    held = cycles(**base, B0__reuse_ct=8, B0__reuse_dis_bytes=1e2, B0__reuse_dis_iter=16)
    assert held < near < far


def test_it_ranks_real_tilings_sensibly() -> None:
    plan = tiled_plan(512)
    good = {"C.i.2": 4, "C.i.3": 4, "C.j.2": 2, "C.j.3": 32, "C.k.1": 16, "C.unroll": 64}
    tiny = {"C.j.3": 16}
    rows = [[row.get(size.name, 1) for size in plan.sizes] for row in (good, tiny)]
    (scores,) = RooflineModel(TARGET).predict(
        [extract(plan, np.array(rows, dtype=np.int64), TARGET)]
    )
    assert scores[0] > 1.5 * scores[1]


def test_one_accumulator_waits_for_itself() -> None:
    chain = {"float_mad": 1e9, "outer_prod": 1e9, "vec_len": 16.0}
    alone, eight = cycles(**chain), cycles(**chain, unroll_prod=8)
    assert alone == pytest.approx(4e9 / 16, rel=1e-4)  # 4 cycles for each vector
    assert eight == pytest.approx(0.75e9 / 16, rel=1e-4)  # enough of them to fill the wait


def test_lanes_that_lie_apart_cost_a_slot_each() -> None:
    read = {"vec_len": 16.0, "B0__bytes": 1e9, "outer_prod": 1.0}
    assert cycles(**read, B0__stride=512) == pytest.approx(8 * cycles(**read), rel=1e-3)
