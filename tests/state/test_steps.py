from dataclasses import replace
from itertools import pairwise

import pytest

from ansorpy.errors import StepError
from ansorpy.expr.expr import Const
from ansorpy.state.state import Attached, Combine, Inlined, Partial, Root, State, Step
from ansorpy.state.steps import (
    Annotate,
    CacheRead,
    CacheWrite,
    ComputeAt,
    ComputeInline,
    ComputeRoot,
    FollowFusedSplit,
    FollowSplit,
    Fuse,
    Reorder,
    Rfactor,
    Split,
)
from ansorpy.te.dag import Attrs, Compute
from tests.golden_dags import F32, dag, inp, matmul, matmul_relu, op, read, softmax
from tests.state.validity import check_state

START = State.naive(matmul_relu(8, 16, 32))
CONV = State.naive(
    dag(
        "pool",
        [
            inp("A", 4, 9, 9),
            op("P", {"i": 4}, read("A", "i", "h", "w"), over={"h": 9, "w": 9}),
        ],
    )
)


def loops(state: State, stage: str) -> str:
    return " ".join(map(str, state.stage(stage).loops))


def compute(state: State, stage: str) -> Compute:
    node = state.stage(stage).node
    assert isinstance(node, Compute)
    return node


def test_split_names_the_sizes_of_the_inner_parts() -> None:
    state = START.do(Split("C", "i", 3))
    assert loops(state, "C") == "i.0:?s i.1:C.i.1s i.2:C.i.2s j:16s k:32r"
    outer, first, _ = state.stage("C").loops[:3]
    assert (outer.length, outer.extent) == (None, None)
    assert first.length == ("C.i.1",)
    assert first.axes == ("i",)


def test_following_gives_equal_tiles_and_all_the_rest_to_the_last_part() -> None:
    tiled = START.do(Split("C", "i", 4))
    assert loops(tiled.do(FollowSplit("D", "i", "C", "i", 1)), "D") == (
        "i.0:?s i.1:C.i.1*C.i.2*C.i.3s j:16s"
    )
    assert loops(tiled.do(FollowSplit("D", "i", "C", "i", 2)), "D") == (
        "i.0:?s i.1:C.i.1s i.2:C.i.2*C.i.3s j:16s"
    )


def test_a_follower_can_be_followed() -> None:
    state = START.do(
        Split("D", "i", 3), FollowSplit("C", "i", "D", "i", 2), FollowSplit("C", "j", "C", "i", 1)
    )
    assert loops(state, "C") == "i.0:?s i.1:D.i.1s i.2:D.i.2s j.0:?s j.1:D.i.1*D.i.2s k:32r"


def test_following_a_fused_level_takes_the_product_of_its_sizes() -> None:
    state = START.do(Split("D", "i", 3), Split("D", "j", 3))
    state = state.do(FollowFusedSplit("C", "k", "D", ("i", "j"), 2))
    assert loops(state, "C") == "i:8s j:16s k.0:?r k.1:D.i.2*D.j.2r"


def test_fuse_joins_the_axes_and_a_split_of_it_goes_by_its_name() -> None:
    state = CONV.do(Fuse("P", ("h", "w")), Split("P", "h@w", 2))
    fused = state.stage("P").loops[-1]
    assert fused.axes == ("h", "w")
    assert fused.length == ("P.h@w.1",)
    assert loops(CONV.do(Fuse("P", ("h", "w"))), "P") == "i:4s h@w:81r"


def test_cache_write_moves_the_work_to_a_new_stage() -> None:
    marked = replace(compute(START, "C"), attrs=Attrs(unroll=("k",)))
    start = State.naive(
        replace(START.dag, nodes=(*START.dag.nodes[:2], marked, START.dag.nodes[3]))
    )
    state = start.do(CacheWrite("C"))
    check_state(state)
    assert [stage.name for stage in state.stages] == ["A", "B", "C.local", "C", "D"]
    assert compute(state, "C.local") == replace(marked, name="C.local")
    assert str(compute(state, "C").body[0]) == "C.local[i, j]"
    assert compute(state, "C").attrs == Attrs()
    assert state.dag is start.dag


def test_cache_write_keeps_several_outputs_together() -> None:
    first = read("A", "i", "k")
    both = replace(
        op("B", {"i": 4}, first, over={"k": 8}),
        combiner="argmax",
        body=(first, Const(0, "int32")),
        dtypes=(F32, "int32"),
    )
    state = State.naive(dag("d", [inp("A", 4, 8), both])).do(CacheWrite("B"))
    assert [str(e) for e in compute(state, "B").body] == ["B.local[i]", "B.local.1[i]"]
    assert compute(state, "B").dtypes == (F32, "int32")


def test_cache_read_redirects_the_readers_it_names() -> None:
    state = START.do(CacheRead("A", ("C",)))
    check_state(state)
    assert [stage.name for stage in state.stages] == ["A", "A.shared", "B", "C", "D"]
    assert str(compute(state, "A.shared").body[0]) == "A[i0, i1]"
    assert [str(r) for r in compute(state, "C").reads] == ["A.shared[i, k]", "B[k, j]"]


