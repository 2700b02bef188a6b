"""The rows agree with their formulas, and the formulas with NumPy."""

import numpy as np
import pytest

from ansorpy import te
from ansorpy.te.analysis import flop_count
from ansorpy.te.dag import Placeholder
from benchmarks.suite.cases import BATCHED, DUEL, LARGE_BATCH, takes_winograd
from benchmarks.suite.dags import dag_of
from benchmarks.suite.forms import Form, TransposedConv
from benchmarks.suite.reference import random_inputs, reference
from benchmarks.suite.rows import ROWS, Row
from benchmarks.suite.small import FORMS

EVERY_FORM = pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)


@EVERY_FORM
@pytest.mark.parametrize("constant", [False, True])
def test_a_dag_computes_the_formula(form: Form, constant: bool) -> None:
    dag = dag_of(form, constant)
    given = random_inputs(form, 0)
    shapes = {n.name: n.shape for n in dag.nodes if isinstance(n, Placeholder)}
    inputs = {name: given[name].reshape(shape) for name, shape in shapes.items()}
    (got,) = te.evaluate(dag, inputs)
    wanted = reference(form, given)
    assert wanted.shape == form.output
    # Both compute in float64; erf of the evaluator is the least exact function of them.
    np.testing.assert_allclose(got.reshape(form.output), wanted, rtol=1e-6, atol=1e-6)


@EVERY_FORM
def test_only_weights_are_constants(form: Form) -> None:
    may = {given.name for given in form.inputs if given.weight}
    found = {n.name for n in dag_of(form, True).nodes if isinstance(n, Placeholder) and n.constant}
    assert found <= may
    assert not any(getattr(n, "constant", False) for n in dag_of(form, False).nodes)
    assert found or "scale" in may or not may


@pytest.mark.parametrize("row", ROWS.values(), ids=ROWS)
def test_a_row_has_the_shapes_and_the_work_of_its_form(row: Row) -> None:
    dag = row.dag(constant_weights=True)
    sizes = {n.name: np.prod(n.shape) for n in dag.nodes if isinstance(n, Placeholder)}
    assert sizes == {given.name: np.prod(given.shape) for given in row.form.inputs}
    assert dag.name == row.name
    if isinstance(row.form, TransposedConv):
        assert flop_count(dag) > row.form.flop  # inserted zeros
    elif row.case.group not in ("SUB", "NRM"):
        assert 0.9 < flop_count(dag) / row.form.flop < 1.1


def test_the_suite_has_the_specified_rows() -> None:
    assert len(DUEL) == 13
    assert set(DUEL) <= set(ROWS)
    large = [row for row in ROWS.values() if row.case.batch == LARGE_BATCH]
    assert len(large) == len(BATCHED) + 2
    assert len(ROWS) == 35 + len(BATCHED) + 1


def test_winograd_fits_plain_convolutions_of_three_by_three() -> None:
    fits = {name for name, row in ROWS.items() if takes_winograd(name) and row.case.batch == 1}
    assert fits == {
        "c2d_r64", "c2d_r128", "c2d_r256", "c2d_r512", "convlayer", "c3d", "c2d_r64_nhwc",
        "c2d_r512_nhwc", "dil",
    }  # fmt: skip
