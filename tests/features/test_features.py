import numpy as np
import pytest

from ansorpy.errors import LoweringError
from ansorpy.expr.expr import Binary, Call, Expr, Select
from ansorpy.features import NAMES, core, extract, named
from ansorpy.features.compute import operations
from ansorpy.features.intensity import samples
from ansorpy.loopir.nodes import For, If, LoopKind, Scope, Seq, Stmt, Store, Tile
from ansorpy.plan.plan import Plan, Size
from ansorpy.population import sample
from ansorpy.state.state import State
from ansorpy.target import Target
from tests.features.hand import dag, golden_plan, tiled_plan
from tests.loopir.build import buffer, c, f32, loops, program, read, store, v

ZERO = f32(0.0)


def plan_of(body: Stmt, sizes: tuple[Size, ...] = (), **shapes: tuple[int, ...]) -> Plan:
    buffers = [
        buffer(name, *shape, scope=Scope.OUTPUT if name == "D" else Scope.INPUT)
        for name, shape in shapes.items()
    ]
    return Plan(State.naive(dag()), (), sizes, program(buffers, body))


def of_one(plan: Plan, *row: int) -> list[dict[str, float]]:
    """Features of one row by name, the logarithm taken back."""
    rows = np.array([row], np.int64).reshape(1, -1)
    stores = named(extract(plan, rows, Target())[0])
    return [{name: x if "type." in name else 2**x - 1 for name, x in one.items()} for one in stores]


def serial(var: str, extent: int) -> tuple[str, Expr, LoopKind]:
    return (var, c(extent), LoopKind.SERIAL)


def test_there_are_164_names_of_ansor_and_22_own_names() -> None:
    assert len(NAMES) == len(set(NAMES)) == 164 + len(core.NAMES) == 186


def test_matmul_has_the_values_of_ansors_own_test() -> None:
    plan = golden_plan()
    (found,) = named(extract(plan, np.array([[16, 8]]), Target())[0])
    log2 = np.log2
    assert found["B0.bytes"] == pytest.approx(log2(512**3 * 4 + 1))
    assert found["B2.unique_bytes"] == pytest.approx(log2(512**2 * 4 + 1))
    assert found["B0.reuse_dis_iter"] == pytest.approx(log2(8 * 16 + 1))
    assert found["B0.reuse_dis_bytes"] == pytest.approx(log2((8 * 16 + 8 + 16) * 4 + 1))
    assert found["B0.reuse_ct"] == pytest.approx(log2(512 + 1))
    assert found["unroll_num"] == pytest.approx(log2(2))
    assert found["vec_num"] == pytest.approx(log2(2))
    assert found["parallel_num"] == pytest.approx(log2(3))
    assert found["parallel_prod"] == pytest.approx(log2(512 * 512 / 16 / 8 + 1))


def test_the_rest_of_the_golden_matmul_is_as_derived_by_hand() -> None:
    (found,) = of_one(golden_plan(), 16, 8)
    assert found["float_mad"] == pytest.approx(512**3)
    assert found["B0.access_type.read_write"] == 1
    assert found["B0.stride"] == pytest.approx(512)  # i.1, innermost, walks down a column of C
    assert found["B2.stride"] == 0  # and does not move B
    assert found["B2.lines"] == pytest.approx(512**3 / 16 * 4 / 64, rel=1e-4)  # j.1 after 16 of i.1
    assert found["B1.lines"] == pytest.approx(512**3)
    assert found["B1.reuse_ct"] == pytest.approx(8)
    assert found["B2.reuse_dis_bytes"] == pytest.approx(3 * 4)
    assert found["arith_intensity_100pct"] == pytest.approx(2 * 512**3 / (3 * 512**2 * 4))
    assert found["unroll_type.inner_reduce"] == 1
    assert found["vec_type.middle_spatial"] == 1
    assert found["alloc_inner_prod"] == pytest.approx(512**3)
    assert found["num_loops"] == pytest.approx(5)


def test_a_matrix_of_rows_gives_the_features_of_each_row() -> None:
    plan = tiled_plan()
    rows = sample(plan, 40, np.random.default_rng(0))
    together = extract(plan, rows, Target())
    assert together.shape == (40, 3, len(NAMES))
    assert together.dtype == np.float32
    assert np.isfinite(together).all()
    for i in (0, 17, 39):
        assert (extract(plan, rows[i : i + 1], Target())[0] == together[i]).all()


def test_no_row_gives_an_empty_matrix() -> None:
    assert extract(tiled_plan(), np.zeros((0, 8), np.int64), Target()).shape == (0, 3, len(NAMES))


def test_the_relu_that_follows_shares_the_tile_with_the_matmul() -> None:
    row = (2, 4, 4, 2, 2, 32, 16, 64)
    init, update, relu = of_one(tiled_plan(), *row)
    tile_bytes = (4 * 4) * (2 * 32) * 4
    assert update["alloc_size"] == pytest.approx(tile_bytes, rel=1e-4)
    assert update["alloc_outer_prod"] == pytest.approx(512 * 512 * 4 / tile_bytes, rel=1e-4)
    assert relu["float_cmp"] == pytest.approx(512 * 512, rel=1e-4)
    assert relu["B1.reuse_type.serial_multiple_read_write"] == 1
    assert update["auto_unroll_max_step"] == pytest.approx(64, rel=1e-4)
    assert init["B0.access_type.write"] == 1
    assert update["float_mad"] == pytest.approx(512**3, rel=1e-4)


