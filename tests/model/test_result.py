"""The result of a model, as it is printed and as a notebook shows it."""

import sys
from dataclasses import replace
from pathlib import Path

import pytest

from ansorpy.errors import PackageError, SpecError
from ansorpy.model.compile import ModelResult
from ansorpy.plot import canvas
from ansorpy.verdict import Judgment, Peer
from tests.plot.samples import RESULT, TARGET, subject

WON = Judgment("bundle", 1e-3, (Peer("ONNX Runtime 1.32.0", 2e-3),), 1, "ONNX Runtime 1.32.0")
MADE = ModelResult(
    Path("<m>.zip"), 1.5e-3, 1e-7, 2e-5, "ONNX Runtime 1.32.0", 5, (RESULT,), (), 40, 12.0,
    "trials", verdict=WON, records={"mm": subject().records}, target=TARGET,
)  # fmt: skip


def test_a_result_prints_four_lines() -> None:
    assert repr(MADE) == str(MADE)
    assert len(repr(MADE).splitlines()) == 4


def test_a_notebook_shows_a_card_and_names_are_escaped() -> None:
    html = MADE._repr_html_()
    assert html.index("2.00x faster than ONNX Runtime") < html.index("1 ms (race); kernels alone")
    assert "&lt;m&gt;" in html
    assert "<m>" not in html
    assert "ansorpy.load(&#x27;&lt;m&gt;.zip&#x27;)(...)" in html


def test_a_task_of_a_model_is_drawn_by_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(SpecError, match="cannot find task 'x' in this result; expected one of"):
        MADE.plot(task="x")
    with pytest.raises(SpecError, match="cannot choose one of 2 tasks; expected task= with one"):
        replace(MADE, tasks=(RESULT, replace(RESULT, name="b"))).plot()
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)  # importing it raises ImportError
    canvas._figure_type.cache_clear()
    with pytest.raises(PackageError, match=r"expected pip install 'ansorpy\[plot\]'"):
        MADE.plot("history")
