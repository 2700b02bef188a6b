"""The compile cache: phases that several candidates share are compiled once."""

import numpy as np
import pytest

from ansorpy.codegen import compile_cache
from ansorpy.codegen.compile_cache import phase_objects
from ansorpy.codegen.llvm_ir import object_bytes
from ansorpy.codegen.loader import build, load
from ansorpy.loopir.nodes import Program, Scope, Stmt, Tile
from ansorpy.target import Target
from tests.codegen.running import run_all
from tests.loopir.build import add, buffer, c, f32, parallel, program, read, store, v

TARGET = Target()


def shifted(source: str, goal: str, by: float, extent: int) -> Stmt:
    """Return goal[i] = source[i] + by, an element per task."""
    at = add(c(0), v("i"))
    value = add(read(source, at), f32(by))
    return parallel("i", extent, Tile((), (), store(goal, [at], value)))


def chain(last: float, middle: str = "m", other: int = 0) -> Program:
    """Return o = (x + 1) + last through a buffer, beside a buffer that no phase touches."""
    scopes = (Scope.INPUT, Scope.GLOBAL, Scope.GLOBAL, Scope.OUTPUT)
    sizes = (5, 5, 7 + other, 5)
    buffers = [
        buffer(name, size, scope=scope)
        for name, size, scope in zip(("x", middle, "unused", "o"), sizes, scopes, strict=True)
    ]
    return program(buffers, shifted("x", middle, 1.0, 5), shifted(middle, "o", last, 5))


def test_a_phase_shared_by_candidates_is_compiled_once(monkeypatch: pytest.MonkeyPatch) -> None:
    compile_cache._object.cache_clear()
    compiled: list[str] = []

    def counted(text: str, target: Target) -> bytes:
        compiled.append(text)
        return object_bytes(text, target)

    monkeypatch.setattr(compile_cache, "object_bytes", counted)
    first, second = phase_objects(chain(2.0), TARGET)
    assert first.symbol != second.symbol
    same, other = phase_objects(chain(3.0, other=1), TARGET)
    assert same is first
    assert other.symbol not in (first.symbol, second.symbol)
    assert len(compiled) == 3
    assert phase_objects(chain(3.0, middle="renamed"), TARGET) == (same, other)  # the same text


def test_positive_and_negative_zero_have_different_code() -> None:
    negative, positive = (phase_objects(chain(zero), TARGET)[1] for zero in (-0.0, 0.0))
    assert negative.symbol != positive.symbol
    assert phase_objects(chain(-0.0), TARGET)[1] == negative


def test_symbols_do_not_depend_on_earlier_compilations() -> None:
    before = phase_objects(chain(2.0), TARGET)
    compile_cache._object.cache_clear()
    phase_objects(chain(9.0), TARGET)
    assert phase_objects(chain(2.0), TARGET) == before


def test_a_repeated_phase_is_loaded_once_and_runs_twice() -> None:
    x = np.arange(5, dtype=np.float32)
    buffers = [buffer("x", 5), buffer("o", 5, scope=Scope.OUTPUT)]
    first = shifted("x", "o", 1.0, 5)
    again = shifted("o", "o", 1.0, 5)
    thrice = program(buffers, first, again, again)
    built = build(thrice, TARGET)
    assert (len(built.phases), len(built.objects)) == (3, 2)
    np.testing.assert_array_equal(run_all(thrice, {"x": x})["o"], x + 3)
    assert len(load(built).entries) == 2
