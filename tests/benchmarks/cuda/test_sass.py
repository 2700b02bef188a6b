"""Loops and counts of SASS, in texts of the form that nvdisasm prints."""

from benchmarks.cuda.sass import Counts, parse_sass

TEXT = """
//--------------------- .text.phase0 --------------------------
        .section        .text.phase0,"ax",@progbits
phase0:
.text.phase0:
        /*0000*/                   LDC R1, c[0x0][0x28] ;
        /*0010*/                   LDG.E.128.CONSTANT R12, desc[UR4][R2.64] ;
.L_x_0:
        /*0020*/                   LDG.E R3, desc[UR4][R4.64] ;
        /*0030*/                   LDG.E.64 R6, desc[UR4][R4.64] ;
        /*0040*/                   FADD R3, R3, R6 ;
        /*0050*/              @!P0 BRA `(.L_x_0) ;
        /*0060*/                   BAR.SYNC.DEFER_BLOCKING 0x0 ;
.L_x_1:
        /*0070*/                   LDS.128 R24, [R98] ;
        /*0080*/                   FFMA R8, R24, R25, R8 ;
        /*0090*/                   FFMA R9, R26, R27.reuse, R9 ;
        /*00a0*/              @P1  STL [R1+0x4], R9 ;
        /*00b0*/               @P0 BRA `(.L_x_2) ;
        /*00c0*/                   BRA `(.L_x_1) ;
.L_x_2:
        /*00d0*/                   EXIT ;
.L_x_3:
        /*00e0*/                   BRA `(.L_x_3);
        /*00f0*/                   NOP;
.text.phase1:
        /*0000*/                   EXIT ;
.L_x_4:
        /*0010*/                   BRA `(.L_x_4);
"""


def test_the_loop_with_the_most_multiply_adds_is_the_main_loop() -> None:
    first, second = parse_sass(TEXT)
    assert (first.kernel, second.kernel) == ("phase0", "phase1")
    assert [loop.total for loop in first.loops] == [6, 4]
    assert first.main["FFMA"] == 2
    assert first.main.share("FFMA") == 2 / 6
    assert first.main["LDS"] == first.main.local_accesses == 1
    assert (first.main["BAR"], first.all["BAR"]) == (0, 1)


def test_products_on_matrices_count_more_than_a_scalar_tail() -> None:
    kernel = """
.text.phase0:
.L_x_0:
        /*0000*/                   HMMA.16816.F32.BF16 R4, R8, R12, R4 ;
        /*0010*/                   LDSM.16.M88.4 R8, [R2] ;
        /*0020*/              @!P0 BRA `(.L_x_0) ;
.L_x_1:
        /*0030*/                   FFMA R8, R24, R25, R8 ;
        /*0040*/                   FFMA R9, R24, R25, R9 ;
        /*0050*/              @!P0 BRA `(.L_x_1) ;
"""
    (found,) = parse_sass(kernel)
    assert (found.main["HMMA"], found.main["FFMA"]) == (1, 0)


def test_a_branch_to_itself_is_no_loop() -> None:
    second = parse_sass(TEXT)[1]
    assert second.loops == ()
    assert second.main == second.all
    assert second.main.total == 2


def test_nothing_has_no_share() -> None:
    assert Counts(()).share("FFMA") == 0.0
    assert parse_sass("") == ()
