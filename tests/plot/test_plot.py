"""Pictures of a task: their data, units, names, and the refusals."""

import sys
from dataclasses import replace
from typing import Any

import pytest

from ansorpy.errors import PackageError, SpecError
from ansorpy.frontends.tc.text import parse
from ansorpy.plot import canvas
from ansorpy.plot.draw import KINDS, plot
from ansorpy.plot.roofline import memory_limits, moved_bytes
from ansorpy.plot.subject import subject_of
from ansorpy.result import Result
from ansorpy.target import Target
from ansorpy.te.dims import timed_sizes
from tests.plot.samples import DAG, PEER, PLAN, RACE, RESULT, TARGET, subject, without_times


@pytest.fixture
def drawn() -> None:
    pytest.importorskip("matplotlib", reason="matplotlib is not installed")


def texts(figure: Any) -> str:
    """Every text of a figure."""
    import matplotlib.text

    return "\n".join(one.get_text() for one in figure.findobj(matplotlib.text.Text))


@pytest.mark.usefixtures("drawn")
@pytest.mark.parametrize("kind", KINDS)
def test_a_picture_is_a_figure_that_opens_no_window(kind: str) -> None:
    figure = Result((RESULT,), 9.0, "trials", (), {"mm": subject().records}, TARGET).plot(kind)
    assert figure._repr_png_().startswith(b"\x89PNG")
    assert figure.axes[0].get_title().startswith("mm: ")
    assert "matplotlib.pyplot" not in sys.modules


@pytest.mark.usefixtures("drawn")
def test_a_history_has_trials_failures_race_and_names_of_others() -> None:
    figure = plot("history", subject())
    shown = texts(figure)
    for text in (
        "mm: 43 trials, 3 failed, 2.00x faster than ONNX Runtime 1.32.0",
        "time of a call (us, logarithmic)",
        "failed trial", "best trial so far", "kernel in the race",
        "NumPy 3 us", f"{PEER} 2 us", "untuned 50 us (above)",
    ):  # fmt: skip
        assert text in shown, text
    (best,) = [one for one in figure.axes[0].lines if one.get_label() == "best trial so far"]
    times = list(best.get_ydata())
    assert times == sorted(times, reverse=True)


@pytest.mark.usefixtures("drawn")
def test_a_roofline_marks_estimates_and_has_a_point_per_program() -> None:
    shown = texts(plot("roofline", subject()))
    for text in (
        "memory 15 GB/s (estimate)", "arithmetic 100 GFLOP/s (measured)",
        "this kernel 24.58 GFLOP/s", "NumPy 8.192 GFLOP/s",
        "GFLOP/s", "operations per byte of operands and results (FLOP/B)",
    ):  # fmt: skip
        assert text in shown, text


@pytest.mark.usefixtures("drawn")
def test_the_importance_ranks_the_size_that_decides_the_time_first() -> None:
    axes = plot("importance", subject(trials=80)).axes[0]
    assert [one.get_text() for one in axes.get_yticklabels()][-1] == PLAN.sizes[0].name
    assert "% of the variance of log time" in axes.get_xlabel()


@pytest.mark.usefixtures("drawn")
def test_parallel_coordinates_have_an_axis_per_size() -> None:
    figure = plot("parallel", subject())
    names = [one.get_text() for one in figure.axes[0].get_xticklabels()]
    assert names == [size.name for size in PLAN.sizes][: len(names)]
    assert "time of a call (us, logarithmic)" in texts(figure)


@pytest.mark.usefixtures("drawn")
def test_axes_of_the_user_are_drawn_in() -> None:
    from matplotlib.figure import Figure

    axes = Figure().subplots()
    assert plot("history", subject(), axes) is axes.figure


@pytest.mark.usefixtures("drawn")
@pytest.mark.parametrize(
    ("kind", "message"),
    [
        (
            "history",
            "cannot plot the history of mm because no trial on record has a time; expected",
        ),
        ("roofline", "cannot draw a roofline of mm because no race on a processor is on record"),
        ("importance", "cannot name the sizes of mm because no trial on record has a time"),
        ("parallel", "cannot name the sizes of mm because no trial on record has a time"),
    ],
)
def test_a_picture_without_data_is_refused(kind: str, message: str) -> None:
    with pytest.raises(SpecError, match=message):
        plot(kind, without_times(subject()))


@pytest.mark.usefixtures("drawn")
def test_few_trials_have_no_importance() -> None:
    with pytest.raises(SpecError, match="because 9 trials with a time and equal loops are on"):
        plot("importance", subject(trials=9))


def test_without_matplotlib_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)  # importing it raises ImportError
    canvas._figure_type.cache_clear()
    expected = r"cannot plot because matplotlib is not installed; expected pip install 'ansorpy\[pl"
    with pytest.raises(PackageError, match=expected):
        plot("history", subject())


def test_an_unknown_kind_is_refused_with_the_known_ones() -> None:
    with pytest.raises(SpecError, match="cannot plot 'pie' because there is no such picture; exp"):
        plot("pie", subject())


def test_a_task_is_chosen_by_name() -> None:
    twin = replace(RESULT, name="twin", same_as="mm")
    records = {"mm": subject().records}
    assert subject_of((RESULT, twin), records, TARGET, "twin").records == records["mm"]
    for name, message in ((None, "cannot choose one of 2 tasks; expected"), ("x", "cannot find")):
        with pytest.raises(SpecError, match=f"{message}.* one of 'mm', 'twin'"):
            subject_of((RESULT, twin), records, TARGET, name)


@pytest.mark.usefixtures("drawn")
def test_trials_of_ranges_are_told() -> None:
    task = without_times(subject())
    ranged = replace(task, result=replace(task.result, ranges={"N in 1..8": 1e-6}))
    with pytest.raises(SpecError, match=r"its trials are those for N in 1\.\.8; expected"):
        plot("history", ranged)


def test_bytes_of_a_dim_are_a_mean_over_its_timed_sizes() -> None:
    (dag,) = parse("def f(float(N in 1..4, 8) A) -> (B) { B(n,i) = A(n,i) * 2 }")
    counts = [sizes["N"] for sizes in timed_sizes(dag)]
    assert moved_bytes(dag) == pytest.approx(2 * 4 * 8 * sum(counts) / len(counts))


def test_each_operand_and_result_is_moved_once() -> None:
    assert moved_bytes(DAG) == 4 * (16 * 24 + 24 * 32 + 16 * 32)
    assert RACE.flop == 2 * 16 * 24 * 32


def test_caches_of_cores_add_up_and_memory_is_shared() -> None:
    one, four = (memory_limits(Target(vector_bits=256, cores=cores)) for cores in (1, 4))
    assert four["L2 cache"] == 4 * one["L2 cache"]
    assert four["memory"] == 2 * one["memory"]
