"""The spine of a whole model: one small model becomes a verified bundle."""

from collections.abc import Generator
from dataclasses import dataclass, replace
from importlib.metadata import version
from pathlib import Path
from typing import Literal

import numpy as np
import pytest

from ansorpy.bundle.load import load_model
from ansorpy.codegen.exported_types import Library
from ansorpy.errors import RunError
from ansorpy.events import Finished, FirstAnswer, Preflight, RoundDone, TaskResult
from ansorpy.graph import Graph
from ansorpy.graph.builder import GraphBuilder
from ansorpy.graph.graph import Array
from ansorpy.graph.groups import group_of
from ansorpy.graph.interp import run
from ansorpy.graph.partition import partition
from ansorpy.measure.host import local_target
from ansorpy.model import compile as compile_spine
from ansorpy.model.assemble import TaskLibrary
from ansorpy.model.budget import ModelBudget
from ansorpy.model.check_inputs import random_inputs
from ansorpy.model.compilation import Compilation
from ansorpy.model.compile import ModelResult, compiled, search_request
from ansorpy.model.events import BundleWritten, Divided, ModelEstimate, ModelEvent
from ansorpy.model.options import ModelOptions
from ansorpy.model.request import ModelRequest
from ansorpy.model.tasks import tasks_of
from ansorpy.model.verify import check, reference_of
from ansorpy.records import MemoryStore
from ansorpy.replay import carried_dag
from ansorpy.state.rule import Rule
from ansorpy.tuner.requests.request import Request

# All but `tuned`, which is made before: it searches with as many candidates as a user does.
pytestmark = pytest.mark.usefixtures("few_candidates")


def small_model(seed: int = 0) -> Graph:
    """Return two equal convolution blocks, and a pooled head."""
    rng = np.random.default_rng(seed)
    builder = GraphBuilder("small")
    at = builder.input("image", (1, 8, 10, 10), "float32")
    for n in range(2):
        w = builder.constant(f"w{n}", rng.uniform(-0.2, 0.2, (8, 8, 3, 3)).astype(np.float32))
        builder.add("Conv", [at, w], [f"c{n}"], {"pads": (1, 1, 1, 1)})
        at = builder.add("Relu", [f"c{n}"], [f"r{n}"])[0]
    builder.add("GlobalAveragePool", [at], ["p"])
    builder.add("Reshape", ["p", builder.constant("s", np.array([1, 8], np.int64))], ["f"])
    head = builder.constant("head", rng.uniform(-1, 1, (8, 5)).astype(np.float32))
    builder.add("MatMul", ["f", head], ["m"])
    builder.output("scores", "m")
    builder.output("pooled", "f")
    return builder.graph()


def request(out: Path, **options: object) -> ModelRequest:
    told = ModelOptions(**options)  # type: ignore[arg-type]
    return ModelRequest(small_model(), local_target(1), told, out)


def play(events: Generator[ModelEvent, None, ModelResult]) -> tuple[list[ModelEvent], ModelResult]:
    """Return all events, and the result."""
    seen = []
    while True:
        try:
            seen.append(next(events))
        except StopIteration as end:
            return seen, end.value


def test_equal_groups_are_one_task_with_a_weight() -> None:
    tasks = tasks_of(partition(small_model()))
    assert len(tasks.parts) == len(tasks.dags) + 1
    assert tasks.weights["t0_conv_relu"] == 2.0


def test_a_group_whose_dag_does_not_fit_is_halved() -> None:
    made = partition(small_model())
    whole = tasks_of(made)
    halved = tasks_of(made, lambda dag: len(dag.computes) < 3)
    assert len(halved.parts) > len(whole.parts)
    for part in halved.parts:
        assert part.group.outputs == group_of(made.graph, part.group.nodes).outputs


@dataclass(frozen=True)
class Tuned:
    """A tuning of the small model: its bundle, its records for later tunings, its searches."""

    out: Path
    store: MemoryStore
    searches: list[Request]
    events: list[ModelEvent]
    result: ModelResult


@pytest.fixture(scope="module")
def tuned(tmp_path_factory: pytest.TempPathFactory) -> Tuned:
    out, store = tmp_path_factory.mktemp("tuned") / "small.zip", MemoryStore()
    searches: list[Request] = []
    real = compile_spine.search_request

    def remember(work: Compilation, store: MemoryStore, rules: tuple[Rule, ...]) -> Request | None:
        found = real(work, store, rules)
        searches.extend([] if found is None else [found])
        return found

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(compile_spine, "search_request", remember)
        return Tuned(out, store, searches, *play(compiled(request(out, trials=24), store)))


def computes(bundle: Path, graph: Graph) -> None:
    """Check the outputs of a bundle against the graph."""
    inputs = random_inputs(graph, np.random.default_rng(7))
    expected = run(graph, inputs)
    with load_model(bundle) as model:
        found = model(**inputs)
    for name, array in zip(expected, found, strict=True):
        np.testing.assert_allclose(array, expected[name], rtol=1e-5, atol=1e-6)


