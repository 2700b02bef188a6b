"""The analytic model of a GPU: cases computed by hand, and its monotonicity."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansorpy.cost.simt import LAUNCH_S, LaunchFacts, Parts, estimate, seconds
from ansorpy.gpus import PRESETS, Gpu

H100, A100 = PRESETS["sm_90"], PRESETS["sm_80"]
# 256 threads with 128 registers: two blocks, 16 warps per SM.
TILE = LaunchFacts(
    blocks=264, threads=256, registers=128, shared_bytes=16640, instructions=50_000,
    multiply_adds=45_000, shared_waves=8_000, sectors=1_000, memory_bytes=10_000_000,
    stall_clocks=2_000,
)  # fmt: skip


def parts(facts: LaunchFacts) -> Parts:
    found = estimate(facts, H100)
    assert found is not None
    return found


def test_a_compute_bound_launch_takes_its_issue_slots() -> None:
    found = parts(TILE)
    # Two blocks per SM, four warp instructions per clock, 1980 MHz.
    assert found.issue_s == pytest.approx(2 * 50_000 / 4 / 1.98e9)
    assert found.multiply_add_s == pytest.approx(2 * 45_000 / 4 / 1.98e9)
    assert found.shared_s == pytest.approx(2 * 8_000 / 1.98e9)
    assert found.l2_s == pytest.approx(2 * 1_000 * 32 / 64 / 1.98e9)
    assert found.memory_s == pytest.approx(10_000_000 / 3352e9)
    # One of eight warps of a block; both blocks run at once.
    assert found.latency_s == pytest.approx((50_000 / 8 + 2_000) / 1.98e9)
    assert (found.bound_by, found.seconds) == ("issue", LAUNCH_S + found.issue_s)


def test_an_sm_with_half_the_lanes_takes_twice_the_time_for_multiply_adds() -> None:
    found = estimate(replace(TILE, blocks=216), A100)
    assert found is not None
    assert found.multiply_add_s == pytest.approx(2 * 45_000 / 2 / 1.41e9)
    assert found.bound_by == "multiply_add"


def test_matrix_instructions_take_the_time_of_the_tensor_cores() -> None:
    found = parts(replace(TILE, multiply_adds=0, matrix_products=40_000))
    assert found.matrix_s == pytest.approx(2 * 40_000 * 2048 / 1280 / 1.98e9)
    assert (found.bound_by, found.multiply_add_s) == ("matrix", 0.0)


def test_a_copy_at_full_occupancy_takes_the_time_of_its_bytes() -> None:
    copy = LaunchFacts(132 * 8, 256, 32, 0, 100.0, 0.0, 0.0, 64.0, 1e9, 0.0)
    assert parts(copy).bound_by == "memory"
    assert parts(copy).seconds == pytest.approx(LAUNCH_S + 1e9 / 3352e9)


def test_one_block_more_than_a_whole_wave_costs_a_wave() -> None:
    whole, tail = parts(replace(TILE, blocks=264)), parts(replace(TILE, blocks=265))
    assert tail.issue_s == pytest.approx(1.5 * whole.issue_s)


def test_few_warps_are_bound_by_the_time_of_one() -> None:
    small = LaunchFacts(132, 32, 32, 0, 1000.0, 0.0, 0.0, 0.0, 0.0, 3000.0)
    assert parts(small).bound_by == "latency"
    assert parts(small).seconds == pytest.approx(LAUNCH_S + 4000 / 1.98e9)


def test_a_warp_per_scheduler_without_stalls_issues_at_the_full_rate() -> None:
    alone = replace(TILE, threads=128, stall_clocks=0)
    assert parts(replace(alone, blocks=132)).latency_s == pytest.approx(
        parts(replace(alone, blocks=132)).issue_s
    )


def test_blocks_that_do_not_fit_together_wait_for_each_other() -> None:
    waiting = replace(TILE, blocks=3 * 132, stall_clocks=1e6)
    assert parts(waiting).latency_s == pytest.approx(2 * (50_000 / 8 + 1e6) / 1.98e9)


def test_a_block_that_fits_no_sm_has_no_time() -> None:
    assert estimate(replace(TILE, shared_bytes=228 * 1024), H100) is None
    assert seconds([TILE, replace(TILE, registers=256)], H100) is None


def test_launches_follow_each_other() -> None:
    assert seconds([TILE, TILE], H100) == pytest.approx(2 * parts(TILE).seconds)
    assert seconds([], H100) == 0.0


@pytest.mark.parametrize("wrong", [{"blocks": 0}, {"sectors": -1}, {"multiply_adds": 60_000}])
def test_impossible_counts_are_refused(wrong: dict[str, int]) -> None:
    with pytest.raises(ValueError, match="a launch"):
        replace(TILE, **wrong)


COUNTS = st.floats(0, 1e9)


@given(
    st.sampled_from([H100, A100]), st.integers(1, 10_000), st.integers(1, 1024),
    st.integers(1, 255), st.integers(0, 160 * 1024), COUNTS, COUNTS, COUNTS, COUNTS,
    st.sampled_from([
        "registers", "shared_bytes", "instructions", "multiply_adds", "shared_waves", "sectors",
        "memory_bytes", "stall_clocks", "matrix_products",
    ]),
    st.integers(1, 100_000),
)  # fmt: skip
def test_more_work_or_resources_are_never_faster(
    gpu: Gpu, blocks: int, threads: int, registers: int, shared: int, issued: float,
    waves: float, sectors: float, moved: float, fact: str, more: int,
) -> None:  # fmt: skip
    one = LaunchFacts(
        blocks, threads, registers, shared, issued + 2e5, issued / 2, waves, sectors, moved, moved
    )
    other = replace(one, **{fact: getattr(one, fact) + more})
    before, after = estimate(one, gpu), estimate(other, gpu)
    if before is None:
        assert after is None
    elif after is not None:
        assert after.seconds >= before.seconds


@given(st.integers(1, 2000), st.integers(0, 200))
def test_more_blocks_of_the_same_work_are_never_faster(blocks: int, more: int) -> None:
    compute = replace(TILE, memory_bytes=0)
    before, after = (
        parts(replace(compute, blocks=blocks)),
        parts(replace(compute, blocks=blocks + more)),
    )
    assert after.seconds >= before.seconds * (1 - 1e-12)


@pytest.mark.parametrize(
    "fact", ["clock_hz", "memory_bytes_per_s", "ffma_per_clock", "bf16_per_clock"]
)
def test_a_faster_gpu_is_never_slower(fact: str) -> None:
    for facts in (TILE, replace(TILE, memory_bytes=1e9), replace(TILE, blocks=1)):
        faster = replace(H100, **{fact: 2 * getattr(H100, fact)})
        found = estimate(facts, faster)
        assert found is not None
        assert found.seconds <= parts(facts).seconds
