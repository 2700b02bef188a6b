"""Interning: structural equality is identity, in pickles and among threads; tables are weak."""

import gc
import pickle
from concurrent.futures import ThreadPoolExecutor
from copy import deepcopy
from dataclasses import FrozenInstanceError, replace
from threading import Barrier
from weakref import ref

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ansorpy.expr.affine import form
from ansorpy.expr.expr import (
    Binary,
    Call,
    Cast,
    Const,
    Expr,
    Read,
    Select,
    Var,
    children,
    reads,
    rebuild,
    substitute,
    variables,
    walk,
)
from ansorpy.expr.intern import FIRST_SWEEP, InternTable
from tests.expr.generate import EXPRS, X

VALUES = st.recursive(
    EXPRS.map(lambda index: Read("A", (index,), "float32"))
    | st.floats(allow_nan=True).map(lambda value: Const(value, "float32")),
    lambda parts: (
        st.builds(Binary, st.sampled_from(["add", "mul", "pow", "lt"]), parts, parts)
        | st.builds(Call, st.sampled_from(["exp", "abs", "neg"]), parts)
        | st.builds(Cast, st.sampled_from(["float16", "int32", "bool"]), parts)
        | st.tuples(EXPRS, parts).map(lambda t: Select(Binary("lt", t[0], X), t[1], t[1]))
    ),
    max_leaves=6,
)


def structure(expr: Expr) -> tuple[object, ...]:
    """Return all that an expression is made of, as nested tuples."""
    own = [getattr(expr, name) for name in ("name", "op", "fn", "tensor", "output", "dtype")
           if hasattr(expr, name)]  # fmt: skip
    if isinstance(expr, Const):
        own.append(repr(expr.value))
    return (type(expr), *own, *map(structure, children(expr)))


def built_again(expr: Expr) -> Expr:
    """Return the expression built anew from names and numbers."""
    match expr:
        case Const(value=value, dtype=dtype):
            return Const(value, dtype)
        case Var(name=name):
            return Var(name)
        case _:
            return rebuild(expr, tuple(map(built_again, children(expr))))


@settings(max_examples=300)
@given(EXPRS | VALUES, EXPRS | VALUES)
def test_two_expressions_are_one_object_exactly_if_they_are_built_alike(a: Expr, b: Expr) -> None:
    assert built_again(a) is a
    assert (a is b) == (a == b) == (structure(a) == structure(b))


@pytest.mark.parametrize(
    ("a", "b"),
    [
        (Const(0.0, "float32"), Const(-0.0, "float32")),
        (Const(1, "float32"), Const(1.0, "float32")),
        (Const(1, "int64"), Const(1, "int32")),
        (Const(1, "bool"), Const(True, "bool")),
        (Call("int8", X), Cast("int8", X)),
        (Read("A", (X,), "float32"), Read("A", (X,), "float32", 1)),
        (Read("A", (X,), "float32"), Read("A", (X,), "float16")),
    ],
    ids=repr,
)
def test_near_twins_stay_apart(a: Expr, b: Expr) -> None:
    assert a != b


@settings(max_examples=100)
@given(EXPRS | VALUES)
def test_a_pickle_and_a_deep_copy_are_interned_again(expr: Expr) -> None:
    assert pickle.loads(pickle.dumps(expr)) is expr
    assert deepcopy(expr) is expr


def test_a_pickle_outlives_its_expression() -> None:
    made = Binary("add", Var("only here"), Const(7))
    data, known = pickle.dumps(made), ref(made)
    del made
    gc.collect()
    assert known() is None
    again = pickle.loads(data)
    assert again is Binary("add", Var("only here"), Const(7))


@settings(max_examples=100)
@given(EXPRS)
def test_variables_are_those_of_the_leaves(expr: Expr) -> None:
    found = frozenset(part.name for part in walk(expr) if isinstance(part, Var))
    assert variables(expr) == found
    for name in "ijk":
        changed = substitute(expr, {name: Var("other")})
        assert (changed is expr) == (name not in found)


@settings(max_examples=100)
@given(VALUES)
def test_reads_are_in_order_of_appearance(expr: Expr) -> None:
    assert reads(expr) == tuple(part for part in walk(expr) if isinstance(part, Read))


def test_a_value_is_frozen() -> None:
    made = Var("i")
    with pytest.raises(FrozenInstanceError):
        made.name = "j"  # type: ignore[misc]
    assert replace(made, name="j") is Var("j")


@settings(max_examples=50)
@given(EXPRS | VALUES)
def test_no_expression_keeps_itself_alive(expr: Expr) -> None:
    gc.disable()  # a reference cycle would be found by the collector only
    try:
        own = substitute(expr, {name: Var(f"{name} of its own") for name in "ijk"})
        for part in walk(own):
            form(part)
            reads(part)
            variables(part)
        mine = [ref(part) for part in walk(own) if variables(part)]
        del own, part
        assert all(each() is None for each in mine)
    finally:
        gc.enable()


def test_entries_of_dead_values_are_swept() -> None:
    class Thing:
        pass

    table = InternTable[Thing]()
    kept = [table.add(("kept", number), Thing()) for number in range(10)]
    for number in range(3 * FIRST_SWEEP):
        table.add(("dead", number), Thing())
    assert len(table) <= 2 * FIRST_SWEEP
    table.sweep()
    assert len(table) == len(kept)
    assert table.add(("kept", 3), Thing()) is kept[3]


def test_threads_intern_the_same_objects() -> None:
    threads, rounds = 8, 40
    start = Barrier(threads)

    def build(seed: int) -> list[list[Expr]]:
        start.wait()
        answer = []
        for number in range(rounds):
            made: list[Expr] = []
            total: Expr = Var(f"thread test {number}")
            for step in range(50):
                Binary("mul", total, Const(seed + step))  # garbage, some of it of other threads too
                total = Binary("add", total, Const(step))
                made.append(total)
            answer.append(made)
        return answer

    with ThreadPoolExecutor(threads) as pool:
        first, *others = pool.map(build, range(threads))
    for other in others:
        for mine, theirs in zip(first, other, strict=True):
            assert all(a is b for a, b in zip(mine, theirs, strict=True))


def test_threads_that_drop_interned_expressions_still_agree() -> None:
    """Values die in one thread while another asks for them."""
    threads = 4
    start = Barrier(threads)

    def build(_: int) -> int:
        start.wait()
        agreed = 0
        for number in range(3000):
            a = Binary("add", Var(f"dies {number % 7}"), Const(number % 5))
            agreed += Binary("add", Var(f"dies {number % 7}"), Const(number % 5)) is a
            del a
        return agreed

    with ThreadPoolExecutor(threads) as pool:
        assert list(pool.map(build, range(threads))) == [3000] * threads
