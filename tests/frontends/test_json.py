"""The JSON wire form: it round-trips, and a refusal names the place of the mistake.

60 random Dags; `make test-all` draws ten times as many.
"""

import base64
import copy
import json
import math
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ansorpy.errors import SpecError
from ansorpy.expr.expr import Binary, Call, Cast, Const, Expr, Read, Select, Var
from ansorpy.expr.functions import BINARY_FUNCTIONS, FUNCTIONS
from ansorpy.frontends.json.write import dumps, from_json, loads, to_json
from ansorpy.frontends.tc.text import parse
from ansorpy.te.dag import Attrs, Axis, Compute, ConstantTensor, Dag, Placeholder
from ansorpy.topi.suites import LIBRARY
from tests.night import night

EXAMPLES = sorted((Path(__file__).parents[2] / "examples").glob("*.te"))
BIND = {"batch_matmul": {"B": 16, "M": 128, "N": 128, "K": 64}}

(MATMUL,) = parse(
    """
    def mm(float(4, 8) A, const float(8, 6) B) -> (D) {
        C(i, j) = 0.5
        C(i, j) += A(i, k) * B(k, j) with unroll(k), layout_free(B), flop(384)
        D(i, j) = C(i, j) > 0 ? C(i, j) : exp(C(i, j)) - inf
    }
    """
)


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_examples_round_trip(path: Path) -> None:
    for dag in parse(path.read_text(), BIND.get(path.stem)):
        assert loads(dumps(dag)) == dag
        assert from_json(to_json(dag)) == dag


@pytest.mark.parametrize("name", LIBRARY)
def test_library_builders_round_trip(name: str) -> None:
    dag = LIBRARY[name]()
    assert loads(dumps(dag)) == dag


def test_attributes_starts_and_infinities_round_trip() -> None:
    assert loads(dumps(MATMUL)) == MATMUL


def test_the_example_of_the_page_is_valid() -> None:
    page = (Path(__file__).parents[2] / "docs" / "wire.md").read_text()
    example = page.split("```json\n")[1].split("```")[0]
    dag = loads(example)
    assert to_json(dag) == json.loads(example)


@pytest.mark.parametrize("name", ["wire.md", "text.md"])
def test_the_pages_name_every_function(name: str) -> None:
    page = (Path(__file__).parents[2] / "docs" / name).read_text()
    listed = {word for code in re.findall("`([a-z0-9 ]+)`", page) for word in code.split()}
    symbols = () if name == "wire.md" else ("neg", "not", "bitnot")
    assert {*FUNCTIONS, *BINARY_FUNCTIONS} - {*symbols} - listed == set()


def test_constants_travel_as_base64() -> None:
    data = bytes(range(8))
    node = Compute("C", (Axis("i", 8),), (Read("W", (Var("i"),), "int8"),), ("int8",))
    dag = Dag((ConstantTensor("W", (8,), "int8", data), node), ("C",))
    wire = to_json(dag)
    assert wire["nodes"][0]["data"] == base64.b64encode(data).decode()
    assert loads(dumps(dag)) == dag


def test_nan_and_negative_zero_survive() -> None:
    body = Binary("add", Const(math.nan, "float32"), Const(-0.0, "float32"))
    again = loads(dumps(Dag((Compute("C", (), (body,), ("float32",)),), ("C",))))
    (made,) = again.computes[0].body
    assert isinstance(made, Binary)
    assert isinstance(made.a, Const)
    assert isinstance(made.b, Const)
    assert math.isnan(made.a.value)
    assert math.copysign(1.0, made.b.value) == -1.0


FLOATS = ("float16", "bfloat16", "float32", "float64")
EXTENTS = (3, 4)
INDEX = st.sampled_from(
    [Var("i"), Var("j"), Const(0), Const(2), Binary("floordiv", Var("j"), Const(2))]
)


def values(dtype: str) -> st.SearchStrategy[Expr]:
    """Return random expressions over i < 3, j < 3 that are valid for `dtype`."""
    leaves: st.SearchStrategy[Expr] = st.builds(
        lambda x, y: Read("A", (x, y), dtype), INDEX, INDEX
    ) | st.floats(allow_nan=False, width=16).map(lambda value: Const(value, dtype))

    def grow(parts: st.SearchStrategy[Expr]) -> st.SearchStrategy[Expr]:
        cond = st.builds(Binary, st.sampled_from(["lt", "ge", "eq", "ne"]), parts, parts)
        test = cond | st.builds(Binary, st.sampled_from(["and", "or"]), cond, cond)
        return (
            st.builds(
                Binary, st.sampled_from(["add", "sub", "mul", "div", "min", "pow"]), parts, parts
            )
            | st.builds(Call, st.sampled_from(["neg", "exp", "rsqrt", "floor"]), parts)
            | st.builds(Select, test | test.map(lambda c: Call("not", c)), parts, parts)
            | parts.map(lambda part: Cast(dtype, Cast("int32", part)))
        )

    return st.recursive(leaves, grow, max_leaves=8)


