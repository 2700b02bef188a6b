"""Templates: knobs become schedules, and tuners choose among them."""

import importlib.util
import json
from collections.abc import Callable, Iterable
from dataclasses import replace
from itertools import pairwise
from math import inf, prod
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from ansorpy.cost.model import ForTask
from ansorpy.errors import SpecError
from ansorpy.events import Finished, Seeded
from ansorpy.frontends.tc.text import parse
from ansorpy.loopir.nodes import Program
from ansorpy.loopir.printer import text
from ansorpy.measure.outcome import Measured, Outcome
from ansorpy.plan.bind import bind
from ansorpy.population.factor import prime_powers
from ansorpy.records import (
    IMPORTED,
    MEASURED,
    MemoryStore,
    Record,
    encode,
    import_jsonl,
    task_key,
)
from ansorpy.replay import plan_from_text
from ansorpy.schedule import Config, Schedule, StagedSchedule, read_schedule, read_template
from ansorpy.schedule.knobs import Knob, Value, order_knob, split_knob
from ansorpy.schedule.lowered import scheduled
from ansorpy.target import CpuTarget, Target
from ansorpy.te.dag import Dag
from ansorpy.tuner.parts.knob_space import TUNERS, KnobSpace
from ansorpy.tuner.parts.plugged import default_model
from ansorpy.tuner.parts.spaces import space_of
from ansorpy.tuner.requests.request import Request
from ansorpy.tuner.rounds.round import propose
from ansorpy.tuner.tasks.task import Task
from ansorpy.tuner.tune import run
from tests.fakes import fake_pools

pytestmark = pytest.mark.usefixtures("few_candidates")

(MM,) = parse("def mm(float(64,48) A, float(48,96) B) -> (C) { C(y,x) +=! A(y,k) * B(k,x) }")
AVX2 = CpuTarget(vector_bits=256)
AVX512 = replace(AVX2, vector_bits=512)
JSON: dict[str, Any] = {
    "knobs": {
        "tile_y": {"split": "C.y", "num_outputs": 2},
        "tile_x": {"split": "C.x", "num_outputs": 2, "policy": "power2", "max_factor": 32},
        "order": [["y.0", "x.0", "k", "y.1", "x.1"], ["x.0", "y.0", "k", "y.1", "x.1"]],
        "packs": [False, True],
        "unroll": [0, 16],
        "marks": [1, 0],
    },
    "steps": [
        ["SP", "C", "y", 2, {"knob": "tile_y"}],
        ["SP", "C", "x", 2, {"knob": "tile_x"}],
        ["RE", "C", {"knob": "order"}],
        {"if": {"marks": 1}, "steps": [["AN", "C", "x.1", "vectorize"]]},
        {"if": {"packs": True, "marks": 0}, "steps": [["AN", "C", "y.1", "unroll"]]},
    ],
    "sizes": {"C.unroll": {"knob": "unroll"}},
}
TEXT = """\
knob tile_y = {"split": "C.y", "num_outputs": 2}
knob tile_x = {"split": "C.x", "num_outputs": 2, "policy": "power2", "max_factor": 32}
knob order = [["y.0", "x.0", "k", "y.1", "x.1"], ["x.0", "y.0", "k", "y.1", "x.1"]]
knob packs = [false, true]
knob unroll = [0, 16]
knob marks = [1, 0]
yo, yi = C.split(y, inner=$tile_y)
xo, xi = C.split(x, inner=$tile_x)      # columns
C.reorder($order)
if marks = 1: C.vectorize(xi)
if packs = true: C.pack(B)
C.unroll = $unroll
"""


def function(s: StagedSchedule, cfg: Config) -> None:
    y, x = s["C"].axis
    cfg.define_split("tile_y", y, num_outputs=2)
    cfg.define_split("tile_x", x, num_outputs=2, policy="power2", max_factor=32)
    yo, yi = cfg["tile_y"].apply(s, "C", y)
    xo, xi = cfg["tile_x"].apply(s, "C", x)
    cfg.define_reorder("order", (), candidates=[[yo, xo, "k", yi, xi], [xo, yo, "k", yi, xi]])
    cfg["order"].apply(s, "C")
    cfg.define_knob("packs", [False, True])
    cfg.define_knob("unroll", [0, 16])
    cfg.define_knob("marks", [1, 0])
    if cfg["marks"].val:
        s["C"].vectorize(xi)
    if cfg["packs"].val:
        s["C"].pack("B")
    s["C"].unroll_budget(cfg["unroll"].number)


