"""The parts of the page of a job: trials, reasons, code, and the pictures of the server."""

import html
import io
import json
import re
import zipfile
from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ansorpy.events import FirstAnswer
from ansorpy.frontends.tc.text import parse
from ansorpy.measure.outcome import Failed, Measured, Outcome
from ansorpy.model.events import ModelEstimate
from ansorpy.model.outline import OutlinedPart
from ansorpy.plan.choices import naive
from ansorpy.plot.roofline import Roofline
from ansorpy.plot.sized import SizedTrials
from ansorpy.records import Record, carried
from ansorpy.replay import plan_text
from ansorpy.rules import CPU
from ansorpy.server.db.records import record_row
from ansorpy.server.schemas.explain import ContrastReply, DifferenceReply
from ansorpy.server.schemas.job import (
    ModelProgress,
    ModelTaskProgress,
    PeerReply,
    TaskReply,
    VerdictReply,
)
from ansorpy.server.service.derivation_tree import path_to
from ansorpy.server.service.explain import differences
from ansorpy.server.service.trials import STOPPED, TIMED, TrialQuery, TrialRow
from ansorpy.server.web.model_graph import memory_parts, model_graph
from ansorpy.server.web.parallel_picture import SHOWN, parallel_picture
from ansorpy.server.web.rivals import rival_bars, rival_lines
from ansorpy.server.web.roofline_picture import LINE, roofline_picture
from ansorpy.server.web.snippets import c_call_of, call_of, kernel_body
from ansorpy.server.worker.model_journal import ModelJournal
from ansorpy.sketch import derive
from ansorpy.target import Target
from ansorpy.verdict import Judgment, Peer
from tests.server.onnx_models import small
from tests.server.service import MM, Service, service
from tests.server.test_model_jobs import DIVIDED, ask, played, work, written
from tests.server.test_one_latency import ended, text_of
from tests.server.test_pages import TARGET, tell

RACED = Judgment("bundle", 2e-3, (Peer("runtime", 4e-3),), 1, "r")
ROOFLINE = Roofline(
    2.0, 1e11, True, {"L2 cache": 1e11, "memory": 1e10}, {"this kernel": 5e10, "untuned": 1e5}
)


def row(number: int, best_s: float | None, outcome: str, variant: int = 1) -> TrialRow:
    return TrialRow(number, 1, number, best_s, 1.0, outcome, "", variant, {})


ROWS = [row(1, 3.0, TIMED), row(2, None, "wrong", 2), row(3, 1.0, STOPPED, 2), row(4, 2.0, TIMED)]


@pytest.mark.parametrize(
    ("query", "numbers"),
    [
        (TrialQuery(), [1, 2, 3, 4]),
        (TrialQuery(sort="time"), [3, 4, 1, 2]),
        (TrialQuery(sort="time", descending=True), [1, 4, 3, 2]),
        (TrialQuery(show="failed"), [2]),
        (TrialQuery(show="early"), [3]),
        (TrialQuery(show="timed", sort="time"), [4, 1]),
        (TrialQuery(variant=2), [2, 3]),
    ],
)
def test_a_query_chooses_and_orders_trials(query: TrialQuery, numbers: list[int]) -> None:
    assert [one.number for one in query.of(ROWS)] == numbers


def add_trials(running: Service, job_claimed: Any, outcomes: list[Outcome]) -> None:
    (dag,) = parse(MM)
    plan = naive(dag, TARGET)
    first = Record(
        "k/t/1", "w", "cpu@0", plan_text(plan), plan.smallest_row, outcomes[0], **carried(dag)
    )
    with running.held(job_claimed) as (tx, job, _):
        for number, outcome in enumerate(outcomes):
            row = (first.row[0] + number, *first.row[1:])  # another row makes another candidate
            mine = job.tenant_id, job.id, "mm", 1 + number // 2
            tx.add(record_row(replace(first, outcome=outcome, row=row), *mine, origin="measured"))


