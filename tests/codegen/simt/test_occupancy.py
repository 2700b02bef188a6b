"""Blocks of an SM: cases of NVIDIA's occupancy calculator, and monotonicity."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansorpy.codegen.simt.occupancy import occupancy
from ansorpy.gpus import PRESETS, Gpu

H100, A100 = PRESETS["sm_90"], PRESETS["sm_80"]


@pytest.mark.parametrize(
    ("threads", "registers", "shared_bytes", "blocks", "bound_by"),
    [
        (256, 32, 0, 8, "registers"),  # 65536 registers and 2048 threads are used up at once
        (256, 128, 16640, 2, "registers"),
        (256, 129, 0, 1, "registers"),  # 136 in steps of 8: 3 warps of each scheduler
        (32, 16, 0, 32, "blocks"),
        (1024, 32, 0, 2, "registers"),
        (1024, 16, 0, 2, "threads"),
        (128, 32, 100 * 1024, 2, "shared"),
        (128, 32, 227 * 1024, 1, "shared"),
        (128, 32, 227 * 1024 + 1, 0, "shared"),
        (1024, 65, 0, 0, "registers"),
        (1025, 16, 0, 0, "threads"),
    ],
)
def test_blocks_of_an_h100(
    threads: int, registers: int, shared_bytes: int, blocks: int, bound_by: str
) -> None:
    found = occupancy(H100, threads, registers, shared_bytes)
    assert (found.blocks_per_sm, found.bound_by) == (blocks, bound_by)
    assert found.warps_per_sm == blocks * -(-threads // 32)


def test_an_a100_has_less_shared_memory() -> None:
    assert occupancy(A100, 128, 32, 60 * 1024).blocks_per_sm == 2
    assert occupancy(H100, 128, 32, 60 * 1024).blocks_per_sm == 3


@given(
    st.sampled_from([A100, H100]), st.integers(1, 1024), st.integers(1, 255),
    st.integers(0, 232448), st.integers(0, 64), st.integers(0, 4096),
)  # fmt: skip
def test_more_of_a_resource_never_fits_more_blocks(
    gpu: Gpu, threads: int, registers: int, shared: int, some: int, bytes_more: int
) -> None:
    one = occupancy(gpu, threads, registers, shared)
    for other in (
        occupancy(gpu, threads, registers + some, shared),
        occupancy(gpu, threads, registers, shared + bytes_more),
        occupancy(gpu, threads + some, registers, shared),
    ):
        assert other.blocks_per_sm <= one.blocks_per_sm
    assert one.share <= 1.0
    assert one.blocks_per_sm * registers * threads <= gpu.registers_per_sm


def test_no_registers_or_threads_are_a_mistake() -> None:
    with pytest.raises(ValueError, match="a block of 0 threads with 8 registers each"):
        occupancy(H100, 0, 8, 0)