def test_loops_that_run_once_do_not_count_and_do_not_hide_reuse() -> None:
    value = read("A", v("i"))
    body = loops(
        store("D", (v("i"), v("j")), value),
        ("i", c(8), LoopKind.SERIAL), ("j", v("J"), LoopKind.SERIAL),
        ("o", v("O"), LoopKind.SERIAL),
    )  # fmt: skip
    plan = plan_of(body, (Size("J", "tile", 64), Size("O", "tile", 64)), A=(8,), D=(8, 64))
    (once,), (twice,) = of_one(plan, 32, 1), of_one(plan, 32, 2)
    assert once["num_loops"] == pytest.approx(2)
    assert once["B1.reuse_ct"] == pytest.approx(32)
    assert twice["B1.reuse_ct"] == pytest.approx(2)
    assert once["B0.stride"] == pytest.approx(1)
    assert twice["B0.stride"] == 0
    assert once["B0.reuse_type.no_reuse"] == 1
    assert once["B0.bytes_d_reuse_ct"] == pytest.approx(2 * once["B0.bytes"], rel=1e-4)


def test_a_sliding_window_touches_the_hull_not_the_product() -> None:
    index = (Binary("add", v("y"), v("r")),)
    body = loops(store("D", (v("y"),), read("A", *index), "sum"), serial("y", 10), serial("r", 3))
    (found,) = of_one(plan_of(body, A=(12,), D=(10,)))
    assert found["B1.unique_bytes"] == pytest.approx(12 * 4)
    assert found["B1.stride"] == pytest.approx(1)


def test_neighbouring_accesses_of_one_buffer_are_one_buffer() -> None:
    def at(shift: int) -> Expr:
        return read("A", Binary("add", v("y"), c(shift)))

    body = loops(store("D", (v("y"),), Binary("add", at(0), at(2))), serial("y", 10))
    (found,) = of_one(plan_of(body, A=(12,), D=(10,)))
    assert found["B1.unique_bytes"] == pytest.approx(12 * 4)
    assert found["B2.bytes"] == 0


def test_divided_indices_are_bounded_from_above() -> None:
    f = v("f")
    index = (Binary("floordiv", f, c(7)), Binary("mod", f, c(7)))
    body = loops(store("D", (f,), read("A", *index)), serial("f", 28))
    (found,) = of_one(plan_of(body, A=(100, 7), D=(28,)))
    assert 28 * 4 - 0.01 <= found["B1.unique_bytes"] <= 35 * 4 + 0.01
    assert found["int_divmod"] == pytest.approx(2 * 28)
    assert found["B1.stride"] >= 1


def test_a_statement_of_the_first_iteration_counts_once() -> None:
    init = If(Binary("eq", v("k"), c(0)), store("D", (v("i"),), ZERO))
    update = store("D", (v("i"),), read("A", v("i"), v("k")), "sum")
    body = loops(Seq((init, update)), serial("k", 50), serial("i", 10))
    first, second = of_one(plan_of(body, A=(10, 50), D=(10,)))
    assert first["B0.bytes"] == pytest.approx(10 * 4)
    assert second["B0.bytes"] == pytest.approx(500 * 4)


def test_a_select_counts_its_condition_and_the_larger_branch() -> None:
    x = read("A", v("i"))
    chosen = Select(Binary("lt", v("i"), c(5)), Call("exp", Binary("add", x, x)), x)
    counts = operations(store("D", (v("i"),), chosen))
    assert counts == {"int_cmp": 1, "select_op": 1, "float_math_func": 1, "float_addsub": 1}


def test_operation_classes_follow_the_combiner() -> None:
    x = read("A", v("i"))
    assert operations(store("D", (), Binary("mul", x, x), "sum")) == {"float_mad": 1}
    assert operations(store("D", (), x, "max")) == {"float_cmp": 1}
    argmax = Store(("D", "E"), (), (x, v("i")), "argmax")
    assert operations(argmax) == {"float_cmp": 1, "select_op": 1}


def test_more_than_five_buffers_are_cut_to_five() -> None:
    value: Expr = ZERO
    for name in "ABCEFG":
        value = Binary("add", value, read(name, v("i")))
    body = loops(store("D", (v("i"),), value), serial("i", 4))
    one = (4,)
    (found,) = of_one(plan_of(body, A=one, B=one, C=one, D=one, E=one, F=one, G=one))
    assert found["B4.bytes"] == pytest.approx(16)


def test_the_gpu_flag_comes_from_the_target() -> None:
    row = np.array([[16, 8]])
    assert named(extract(golden_plan(), row, Target("cuda"))[0])[0]["is_gpu"] == 1
    assert named(extract(golden_plan(), row, Target())[0])[0]["is_gpu"] == 0


def test_the_curve_is_linear_between_its_points() -> None:
    work = np.array([[2.0], [6.0], [6.0], [10.0]], np.float32)
    height = np.array([[1.0], [5.0], [5.0], [7.0]], np.float32)
    sampled = samples(work, height)[:, 0]
    assert sampled.tolist() == pytest.approx([1, 1, 2, 3, 4, 5, 5.5, 6, 6.5, 7])


def test_register_tiles_are_refused() -> None:
    body = For("i", c(4), Tile((), (), store("D", (v("i"),), ZERO)))
    with pytest.raises(LoweringError, match="register tiles"):
        extract(plan_of(body, D=(4,)), np.zeros((1, 0), np.int64), Target())
