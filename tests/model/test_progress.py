"""The lines that a user sees while a model is tuned."""

import io
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from ansorpy.errors import RunError
from ansorpy.events import FirstAnswer, Preflight, RoundDone, Started, Stopping, TimeSpent
from ansorpy.model.events import BundleWritten, Divided, ModelEstimate
from ansorpy.model.progress import ModelTally, graph_reporter, model_reporter

DIVIDED = Divided(9, 7, {"views": 2}, 5, 2, 0.25)
WRITTEN = BundleWritten(Path("m.zip"), 0.002, 1e-7, 2e-5, "the interpreter of graphs", 12.0)


def answer(task: str) -> FirstAnswer:
    return FirstAnswer(task, Path("k.zip"), 1e-3, 1.0, ("random",))


def test_a_plain_stream_gets_a_line_per_step() -> None:
    stream = io.StringIO()
    with model_reporter(stream) as report:
        for event in (
            DIVIDED,
            answer("t0_conv"),
            ModelEstimate(1e-3, 1, 2),
            answer("t1_gemm"),
            ModelEstimate(3e-3, 2, 2),
            WRITTEN,
            Preflight("t0_conv", "the first answer", 0.0, 1 << 20, 1 << 30),
            ModelEstimate(2.999e-3, 2, 2),
            ModelEstimate(2e-3, 2, 2),
        ):
            report(event)
    assert stream.getvalue().splitlines() == [
        "9 nodes, 7 after passes (views 2): 5 kernel calls of 2 tasks, 0.2 s",
        "t0_conv: 1 ms as a first answer",
        "t1_gemm: 1 ms as a first answer",
        "model: about 3 ms per call",
        "m.zip written after 12.0 s: kernels take 2 ms per call; error 1.0e-07 of the largest"
        " element (bound 2.0e-05), verified against the interpreter of graphs",
        "preflight: the first answer of t0_conv was built and is right; a check takes up to 1 MiB"
        " of memory, 1 GiB are free",
        "model: about 2 ms per call",
    ]


def test_a_graph_gets_a_line_at_its_start_and_one_at_its_end() -> None:
    stream = io.StringIO()
    with graph_reporter(1.0, now=lambda: 4.5)(stream) as report:
        known = replace(answer("t1_gemm"), from_store=True)
        for event in (replace(DIVIDED, threads=2), answer("t0_conv"), known, WRITTEN):
            report(event)
    assert stream.getvalue().splitlines() == [
        "ansorpy: compiling a graph of 9 nodes: 2 tasks for 2 threads",
        "ansorpy: compiled the graph in 3.5 s: 1 of 2 tasks from the records, no trial",
    ]


def test_the_last_line_of_a_graph_counts_its_trials() -> None:
    stream = io.StringIO()
    with graph_reporter(1.0, now=lambda: 4.5)(stream) as report:
        for done in (8, 24):
            report(RoundDone("t0_conv", 1, done, 1e-3, {}, {}, TimeSpent()))
    assert stream.getvalue().endswith(" from the records, 24 trials\n")


def test_a_graph_that_fails_has_no_line_at_its_end() -> None:
    stream = io.StringIO()
    with suppress(RunError), graph_reporter(0.0)(stream):
        raise RunError("no kernel")
    assert stream.getvalue() == ""


def test_the_status_line_tells_answers_then_trials_and_the_estimate() -> None:
    tally = ModelTally(0.0)
    tally.take(DIVIDED, painted=True)
    tally.take(ModelEstimate(1e-3, 1, 2), painted=True)
    assert tally.status(3.0) == "first answers: 1 of 2 tasks, 0:03"
    tally.take(ModelEstimate(3e-3, 2, 2), painted=True)
    tally.take(Started(("t0_conv",), (0,), 40, None), painted=True)
    tally.take(RoundDone("t0_conv", 1, 10, 1e-3, {}, {}, TimeSpent()), painted=True)
    assert "10/40 trials, model about 3 ms, 0:09" in tally.status(9.0)


def test_an_interrupt_tells_if_there_will_be_a_bundle() -> None:
    tally = ModelTally(0.0)
    assert "no bundle" in tally.take(Stopping(), painted=False)
    tally.take(WRITTEN, painted=False)
    assert "the best so far is written" in tally.take(Stopping(), painted=False)
