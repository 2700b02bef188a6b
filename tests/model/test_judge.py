"""The race of a bundle against installed runtimes: a verdict, or the reason why there is none."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper, save

from ansorpy.bundle.amend import amend
from ansorpy.bundle.load import load_model
from ansorpy.graph.builder import GraphBuilder
from ansorpy.measure.host import local_target
from ansorpy.model import judge
from ansorpy.model.compile import ModelResult
from ansorpy.model.entry import tune
from ansorpy.model.events import BundleWritten, Comparing
from ansorpy.model.judge import Rivals, judged, name_of, rivals_of, verdict_of
from ansorpy.model.options import ModelOptions
from ansorpy.model.race import Entry, Standing
from ansorpy.model.request import ModelRequest
from ansorpy.records import MemoryStore


def model_file(folder: Path) -> Path:
    """Write a model without arithmetic: its bundle takes no time to make."""
    facts = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [2, 3]) for name in "xy"]
    nodes = [helper.make_node("Flatten", ["x"], ["y"], axis=1)]
    made = helper.make_model(helper.make_graph(nodes, "plain", facts[:1], facts[1:]))
    path = folder / "plain.onnx"
    save(made, path)
    return path


def tuned(folder: Path, **options: Any) -> tuple[list[object], ModelResult]:
    events: list[object] = []
    result = tune(
        model_file(folder), out=folder / "plain.zip", trials=0, store=MemoryStore(),
        progress=False, on_event=events.append, **options,
    )  # fmt: skip
    return events, result


def test_a_model_is_raced_against_the_installed_runtime(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(judge, "ROUNDS", ((3, 0.05),))
    events, result = tuned(tmp_path)
    (comparing,) = [one for one in events if isinstance(one, Comparing)]
    assert comparing.names == (name_of("ort"),)
    first, last = [one for one in events if isinstance(one, BundleWritten)]
    assert (first.verdict, last.verdict) == (None, result.verdict)
    verdict = result.verdict
    assert verdict is not None
    assert verdict.peer is not None
    assert (verdict.peer.name, verdict.threads) == (name_of("ort"), 1)
    assert verdict.ours_s > 0
    assert verdict.oracle.startswith(name_of("ort"))
    assert str(result).startswith(f"plain: {verdict}\n")
    with load_model(result.bundle) as loaded:
        assert loaded.manifest["verdict"] == verdict.as_object()
        assert loaded.selftest() == []


def test_no_race_is_held_if_none_is_asked_for(tmp_path: Path) -> None:
    events, result = tuned(tmp_path, race=False)
    assert not any(isinstance(one, Comparing) for one in events)
    assert result.verdict is not None
    assert "not compared with a library: no race was asked for" in str(result)
    with load_model(result.bundle) as loaded:
        assert "verdict" not in loaded.manifest


def test_a_graph_without_its_file_has_no_rival() -> None:
    builder = GraphBuilder("plain")
    builder.output("y", builder.input("x", (2, 3), "float32"))
    rivals = rivals_of(
        ModelRequest(builder.graph(), local_target(1), ModelOptions(), Path("plain.zip"))
    )
    assert rivals.missing == "there is no ONNX file that another runtime could run"
    assert rivals.seconds(1.0) == 0.0


def test_a_race_that_does_not_fit_into_the_seconds_is_not_held(tmp_path: Path) -> None:
    rivals = Rivals((Entry("ort", tmp_path / "absent.onnx"),), ("ONNX Runtime",))
    found = judged(tmp_path / "absent.zip", rivals, 1, "x", call_s=2.0, left_s=20.0)
    assert found.peer is None
    assert "a race takes about 76 s, and 20 s were left" in str(found)
    assert rivals.seconds(2.0, (5, 2.0)) == pytest.approx(2 * (2.0 + 60.0))


def test_a_runtime_that_fails_is_left_out_with_its_reason() -> None:
    ours = Standing("ansorpy", (1.0, 1.0, 1.0))
    found = verdict_of((ours, Standing("ort", failed="no kernel")), ("ONNX Runtime",), 1, "x")
    assert "ONNX Runtime left out (no kernel)" in str(found)
    both = verdict_of((ours, Standing("ort", (2.0, 2.1, 2.2))), ("ONNX Runtime",), 1, "x")
    assert both.ratio == pytest.approx(2.1)


def test_a_fact_is_added_to_a_bundle_and_nothing_else_changes(tmp_path: Path) -> None:
    _, result = tuned(tmp_path, race=False)
    with load_model(result.bundle) as loaded:
        before = dict(loaded.manifest)
    amend(result.bundle, {"colour": "green"})
    with load_model(result.bundle) as loaded:
        assert loaded.manifest == {**before, "colour": "green"}
        np.testing.assert_array_equal(loaded(np.ones((2, 3), np.float32)), np.ones((2, 3)))
    assert [one.name for one in tmp_path.glob("*.zip")] == ["plain.zip"]