@st.composite
def dags(draw: st.DrawFn) -> Dag:
    dtype = draw(st.sampled_from(FLOATS))
    combiner = draw(st.sampled_from([None, "sum", "max", "argmin"]))
    axes = (Axis("i", 3), Axis("j", 3))
    spatial, reduced = axes[: 2 if combiner is None else 1], axes[2 if combiner is None else 1 :]
    body: tuple[Expr, ...] = (draw(values(dtype)),)
    dtypes: tuple[str, ...] = (dtype,)
    start = None
    if combiner == "argmin":
        body, dtypes = (*body, Var("j")), (dtype, "int64")
    elif combiner is not None:
        start = draw(st.none() | st.just(Const(0.25, dtype)))
    attrs = Attrs(
        unroll=draw(st.sampled_from([(), ("i",)])), flop=draw(st.none() | st.integers(0, 2**62))
    )
    node = Compute("C", spatial, body, dtypes, reduced, combiner, start, attrs)
    weight = draw(st.booleans())
    return Dag((Placeholder("A", EXTENTS, dtype, weight), node), ("C",), draw(st.just("d_1")))


@pytest.mark.parametrize("examples", night((60, 600), [60]))
def test_random_dags_round_trip(examples: int) -> None:
    @settings(max_examples=examples)
    @given(dags())
    def round_trips(dag: Dag) -> None:
        wire = to_json(dag)
        assert from_json(json.loads(json.dumps(wire))) == dag
        assert to_json(from_json(wire)) == wire

    round_trips()


WIRE = to_json(MATMUL)


def put(*path: Any, value: Any) -> Callable[[dict[str, Any]], None]:
    def change(wire: Any) -> None:
        for step in path[:-1]:
            wire = wire[step]
        wire[path[-1]] = value

    return change


def drop(*path: Any) -> Callable[[dict[str, Any]], None]:
    def change(wire: Any) -> None:
        for step in path[:-1]:
            wire = wire[step]
        del wire[path[-1]]

    return change


BODY = ("nodes", 2, "body", 0)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (put("ansorpy", value=2), "spec.ansorpy is 2, not 1, the only version that is known"),
        (put("ansorpy", value=True), "spec.ansorpy is True, not an integer"),
        (drop("ansorpy"), "spec: key 'ansorpy' is missing"),
        (
            put("extra", value=1),
            "spec: key 'extra' is not known; there are ansorpy, name, nodes, outputs",
        ),
        (put("nodes", value={}), "spec.nodes is an object, not a list"),
        (put("nodes", value=[{}] * 513), "spec.nodes has 513 items, limit 512"),
        (put("nodes", 0, value=None), "spec.nodes[0] is null, not an object"),
        (put("nodes", 0, value={}), "spec.nodes[0]: key 'kind' is missing"),
        (
            put("nodes", 0, "kind", value="conv"),
            "spec.nodes[0].kind is 'conv', not placeholder, constant or compute",
        ),
        (put("nodes", 0, "shape", value="4,8"), "spec.nodes[0].shape is '4,8', not a list"),
        (put("nodes", 0, "shape", 0, value=4.0), "spec.nodes[0].shape[0] is 4.0, not an integer"),
        (
            put("nodes", 0, "shape", 0, value=-4),
            "node 'A': extent 0 is -4, not an integer 1 to 2147483647",
        ),
        (
            put("nodes", 0, "shape", 0, value=10**4000),
            "spec.nodes[0].shape[0] is an integer of 13288 bits, not an int64",
        ),
        (put("nodes", 0, "name", value="a" * 64), "spec.nodes[0].name has 64 characters, limit 63"),
        (
            put("nodes", 0, "name", value="\ud800"),
            "node '\\ud800': '\\ud800' is not a name (an ASCII letter or _, then at most 62 "
            "letters, digits or _)",
        ),
        (put("nodes", 0, "constant", value=1), "spec.nodes[0].constant is 1, not true or false"),
        (
            put("nodes", 2, "axes", 0, value=["i"]),
            "spec.nodes[2].axes[0] is a list, not a name and an extent",
        ),
        (
            put(*BODY, value=1),
            "spec.nodes[2].body[0] is 1, not an expression: an object with one of const, var, "
            "read, op, call, cast, select",
        ),
        (put(*BODY, "op", value="xor"), "node 'C': operation 'xor' is not known"),
        (
            put(*BODY, "c", value=1),
            "spec.nodes[2].body[0]: key 'c' is not known; there are op, a, b",
        ),
        (
            put(*BODY, "a", "at", 0, value={"const": True, "dtype": "int64"}),
            "node 'C': constant True is not a value of int64",
        ),
        (
            put(*BODY, "a", value={"const": math.inf, "dtype": "float32"}),
            "spec.nodes[2].body[0].a.const is inf, not finite; write it as a string",
        ),
        (
            put(*BODY, "a", value={"const": "1", "dtype": "float32"}),
            "spec.nodes[2].body[0].a.const is '1', not an integer",
        ),
        (put(*BODY, "a", "read", value="Z"), "node 'C': reads 'Z', which is not there"),
        (
            put("nodes", 2, "attrs", value={"flop": 2**63}),
            "spec.nodes[2].attrs.flop is 9223372036854775808, not an int64",
        ),
        (put("outputs", value=["A"]), "dag 'mm': output 'A' is an input"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)  # fmt: skip
