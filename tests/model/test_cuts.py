"""Tasks that take much longer than they should: timed in pieces, and the faster form is kept."""

from collections.abc import Generator
from math import inf
from pathlib import Path

import numpy as np
import pytest

from ansorpy.events import FirstAnswer, RoundDone
from ansorpy.graph import Graph
from ansorpy.graph.builder import GraphBuilder
from ansorpy.graph.partition import partition
from ansorpy.measure.host import local_target
from ansorpy.model import compile as compile_spine
from ansorpy.model import mend
from ansorpy.model.budget import ModelBudget
from ansorpy.model.compilation import Compilation
from ansorpy.model.compile import ModelResult, compiled
from ansorpy.model.events import BundleWritten, Cutting, ModelEvent
from ansorpy.model.options import ModelOptions
from ansorpy.model.request import ModelRequest
from ansorpy.model.tasks import tasks_of
from ansorpy.records import MemoryStore
from ansorpy.rules import CPU
from tests.model.test_compile import computes, play

pytestmark = pytest.mark.usefixtures("few_candidates")
WHOLE, PIECES = "t0_mul_reducesum_div", ["t1_mul", "t2_reducesum", "t3_div"]


def shares(rows: int = 8) -> Graph:
    """Return a group whose first value is read below a reduction and behind it."""
    builder = GraphBuilder("shares")
    x = builder.input("x", (rows, 64), "float32")
    builder.add("Mul", [x, x], ["e"])
    builder.add("ReduceSum", ["e"], ["s"], {"keepdims": 1})
    builder.add("Div", ["e", "s"], ["y"])
    for name in ("y", "again"):
        builder.output(name, "y")
    return builder.graph()


def asked(out: Path, **options: object) -> ModelRequest:
    told = ModelOptions(**options)  # type: ignore[arg-type]
    return ModelRequest(shares(), local_target(1), told, out)


@pytest.mark.parametrize(
    ("times_s", "kept"),
    [
        ((3.0, 1.0, 1.0, 0.5), PIECES),
        ((3.0, 1.0, 1.0, 1.5), [WHOLE]),
        ((3.0, 1.0, 1.0, inf), [WHOLE]),  # a piece without a kernel
    ],
)
def test_the_faster_form_of_a_task_is_chosen(times_s: tuple[float, ...], kept: list[str]) -> None:
    tasks = tasks_of(partition(shares()))
    cut = tasks.in_pieces(shares(), [WHOLE])
    assert [dag.name for dag in cut.dags] == [WHOLE, *PIECES]
    chosen = cut.chosen(dict(zip([WHOLE, *PIECES], times_s, strict=True)))
    assert [part.task for part in chosen.parts] == kept
    assert [dag.name for dag in chosen.dags] == kept
    assert tasks.in_pieces(shares(), []) == tasks


def test_a_search_spends_no_trial_on_a_task_whose_pieces_are_faster(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mend, "SUSPECT", 0.0)
    real = Compilation.times_s

    def times_s(work: Compilation) -> dict[str, float]:
        """Return times by which the pieces are faster on any machine."""
        return {name: s * (1e3 if name == WHOLE else 1) for name, s in real(work).items()}

    monkeypatch.setattr(Compilation, "times_s", times_s)
    request = asked(tmp_path / "a.zip", trials=8, tasks=(WHOLE,))
    events, result = play(compiled(request, MemoryStore()))
    (cutting,) = [one for one in events if isinstance(one, Cutting)]
    assert cutting.names == (WHOLE,)
    assert [dag.name for dag in cutting.dags] == PIECES
    (recut,) = result.recuts
    assert recut in events
    assert recut.pieces == 3
    assert [task.name for task in result.tasks] == PIECES
    assert {one.task for one in events if isinstance(one, RoundDone)} <= set(PIECES)
    assert 0 < result.trials <= 8
    assert "in 3 pieces" in result.explain()
    assert "the pieces are in the model" in result.explain()
    computes(tmp_path / "a.zip", shares())


def test_a_tuning_without_time_tells_of_the_pieces(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mend, "SUSPECT", 0.0)
    monkeypatch.setattr(ModelBudget, "searched", lambda self, tasks: 0)
    made = compiled(asked(tmp_path / "a.zip", trials=0, seconds=600.0), MemoryStore())
    events, result = play(made)
    assert not any(isinstance(one, Cutting) for one in events)
    (recut,) = result.recuts
    assert (recut.pieces, recut.pieces_s) == (3, None)
    assert "give the tuning more seconds" in str(recut)
    assert [task.name for task in result.tasks] == [WHOLE]


def resumed(
    events: Generator[ModelEvent, None, ModelResult],
) -> Generator[ModelEvent, None, ModelResult]:
    """Yield the events after a Ctrl-C."""
    yield events.throw(KeyboardInterrupt())
    return (yield from events)


def test_an_interrupt_between_pieces_keeps_the_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mend, "SUSPECT", 0.0)
    events = compiled(asked(tmp_path / "a.zip", trials=8), MemoryStore())
    event = next(events)
    while not (isinstance(event, FirstAnswer) and event.task == PIECES[0]):
        event = next(events)
    later, result = play(resumed(events))
    assert result.stopped == "interrupted"
    assert [task.name for task in result.tasks] == [WHOLE]
    assert sum(isinstance(one, BundleWritten) for one in later) == 1
    computes(tmp_path / "a.zip", shares())


def tower(levels: int) -> Graph:
    """Return running sums by doubling: each level reads the one before at two places."""
    builder = GraphBuilder("sums")
    at = builder.input("x", (1, 172, 300, 2), "float32")
    begin, end, axis = (builder.constant(f"c{n}", np.array([n])) for n in (0, 300, 2))
    for n in range(levels):
        pads = builder.constant(f"p{n}", np.array([0, 0, 2**n, 0, 0, 0, 0, 0]))
        builder.add("Pad", [at, pads], [f"a{n}"])
        builder.add("Slice", [f"a{n}", begin, end, axis], [f"b{n}"])
        at = builder.add("Add", [at, f"b{n}"], [f"s{n}"])[0]
    least = builder.add("ReduceMin", [at], ["l"])[0]
    builder.output("y", builder.add("Sub", [at, least], ["y"])[0])
    return builder.graph()


def test_a_group_without_a_schedule_is_halved() -> None:
    target = local_target(1)
    graph = tower(7)
    tasks = tasks_of(partition(graph), lambda dag: compile_spine._fits(dag, target, CPU))
    assert len(tasks.parts) > len(partition(graph).groups)
    assert all(compile_spine._fits(dag, target, CPU) for dag in tasks.dags)
