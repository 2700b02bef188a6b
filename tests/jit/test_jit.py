"""Calls of a traced function: first answers, the folder of answers, modes, constants."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ansorpy
from ansorpy import te
from ansorpy.errors import PackageError, RunError, SpecError, TraceError
from ansorpy.tracing import entry
from ansorpy.tracing.answers import INDEX
from ansorpy.tracing.options import JitOptions, Mode
from ansorpy.tracing.recorder import TraceRecorder
from ansorpy.tracing.tracer import FUNCTIONS
from tests.jit.functions import FUNCTIONS as KNOWN
from tests.jit.test_functions import SHARES, check

X = np.random.default_rng(0).standard_normal((4, 8)).astype("float32")
factor = 2.0


def doubled(x: Any) -> Any:
    return x * 2


def scaled(x: Any) -> Any:
    return x * factor


def rows(x: Any) -> Any:
    k = te.reduce_axis((0, x.shape[1]), "k")
    return te.compute((x.shape[0],), lambda i: te.sum(x[i, k] * x[i, k], k), "squares")


@pytest.mark.slow
@pytest.mark.parametrize("dtype", SHARES)
@pytest.mark.parametrize("name", ["layer_norm", "attention", "mlp", "sliced", "casts", "moments"])
def test_kernels_compute_the_function(name: str, dtype: str) -> None:
    function, signatures = KNOWN[name]
    jitted = ansorpy.jit(function)
    for shapes in signatures:
        rng = np.random.default_rng(1)
        arrays = [rng.standard_normal(shape).astype(dtype) for shape in shapes]
        check(jitted(*arrays), function(*arrays), SHARES[dtype])


@pytest.mark.slow
def test_a_second_process_opens_the_answer_of_the_first(
    data: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    made = ansorpy.jit(doubled)(X)
    (index,) = data.glob(f"jit/*/{INDEX}")
    assert json.loads(index.read_text())["state"] == "first answer"

    def never(*_: Any) -> Any:
        raise AssertionError

    monkeypatch.setattr(entry, "compiled", never)
    again = ansorpy.jit(doubled)
    assert np.array_equal(again(X), made)
    assert np.array_equal(again(x=X.copy()), made)
    assert repr(again) == "<ansorpy.jit doubled: 1 signatures>"
    (row,) = again.status()
    assert row["arrays"] == "x: float32[4, 8]"
    assert row["state"] == "first answer"


@pytest.mark.slow
def test_a_pinned_digest_answers_and_another_is_refused(data: Path) -> None:
    first = ansorpy.jit(doubled)
    first(X)
    digest = first.status()[0]["digest"]
    pinned = ansorpy.jit(config=digest)(doubled)
    assert np.array_equal(pinned(X), X * 2)
    with pytest.raises(PackageError, match="has no such bundle of this function and signature"):
        ansorpy.jit(config=f"sha256:{'0' * 64}")(doubled)(X)
    path = next(data.glob("jit/*/*.zip"))
    path.write_bytes(path.read_bytes() + b"x")
    with pytest.raises(PackageError, match="expected the bundle as it was written"):
        ansorpy.jit(config=digest)(doubled)(X)


@pytest.mark.slow
def test_a_damaged_answer_is_made_again(data: Path) -> None:
    ansorpy.jit(doubled)(X)
    next(data.glob("jit/*/*.zip")).write_bytes(b"")
    assert np.array_equal(ansorpy.jit(doubled)(X), X * 2)


@pytest.mark.slow
def test_a_saved_bundle_runs_without_the_function(tmp_path: Path) -> None:
    jitted = ansorpy.jit(doubled)
    with pytest.raises(SpecError, match="it has 0 signatures; expected the arguments of one"):
        jitted.save(tmp_path / "doubled.zip")
    loaded = ansorpy.load(jitted.save(tmp_path / "doubled.zip", X))
    assert np.array_equal(loaded(X), X * 2)


@pytest.mark.slow
def test_a_te_function_is_taken_as_it_is() -> None:
    jitted = ansorpy.jit(rows)
    expected = (X.astype("float64") ** 2).sum(1)
    np.testing.assert_allclose(jitted(X), expected, rtol=1e-5)
    np.testing.assert_allclose(ansorpy.jit(tune="off")(rows)(X), expected, rtol=1e-6)


@pytest.mark.slow
def test_tune_in_the_foreground_replaces_the_first_answer() -> None:
    jitted = ansorpy.jit(doubled)
    jitted.tune(X, trials=2, progress=False)
    assert np.array_equal(jitted(X), X * 2)
    assert jitted.status()[0]["state"] == "tuned"
    assert "Mul(x, value.1)" in jitted.explain(X)
    assert np.array_equal(jitted.kernel(X)(X), X * 2)


@pytest.mark.slow
def test_a_rule_that_does_not_mean_numpy_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    def wrong(rec: TraceRecorder, x: Any) -> Any:
        return rec.emit("Neg", x)

    monkeypatch.setitem(FUNCTIONS, np.ravel, wrong)
    jitted = ansorpy.jit(lambda x: np.ravel(x))
    with pytest.raises(RunError) as caught:
        jitted(X[0])
    assert str(caught.value) == (
        f"cannot use the kernels of lambda because output 0 is {-X[0, 0]:.7g} at [0], not"
        f" {X[0, 0]:.7g}; expected the values of NumPy, or verify=False"
    )


def test_an_output_may_be_as_far_from_float64_as_numpy_is() -> None:
    right, wide = np.array([199.1], "float16"), np.array([205.6])
    near, far = np.array([205.5], "float16"), np.array([213], "float16")
    assert entry.difference(near, right, 1e-3) == "is 205.5 at [0], not 199.125"
    assert entry.difference(near, right, 1e-3, wide) == ""
    assert entry.difference(far, right, 1e-3, wide) == "is 213 at [0], not 199.125"


def test_off_calls_the_function_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANSORPY_TUNE", "off")
    jitted = ansorpy.jit(lambda x: np.sort(x))
    assert np.array_equal(jitted(X), np.sort(X))
    assert jitted.status() == []


@pytest.mark.parametrize(
    ("environment", "option", "mode"),
    [
        ({}, None, Mode("background")),
        ({"CI": "true"}, None, Mode("first")),
        ({"PYTEST_VERSION": "8"}, None, Mode("first")),
        ({"CI": "true"}, "background", Mode("background")),
        ({"ANSORPY_TUNE": "never"}, "background", Mode("first")),
        ({"ANSORPY_TUNE": "2.5"}, None, Mode("now", 2.5)),
        ({"ANSORPY_TUNE": "now"}, "first", Mode("now")),
        ({}, 30, Mode("now", 30.0)),
    ],
)
def test_the_variable_overrides_the_option(
    environment: dict[str, str], option: str | float | None, mode: Mode
) -> None:
    assert JitOptions(tune=option).mode(environment) == mode


def test_a_signature_is_traced_once() -> None:
    calls = []

    def counted(x: Any, scale: float = 1.0, *, name: str = "") -> Any:
        calls.append((x.shape, scale, name))
        return x * scale

    jitted = ansorpy.jit(counted)
    for _ in range(2):
        jitted.lower(X)
        jitted.lower(X, 2.0)
        jitted.lower(X, scale=2.0, name="")
        jitted.lower(X.astype("float16"))
        jitted.lower(X[:2], name="a")
    assert calls == [
        ((4, 8), 1.0, ""), ((4, 8), 2.0, ""), ((4, 8), 1.0, ""), ((2, 8), 1.0, "a"),
    ]  # fmt: skip


def test_arrays_in_containers_are_arguments() -> None:
    def layers(x: Any, parameters: Any) -> Any:
        for one in parameters["layers"]:
            x = np.maximum(x @ one["w"] + one["b"], 0)
        return x

    parameters = {
        "layers": [
            {"w": np.ones((8, 3), "float32"), "b": np.zeros(3, "float32")},
            {"w": np.ones((3, 2), "float32"), "b": np.ones(2, "float32")},
        ]
    }
    traced = ansorpy.jit(layers).lower(X, parameters)
    assert traced.inputs == (
        "x", "parameters_layers_0_w", "parameters_layers_0_b", "parameters_layers_1_w",
        "parameters_layers_1_b",
    )  # fmt: skip


def test_a_float_of_numpy_is_an_array_and_a_number_of_python_is_static() -> None:
    jitted = ansorpy.jit(lambda x, y: x * y)
    for value in (1.0, 2.0):
        arrays: list[Any] = [X, np.float32(value)]
        assert np.array_equal(jitted.lower(*arrays).evaluate(arrays), X * np.float32(value))
    assert len(jitted.status()) == 1
    jitted.lower(X, 1.0)
    jitted.lower(X, 2.0)
    assert len(jitted.status()) == 3


def test_a_captured_array_becomes_read_only() -> None:
    weights = np.ones((8, 3), "float32")

    def product(x: Any) -> Any:
        return x @ weights[:, :2]

    traced = ansorpy.jit(product).lower(X)
    np.testing.assert_allclose(traced.evaluate([X]), product(X), rtol=1e-5)
    with pytest.raises(ValueError, match="read-only"):
        weights[0] = 2


def test_a_global_that_is_replaced_ends_the_traces(monkeypatch: pytest.MonkeyPatch) -> None:
    jitted = ansorpy.jit(scaled)
    assert np.array_equal(jitted.lower(X).evaluate([X]), X * 2)
    monkeypatch.setitem(scaled.__globals__, "factor", 3.0)
    assert np.array_equal(jitted.lower(X).evaluate([X]), X * 3)


def test_a_method_is_refused() -> None:
    class Model:
        @ansorpy.jit
        def call(self, x: Any) -> Any:
            return x

    with pytest.raises(TraceError, match="cannot trace the method call because its object"):
        Model().call  # noqa: B018


def test_dtypes_are_promoted_as_by_numpy() -> None:
    def mixed(x: Any, y: Any) -> Any:
        return x + y, x * 2.5, y / 2, x > y, np.where(x > 0, x, 1), np.exp(y), y.mean()

    jitted = ansorpy.jit(mixed)
    kinds = ("bool", "int8", "uint8", "int32", "int64", "float16", "float32", "float64")
    for first in kinds:
        for second in kinds[1:]:
            x, y = np.ones((2, 3), first), np.ones((3,), second)
            for one, right in zip(jitted.lower(x, y).evaluate([x, y]), mixed(x, y), strict=True):
                assert one.dtype == right.dtype, (first, second)
                assert one.shape == right.shape
