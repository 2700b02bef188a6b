"""Counts of a warp that is followed through machine code written by hand."""

from typing import Final

import pytest

from benchmarks.cuda.warp import UnknownError, follow

HEAD: Final = ".text.k:\n"
LOOP: Final = (
    "S2R R0, SR_TID.X ;",
    "IMAD.SHL.U32 R1, R0, {stride}, RZ ;",
    "CS2R R4, SRZ ;",
    ".L_x_0:",
    "LDS R2, [R1+0x4] ;",
    "FFMA R3, R2, R2, R3 ;",
    "IADD3 R4, P0, R4, 0x1, RZ ;",
    "IMAD.X R5, RZ, RZ, R5, P0 ;",
    "ISETP.GE.U32.AND P1, PT, R4, {trips}, PT ;",
    "ISETP.GE.AND.EX P1, PT, R5, RZ, PT, P1 ;",
    "@!P1 BRA `(.L_x_0) ;",
    "EXIT ;",
)


def sass(lines: tuple[str, ...], **values: str) -> str:
    text = [
        one if one.startswith(".L") else f"        /*{16 * at:04x}*/                   {one}"
        for at, one in enumerate(lines)
    ]
    return HEAD + "\n".join(text).format(**values)


@pytest.mark.parametrize(("stride", "waves"), [("0x4", 1), ("0x8", 2), ("0x80", 32)])
def test_a_loop_is_followed_to_its_end_and_conflicts_of_banks_are_counted(
    stride: str, waves: int
) -> None:
    found = follow(sass(LOOP, stride=stride, trips="0x7"), "k", 32, 0)
    assert (found.multiply_adds, found.shared_waves) == (7, 7 * waves)
    assert (found.instructions, found.sectors) == (3 + 7 * 7 + 1, 0)


def test_a_loop_over_loaded_data_is_unknown() -> None:
    with pytest.raises(UnknownError, match="depends on data"):
        follow(sass(LOOP, stride="0x4", trips="R2"), "k", 32, 0)


@pytest.mark.parametrize(("block", "steps"), [(0, 4), (3, 5)])
def test_a_forward_branch_is_taken_by_the_number_of_the_block(block: int, steps: int) -> None:
    lines = (
        "S2R R0, SR_CTAID.X ;", "ISETP.NE.AND P0, PT, R0, RZ, PT ;", "@!P0 BRA `(.L_x_1) ;",
        "FADD R1, R1, R1 ;", ".L_x_1:", "EXIT ;",
    )  # fmt: skip
    assert follow(sass(lines), "k", 32, block).instructions == steps


def test_sectors_of_a_warp_are_distinct() -> None:
    lines = (
        "S2R R0, SR_TID.X ;", "LDC.64 R2, c[0x0][0x210] ;", "IMAD.WIDE.U32 R2, R0, 0x8, R2 ;",
        "LDG.E.CONSTANT R4, desc[UR4][R2.64+0x20] ;", "EXIT ;",
    )  # fmt: skip
    assert follow(sass(lines), "k", 32, 0).sectors == 8


def test_an_asynchronous_copy_is_a_load_and_a_store() -> None:
    lines = (
        "S2R R0, SR_TID.X ;", "LDC.64 R2, c[0x0][0x210] ;", "IMAD.WIDE.U32 R2, R0, 0x4, R2 ;",
        "IMAD.SHL.U32 R1, R0, 0x8, RZ ;", "LDGSTS.E [R1], [R2.64] ;", "EXIT ;",
    )  # fmt: skip
    found = follow(sass(lines), "k", 32, 0)
    assert (found.sectors, found.shared_waves) == (4, 2)


def test_a_carry_of_a_wide_product_is_kept_apart() -> None:
    lines = (
        "S2R R0, SR_CTAID.X ;", "IMAD.WIDE.U32 R2, P0, R0, 0x4, RZ ;",
        "IMAD.WIDE.U32.X R4, R0, 0x4, R2, P0 ;", "ISETP.NE.AND P1, PT, R4, 0x18, PT ;",
        "@!P1 BRA `(.L_x_1) ;", "FADD R1, R1, R1 ;", ".L_x_1:", "EXIT ;",
    )  # fmt: skip
    assert follow(sass(lines), "k", 32, 3).instructions == 6


@pytest.mark.parametrize(("last", "span"), [("R4", 3 + 4), ("R1", 1 + 3 * 4)])
def test_an_instruction_waits_for_its_operands(last: str, span: int) -> None:
    """Three additions in a row, or beside each other; each takes four clocks."""
    lines = ("FADD R1, R0, R0 ;", "FADD R2, {last}, R0 ;", "FADD R3, {other}, R0 ;", "EXIT ;")
    other = "R2" if last == "R1" else "R4"
    assert follow(sass(lines, last=last, other=other), "k", 32, 0).span == span


@pytest.mark.parametrize(("kind", "last"), [("LEA.HI", "0xf"), ("LEA.HI.SX32", "0xffffffff")])
def test_a_high_word_that_is_left_out_is_nothing_or_the_sign(kind: str, last: str) -> None:
    lines = (
        "MOV R0, 0xf0000000 ;", f"{kind} R1, R0, RZ, 0x4 ;",
        f"ISETP.NE.AND P0, PT, R1, {last}, PT ;", "@!P0 BRA `(.L_x_1) ;",
        "FADD R1, R1, R1 ;", ".L_x_1:", "EXIT ;",
    )  # fmt: skip
    assert follow(sass(lines), "k", 32, 0).instructions == 5


def test_an_access_of_no_thread_takes_no_wave() -> None:
    lines = (
        "S2R R0, SR_TID.X ;", "ISETP.GT.AND P0, PT, R0, 0x40, PT ;", "@P0 STS [R0], R1 ;", "EXIT ;",
    )  # fmt: skip
    assert follow(sass(lines), "k", 32, 0).shared_waves == 0
