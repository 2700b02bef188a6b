"""Refusals of a trace: each names the operation, the line, the reason and a remedy."""

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import ansorpy
from ansorpy.errors import PackageError, SpecError, TraceError

X = np.ones((4, 4), "float32")
LIST = "functions of the list in docs/jit.md"
CONVERTED = (
    "a conversion to an array of NumPy", "the elements are known at a call only",
    "functions of NumPy on the array itself",
)  # fmt: skip
TEXT = (
    "a text of an array", "the elements are known at a call only",
    "a print outside of the function, or repr(x), which tells shape and dtype",
)  # fmt: skip
CONDITION = (
    "a condition", "it depends on data",
    "np.where, or a static argument: a number, a string, a tuple of them",
)  # fmt: skip
IN_PLACE = "it writes to an array in place", "a new name, as in y = x + 1"
NO_KERNELS = (
    "float16, float32, float64, int8, uint8, int16, uint16, int32, uint32, int64, uint64, bool"
)


def branch(x: Any) -> Any:
    return x if x[0, 0] > 0 else -x


def loop(x: Any) -> Any:
    while np.abs(x).max() > 1:
        x = x / 2
    return x


def shown(x: Any) -> Any:
    return f"{x}"


def write(x: Any) -> Any:
    x[0] = 1
    return x


def augmented(x: Any) -> Any:
    x += 1
    return x


def rows(x: Any) -> Any:
    return sum(row for row in np.broadcast_to(x.ravel()[:1], (65,)))


CASES: list[tuple[Callable[[Any], Any], tuple[str, str, str]]] = [
    (lambda x: np.sort(x), ("np.sort", "there is no rule for it", LIST)),
    (lambda x: np.linalg.inv(x), ("np.linalg.inv", "there is no rule for it", LIST)),
    (lambda x: np.nonzero(x), ("np.nonzero", "there is no rule for it", LIST)),
    (lambda x: np.multiply.accumulate(x),
     ("np.multiply.accumulate", "there is no rule for it", LIST)),
    (lambda x: x.tolist(), ("x.tolist", "there is no rule for it", LIST)),
    (branch, CONDITION),
    (loop, CONDITION),
    (shown, TEXT),
    (lambda x: str(x), TEXT),
    (lambda x: x * float(x[0, 0]),
     ("float(...)", "the value depends on data", "x.astype, or the array itself")),
    (lambda x: np.asarray(x) + 1, CONVERTED),
    (lambda x: np.array([x, x]), CONVERTED),
    (write, ("a write to elements", "kernels do not change their inputs", "np.where")),
    (augmented, ("np.add", *IN_PLACE)),
    (lambda x: np.add(x, 1, out=np.zeros((4, 4), "float32")), ("np.add", *IN_PLACE)),
    (lambda x: x[x > 0], ("an index", "the shape of the result depends on data", "np.where")),
    (lambda x: np.where(x > 0),
     ("np.where", "the shape of the result depends on data", "np.where of three operands")),
    (lambda x: x[9], ("an index", "index 9 is beyond axis 0 of 4", "-4 to 3")),
    (lambda x: x[0:0], ("an index", "the part along axis 0 has no elements", "some elements")),
    (lambda x: x @ np.ones((3, 3), "float32"),
     ("np.matmul", "their reduced extents are 4 and 3", "equal extents")),
    (lambda x: x + 1j, ("np.add", "dtype complex128 has no kernels", NO_KERNELS)),
    (lambda x: x.astype("complex64"), ("x.astype", "dtype complex64 has no kernels", NO_KERNELS)),
    (lambda x: np.sum(x, axis=5),
     ("np.sum", "axis 5 is out of bounds for array of dimension 2", "arguments that NumPy takes")),
    (lambda x: np.sum(x, where=x > 0),
     ("np.sum", "of its arguments: got an unexpected keyword argument 'where'",
      "arguments of the list in docs/jit.md")),
    (lambda x: x.reshape(3, 5), ("x.reshape", "shape [4, 4] has 16 elements", "16 elements")),
    (lambda x: x // x,
     ("np.floor_divide", "the operands are float32", "integers, or np.floor(a / b)")),
    (rows, ("a loop over an array", "it has the shape [65]",
            "at most 64 rows, which are unrolled, or operations on whole arrays")),
]  # fmt: skip


@pytest.mark.parametrize(("function", "words"), CASES, ids=range(len(CASES)))
def test_a_refusal_names_the_operation_the_line_and_a_remedy(
    function: Callable[[Any], Any], words: tuple[str, str, str]
) -> None:
    subject, because, expected = words
    expected = expected.replace("functions", "methods") if subject == "x.tolist" else expected
    jitted = ansorpy.jit(function)
    with pytest.raises(TraceError) as caught:
        jitted.lower(X)
    lines, first = inspect.getsourcelines(function)
    before, _, after = str(caught.value).partition(" (test_refusals.py:")
    number, _, after = after.partition(") because ")
    assert before == f"cannot trace {subject} in {jitted.name}"
    assert first <= int(number) < first + len(lines)
    assert after == f"{because}; expected {expected}"


@pytest.mark.parametrize(
    ("argument", "because"),
    [
        (np.array(["a"]), "argument x is <U1 without kernels"),
        (np.ones(3, "complex64"), "argument x is complex64 without kernels"),
        (np.zeros((0, 3)), "argument x has the shape [0, 3]"),
        ({1, 2}, "argument x is of type set"),
        (object(), "argument x is of type object"),
        (3, "its result, of type int, depends on no argument"),
    ],
)
def test_arguments_without_kernels_are_refused(argument: Any, because: str) -> None:
    with pytest.raises(TraceError) as caught:
        ansorpy.jit(lambda x: x + 1).lower(argument)
    assert str(caught.value).startswith(f"cannot trace lambda because {because}; expected ")


@pytest.mark.parametrize("function", [lambda *a: a, lambda **k: k, lambda x, /: x])
def test_parameters_without_names_are_refused(function: Callable[..., Any]) -> None:
    parameter = next(iter(inspect.signature(function).parameters.values()))
    with pytest.raises(TraceError) as caught:
        ansorpy.jit(function)
    assert str(caught.value) == (
        f"cannot trace lambda because of its parameter {parameter}; expected parameters with names,"
        " and a tuple, list or dict of arrays for several"
    )


def test_objects_that_are_no_function_are_refused() -> None:
    with pytest.raises(TraceError, match="because it is no function of Python; expected a def"):
        ansorpy.jit(np.exp)


def test_unknown_options_and_modes_are_refused() -> None:
    with pytest.raises(SpecError, match="unexpected keyword argument 'trails'; expected tune, tri"):
        ansorpy.jit(trails=3)
    with pytest.raises(SpecError) as caught:
        ansorpy.jit(cores="some")
    assert str(caught.value) == (
        "cannot take cores='some' because it is no number of threads; expected 'all', or a number"
        " from 1"
    )
    with pytest.raises(PackageError, match="is not sha256: and 64 hex digits"):
        ansorpy.jit(config="sha256:12")
    function = ansorpy.jit(tune="soon")(lambda x: x + 1)
    with pytest.raises(SpecError) as caught:
        function(X)
    assert str(caught.value) == (
        "cannot take tune='soon' because it is no mode; expected off, first, background, now, or a"
        " number of seconds"
    )


def test_repr_of_a_traced_array_tells_shape_and_dtype() -> None:
    seen = []

    def noting(x: Any) -> Any:
        seen.append(repr(x))
        return x + 1

    ansorpy.jit(noting).lower(X)
    assert seen == ["<traced float32[4, 4]>"]