def test_trials_of_a_job_are_a_table_and_a_download(url: str) -> None:
    outcomes: list[Outcome] = [
        Measured((2e-3,)), Failed("wrong", "C[0] is <b>"), Measured((1e-3,), slowdown=1.5),
    ]  # fmt: skip
    with service(url) as running:
        job_id = running.submit(fresh=True)
        claimed = running.claim()
        add_trials(running, claimed, outcomes)
        tell(running, claimed, seconds=1.5)
        tell(running, claimed, seconds=2.5)
        rows = running.client.get(f"/jobs/{job_id}/charts/trials.csv").text.splitlines()
        assert rows[0].startswith("task,trial,round,place,seconds,best_s,slowdown,outcome")
        assert [line.split(",")[:7] for line in rows[1:]] == [
            ["mm", "1", "1", "1", "1.5", "0.002", "1.0"],
            ["mm", "2", "1", "2", "1.5", "", ""],
            ["mm", "3", "2", "1", "2.5", "0.001", "1.5"],
        ]
        path = f"/jobs/{job_id}?tab=trials"
        page = running.client.get(f"{path}&sort=time").text
        assert re.findall(r'<th scope="row" class="number">(\d)</th>', page) == ["3", "1", "2"]
        assert "C[0] is &lt;b&gt;" in page
        failed = running.client.get(f"{path}&show=failed").text
        assert re.findall(r'<th scope="row" class="number">(\d)</th>', failed) == ["2"]
        assert "cannot name the sizes of mm because its machine is not known" in page
        assert running.client.get(f"{path}&sort=x").status_code == 422
        assert running.client.get(f"{path}&task=other").status_code == 404
        other = running.client.get(f"/jobs/{job_id}/charts/trials.csv?task=other")
        assert other.status_code == 404


def test_the_code_of_a_delivered_kernel_can_be_copied(url: str) -> None:
    with service(url) as running:
        job_id, digest = running.succeed(fresh=True)
        page = running.client.get(f"/jobs/{job_id}?tab=code").text
        assert f"kernel-{digest[:12]}.zip" in page
        assert 'data-name="the call in Python"' in page
        top = running.client.get(f"/jobs/{job_id}").text
        assert f'<a class="primary" href="/v1/kernels/{digest}" download>Download zip</a>' in top


def test_a_cancelled_job_without_a_trial_shows_nothing_that_will_not_come(url: str) -> None:
    with service(url) as running:
        job_id = running.submit(fresh=True)
        running.client.post(f"/v1/jobs/{job_id}/cancel")
        page = running.client.get(f"/jobs/{job_id}").text
        assert "No trial was measured, so no record was added" in page
        for never in ('class="facts"', 'id="latency"', "Roofline", "tab=trials", "Download zip"):
            assert never not in page


def test_the_way_to_a_sketch_is_its_decisions_in_order() -> None:
    found = derive(parse(MM)[0], Target(), CPU)
    for sketch in found.sketches:
        steps = path_to(found, str(sketch))
        applied = found.applied[sketch.steps]
        assert [step.rule in told for step, told in zip(steps, applied, strict=False)]
        assert all(step.why and step.stage for step in steps)
    assert len({tuple(path_to(found, str(one))) for one in found.sketches}) == len(found.sketches)
    assert path_to(found, "none") == []


def test_differences_pair_the_values_of_a_size() -> None:
    told = ContrastReply(
        winner_s=1.0, runner_up_s=2.0, only_winner=["i.1 = 8", "A packed"],
        only_runner_up=["i.1 = 4", "j.1 = 2"], text="",
        differences=[
            DifferenceReply(name=f"f{n}", winner=1.0, runner_up=2.0, part=-0.5, share=0.25)
            for n in range(4)
        ],
    )  # fmt: skip
    rows = [(one.name, one.winner, one.runner_up, one.share) for one in differences(told)]
    assert rows == [
        ("i.1", "8", "4", None), ("A packed", "yes", "", None), ("j.1", "", "2", None),
        ("f0", "1", "2", -0.25), ("f1", "1", "2", -0.25),
    ]  # fmt: skip


