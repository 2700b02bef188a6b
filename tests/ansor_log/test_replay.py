"""Lines of Ansor's logs replayed: public ones, and others made from the format."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ansorpy import te
from ansorpy.ansor_log import LogLine, Replayed, Starter, nest, parse_line, replay, stage_order
from ansorpy.errors import RecordError
from ansorpy.loopir.printer import text
from ansorpy.replay import replay as replay_record
from ansorpy.sketch import derive
from ansorpy.state.state import Attached, Root, State
from ansorpy.target import Target
from ansorpy.te.dag import Compute, Dag
from ansorpy.topi import workloads
from ansorpy.topi.suites import SUITE_SMALL
from ansorpy.tuner.ansor_import import LogImport
from ansorpy.tuner.rules import find_rules
from tests.ansor_log.dags import dag_for

TARGET = Target(vector_bits=256, registers=16, cores=2)
PUBLIC = [
    line
    for line in (Path(__file__).parent / "tvm-v0.9.0.jsonl").read_text().splitlines()
    if not line.startswith("#")
]
CPU = [line for line in PUBLIC if '"llvm' in line]
TUTORIAL = CPU[0]


def starter(dag: Dag) -> Starter:
    return Starter(dag, TARGET, "cpu@1", derive(dag, TARGET, find_rules("cpu")).sketches)


def log_line(steps: list[Any], *arguments: object, name: str = "matmul_add") -> LogLine:
    """Return the line of a task for a CPU with these steps."""
    task = [json.dumps([name, *arguments]), "llvm -keys=cpu", [2, 64, 64, 0, 0, 0, 0, 0], "", 1, []]
    return parse_line(json.dumps({"i": [task, [[], steps]], "r": [[0.5], 0, 1, 1], "v": "v0.6"}))


def test_the_public_log_has_the_lines_that_the_tests_and_tutorials_of_tvm_have() -> None:
    assert (len(PUBLIC), len(CPU)) == (56, 30)
    assert sum('"v0.6"' in line for line in CPU) == 3


@pytest.mark.parametrize("number", range(len(CPU)))
def test_every_public_line_for_a_cpu_replays(number: int) -> None:
    line = parse_line(CPU[number])
    dag = dag_for(line)
    replayed = replay(dag, line)
    check_loops(replayed)
    # The state that has been replayed is that of its own steps.
    assert State.naive(dag).do(*replayed.state.steps) == replayed.state


def check_loops(replayed: Replayed) -> None:
    """The iterators of the log run over the loops of the state, in its order."""
    for stage in replayed.state.stages:
        if not isinstance(stage.node, Compute):
            continue
        loops = [loop for one in replayed.iterators[stage.name] for loop in one.loops]
        assert loops == [loop.name for loop in stage.loops]
        assert set(replayed.extents[stage.name]) >= set(loops)
        for loop in stage.loops:
            if loop.length is not None:
                lengths = [replayed.lengths[size] for size in loop.length]
                assert replayed.extents[stage.name][loop.name] == np.prod(lengths)


def test_all_public_lines_but_two_start_a_search() -> None:
    """A sparse product has a rule of its own in its tutorial; a line without steps is untiled."""
    silent = []
    for text_of in CPU:
        line = parse_line(text_of)
        dag = dag_for(line)
        made = starter(dag)
        replayed = replay(dag, line)
        try:
            start = made.start(replayed)
        except RecordError as error:
            silent.append((line.name, str(error)))
            continue
        record = made.record(line, start)
        assert record.outcome.times_s == line.times_s  # type: ignore[union-attr]
        replay_record(dag, TARGET, record)
    assert [name for name, _ in silent] == ["sparse_dense", "matmul_auto_scheduler_test"]
    assert silent[1][1] == (
        "cannot start a search of matmul from the line because its loops are none of 3 sketches;"
        " expected loops that the rules derive"
    )


NEST_OF_THE_TUTORIAL = """\
parallel i.0@j.0 in 16384
  for i.1 in 2
    for j.1 in 1
      # matmul: unroll at most 8
      for i.0 in 1
        for j.0 in 1
          for i.1 in 1
            for j.1 in 1
              for k.0 in 256
                for i.2 in 1
                  for j.2 in 1
                    for k.1 in 4
                      for i.3 in 4
                        vectorize j.3 in 8
                          matmul =
      for i.2 in 4
        vectorize j.2 in 8
          out ="""

# By hand from the same steps: loops of one iteration are gone, tiles of 4 x 8 are in registers, and
# 2 threads share the 128 x 128 tiles.
PROGRAM_OF_THE_TUTORIAL = [
    "phase out:",
    "for out:i.0 in 128 parallel:",
    "for out:j.0.t in 2 parallel:",
    "for out:j.0 in 64:",
    "for out:i.1 in 2:",
    "alloc register matmul: float32[4, 8]:",
    "tile matmul:i.3:4 lane matmul:j.3.l:8:",
    "for matmul:k.0 in 256:",
    "for matmul:k.1 in 4:",
    "tile matmul:i.3:4 lane matmul:j.3.l:8:",
    "tile out:i.2:4 lane out:j.2.l:8:",
]


def test_the_line_of_the_tutorial_gives_its_loop_nest() -> None:
    line = parse_line(TUTORIAL)
    dag = dag_for(line)
    replayed = replay(dag, line)
    assert nest(replayed) == NEST_OF_THE_TUTORIAL
    start = starter(dag).start(replayed)
    assert start.moved == ()
    program = replay_record(dag, TARGET, starter(dag).record(line, start))
    lines = [one.strip() for one in text(program).splitlines()]
    loops = lines[lines.index("phase out:") :]
    for expected, found in zip(PROGRAM_OF_THE_TUTORIAL, loops, strict=True):
        assert found.startswith(expected)


def test_stages_are_numbered_as_in_a_log() -> None:
    line = parse_line(TUTORIAL)
    assert stage_order(dag_for(line)) == ("A", "B", "matmul", "C", "out")
    layer = next(one for one in map(parse_line, CPU) if one.name.startswith("875556"))
    assert stage_order(dag_for(layer)) == (
        "data", "padded", "weights", "conv", "input0", "add0", "input1", "mul1", "input2", "add2",
        "relu",
    )  # fmt: skip


def test_every_sketch_of_the_suite_is_found_again_from_a_line_that_has_its_steps() -> None:
    """Lines made from the format: the steps of every sketch, random lengths, parallel loops."""
    rng = np.random.default_rng(5)
    made = 0
    for name in SUITE_SMALL:
        dag = SUITE_SMALL[name]()
        known = starter(dag)
        for sketch in known.sketches[:8]:
            steps = written(sketch, rng)
            if steps is None:
                continue  # a rule of ours that the released Ansor lacks
            line = log_line(steps, name="given")
            replayed = replay(dag, line)
            check_loops(replayed)
            plain = [(one.name, one.loops, one.location) for one in replayed.state.stages]
            assert plain == [(one.name, one.loops, one.location) for one in sketch.stages]
            start = known.start(replayed)
            replay_record(dag, TARGET, known.record(line, start))
            made += 1
    assert made >= 100


def written(sketch: State, rng: np.random.Generator) -> list[list[Any]] | None:
    """Return the steps of a sketch as a log writes them, and the annotations of a candidate.

    None if a log has no such step.
    """
    state = State.naive(sketch.dag)
    order = list(stage_order(sketch.dag))
    splits: dict[tuple[str, str], int] = {}
    made: list[list[Any]] = []
    for number, step in enumerate(sketch.steps):
        found = written_step(state, order, splits, step, rng)
        if found is None:
            return None
        before = {stage.name for stage in state.stages}
        state = state.do(step)
        for one in state.stages:
            if one.name not in before:
                order.insert(found[1], one.name)
        if found[0] == "SP":
            splits[step.stage, step.loop] = number  # type: ignore[attr-defined]
        made.append(found)
    hosts = {one.location.stage for one in state.stages if isinstance(one.location, Attached)}
    for position, name in enumerate(order):
        stage = state.stage(name)
        kinds = [loop.kind.value for loop in stage.loops]
        if stage.location == Root() and name not in hosts and kinds[:2] == ["s", "s"]:
            made += [["FU", position, [0, 1]], ["AN", position, 0, 3]]
    return made


def written_step(
    state: State,
    order: list[str],
    splits: dict[tuple[str, str], int],
    step: Any,
    rng: np.random.Generator,
) -> list[Any] | None:
    """Return one step as a log writes it."""
    if not hasattr(step, "stage") or step.stage not in order:
        return None
    stage = order.index(step.stage)
    loops = [loop.name for loop in state.stage(step.stage).loops]
    match step.code:
        case "SP" if not step.fixed:
            extent = state.stage(step.stage).loops[loops.index(step.loop)].extent or 1
            lengths = [int(rng.integers(1, extent + 1)), *[1] * (step.parts - 2)]
            rng.shuffle(lengths)
            return ["SP", stage, loops.index(step.loop), extent, lengths, 1]
        case "FSP":
            source = splits[step.source, step.source_loop]
            return ["FSP", stage, loops.index(step.loop), source, step.levels]
        case "RE":
            return ["RE", stage, [loops.index(name) for name in step.order]]
        case "FU":
            return ["FU", stage, [loops.index(name) for name in step.loops]]
        case "CA":
            host = [loop.name for loop in state.stage(step.host).loops]
            return ["CA", stage, order.index(step.host), host.index(step.loop)]
        case "CI":
            return ["CI", stage]
        case "CHW":
            return ["CHW", stage, step.scope]
        case "RF":
            spatial = [loop for loop in state.stage(step.stage).loops if loop.kind.value == "s"]
            return ["RF", stage, loops.index(step.loop), len(spatial)]
        case _:
            return None


MATMUL = [["SP", 2, 0, 16, [2, 1, 4], 1], ["SP", 2, 4, 16, [1, 1, 8], 1], ["SP", 2, 8, 16, [4], 1]]


@pytest.mark.parametrize(
    ("steps", "message"),
    [
        ([["SP", 9, 0, 16, [2], 1]], "there is no stage 9; expected 0 to 4"),
        ([["SP", 0, 0, 16, [2], 1]], "stage 0 is the input A; expected a computed stage"),
        ([["SP", 2, 7, 16, [2], 1]], "matmul has no iterator 7; expected 0 to 2"),
        ([["SP", 2, 0, 32, [2], 1]], "its extent is 32; expected 16, that of matmul.i"),
        (
            [["SP", 2, 0, 16, [0], 1]],
            "a length is 0, which is open; expected lengths of at least 1",
        ),
        ([["SP", 2, 0, 16, [99], 1]], "a length of [99] exceeds matmul.i, which has 16"),
        ([*MATMUL, ["SP", 2, 0, 2, [2], 1]], "loop 'i.0' is already part of a split"),
        ([["FSP", 4, 0, 0, 2]], "step 0 is no split before it; expected the number of a split"),
        ([*MATMUL, ["FSP", 4, 0, 2, 3]], "3 levels, the source has 1 inner parts"),
        ([["RE", 2, [0, 0, 1]]], "[0, 0, 1] is no permutation of 0 to 2"),
        ([["RE", 2, [0, 1]]], "[0, 1] is no permutation of 0 to 2"),
        ([["FU", 4, [0, 2]]], "out has no iterator 2; expected 0 to 1"),
        ([["FU", 2, [0, 2]]], "[0, 2] are not adjacent iterators, outermost first"),
        ([["FU", 2, [1, 2]]], "j, k are spatial and reduce loops"),
        ([["AN", 2, 0, 3], ["FU", 2, [0, 1]]], "one of the iterators is annotated"),
        ([["AN", 2, 0, 3], ["AN", 2, 0, 2]], "iterator 0 of matmul is already annotated parallel"),
        (
            [["AN", 2, 0, 6]],
            "a CPU has no threadIdx.x; expected one of unroll, vectorize, parallel",
        ),
        ([["AN", 2, 2, 3]], "iterator 2 of matmul reduces: it cannot be parallel"),
        ([["PR", 2, 0, "frob$1"]], "the pragma is 'frob$1'; expected auto_unroll_max_step$N"),
        ([["CA", 4, 2, 0]], "'matmul' does not come after 'out'"),
        ([["CI", 4]], "'out' is an output"),
        ([["CI", 2]], "'matmul' reduces"),
        ([["CHW", 2, "local"], ["CHW", 3, "local"]], "there already is a stage"),
        ([["RF", 2, 2, 2]], "the reduction of 'matmul' is not one loop in two parts"),
        ([["CHR", 0, "shared", [4]]], "'out' does not read 'A'"),
        ([["FFSP", 2, 0, [0], 1, 1]], "splits that follow fused iterators belong to threads"),
        ([["CA", 2, 4, 0], ["FU", 4, [0, 1]]], "matmul is computed at out.i, which is fused"),
    ],
)
def test_a_step_that_does_not_apply_is_refused_with_its_number(
    steps: list[Any], message: str
) -> None:
    line = log_line(steps, 16, 16, 16)
    with pytest.raises(RecordError) as caught:
        replay(dag_for(line), line)
    last = f"cannot apply step {len(steps) - 1} ({steps[-1][0]} of stage {steps[-1][1]}) to"
    assert str(caught.value).startswith(f"{last} matmul_add because")
    assert message in str(caught.value)


def test_outer_lengths_give_the_parts_of_inner_ones() -> None:
    inner = replay(dag_for(log_line([], 16, 16, 16)), log_line([MATMUL[0]], 16, 16, 16))
    line = log_line([["SP", 2, 0, 16, [2, 2, 1], 0]], 16, 16, 16)
    assert inner.extents["matmul"] == {
        "i.0": 2, "i.1": 2, "i.2": 1, "i.3": 4, "j": 16, "k": 16,
    }  # fmt: skip
    assert replay(dag_for(line), line).extents["matmul"] == inner.extents["matmul"]


def test_a_stage_of_rank_zero_may_be_parallel() -> None:
    dag = workloads.reduce_all(4, 8)
    line = log_line([["FU", 1, []], ["AN", 1, 0, 3], ["PR", 1, 0, "auto_unroll_max_step$16"]])
    made = "# out: unroll at most 16\nparallel once in 1\n  for i in 4\n    for j in 8\n      out ="
    assert nest(replay(dag, line)) == made


def test_lines_for_a_gpu_are_read_and_name_the_missing_parts() -> None:
    lines = [line for line in PUBLIC if line not in CPU]
    reports = list(LogImport(TARGET).read(lines))
    assert len(reports) == 26
    for report in reports:
        assert (report.nest, report.record) == ("", None)
        assert report.note.startswith("cannot replay a line for cuda because our states lack")
        assert report.note.endswith("; expected a target that is one of llvm, c")
    assert reports[0].note == (
        "cannot replay a line for cuda because our states lack copies in shared memory, iterators"
        " bound to blockIdx.x, iterators bound to vthread, iterators bound to threadIdx.x, splits"
        " that follow fused iterators; expected a target that is one of llvm, c"
    )


def test_a_line_of_another_computation_is_refused() -> None:
    a = te.placeholder((8, 8), "A")
    other = te.dag(te.compute((8, 8), lambda i, j: a[i, j] + 1.0, "B"), "other")
    digest = next(line for line in CPU if "d7b65649" in line)
    (report,) = LogImport(TARGET, other).read([digest])
    assert report.note == (
        "cannot replay the line on other because the extents of its inputs and outputs are"
        " (1, 1000, 1, 1000); expected (8, 8, 8, 8)"
    )
    (unknown,) = LogImport(TARGET).read([digest])
    assert unknown.note == (
        "cannot know the computation of workload 'd7b65649a4dd54becea0a52aabbc5af5' because a log"
        " holds no Dag; expected a Dag, or a registered workload by name"
    )


def test_a_registered_workload_takes_the_arguments_of_the_key() -> None:
    plain = log_line([["AN", 2, 0, 3]], 16, 16, 16, name="my_matmul")
    written = json.dumps(
        {
            "i": [['["my_matmul", 16, 16, 16]', "llvm"], [[], [["AN", 2, 0, 3]]]],
            "r": [[0.5], 0, 1, 1],
            "v": "v0.6",
        }
    )
    (report,) = LogImport(TARGET, workload="matmul").read([written])
    assert report.nest == "parallel i in 16\n  for j in 16\n    for k in 16\n      C ="
    assert nest(replay(workloads.matmul(16, 16, 16), plain)) == report.nest
    (wrong,) = LogImport(TARGET, workload="softmax").read([written])
    assert wrong.note.startswith(
        "cannot make workload softmax of the arguments (16, 16, 16) because of X: unknown dtype 16"
    )
    assert wrong.note.endswith("; expected rows, columns, [dtype]")