def test_a_model_becomes_a_bundle(tuned: Tuned) -> None:
    events = tuned.events
    assert isinstance(events[0], Divided)
    assert sum(isinstance(one, Preflight) for one in events) == 1, "before the search"
    assert events[0].parts == len(tasks_of(partition(small_model())).parts)
    estimates = [one for one in events if isinstance(one, ModelEstimate)]
    assert estimates[-1].answered == estimates[-1].tasks == events[0].tasks
    written = [one for one in events if isinstance(one, BundleWritten)]
    assert len(written) == 2  # after the first answers, and after the search
    assert all(one.error <= one.bound for one in written)
    assert tuned.result.trials == 24
    computes(tuned.out, small_model())
    with load_model(tuned.out) as model:
        assert "parts" not in model.manifest
        assert model.manifest["verified_against"] == tuned.result.reference
    assert tuned.result.reference.startswith(
        "our own interpreter only (the graph came without its file) on normal, large, small,"
    )


def test_each_kind_of_inputs_decides_about_a_bundle(tuned: Tuned) -> None:
    right = reference_of(small_model(), None, 0)
    assert check(tuned.out, right, 1, "small") <= right.bound
    case = next(one for one in right.cases if one.name == "negative")
    scores, pooled = case.outputs
    wrong = replace(right, cases=(replace(case, outputs=(scores, pooled * 1.01)),))
    with pytest.raises(RunError, match=r"of its outputs for negative inputs: . of 8 elements of"):
        check(tuned.out, wrong, 1, "small")
    other = replace(right, outputs=(right.outputs[0][:, :4], right.outputs[1]))
    with pytest.raises(RunError, match=r"shapes \[\(1, 5\), \(1, 8\)\]; expected \[\(1, 4\), "):
        check(tuned.out, other, 1, "small")


def test_equal_and_other_weights_are_answered_from_the_store_without_a_trial(
    tuned: Tuned, tmp_path: Path
) -> None:
    answers = []
    for seed in (0, 1):  # 0: those that were tuned
        asked = request(tmp_path / f"{seed}.zip", trials=24, cost_model="analytic")
        asked = replace(asked, graph=small_model(seed))
        events, found = play(compiled(asked, tuned.store))
        assert found.trials == 0
        assert not any(isinstance(one, RoundDone) for one in events)
        computes(tmp_path / f"{seed}.zip", small_model(seed))
        with load_model(tmp_path / f"{seed}.zip") as model:
            (part,) = model.manifest["parts"].items()
        assert part == (
            "cost_model", {"name": "analytic", "package": f"ansorpy {version('ansorpy')}"},
        )  # fmt: skip
        answers.append(found)
    first, second = ([task.library for task in one.tasks] for one in answers)
    for one, other in zip(first, second, strict=True):
        assert one is not None
        assert other is not None
        assert one.object_sha256 == other.object_sha256


