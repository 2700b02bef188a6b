"""LLVM text to PTX: no GPU and no program of NVIDIA takes part."""

import re

import pytest

from ansorpy.codegen.simt.ptx import ptx
from ansorpy.errors import BuildError
from ansorpy.gpus import PRESETS
from tests.codegen.simt.texts import SQUARES, row_products


@pytest.mark.parametrize("arch", PRESETS)
def test_ptx_has_the_kernel_of_the_text_for_its_architecture(arch: str) -> None:
    found = ptx(SQUARES, arch)
    assert f".target {arch}\n" in found
    assert ".version 8.6\n" in found
    assert re.findall(r"\.visible \.entry (\w+)\(", found) == ["phase0"]
    assert found.count("fma.rn.f32") == 1
    assert (found.count("ld.global"), found.count("st.global")) == (2, 1)


def test_shared_memory_widths_and_barriers_reach_the_ptx() -> None:
    found = ptx(row_products(4, 2).texts[0], "sm_90")
    assert ".shared .align 16 .b8 S[256];" in found
    assert "ld.global.v4" in found
    assert found.count("barrier.sync") + found.count("bar.sync") == 2


def test_llvm_moves_loads_of_noalias_buffers_across_barriers() -> None:
    """The reason why the writer says `noalias` of buffers only that no thread writes."""
    stored = SQUARES.replace(
        "  ret void",
        """  call void @llvm.nvvm.barrier.cta.sync.aligned.all(i32 0)
  %again = load float, ptr addrspace(1) %to
  store float %again, ptr addrspace(1) %from
  ret void""",
    )
    one, other = ptx(stored, "sm_90"), ptx(stored.replace("noalias %y", "%y"), "sm_90")
    loads = [text[text.index("bar.sync") :].count("ld.global") for text in (one, other)]
    assert loads == [0, 1]


def test_text_that_llvm_cannot_read_is_refused() -> None:
    with pytest.raises(BuildError, match="cannot compile for sm_90 because LLVM refused the text"):
        ptx("define void @k( {", "sm_90")


def test_a_function_without_a_definition_is_refused() -> None:
    text = SQUARES + "declare float @tanhf(float)\n"
    with pytest.raises(BuildError, match="for sm_80 because tanhf has no definition; expected"):
        ptx(text, "sm_80")