def judged(naive_s: float) -> TaskReply:
    peers = [PeerReply(name="NumPy", seconds=2.0), PeerReply(name="x", note="no such operator")]
    verdict = VerdictReply(
        sentence="", level="green", ratio=2.0, ours_s=1.0, peer="NumPy", peer_s=2.0, peers=peers,
        threads=1, oracle="", slowdown=1.0, remedies=[],
    )  # fmt: skip
    return TaskReply(name="mm", weight=1.0, best_s=1.0, naive_s=naive_s, flop=10, verdict=verdict)


def test_bars_are_as_long_as_times_and_cut_if_they_are_much_longer() -> None:
    bars = rival_bars(judged(3.0))
    assert [(one.name, round(one.share, 3), one.cut) for one in bars] == [
        ("this kernel", 0.333, False), ("NumPy", 0.667, False), ("x", 0.0, False),
        ("untuned", 1.0, False),
    ]  # fmt: skip
    cut = rival_bars(judged(100.0))
    assert [(round(one.share, 3), one.cut) for one in cut[::3]] == [(0.2, False), (1.0, True)]
    assert rival_bars(TaskReply(name="mm", weight=1.0, best_s=1.0)) == []


def test_lines_have_the_time_at_the_measured_peak() -> None:
    assert rival_lines(judged(3.0), ROOFLINE)[-1] == ("arithmetic peak", 1e-10)
    bound = replace(ROOFLINE, measured=False)
    assert [name for name, _ in rival_lines(judged(3.0), bound)] == ["NumPy", "untuned"]


def test_a_roofline_keeps_its_parts_within_the_picture_and_names_apart() -> None:
    rates = {"this kernel": 5e10, **{f"rival {n}": 4.9e10 for n in range(8)}, "untuned": 1e5}
    picture = roofline_picture(replace(ROOFLINE, flop_per_s=rates))
    assert [one.below for one in picture.programs] == [False] * 9 + [True]
    heights = sorted(one.label_y for one in picture.programs)
    assert all(b - a >= 0.99 * LINE for a, b in pairwise(heights))
    dots = [dot for line in picture.limits for dot in line.dots]
    assert all(0 <= dot.x <= 640 and 0 <= dot.y <= 300 for dot in dots)
    assert [line.name for line in picture.limits][-1] == "arithmetic 100 GFLOP/s (measured)"


def test_parallel_coordinates_end_with_the_fastest_trial() -> None:
    rng = np.random.default_rng(0)
    values, times_s = rng.integers(1, 65, (SHOWN + 50, 3)), rng.uniform(1, 2, SHOWN + 50)
    picture = parallel_picture(SizedTrials(("i", "j", "k"), values, times_s, 300))
    assert picture is not None
    assert (len(picture.lines), picture.count, picture.of) == (SHOWN, SHOWN + 50, 300)
    assert (picture.lines[-1].group, picture.lines[0].group) == (0, 3)
    assert picture.best_s == times_s.min()
    assert parallel_picture(SizedTrials(("i",), values[:, :1], times_s, 300)) is None


def test_a_snippet_names_tensors_only_if_python_takes_the_names() -> None:
    def manifest(name: str) -> dict[str, Any]:
        tensor = {"name": name, "dtype": "float32", "shape": [2, 3]}
        return {"inputs": [tensor, {**tensor, "constant": True}], "outputs": [tensor]}

    assert call_of(manifest("A"), "k.zip").splitlines()[-1] == "A = kernel(A)"
    assert call_of(manifest('"); x('), "k.zip").splitlines()[-1] == "y0 = kernel(x0)"
    assert '"); x(' not in call_of(manifest('"); x('), "k.zip")
    assert "args = {in0, out0, workspace};" in c_call_of(manifest("int"))


def test_the_body_of_a_kernel_has_its_phases_first() -> None:
    source = (
        "import x\n\ntile0 = tile(1)\n\n\ndef beside(name): ...\n\n\n@njit\ndef phase0(a):\n"
        "    tile0(a)\n\n\ndef launch(a): ...\n\n\ndef reference(): ...\n"
    )
    assert kernel_body(source) == "@njit\ndef phase0(a):\n    tile0(a)\n\ntile0 = tile(1)"
    assert kernel_body("def") == ""


