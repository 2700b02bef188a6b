"""Records of earlier versions: texts that only the digest of the SIMD compiler tells apart."""

from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

import ansorpy
from ansorpy.codegen.simd_file import simd_version
from ansorpy.codegen.version import EARLIER_COMPILERS
from ansorpy.records import MemoryStore
from ansorpy.tuner.race import cpu_form

MM = "def mm(float(8,16) A, float(16,8) B) -> (C) { C(i,j) +=! A(i,k) * B(k,j) }"


def test_a_change_of_the_simd_compiler_is_noted() -> None:
    """Add the earlier digest to EARLIER_COMPILERS, or raise a version of the code."""
    assert simd_version() == "974f1773b97051a8"
    assert simd_version() not in EARLIER_COMPILERS


def test_a_text_is_known_by_the_compilers_that_made_the_same_machine_code() -> None:
    text = f"# simd.py beside it (SIMD compiler {simd_version()}).\nx = 1\n"
    texts = [text, *(text.replace(simd_version(), earlier) for earlier in EARLIER_COMPILERS)]
    digests = list(cpu_form.raced_digests(text))
    assert digests == [sha256(each.encode()).hexdigest() for each in texts]


@pytest.mark.slow
@pytest.mark.usefixtures("few_candidates")
def test_records_of_an_earlier_compiler_answer_if_it_made_the_same_code(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = MemoryStore()
    told: dict[str, Any] = {"trials": 4, "cores": 1, "store": store, "progress": False}
    (first,) = ansorpy.tune(MM, out=tmp_path / "a", **told).tasks
    assert not first.from_store
    earlier = "0123456789abcdef"
    monkeypatch.setattr("ansorpy.codegen.numba_source.simd_version", lambda: earlier)
    monkeypatch.setattr(cpu_form, "simd_version", lambda: earlier)
    for known in ((simd_version(),), ()):
        monkeypatch.setattr(cpu_form, "EARLIER_COMPILERS", known)
        (again,) = ansorpy.tune(MM, out=tmp_path / "b", **told).tasks
        assert again.from_store is bool(known)
