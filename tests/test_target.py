"""Names and digests of targets, and the presets of GPUs."""

from dataclasses import fields, replace

import pytest

from ansorpy.errors import SpecError
from ansorpy.gpus import PRESETS, Gpu
from ansorpy.records import target_digest, task_key
from ansorpy.target import Target, cuda_target, parse_target

AVX2 = Target(
    vector_bits=256, registers=16, l1_bytes=49152, l2_bytes=2 << 20, features=("avx2", "fma"),
    cores=2, cpu="haswell",
)  # fmt: skip


@pytest.mark.parametrize(
    ("target", "digest"),
    [
        (Target(), "350259657961fdd8"),
        (AVX2, "d2964f46cf837a87"),
        (Target(vector_bits=128, features=("neon",)), "0200122feb3dfc4c"),
    ],
)
def test_digests_of_cpus_are_those_of_earlier_records(target: Target, digest: str) -> None:
    assert target_digest(target) == digest


# `bf16_per_clock` follows from the architecture, which counts.
FACTS = [field.name for field in fields(Gpu) if field.name != "bf16_per_clock"]


@pytest.mark.parametrize("fact", FACTS)
def test_every_fact_of_a_gpu_counts_in_its_digest(fact: str) -> None:
    target = cuda_target("sm_90")
    assert target.gpu is not None
    other = replace(target.gpu, **{fact: getattr(target.gpu, fact) + 1})
    assert target_digest(replace(target, gpu=other)) != target_digest(target)


def test_gpus_share_no_records() -> None:
    t4 = replace(cuda_target("sm_80"), cpu="sm_75")  # the architecture alone is a difference
    targets = [*map(cuda_target, PRESETS), t4, Target("cuda")]
    assert len({task_key("00" * 32, target) for target in targets}) == len(targets)
    assert len({target_digest(target) for target in targets}) == len(targets)


@pytest.mark.parametrize(("arch", "peak_tflop_per_s"), [("sm_80", 19.5), ("sm_90", 66.9)])
def test_presets_have_the_peak_of_their_data_sheet(arch: str, peak_tflop_per_s: float) -> None:
    assert PRESETS[arch].peak_flop_per_s == pytest.approx(peak_tflop_per_s * 1e12, rel=2e-3)


@pytest.mark.parametrize("arch", PRESETS)
def test_a_preset_is_found_by_the_name_of_its_target(arch: str) -> None:
    target = cuda_target(arch)
    assert target.names == ("cuda", f"cuda:{arch}")
    assert cuda_target(parse_target(target.names[1], ()).arch) == target
    assert target.gpu == PRESETS[arch]


@pytest.mark.parametrize(
    ("arch", "message"),
    [
        ("", "cannot use target cuda because no architecture is named; expected"),
        ("sm_70", "cannot use target cuda:sm_70 because sm_70 has no preset; expected"),
    ],
)
def test_other_architectures_are_refused_with_the_known_ones(arch: str, message: str) -> None:
    with pytest.raises(SpecError) as refused:
        cuda_target(arch)
    assert str(refused.value) == f"{message} cuda:sm_80 or cuda:sm_90"


def test_a_cpu_has_no_gpu() -> None:
    with pytest.raises(ValueError, match="a target of kind 'cpu' has no GPU"):
        Target(gpu=PRESETS["sm_90"])
