"""Bundles of models with a cache: arrays of a caller, and memory that grows in place."""

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ansorpy import te
from ansorpy.bundle.load import LoadedModel, load_model
from ansorpy.errors import PackageError
from ansorpy.graph.graph import Graph
from ansorpy.graph.interp import run
from ansorpy.importers.onnx_file import graph_of_model
from tests.bundle.test_load import resealed
from tests.importers.test_dims import Writer
from tests.importers.test_growth import NEW, PAST, SIZES, decoder, inputs_of
from tests.model.test_sizes import bundle_of, shares

CACHE = ["k", "v"]


@pytest.fixture(scope="module")
def graph() -> Graph:
    bind = {"batch": te.dim("batch", 1, 3), "past": PAST, "new": NEW}
    return graph_of_model(decoder(), bind)


@pytest.fixture(scope="module")
def path(graph: Graph, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return bundle_of(graph, tmp_path_factory.mktemp("state") / "m.zip")


@pytest.fixture(scope="module")
def model(path: Path) -> LoadedModel:
    return load_model(path)


@pytest.mark.parametrize(("past", "new"), SIZES)
@pytest.mark.parametrize("batch", [1, 3])
def test_a_bundle_appends_rows(
    model: LoadedModel, graph: Graph, past: int, new: int, batch: int
) -> None:
    given = inputs_of(past, new, batch)
    expected = run(graph, given)
    for found, name in zip(model(given), expected, strict=True):
        assert found.shape == expected[name].shape
        np.testing.assert_allclose(found, expected[name], rtol=1e-4, atol=1e-5)


def test_calls_of_a_state_append_to_its_past(model: LoadedModel, graph: Graph) -> None:
    state = model.state()
    assert [one.name for one in state.inputs] == ["ids", "mask"]
    assert len(state.outputs) == 1
    past = {name: one for name, one in inputs_of(0, 1).items() if name in CACHE}
    for new in (3, 1, 2, 1):
        given = {**inputs_of(state.length, new), **past}
        expected, *cache = run(graph, given).values()
        found = state(ids=given["ids"], mask=given["mask"])
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)
        past = dict(zip(CACHE, cache, strict=True))
        for name in CACHE:
            np.testing.assert_allclose(state.arrays[name], past[name], rtol=1e-4, atol=1e-5)
    assert state.length == 7
    assert repr(state) == f"<state of {model.name}: 7 rows of k, v>"


def test_a_state_goes_back(model: LoadedModel) -> None:
    state = model.state()
    first, second = (inputs_of(past, 2) for past in (0, 2))
    state(first["ids"], first["mask"])
    wanted = state(second["ids"], second["mask"])
    state.length = 2
    np.testing.assert_array_equal(state(second["ids"], second["mask"]), wanted)
    with pytest.raises(ValueError, match="cannot go back to 5 rows because the state has 4"):
        state.length = 5
    state.length = 0
    other = inputs_of(0, 4, 3)  # another batch begins
    assert state(other["ids"], other["mask"]).shape == (3, 4, 8)


def test_two_states_are_apart(model: LoadedModel) -> None:
    one, other = model.state(), model.state()
    given = inputs_of(0, 3)
    wanted = one(given["ids"], given["mask"])
    np.testing.assert_array_equal(other(given["ids"], given["mask"]), wanted)
    more = inputs_of(3, 1)
    expected = one(more["ids"], more["mask"])
    other(inputs_of(3, 4)["ids"] * 0, inputs_of(3, 4)["mask"])
    other.length = 3
    np.testing.assert_array_equal(other(more["ids"], more["mask"]), expected)


def test_a_state_refuses_rows_that_do_not_fit(model: LoadedModel) -> None:
    state = model.state()
    full = [inputs_of(past, new) for past, new in ((0, 4), (4, 3))]
    with pytest.raises(ValueError, match=r"past_new is 4; expected past \+ new = 3"):
        state(full[0]["ids"][:, :3], full[0]["mask"])
    assert state.length == 0
    state(full[0]["ids"], full[0]["mask"])
    wrong = inputs_of(4, 1, 3)
    with pytest.raises(ValueError, match="ids has shape"):
        state(wrong["ids"], wrong["mask"])
    state(full[1]["ids"], full[1]["mask"])
    with pytest.raises(ValueError, match=re.escape("the state has 7 rows; expected past in 0..6")):
        state(full[0]["ids"], full[0]["mask"])
    with pytest.raises(TypeError, match=r"unknown|expected"):
        state(full[0]["ids"], k=full[0]["k"])


def test_a_model_without_a_cache_has_no_state(tmp_path: Path) -> None:
    model = load_model(bundle_of(shares(), tmp_path / "m.zip"))
    with pytest.raises(ValueError, match=r"cannot make a state of .* appends to no input"):
        model.state()


def test_an_input_that_another_node_reads_is_no_state(tmp_path: Path) -> None:
    at = Writer(x=("past", 3), y=("new", 3))
    rows = at("Concat", "x", "y", axis=0)
    made = at.model(rows, at("Relu", "x"))
    bind = {"past": te.dim("past", 1, 6), "new": NEW}
    model = load_model(bundle_of(graph_of_model(made, bind), tmp_path / "m.zip"))
    assert "state" not in model.manifest
    x, y = (np.ones((n, 3), np.float32) for n in (2, 3))
    assert model(x, y)[0].shape == (5, 3)


@pytest.mark.parametrize(
    "state",
    [
        {"past": "q", "total": "past_new", "pairs": [[1, 1]]},
        {"past": "new", "total": "past_new", "pairs": [[1, 1]]},
        {"past": "past", "total": "new", "pairs": [[1, 1]]},
        {"past": "past", "total": "past_new", "pairs": [[0, 1]]},
        {"past": "past", "total": "past_new", "pairs": [[1, 0]]},
        {"past": "past", "total": "past_new", "pairs": [[1, 9]]},
        {"past": "past", "total": "past_new", "pairs": [[1, 1], [2, 1]]},
        {"past": "past", "total": "past_new", "pairs": [[1]]},
        {"past": "past", "total": "past_new", "pairs": []},
    ],
)
def test_a_manifest_of_another_state_is_refused(
    path: Path, tmp_path: Path, state: dict[str, Any]
) -> None:
    with pytest.raises(PackageError, match=r"state|its manifest has no usable"):
        load_model(resealed(path, tmp_path / "m.zip", lambda facts: facts.update(state=state)))


@pytest.mark.parametrize("terms", [["past"], ["past", "q"], ["past", 1], [], ["past", "past_new"]])
def test_a_manifest_of_another_sum_is_refused(path: Path, tmp_path: Path, terms: list[Any]) -> None:
    def change(facts: dict[str, Any]) -> None:
        facts["dims"][-1]["terms"] = terms

    with pytest.raises(PackageError, match=r"sum|state"):
        load_model(resealed(path, tmp_path / "m.zip", change))
