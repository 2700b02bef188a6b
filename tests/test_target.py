"""Types, names, facts and digests of targets, and the presets of GPUs."""

import copy
import json
import pickle
from dataclasses import asdict, fields, replace
from typing import Any

import pytest

import ansorpy
from ansorpy.errors import SpecError
from ansorpy.gpus import PRESETS, Gpu
from ansorpy.records import target_digest, task_key
from ansorpy.target import CpuTarget, GpuTarget, Target, cuda_target, expected, parse_target

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


# Facts in JSON, as records of earlier versions have them: all names, in one order.
CPU_JSON = (
    '{"kind": "cpu", "cores": 2, "vector_bits": 256, "registers": 16, "l1_bytes": 49152,'
    ' "l2_bytes": 2097152, "l3_bytes": 16777216, "features": ["avx2", "fma"], "cpu": "haswell",'
    ' "warp": 32, "max_threads": 1024, "shared_bytes": 49152, "gpu": null}'
)
GPU_JSON = (
    '{{"kind": "cuda", "cores": {}, "vector_bits": 4096, "registers": 64, "l1_bytes": 32768,'
    ' "l2_bytes": 49152, "l3_bytes": 16777216, "features": [], "cpu": "{}", "warp": 32,'
    ' "max_threads": 1024, "shared_bytes": 49152, "gpu": {}}}'
)


def test_the_facts_of_a_target_keep_their_json() -> None:
    assert json.dumps(AVX2.facts()) == CPU_JSON
    for arch, gpu in PRESETS.items():
        told = json.dumps(cuda_target(arch).facts())
        assert told == GPU_JSON.format(gpu.sms, arch, json.dumps(asdict(gpu)))


@pytest.mark.parametrize(
    ("target", "digest"),
    [
        (cuda_target("sm_80"), "63b37e8e18378cfb"),
        (cuda_target("sm_90"), "0381d3e127e348dd"),
        (Target("cuda"), "86fefeb54b5d2678"),
    ],
)
def test_digests_of_gpus_are_those_of_earlier_records(target: Target, digest: str) -> None:
    assert target_digest(target) == digest


EVERY = [Target(), AVX2, Target("cuda"), *map(cuda_target, PRESETS), ansorpy.local_target()]


@pytest.mark.parametrize("target", EVERY, ids=lambda one: one.names[-1])
def test_a_target_is_read_back_from_its_facts_and_copies(target: Target) -> None:
    told = json.loads(json.dumps(target.facts()))
    assert Target.of_facts({**told, "of_a_later_version": 1}) == target
    assert copy.deepcopy(target) == pickle.loads(pickle.dumps(target)) == target
    assert isinstance(target, ansorpy.Target)


def test_missing_facts_have_defaults() -> None:
    assert Target.of_facts({}) == CpuTarget()
    assert Target.of_facts({"kind": "cuda", "cpu": "sm_90"}) == GpuTarget(cpu="sm_90")


def test_a_target_is_made_of_the_type_for_its_kind() -> None:
    assert ansorpy.Target("cpu", 4, vector_bits=256) == CpuTarget(cores=4, vector_bits=256)
    assert ansorpy.Target(kind="cuda", cpu="sm_90") == GpuTarget(cpu="sm_90")
    assert isinstance(ansorpy.Target(), CpuTarget)
    assert replace(ansorpy.Target(), cores=3) == CpuTarget(cores=3)


@pytest.mark.parametrize(
    ("positional", "named", "message"),
    [
        ((), {"gpu": PRESETS["sm_90"]}, "cannot make a CpuTarget of gpu because its facts have"),
        (("cuda",), {"l2_bytes": 1}, "cannot make a GpuTarget of l2_bytes because its facts have"),
        (("cpu", 1, 256), {}, "cannot make a CpuTarget of 256 because its facts have"),
    ],
)
def test_facts_of_the_other_type_are_refused_with_those_of_this_one(
    positional: tuple[Any, ...], named: dict[str, Any], message: str
) -> None:
    with pytest.raises(TypeError) as refused:
        Target(*positional, **named)
    names = [one.name for one in fields(GpuTarget if positional == ("cuda",) else CpuTarget)]
    assert str(refused.value).startswith(message)
    assert all(f"{name}=" in str(refused.value) for name in names[2:])


def test_a_type_has_one_kind() -> None:
    other: Any = "cuda"
    with pytest.raises(TypeError, match="cannot make a CpuTarget of kind 'cuda'"):
        replace(CpuTarget(), kind=other)


def test_a_target_of_the_other_type_is_refused() -> None:
    with pytest.raises(TypeError, match=r"^cannot use target cuda:sm_90; expected a CpuTarget$"):
        expected(cuda_target("sm_90"), CpuTarget)