def space(template: Any, tuner: str = "model", dag: Dag = MM) -> KnobSpace:
    made = space_of(Request((dag,), AVX2, mode="template", template=template, tuner=tuner))
    assert isinstance(made, KnobSpace)
    return made


def schedules(template: object) -> dict[tuple[Any, ...], Schedule]:
    made = space(template)
    found = {}
    for number in range(made.size):
        values = {k.name: k.values[at] for k, at in zip(made.knobs, made.at(number), strict=True)}
        found[tuple(values.values())] = made.template.schedule(MM, values)
    return found


def test_text_and_python_make_the_same_schedules_of_all_values() -> None:
    assert schedules(TEXT) == schedules(function)
    assert len(schedules(TEXT)) == 7 * 6 * 2 * 2 * 2 * 2


def test_json_fills_values_and_cases_into_steps() -> None:
    found = schedules(JSON)[((8,), (16,), ("x.0", "y.0", "k", "y.1", "x.1"), True, 16, 0)]
    assert str(found) == str(
        read_schedule(
            "C.split(y, inner=[8])\nC.split(x, inner=[16])\nC.reorder(x.0, y.0, k, y.1, x.1)\n"
            "C.unroll(y.1)\nC.unroll = 16"
        )
    )
    assert read_template(JSON).to_json() == JSON
    assert read_template(json.dumps(JSON)) == read_template(JSON)
    assert read_template(read_template(TEXT).to_json()) == read_template(TEXT)


def example() -> ModuleType:
    path = Path(__file__).parents[2] / "examples" / "matmul_template.py"
    spec = importlib.util.spec_from_file_location("matmul_template", path)
    assert spec is not None
    assert spec.loader is not None
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    return made


def test_the_template_of_the_tutorial_has_its_space_and_its_loops() -> None:
    """Ten factors of 512 for each of two loops: 100 points, as in AutoTVM."""
    found = example()
    dag = found.te.dag(found.C, name="matmul")
    made = space(found.matmul, dag=dag)
    assert [len(knob.values) for knob in made.knobs] == [10, 10]
    values: dict[str, Value] = {"tile_y": (8,), "tile_x": (64,)}
    program = scheduled(made.template.schedule(dag, values), dag, AVX2).program(AVX2)
    nest = [line.strip() for line in text(program).splitlines() if line.strip().startswith("for")]
    assert [line.split()[1] for line in nest] == [
        "C:i.0", "C:j.0", "C:i.1", "C:j.1", "C:k", "C:i.1", "C:j.1",
    ]  # fmt: skip


def test_the_text_example_reads_and_has_schedules() -> None:
    folder = Path(__file__).parents[2] / "examples"
    (dag,) = parse((folder / "matmul.te").read_text())
    made = space((folder / "matmul.template").read_text(), dag=dag)
    values: dict[str, Value] = {"tile_y": (4,), "tile_x": (16,), "packs": True, "unroll": 16}
    by_hand = read_schedule((folder / "matmul.schedule").read_text())
    found = made.template.schedule(dag, values)
    assert set(map(str, by_hand.steps)) - set(map(str, found.steps)) == {"C.parallel(y.0)"}
    assert (found.sizes, found.pack) == (by_hand.sizes, by_hand.pack)


def speed(program: Program) -> Outcome:
    """A time with one best point: 8 rows, 32 columns, rows outside, packed."""
    loops = text(program)
    good = ["C:y.0 in 8:\n    for C:x.0", "C:x.0 in 3:", "C.B.pack"]
    return Measured((1e-3 * (4 - sum(one in loops for one in good)) + 1e-9 * len(loops),))


def tuned(
    out: Path, tuner: str, trials: int, template: Any = function, seed: int = 0,
    store: MemoryStore | None = None, verdict: Callable[[Program], Outcome] = speed,
) -> tuple[Finished, MemoryStore]:  # fmt: skip
    store = MemoryStore() if store is None else store
    asked = Request(
        (MM,),
        AVX2,
        mode="template",
        template=template,
        tuner=tuner,
        trials=trials,
        seed=seed,
    )
    events = list(run(asked, store=store, out=out, pools=fake_pools(verdict=verdict)))
    last = events[-1]
    assert isinstance(last, Finished)
    return last, store


