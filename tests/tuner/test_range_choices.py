"""First answers of ranges of sizes: they share the packed form of each weight."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import numpy as np

from ansorpy import te
from ansorpy.cost.roofline import RooflineModel
from ansorpy.frontends.tc.text import parse
from ansorpy.graph.partition import partition
from ansorpy.graph.passes import simplify
from ansorpy.importers.onnx_file import graph_of_model
from ansorpy.loopir.join import packs_of
from ansorpy.model.tasks import tasks_of
from ansorpy.population import sample
from ansorpy.rules import CPU
from ansorpy.search import Candidate
from ansorpy.target import CpuTarget
from ansorpy.te.dag import Dag
from ansorpy.te.dims import at_sizes, dims_of, in_range, ranges_of
from ansorpy.tuner.race import first_answer
from ansorpy.tuner.race.range_choices import Ranked, choose_ranges
from ansorpy.tuner.tasks.identity import Identity
from ansorpy.tuner.tasks.ranges import JoinedSpace, with_small_packs
from ansorpy.tuner.tasks.search_space import SearchSpace
from ansorpy.tuner.tasks.task import Task
from tests.importers.test_dims import Writer, linear

TARGET = CpuTarget(cores=1, vector_bits=512, registers=32)
MODEL = RooflineModel(TARGET)
MOST = 1.3  # ratio of packed bytes to packed bytes of the largest size by itself
PRODUCT = "def mm(float(M in 1..128, 768) A, const float(768, 768) B) -> (C) { C(i,j) +=! A(i,k) * B(k,j) }"  # noqa: E501


def cold(identity: Identity) -> Identity:
    """Return the identity of a task of a model whose weights come from memory."""
    return replace(identity, copies_bytes=1 << 25)


def task_of(dag: Dag, opened: Callable[[int, int], bool] = lambda number, count: True) -> Task:
    """Return a task with ranges, of which some are opened."""
    ranges = ranges_of(dag, 4)
    parts = tuple(Task.of(in_range(dag, sizes), TARGET, "cpu") for sizes in ranges)
    for number, part in enumerate(parts):
        part.space.derive(CPU)
        if opened(number, len(parts)):
            part.space.lower(first_answer.PLANS)
    task = Task.of(dag, TARGET, "cpu")
    if not parts:
        task.space.explore(CPU, first_answer.PLANS)
        return task
    own = JoinedSpace.of("cpu", ranges, tuple(part.space for part in parts))
    return Task(task.identity, SearchSpace(dag, TARGET, own), parts=parts)


def level(_: Task, candidates: list[Candidate], __: float) -> Ranked:
    """Return equal times of all candidates."""
    return [(one, 1.0) for one in candidates]


def packed_bytes(dag: Dag) -> list[int]:
    """Return the bytes of packs of the choices that are timed together."""
    task = task_of(dag)
    choices = first_answer.attempts_of(task, MODEL, 0, level)[0]
    return [sum(packs_of(task.space.program(one)).values()) for one in choices]


def largest(dag: Dag) -> Dag:
    return at_sizes(dag, {dim.name: dim.high for dim in dims_of(dag)})


def test_ranges_of_a_product_share_the_packs_of_its_weights() -> None:
    (dag,) = parse(PRODUCT)
    assert len(ranges_of(dag, 4)) == 4
    found, alone = packed_bytes(dag), packed_bytes(largest(dag))
    assert max(found) > 0
    assert max(found) <= MOST * max(alone)


def test_ranges_of_a_layer_of_a_model_share_the_packs_of_its_weights() -> None:
    at = Writer(x=("N", 384))
    hidden = at("Relu", linear(at, "x", 384, 1536))
    model = at.model(at("Add", linear(at, hidden, 1536, 384), "x"))
    graph = graph_of_model(model, {"N": te.dim("N", 1, 40)})
    dags = tasks_of(partition(simplify(graph).graph)).dags
    assert len(dags) == 2
    found = sum(packed_bytes(dag)[0] for dag in dags)
    alone = sum(packed_bytes(largest(dag))[0] for dag in dags)
    assert 0 < found <= MOST * alone


def test_times_with_cold_weights_tell_which_ranges_share_packs() -> None:
    (dag,) = parse(PRODUCT)
    task = task_of(dag)
    parts = [replace(part, identity=cold(part.identity)) for part in task.parts]
    ranker = partial(first_answer._ranked, model=MODEL, seed=0)
    spaces = [part.space for part in parts]
    asked: list[str] = []
    others = spaces[-1].packs(choose_ranges(parts, ranker, MODEL, 0, level)[0][-1])

    def own_form(part: Task, candidates: list[Candidate], _: float) -> Ranked:
        asked.append(part.name)
        slow = others if part is parts[0] else None
        times = [(one, 1.5 if part.space.packs(one) == slow else 1.0) for one in candidates]
        return sorted(times, key=lambda pair: pair[1])

    alike = choose_ranges(parts, ranker, MODEL, 0, level)[0]
    packs = [space.packs(one) for space, one in zip(spaces, alike, strict=True)]
    assert all(one == packs[0] for one in packs)
    apart = choose_ranges(parts, ranker, MODEL, 0, own_form)[0]
    packs = [space.packs(one) for space, one in zip(spaces, apart, strict=True)]
    assert packs[0] != packs[1] == packs[2] == packs[3]
    assert set(asked) == {part.name for part in parts}


def test_a_range_between_others_gets_their_best_plans() -> None:
    (dag,) = parse(PRODUCT.replace("768", "64"))
    task = task_of(dag, lambda number, count: number in (0, count - 1))
    first, *between, last = task.parts
    found = first_answer.choose(task, MODEL, 0)
    plans = {one.name: set(one.space.texts) for one in task.parts}
    for part in between:
        assert 0 < len(part.space.plans) <= 6
        assert plans[part.name] <= plans[first.name] | plans[last.name]
    assert all(len(task.space.plans[one.plan].parts) == 4 for one in found)


def test_a_candidate_of_the_last_range_whose_packs_others_share_is_preferred() -> None:
    (dag,) = parse(PRODUCT.replace("768", "96"))
    spaces: list[SearchSpace] = []
    for sizes in ranges_of(dag, 2):
        spaces.append(SearchSpace(in_range(dag, sizes), TARGET))
        spaces[-1].explore(CPU)
    widths: list[dict[int, Candidate]] = []
    for space in spaces:
        own: dict[int, Candidate] = {}
        for number, plan in enumerate(space.plans):
            for row in sample(plan, 40, np.random.default_rng(0)).tolist():
                one = Candidate(number, tuple(row))
                shapes = [shape for _, (buffer,) in space.packs(one) for shape in buffer.extents]
                if shapes:
                    own.setdefault(shapes[-1], one)
        widths.append(own)
    shared, other, *_ = sorted(widths[0].keys() & widths[1].keys())
    near = [[widths[0][shared]], [widths[1][other], widths[1][shared]]]
    assert with_small_packs(spaces, near) == (widths[0][shared], widths[1][shared])
    asked: list[int] = []

    def further(number: int, chosen: object) -> list[Candidate]:
        asked.append(number)
        return [widths[number][other]]

    near = [[widths[0][shared]], [widths[1][other]]]
    assert with_small_packs(spaces, near, further) == (widths[0][other], widths[1][other])
    assert asked == [0]


def test_plans_of_equal_texts_may_have_other_sizes() -> None:
    # Tile sizes of rows are missing in the range of one row.
    (dag,) = parse(
        "def rows(float(N in 1..8, 64) A, const float(64) B) -> (C) { C(i) +=! A(i,k) * B(k) }"
    )
    task = task_of(dag)
    first, last = (part.space for part in (task.parts[0], task.parts[-1]))
    common = set(first.texts) & set(last.texts)
    columns = [
        [one.plans[one.texts.index(text)].column for one in (first, last)] for text in common
    ]
    assert any(a.keys() != b.keys() for a, b in columns)
    assert first_answer.choose(task, MODEL, 0, level)