def test_rfactor_splits_the_reduction_into_partials_and_their_combination() -> None:
    split = CONV.do(Fuse("P", ("h", "w")), Split("P", "h@w", 2))
    state = split.do(Rfactor("P", "h@w.0"))
    check_state(state)
    assert loops(state, "P.rf") == "i:4s h@w.0:?s h@w.1:P.h@w.1r"
    assert loops(state, "P") == "i:4s h@w.0:?r"
    assert state.stage("P.rf").role == Partial("P", "h@w.0")
    assert state.stage("P").role == Combine("P.rf")
    assert compute(state, "P") == compute(CONV, "P")
    inner = split.do(Rfactor("P", "h@w.1"))
    assert loops(inner, "P.rf") == "i:4s h@w.1:P.h@w.1s h@w.0:?r"
    assert loops(inner, "P") == "i:4s h@w.1:P.h@w.1r"


def test_compute_at_root_and_inline_set_the_location() -> None:
    at = START.do(ComputeAt("C", "D", "i"))
    assert at.stage("C").location == Attached("D", "i")
    assert at.do(ComputeRoot("C")).stage("C").location == Root()
    soft = State.naive(softmax(4, 8)).do(ComputeInline("ex"))
    assert soft.stage("ex").location == Inlined()


def test_annotate_and_reorder_change_the_loops() -> None:
    state = START.do(Annotate("D", "j", "vectorize"), Reorder("D", ("j", "i")))
    assert loops(state, "D") == "j:16s vectorize i:8s"


HOSTING = START.do(ComputeAt("C", "D", "i"))
SPLIT = START.do(Split("C", "k", 2))
REFUSED: tuple[tuple[State, Step, str], ...] = (
    (START, Split("X", "i", 2), "no stage 'X'"),
    (START, Split("A", "i", 2), "'A' is an input"),
    (START, Split("C", "z", 2), "no loop 'z' in stage 'C'; there are i, j, k"),
    (START, Split("C", "i", 1), "1 parts; expected at least 2"),
    (START, Split("C", "i", 3, (4,)), "fixed lengths (4,) for 2 inner parts"),
    (START, Split("C", "i", 2, (0,)), "fixed lengths"),
    (SPLIT, Split("C", "k.1", 2), "already part of a split"),
    (START.do(Annotate("C", "i", "unroll")), Split("C", "i", 2), "already annotated 'unroll'"),
    (HOSTING, Split("D", "i", 2), "'C' is computed at D.i"),
    (START, FollowSplit("D", "i", "C", "i", 1), "no loop 'i.0' in stage 'C'"),
    (SPLIT, FollowSplit("D", "i", "C", "k", 2), "2 levels, the source has 1"),
    (SPLIT, FollowFusedSplit("D", "i", "C", ("k",), 2), "level 2, 'k' has 1"),
    (START, Reorder("C", ("i", "j")), "not a permutation of i, j, k"),
    (START, Reorder("C", ("i", "i", "k")), "not a permutation"),
    (START, Fuse("C", ("i",)), "1 loops; expected at least 2"),
    (START, Fuse("C", ("j", "i")), "not adjacent in this order"),
    (START, Fuse("C", ("j", "k")), "spatial and reduce"),
    (SPLIT, Fuse("C", ("k.0", "k.1")), "already part of a split"),
    (START, Annotate("C", "i", "warp"), "unknown annotation"),
    (START.do(Annotate("C", "i", "unroll")), Annotate("C", "i", "parallel"), "already annotated"),
    (START, ComputeAt("D", "C", "i"), "'C' does not come after 'D'"),
    (START, ComputeAt("C", "D", "k"), "no loop 'k'"),
    (START, ComputeInline("D"), "'D' is an output"),
    (START, ComputeInline("C"), "'C' reduces"),
    (START, ComputeInline("A"), "'A' is an input"),
    (START.do(CacheWrite("C")), CacheWrite("C"), "already is a stage 'C.local'"),
    (SPLIT, CacheWrite("C"), "loops of 'C' are already changed"),
    (HOSTING, CacheWrite("C"), "is at D.i, not at root"),
    (START, CacheRead("A", ()), "no readers"),
    (START, CacheRead("A", ("D",)), "'D' does not read 'A'"),
    (START, Rfactor("C", "k"), "not one loop in two parts"),
    (SPLIT, Rfactor("C", "k.2"), "parts of the reduction are k.0, k.1"),
    (SPLIT.do(Split("C", "i", 2)), Rfactor("C", "k.0"), "a spatial loop of 'C' is divided"),
    (SPLIT.do(Rfactor("C", "k.0")), Rfactor("C", "k.0"), "already is a stage 'C.rf'"),
)


@pytest.mark.parametrize(("state", "step", "message"), REFUSED, ids=lambda v: type(v).__name__)
def test_a_step_is_refused_if_its_condition_does_not_hold(
    state: State, step: Step, message: str
) -> None:
    with pytest.raises(StepError) as caught:
        state.do(step)
    assert message in str(caught.value)


def test_an_inlined_stage_hosts_nothing() -> None:
    names = ("A", "B", "C", "D")
    chain = [op(b, {"i": 4}, read(a, "i")) for a, b in pairwise(names)]
    state = State.naive(dag("chain", [inp("A", 4), *chain]))
    with pytest.raises(StepError, match="is inlined"):
        state.do(ComputeInline("C"), ComputeAt("B", "C", "i"))
    with pytest.raises(StepError, match=r"'B' is computed at C\.i"):
        state.do(ComputeAt("B", "C", "i"), ComputeInline("C"))


def test_steps_leave_the_state_they_start_from_alone() -> None:
    before = State.naive(matmul(8, 8, 8))
    before.do(Split("C", "i", 2), Reorder("C", ("i.0", "j", "k", "i.1")))
    assert before == State.naive(matmul(8, 8, 8))