@pytest.mark.parametrize("tuner", TUNERS)
def test_every_tuner_measures_records_and_delivers(tuner: str, tmp_path: Path) -> None:
    last, store = tuned(tmp_path, tuner, 24)
    (result,) = last.results
    assert (result.trials, result.winner, last.stopped) == (24, "tuned", "trials")
    assert result.kernel is not None
    records = [one for one in store.all(result.key) if one.race is None]
    assert len({(one.plan, one.row) for one in records}) == 24
    assert {one.rules for one in records} == {records[0].rules}
    for record in records[:3]:
        bind(plan_from_text(MM, AVX2, record.plan), record.row, AVX2)


def test_the_grid_goes_in_order_and_ends_with_the_space(tmp_path: Path) -> None:
    few = {**JSON, "knobs": {**JSON["knobs"], "tile_y": [[2], [4], [8]], "tile_x": [[16]],
                             "packs": [False], "unroll": [0], "marks": [1]}}  # fmt: skip
    last, store = tuned(tmp_path, "grid", 24, few)
    assert last.stopped == "converged"
    records = [one for one in store.all(last.results[0].key) if one.race is None]
    assert [one.row[0] for one in records] == [2, 2, 4, 4, 8, 8]


def searched_s(tuner: str, seed: int) -> float:
    """Return the least cost of six rounds of eight, in which each right knob saves a second."""
    made = space(function, tuner)
    task = Task.of(MM, AVX2, made.name)
    task.space.own = made
    task.space.explore(())
    model, rng = default_model(AVX2, seed), np.random.default_rng(seed)
    right = (2, 4, 1, 1, 1, 0)  # 4 rows and 16 columns
    for _ in range(6):
        rows = propose(task, ForTask(model, task.key), (), 8, rng)
        wrong = [sum(a != b for a, b in zip(made.points[one], right, strict=True)) for one in rows]
        task.history.learn(rows, [Measured((1.0 + count,)) for count in wrong])
        if tuner == "model":
            model.update(list(task.samples(rows)))
    assert task.history.least_cost_s is not None
    return task.history.least_cost_s


@pytest.mark.parametrize("tuner", ["genetic", "model"])
def test_a_guided_tuner_finds_a_better_point_than_chance(tuner: str) -> None:
    chance_s, guided_s = (sum(searched_s(t, n) for n in range(6)) for t in ("random", tuner))
    assert guided_s < chance_s


def test_records_of_a_template_start_it_again_and_answer_it(tmp_path: Path) -> None:
    last, store = tuned(tmp_path, "random", 16)
    again, _ = tuned(tmp_path, "random", 16, store=store)
    assert again.stopped == "store"
    more, _ = tuned(tmp_path, "genetic", 32, store=store)
    (result,) = more.results
    assert result.trials == 32
    rows = [(one.plan, one.row) for one in store.all(result.key) if one.race is None]
    assert len(set(rows)) == len(rows) == 48

    def other(s: StagedSchedule, cfg: Config) -> None:
        function(s, cfg)
        if cfg["marks"].val:
            s["C"].parallel(s["C"].loops[0])

    other.__qualname__, other.__module__ = function.__qualname__, function.__module__
    assert tuned(tmp_path, "random", 16, other, store=store)[0].stopped == "trials"
    assert last.results[0].key == result.key


def seeded(
    out: Path, tuner: str, records: Iterable[Record], target: Target = AVX2
) -> tuple[Seeded, MemoryStore]:
    """Import records, tune the template, and return the event of its start and the new store."""
    store = MemoryStore()
    store.append(list(records), IMPORTED)
    asked = Request((MM,), target, mode="template", template=TEXT, tuner=tuner, trials=32)
    events = list(run(asked, store=store, out=out, pools=fake_pools(verdict=speed)))
    (found,) = (one for one in events if isinstance(one, Seeded))
    return found, store


def exported(store: MemoryStore) -> list[Record]:
    """Return the records of a store as they arrive elsewhere."""
    return list(import_jsonl([encode(one) for one in store.export()]))


@pytest.mark.parametrize("target", [AVX2, AVX512], ids=["same machine", "another machine"])
def test_imported_records_of_a_template_start_it(target: Target, tmp_path: Path) -> None:
    _, store = tuned(tmp_path, "random", 16, TEXT)
    records = exported(store)
    found, new = seeded(tmp_path, "genetic", records, target)
    assert found.programs > 0
    key = task_key(records[0].workload, target)
    own = [one for one in new.all(key) if one.origin == MEASURED and one.race is None]
    claims = {(one.plan, one.row): one.best_s for one in records if one.race is None}
    firsts = [(one.plan, one.row) for one in own[: found.programs]]
    assert set(firsts) <= set(claims), "imported programs are measured first"
    if target == AVX2:
        assert found == Seeded("mm", 8, ())
        assert {claims[one] for one in firsts} == set(sorted(map(_s, claims.values()))[:8])


