"""Values of the compiler as bytes."""

import os
import pickle
from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansorpy.codegen.exported_types import Export
from ansorpy.codegen.numba_source import emit
from ansorpy.errors import WireError
from ansorpy.measure.protocols import BuildRequest
from ansorpy.measure.unbound import unbound
from ansorpy.measure.values import LENGTH, data, decode, encode
from ansorpy.plan.bind import bind
from ansorpy.plan.choices import each_plan
from ansorpy.rules import CPU
from ansorpy.sketch import derive
from ansorpy.target import Target
from tests.random_dag import random_dag

TARGET = Target()

plain = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False)
    | st.text()
    | st.binary(),
    lambda part: (
        st.lists(part).map(tuple)
        | st.lists(part)
        | st.dictionaries(st.text() | st.integers(), part)
    ),
)


@given(plain)
def test_plain_values_come_back(value: object) -> None:
    found = decode(encode(value))
    assert found == value
    assert repr(found) == repr(value)  # -0.0 and 0.0, True and 1 are two


@pytest.mark.parametrize("seed", range(20))
def test_each_kind_of_request_comes_back(seed: int) -> None:
    dag = random_dag(np.random.default_rng(seed))
    for plan in each_plan(derive(dag, TARGET, CPU).sketches, TARGET, 3, lambda: False):
        program = bind(plan, plan.smallest_row, TARGET)
        names = tuple(one.name for one in dag.placeholders)
        kinds = (
            unbound(plan, plan.smallest_row), program, emit(program, TARGET, 1),
            Export(program, names, tuple(dag.outputs), {"w": b"12"}, "p"),
        )  # fmt: skip
        for kind in (plan, dag, *kinds):
            request = BuildRequest("ansorpy.codegen.loader", kind, TARGET)  # type: ignore[arg-type]
            sent = encode(request)
            assert decode(sent) == request
            assert encode(decode(sent)) == sent


def test_arrays_keep_dtype_shape_and_bits() -> None:
    array = np.array([[np.nan, -0.0, np.inf]], np.float16)
    found = decode(encode(array))
    assert (found.dtype, found.shape, found.tobytes()) == (array.dtype, (1, 3), array.tobytes())


@dataclass(frozen=True)
class Foreign:
    number: int


@pytest.mark.parametrize("value", [os.system, object(), Foreign, Foreign(1), {1: {2: len}}])
def test_only_data_of_the_package_is_sent(value: object) -> None:
    with pytest.raises(WireError, match=r"cannot send a .*; expected data of this package"):
        encode(value)


def test_data_of_a_back_end_is_sent_once_its_module_is_imported() -> None:
    @data
    @dataclass(frozen=True)
    class Code:
        number: int

    assert decode(encode((Code(1), Code(2)))) == (Code(1), Code(2))


@pytest.mark.parametrize(
    "names",
    ['"os:system"', '"ansorpy.measure.values:encode"', '"ansorpy.measure.values:import_module"',
     '"ansorpy.errors:WireError"', '"ansorpy.target:Target.of"', '"builtins:eval"', "1"],
)  # fmt: skip
def test_bytes_cannot_name_a_function(names: str) -> None:
    text = f'[[{names}],[[0,"ls"]],["o",0]]'.encode()
    with pytest.raises(WireError, match="not a value"):
        decode(len(text).to_bytes(LENGTH, "little") + text)


@given(st.binary())
def test_other_bytes_are_refused(sent: bytes) -> None:
    with pytest.raises(WireError, match="not a value"):
        decode(sent)
    with pytest.raises(WireError, match="not a value"):
        decode(pickle.dumps(sent))


@given(st.data())
def test_cut_bytes_are_refused(drawn: st.DataObject) -> None:
    sent = encode((b"123", np.arange(3), "text"))
    with pytest.raises(WireError, match="not a value"):
        decode(sent[: drawn.draw(st.integers(0, len(sent) - 1))])