def test_a_wrong_document_is_refused(
    change: Callable[[dict[str, Any]], None], message: str
) -> None:
    wire = copy.deepcopy(WIRE)
    change(wire)
    with pytest.raises(SpecError) as error:
        from_json(wire)
    assert str(error.value) == message


def nested(depth: int) -> Any:
    term: Any = {"const": 1.0, "dtype": "float32"}
    for _ in range(depth):
        term = {"call": "neg", "a": term}
    return term


@pytest.mark.parametrize("depth", [65, 400])
def test_nesting_is_bounded(depth: int) -> None:
    wire = copy.deepcopy(WIRE)
    put(*BODY, value=nested(depth))(wire)
    with pytest.raises(SpecError, match="nested deeper than 64"):
        from_json(wire)


def test_the_number_of_parts_is_bounded() -> None:
    term: Any = {"const": 1.0, "dtype": "float32"}
    for _ in range(30):
        term = {"op": "add", "a": term, "b": term}  # one object, 2^30 parts
    wire = copy.deepcopy(WIRE)
    put(*BODY, value=term)(wire)
    with pytest.raises(SpecError, match="more than 2048 parts in one node"):
        from_json(wire)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "not JSON"),
        ("[" * 100_000, "nested too deep"),
        ('{"ansorpy": NaN}', "NaN is not JSON"),
        ('{"ansorpy": 1, "ansorpy": 1}', "a key is there twice"),
        ('{"ansorpy": ' + "1" * 5000 + "}", "not JSON"),
        ("[]", "spec is a list, not an object"),
        ("null", "spec is null, not an object"),
        (b"\xff\xfe", "not JSON"),
    ],
    ids=["empty", "deep", "nan", "twice", "digits", "list", "null", "bytes"],
)
def test_a_text_that_is_not_a_document_is_refused(text: str | bytes, message: str) -> None:
    with pytest.raises(SpecError, match=message) as error:
        loads(text)
    assert len(str(error.value)) < 300


JUNK = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda parts: st.lists(parts, max_size=3) | st.dictionaries(st.text(max_size=5), parts),
    max_leaves=5,
)
PATHS = st.sampled_from(
    [
        ("name",), ("nodes",), ("outputs",), ("outputs", 0), ("nodes", 0), ("nodes", 0, "name"),
        ("nodes", 0, "shape"), ("nodes", 0, "shape", 0), ("nodes", 0, "dtype"),
        ("nodes", 2), ("nodes", 2, "axes"), ("nodes", 2, "axes", 0), ("nodes", 2, "body"),
        BODY, (*BODY, "op"), (*BODY, "a"), (*BODY, "a", "at"), (*BODY, "a", "at", 0),
        ("nodes", 2, "dtypes"), ("nodes", 2, "start"), ("nodes", 2, "attrs"),
        ("nodes", 2, "attrs", "unroll"), ("nodes", 2, "combiner"), ("nodes", 2, "reduce_axes"),
    ]
)  # fmt: skip


@settings(max_examples=300)
@given(PATHS, JUNK)
def test_junk_anywhere_is_a_spec_error_or_harmless(path: tuple[Any, ...], junk: Any) -> None:
    wire = copy.deepcopy(WIRE)
    put(*path, value=junk)(wire)
    try:
        dag = from_json(wire)
    except SpecError:
        return
    assert from_json(to_json(dag)) == dag