def _s(best_s: float | None) -> float:
    return inf if best_s is None else best_s


def test_a_row_that_no_choice_of_the_knobs_gives_starts_nothing(tmp_path: Path) -> None:
    _, store = tuned(tmp_path, "random", 16, TEXT)
    best = min(exported(store), key=lambda one: _s(one.best_s))
    forged = [
        replace(best, row=tuple(5 if value == 8 else value for value in best.row)),
        replace(best, plan='{"steps":[],"choices":{}}'),
    ]
    found, _ = seeded(tmp_path, "random", forged)
    assert found.programs == 0
    assert len(found.reasons) == 2
    for reason in found.reasons:
        assert reason.endswith("no choice of the knobs gives its schedule on this machine")


def test_every_point_is_found_by_its_plan_and_row() -> None:
    made, other = space(TEXT), space(TEXT)
    task, elsewhere = (Task.of(MM, AVX2, made.name) for _ in range(2))
    found = [made.candidate(task.space, made.at(number)) for number in range(0, made.size, 19)]
    legal = [one for one in found if one is not None]
    assert len(legal) > 10
    for one in legal:
        same = other.find(elsewhere.space, task.space.texts[one.plan], one.row)
        assert same is not None
        assert (elsewhere.space.texts[same.plan], same.row) == (task.space.texts[one.plan], one.row)


def test_splits_offer_factors_powers_of_two_or_candidates() -> None:
    assert split_knob("t", 12, 2).values == ((1,), (2,), (3,), (4,), (6,), (12,))
    assert split_knob("t", 12, 2, "power2").values == ((1,), (2,), (4,), (8,))
    assert split_knob("t", 12, 2, max_factor=4).values == ((1,), (2,), (3,), (4,))
    assert split_knob("t", 12, 3, candidates=[[2, 3]]).values == ((2, 3),)
    four = split_knob("t", 64, 4).values
    assert len(four) == 84  # ways to share six twos among four parts
    assert all(64 % prod(one) == 0 for one in four)  # type: ignore[arg-type]
    assert all(a < b for a, b in pairwise(four))  # type: ignore[operator]
    assert len(order_knob("o", ["a", "b", "c"]).values) == 6


@pytest.mark.parametrize(
    ("template", "message"),
    [
        ({**JSON, "knob": {}}, "cannot read the field 'knob' of a template; expected knobs, steps"),
        ({"steps": []}, "cannot read the knobs of a template; expected an object of 1 to 32 names"),
        ({"knobs": {"a": [1]}}, "cannot read the steps of a template; expected a list of at most"),
        ({"knobs": {"a": 3}, "steps": []}, "expected a list of values or a split for each"),
        ({"knobs": {"a": [1]}, "steps": [3]}, "cannot read step 1 of the template; expected a"),
        ({"knobs": {"a": []}, "steps": []}, "cannot give the knob a 0 values; expected 1 to 4096"),
        ({"knobs": {"a": [1, 1]}, "steps": []}, "cannot give the knob a a value twice"),
        ({"knobs": {"a": [None]}, "steps": []}, "cannot give the knob a the value None; expected"),
        ({"knobs": {"a b": [1]}, "steps": []}, "cannot name a knob 'a b'; expected letters"),
        ({"knobs": {"a": {"split": "C.z", "num_outputs": 2}}, "steps": []},
         "cannot split by the knob a because 'C.z' is no loop; expected C.y, C.x, C.k"),
        ({"knobs": {"a": {"split": "C.y", "num_outputs": 9}}, "steps": []},
         "cannot split by the knob a into 9 parts; expected 2 to 8"),
        ({"knobs": {"a": {"split": "C.y"}}, "steps": []}, 'expected {"split": "STAGE.LOOP"'),
        ({"knobs": {"a": {"split": "C.y", "num_outputs": 2, "policy": "all"}}, "steps": []},
         "with policy 'all'; expected factors or power2"),
        ({"knobs": {"a": {"split": "C.y", "num_outputs": 2, "x": 1}}, "steps": []},
         "cannot read the field 'x' of the knob a; expected split, num_outputs"),
        ({"knobs": {"a": [[[[[[[[1]]]]]]]]}, "steps": []}, "template nested so deep; expected 8"),
        ("knob a = 3\nC.unroll = $a", "cannot read line 1 of the template; expected knob NAME ="),
        ({"knobs": {"a": {"split": "C.k@k", "num_outputs": 2}}, "steps": []},
         "cannot split by the knob a because 'C.k@k' names a loop twice; expected each loop once"),
        ({"knobs": {"a": {"split": "C." + "@".join(["k"] * 500), "num_outputs": 2}}, "steps": []},
         "names a loop twice"),
        ({"knobs": {"a": {"split": "C.y", "num_outputs": 2, "candidates": [[1]] * 4097}},
          "steps": []}, "cannot give the knob a 4097 values; expected 1 to 4096"),
        (7, "cannot read a template from int; expected a function"),
        ({"function": "os.system"}, "cannot read the field 'function' of a template; expected"),
    ],
)  # fmt: skip
def test_a_wrong_template_is_refused_by_field(template: object, message: str) -> None:
    with pytest.raises(SpecError) as caught:
        read_template(template).knobs(MM)
    assert message in str(caught.value)


