import pytest

from ansorpy.state.query import StateFacts, fixed_sizes
from ansorpy.state.state import State
from ansorpy.state.steps import (
    Annotate,
    CacheRead,
    CacheWrite,
    ComputeAt,
    ComputeInline,
    FollowSplit,
    Rfactor,
    Split,
)
from ansorpy.te.dag import Compute
from tests.golden_dags import conv2d_bn_relu, dag, matmul, matmul_relu, op, read, softmax

IJ = {"i": 64, "j": 64}


def test_consumers_and_producers_look_through_inlined_stages() -> None:
    state = State.naive(softmax(4, 8))
    assert StateFacts(state).consumers("mx") == ("ex",)
    inlined = StateFacts(state.do(ComputeInline("ex")))
    assert inlined.consumers("mx") == ("sm", "nm")
    assert inlined.producers("sm") == ("A", "mx")
    assert inlined.direct_producers("sm") == ("ex",)
    assert inlined.consumers("nm") == ()


def test_consumers_computed_in_one_root_count_as_one() -> None:
    state = State.naive(softmax(4, 8)).do(ComputeInline("ex"))
    apart = StateFacts(state).single_consumer("mx")
    assert apart.name is None
    assert "2 separate nests" in apart.why
    joined = StateFacts(state.do(ComputeAt("sm", "nm", "i"))).single_consumer("mx")
    assert joined.name == "nm"
    assert StateFacts(state).single_consumer("nm").name is None


def test_the_fusible_consumer_gives_the_reason_of_a_refusal() -> None:
    start = State.naive(matmul_relu(64, 64, 64))
    assert StateFacts(start).fusible_consumer("C").name == "D"
    divided = start.do(Split("D", "i", 2))
    assert "already split" in StateFacts(divided).fusible_consumer("C").why
    assert "0 consumers" in StateFacts(start).fusible_consumer("D").why
    shared = start.do(CacheRead("C", ("D",)))
    assert "shared memory" in StateFacts(shared).fusible_consumer("C").why


def test_two_reductions_do_not_fuse() -> None:
    second = op("D", IJ, read("C", "i", "j"), read("B", "i", "r"), over={"r": 64})
    state = State.naive(dag("d", [*matmul(64, 64, 64).nodes, second]))
    assert "both C and D reduce" in StateFacts(state).fusible_consumer("C").why


def test_a_chain_of_inlined_stages_stays_elementwise() -> None:
    state = State.naive(conv2d_bn_relu(8, 4, 4, 3))
    state = state.do(*map(ComputeInline, ("bnadd", "bmul", "badd")))
    assert StateFacts(state).fusible_consumer("conv").name == "relu"


def test_a_cache_write_stage_is_known_by_its_step() -> None:
    facts = StateFacts(State.naive(matmul(8, 8, 8)).do(CacheWrite("C")))
    assert facts.has_cache_write("C.local")
    assert not facts.has_cache_write("C")
    assert facts.needs_tiling("C.local")
    assert not facts.needs_tiling("C")


def test_partial_results_are_seen_as_one_more_axis() -> None:
    state = State.naive(matmul(8, 8, 64)).do(Split("C", "k", 2), Rfactor("C", "k.0"))
    facts = StateFacts(state)
    assert facts.consumers("A") == ("C.rf",)
    assert facts.consumers("C.rf") == ("C",)
    assert facts.needs_tiling("C.rf")
    rows, combined = facts.dag.node("C.rf"), facts.dag.node("C")
    assert isinstance(combined, Compute)
    assert rows.shape == (8, 8, 64)
    assert str(combined.body[0]) == "C.rf[i, j, k.0]"


def test_a_reduction_across_threads_is_seen_in_the_stage_and_in_attached_stages() -> None:
    state = State.naive(softmax(4, 8)).do(
        ComputeInline("ex"), Split("sm", "k", 2), Annotate("sm", "k.1", "thread")
    )
    assert StateFacts(state).reduces_across_threads("sm")
    assert not StateFacts(state).reduces_across_threads("nm")
    assert StateFacts(state.do(ComputeAt("sm", "nm", "i"))).reduces_across_threads("nm")


@pytest.mark.parametrize(
    ("name", "everything", "holds", "why"),
    [
        ("A", True, False, "is an input"),
        ("nm", True, False, "is an output"),
        ("sm", True, False, "reduces"),
        ("ex", True, True, "no output"),
        ("ex", False, False, "exp"),
    ],
)
def test_an_always_inlined_stage_has_a_reason(
    name: str, everything: bool, holds: bool, why: str
) -> None:
    answer = StateFacts(State.naive(softmax(4, 8))).always_inlined(name, everything)
    assert bool(answer) is holds
    assert why in answer.why


def test_fixed_sizes_come_from_the_steps() -> None:
    state = State.naive(matmul_relu(64, 64, 64)).do(
        Split("C", "i", 3, (4, 2)), Split("C", "j", 2), FollowSplit("D", "i", "C", "i", 1)
    )
    assert fixed_sizes(state) == {"C.i.1": 4, "C.i.2": 2}
    assert [step.loop for step in StateFacts(state).splits("C")] == ["i", "j"]
    assert StateFacts(state).splits("D") == ()


def test_points_are_spatial_and_reduce() -> None:
    facts = StateFacts(State.naive(matmul(8, 4, 16)))
    assert facts.points("C") == (32, 16)
    assert facts.points("A") == (128, 1)