PARTS = (
    OutlinedPart("Conv 3x3 3>8 @12x12 +ReLU", "t0_conv", ()),
    OutlinedPart("TopK 1x8", "", (0,)),
    OutlinedPart("Conv 3x3 3>8 @12x12 +ReLU", "t0_conv", (0, 1)),
    OutlinedPart("Gemm 1x8x5", "t1_gemm", (2,)),
)


def test_the_page_of_a_model_names_its_groups_and_shows_their_shares(
    url: str, tmp_path: Path
) -> None:
    memory = {"weights_bytes": 3 << 20, "packed_bytes": 0, "arena_bytes": 1 << 20}
    bundle = io.BytesIO()
    with zipfile.ZipFile(bundle, "w") as archive:
        archive.writestr("model.json", json.dumps({"memory": memory}))
    with service(url) as running:
        digest = running.put_model(small(tmp_path / "m.onnx").read_bytes())
        job_id = ask(running, digest).json()["id"]

        def tuned(_: Any, journal: ModelJournal, out: Path) -> Iterator[Any]:
            yield replace(DIVIDED, outline=PARTS)
            for name, best_s in (("t0_conv", 2e-3), ("t1_gemm", 1e-3)):
                yield FirstAnswer(name, out / "a.zip", best_s, 0.5, ("random",))
            yield ModelEstimate(5e-3, 2, 2, {"t0_conv": 2.0, "t1_gemm": 1.0})
            yield played(journal, 0, 2e-3)
            yield written(out, bundle.getvalue(), 5e-3)
            yield replace(ended(out), verdict=RACED)

        work(running, tmp_path, tuned)
        page = text_of(running.client.get(f"/jobs/{job_id}").text)
        assert "Conv 3x3 3>8 @12x12 +ReLU 25.0 % TopK 1x8 by NumPy" in page
        assert "weights 3.00 MiB intermediates 1.00 MiB" in page
        assert "this bundle 2.00 ms race runtime 4.00 ms 2.00×" in page  # noqa: RUF001
        reply = running.client.get(f"/v1/jobs/{job_id}").json()["model"]["tasks"]
        assert [one["title"] for one in reply] == ["Conv 3x3 3>8 @12x12 +ReLU", "Gemm 1x8x5"]
        trials = running.client.get(f"/jobs/{job_id}?tab=trials&task=t0_conv")
        assert "2 of 2 trials" in trials.text
        code = html.unescape(running.client.get(f"/jobs/{job_id}?tab=code").text)
        assert "ansorpy bench model-" in code


def test_lines_of_a_graph_lead_round_the_rows_between() -> None:
    tasks = [
        ModelTaskProgress(name="t0_conv", weight=2.0, state="done", best_s=1.0, share=0.8),
        ModelTaskProgress(name="t1_gemm", weight=1.0, state="done", best_s=0.5, share=0.01),
    ]
    model = ModelProgress(sha256="0" * 64, divided=True, tasks=tasks)
    graph = model_graph(PARTS, model)
    assert graph is not None
    assert [(row.share, row.heat) for row in graph.rows] == [
        (0.4, 5),
        (None, 0),
        (0.4, 5),
        (0.01, 1),
    ]
    assert [len(row.lines) for row in graph.rows] == [0, 1, 2, 1]
    assert ["C" in line for line in graph.rows[2].lines] == [True, False]
    many = model_graph([OutlinedPart("Add", "", ())] * 500, model)
    assert many is not None
    assert (len(many.rows), many.left_out) == (200, 300)
    assert model_graph((), model) is None


def test_parts_of_memory_fill_the_bar() -> None:
    parts = memory_parts({"weights_bytes": 1, "packed_bytes": 0, "arena_bytes": 3})
    assert [(one.name, one.begin, one.share) for one in parts] == [
        ("weights", 0.0, 0.25), ("intermediates", 0.25, 0.75),
    ]  # fmt: skip
    assert memory_parts({}) == []