def test_a_split_of_more_than_2_to_the_31_is_refused_before_it_is_factored() -> None:
    text = "def f(float(4) A) -> (B) { B(i,j) = A((i + j) % 4) where i in 0:65536, j in 0:32768 }"
    (dag,) = parse(text)
    expected = r"because its loop has an extent of 2147483648; expected 1 to 2147483647"
    for loops in ("B.i@j", "B.j@i"):
        knobs = {"a": {"split": loops, "num_outputs": 2}}
        with pytest.raises(SpecError, match=expected):
            read_template({"knobs": knobs, "steps": []}).knobs(dag)
    with pytest.raises(ValueError, match="cannot factor"):
        prime_powers((2**31 - 1) ** 2)
    assert prime_powers(2**31 - 1) == ((2**31 - 1, 1),)  # Euler, 1772: a prime


def test_a_long_line_is_read_in_time_in_proportion_to_its_length() -> None:
    gap = " " * 2**20  # the square of it would take an hour
    with pytest.raises(SpecError, match="cannot read line 1 of the schedule"):
        read_schedule(f"C{gap}C")
    template = read_template(f"knob a = [1]\nif a ={gap}")
    with pytest.raises(SpecError, match="cannot read line 2 of the schedule"):
        template.schedule(MM, {"a": 1})


def test_a_template_without_any_schedule_tells_why(tmp_path: Path) -> None:
    steps = [["SP", "C", "x", 2, [3]], ["AN", "C", "x.1", "vectorize"]]
    sizes = {"C.unroll": {"knob": "a"}}
    none = {"knobs": {"a": [5, 7]}, "steps": steps, "sizes": sizes}
    with pytest.raises(SpecError, match="none of 2 choices of its knobs has a schedule") as caught:
        tuned(tmp_path, "random", 8, none)
    assert "C.x.1 = 3 is no multiple of 8" in str(caught.value)


def test_knobs_in_python_are_defined_once_and_before_use() -> None:
    def used(s: StagedSchedule, cfg: Config) -> None:
        cfg["tile"].apply(s, "C", "y")

    def twice(s: StagedSchedule, cfg: Config) -> None:
        cfg.define_knob("a", [1])
        cfg.define_knob("a", [1])

    def divided(s: StagedSchedule, cfg: Config) -> None:
        cfg.define_split("a", s["C"].split("y", 4)[0], num_outputs=2)

    for wrong, message in (
        (used, "cannot read the knob 'tile' because it is not defined; expected a definition"),
        (twice, "cannot define the knob a a second time; expected another name"),
        (divided, "cannot define the knob a because 'y.0' has no extent; expected a loop"),
    ):
        with pytest.raises(SpecError, match=message):
            read_template(wrong).knobs(MM)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"template": None}, "cannot tune with mode template because there is no template"),
        ({"mode": "auto"}, "cannot tune with a template in mode auto because"),
        ({"trials": 0}, "cannot tune with mode template and 0 trials because a tuner chooses"),
        ({"mode": "auto", "template": None, "tuner": "grid"}, "with tuner in mode auto"),
        ({"tuner": "annealing"}, "with tuner 'annealing'; expected model or genetic or grid or"),
    ],
)
def test_the_options_of_a_template_belong_together(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(SpecError, match=message):
        Request((MM,), AVX2, **{"mode": "template", "template": TEXT, **changes})


def test_a_knob_is_a_value() -> None:
    assert Knob("a", (1, True, "1")).values == (1, True, "1")
