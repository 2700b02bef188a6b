from pathlib import Path

import llvmlite.binding as llvm
import pytest

from ansorpy.measure import host as measure_host
from ansorpy.measure.host import Host, cache_bytes, local_target, vector_bits


def host(*features: str) -> Host:
    return Host("any", features, 48 << 10, 2 << 20, 32 << 20, frozenset({0}))


@pytest.mark.parametrize(
    ("features", "bits", "registers"),
    [(("avx2", "avx512f"), 512, 32), (("avx2",), 256, 16), (("sse2",), 128, 16)],
)
def test_the_width_follows_the_features(
    features: tuple[str, ...], bits: int, registers: int
) -> None:
    target = local_target(2, host(*features))
    assert (target.vector_bits, target.registers, target.cores) == (bits, registers, 2)
    assert vector_bits(target.features) == bits


def test_caches_come_from_the_kernel_or_the_default(tmp_path: Path) -> None:
    for name, kind, level, size in (("0", "Data", 1, "48K"), ("1", "Instruction", 1, "32K")):
        folder = tmp_path / f"index{name}"
        folder.mkdir()
        for file, text in (("type", kind), ("level", str(level)), ("size", size)):
            (folder / file).write_text(text + "\n")
    assert cache_bytes(tmp_path, 1, 7) == 48 << 10
    assert cache_bytes(tmp_path, 2, 7) == 7
    assert cache_bytes(tmp_path / "none", 1, 7) == 7


def test_matrix_registers_count_only_if_the_system_permits_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    there = {"amx-tile": True, "amx-int8": True, "avx512f": True, "avx2": False}
    monkeypatch.setattr(llvm, "get_host_cpu_features", lambda: there)
    monkeypatch.setattr(measure_host, "has_matrices", lambda: True)
    assert measure_host.local_host().features == ("amx-int8", "amx-tile", "avx512f")
    monkeypatch.setattr(measure_host, "has_matrices", lambda: False)
    assert measure_host.local_host().features == ("avx512f",)


def test_this_machine_has_a_target() -> None:
    target = local_target()
    assert target.features
    assert target.l2_bytes >= target.l1_bytes