@pytest.mark.parametrize(
    ("known", "trials"), [((12, 4), 0), ((4, 12), 0), ((8, 7), 0), ((1000, 0), 8), ((0, 0), 16)]
)
def test_trials_in_the_store_count_in_any_division(
    known: tuple[int, int], trials: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    counts = dict(zip(("t0_conv_relu", "t2_matmul"), known, strict=True))
    tasks = tasks_of(partition(small_model()))
    assert counts.keys() <= {dag.name for dag in tasks.dags}
    monkeypatch.setattr(compile_spine, "_known", lambda _, dag, *__: counts.get(dag.name, 0))
    asked = request(tmp_path / "a.zip", trials=16)
    work = Compilation(asked, tasks, partition(small_model()), ModelBudget(None, 0.0, float))
    for dag in tasks.dags:  # two tasks are heavy
        work.best_s[dag.name] = 1.0 if dag.name in counts else 1e-6
        work.libraries[dag.name] = TaskLibrary(None, work.best_s[dag.name])  # type: ignore[arg-type]
    found = search_request(work, MemoryStore(), ())
    assert (0 if found is None else found.trials) == trials


def test_a_search_measures_the_answers_first(tuned: Tuned) -> None:
    first: dict[str, tuple[str, tuple[int, ...]]] = {}
    for record in tuned.store.export():
        first.setdefault(carried_dag(record).name, (record.plan, record.row))
    assert first
    assert all(tuned.searches[0].answered[name] == one for name, one in first.items())


@pytest.mark.parametrize(
    ("trials", "winner", "best_s", "kept"),
    [
        (8, "tuned", 1.5, True),
        (0, "tuned", 1.5, False),
        (8, "baseline", 1.5, False),
        (8, "baseline", 0.5, True),
        (0, "tuned", 0.5, True),
    ],
)
def test_the_choice_of_a_search_replaces_the_answer_before_it(
    tmp_path: Path, trials: int, winner: Literal["tuned", "baseline"], best_s: float, kept: bool
) -> None:
    """It was compared with that answer in the same minutes, unless it is the untuned kernel."""
    parted = partition(small_model())
    tasks = tasks_of(parted)
    name = tasks.dags[0].name
    work = Compilation(request(tmp_path / "a.zip"), tasks, parted, ModelBudget(None, 0.0, float))
    old, new = (Library(code, b"", (), (), "k", (), 0, 0) for code in (b"old", b"new"))
    runs: list[tuple[Library, float, int, Literal["tuned", "baseline"]]]
    runs = [(old, 1.0, 0, "tuned"), (new, best_s, trials, winner)]
    for library, time_s, count, won in runs:
        done = TaskResult(name, "key", time_s, None, count, 0.0, True, won, None, library=library)
        assert len(list(work.follow(ended(done)))) == 0
    assert work.libraries[name] == TaskLibrary(new if kept else old, best_s if kept else 1.0)
    assert work.best_s[name] == (best_s if kept else 1.0)


def ended(result: TaskResult) -> Generator[ModelEvent, None, Finished]:
    """Yield the last event of a tuning of one task."""
    last = Finished((result,), 0.0, "trials")
    yield last
    return last


def large_model() -> Graph:
    """Return a product with 256 KiB of weights."""
    builder = GraphBuilder("large")
    at = builder.input("x", (4, 256), "float32")
    w = builder.constant("w", np.random.default_rng(0).random((256, 256)).astype(np.float32))
    builder.add("MatMul", [at, w], ["y"])
    builder.output("y", "y")
    return builder.graph()


@pytest.mark.night
def test_records_of_other_places_of_the_weights_have_other_keys(tmp_path: Path) -> None:
    """A later tuning starts anew if other caches hold the weights."""
    store = MemoryStore()
    target = replace(local_target(1), l2_bytes=1 << 16, l3_bytes=1 << 17)
    in_cache = replace(target, l3_bytes=1 << 20)
    hot = replace(in_cache, l2_bytes=1 << 19)
    known: set[str] = set()
    for here, ending in ((target, "/cold"), (in_cache, "/cold-l3"), (hot, "/1")):
        asked = ModelRequest(large_model(), here, ModelOptions(trials=8), tmp_path / "m.zip")
        _, result = play(compiled(asked, store))
        assert result.trials == 8
        keys = {record.key for record in store.export()} - known
        assert keys
        assert all(key.endswith(ending) for key in keys)
        known |= keys
        _, again = play(compiled(asked, store))
        assert again.trials == 0


def test_a_gather_reads_few_rows_of_its_table() -> None:
    builder = GraphBuilder("table")
    rows = builder.input("rows", (3,), "int64")
    table = builder.constant("table", np.zeros((1000, 16), np.float32))
    builder.add("Gather", [table, rows], ["y"], {"axis": 0})
    builder.output("y", "y")
    assert tasks_of(partition(builder.graph())).weights_bytes == 3 * 16 * 4


def test_an_interrupt_before_the_first_bundle_leaves_none(tmp_path: Path) -> None:
    events = compiled(request(tmp_path / "small.zip", trials=0), MemoryStore())
    while not isinstance(next(events), FirstAnswer):
        pass
    events.throw(KeyboardInterrupt())
    with pytest.raises(KeyboardInterrupt):
        play(events)
    assert not list(tmp_path.iterdir())


@pytest.mark.slow
def test_an_interrupt_of_the_search_keeps_the_bundle(tmp_path: Path) -> None:
    out = tmp_path / "small.zip"
    events = compiled(request(out, trials=1000), MemoryStore())
    while not isinstance(next(events), RoundDone):
        pass
    events.throw(KeyboardInterrupt())
    _, result = play(events)
    assert result.stopped == "interrupted"
    assert result.bundle == out
    assert list(tmp_path.iterdir()) == [out]


@pytest.mark.slow
def test_a_bundle_with_wrong_outputs_is_not_delivered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def off_by_one(graph: Graph, inputs: dict[str, Array]) -> dict[str, Array]:
        return {name: array + 1 for name, array in run(graph, inputs).items()}

    monkeypatch.setattr("ansorpy.model.verify.run", off_by_one)
    with pytest.raises(RunError, match=r"outputs are off by .* expected at most 2.0e-05"):
        play(compiled(request(tmp_path / "small.zip", trials=0), MemoryStore()))
    assert not list(tmp_path.iterdir())


def test_a_node_without_kernel_is_computed_by_numpy_and_counted(tmp_path: Path) -> None:
    builder = GraphBuilder("chosen", hosted=True)
    x = builder.input("x", (3, 40), "float32")
    builder.add("Relu", [x], ["r"])
    builder.add("TopK", ["r", builder.constant("k", np.array([4], np.int64))], ["v", "i"])
    builder.add("Neg", ["v"], ["n"])
    builder.output("values", "n")
    builder.output("places", "i")
    graph = builder.graph()
    target, out = local_target(1), tmp_path / "chosen.zip"
    asked = ModelRequest(graph, target, ModelOptions(trials=0, hosted=True), out)
    events, result = play(compiled(asked, MemoryStore()))
    assert result.hosted == ("TopK",)
    assert isinstance(events[0], Divided)
    assert (events[0].parts, events[0].tasks) == (3, 2)
    inputs = random_inputs(graph, np.random.default_rng(1))
    expected = run(graph, inputs)
    with load_model(out) as model:
        found = model(**inputs)
    for name, array in zip(expected, found, strict=True):
        np.testing.assert_array_equal(array, expected[name])
