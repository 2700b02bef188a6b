"""Run a program point by point: slow, exact, independent of all code generation."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from math import prod
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from ansorpy.errors import LoweringError, SpecError
from ansorpy.expr.dtypes import FLOATS, SIZE_BYTES
from ansorpy.expr.expr import Const, Expr, substitute, variables
from ansorpy.loopir.closures import (
    Array,
    Frame,
    Thunk,
    index_thunk,
    place_thunk,
    scalar_type,
    unwritten,
    value_thunk,
)
from ansorpy.loopir.nodes import (
    Alloc,
    Buffer,
    For,
    If,
    Prefetch,
    Program,
    Scope,
    Seq,
    Stmt,
    Store,
    Tile,
)
from ansorpy.loopir.rewrite import map_shape, substitute_stmt
from ansorpy.loopir.tasks import first_tasks
from ansorpy.te.tensor_data import checked_array, storage, tensor_bytes

AnyArray = npt.NDArray[Any]

_COMBINE: Final[Mapping[str, Callable[[Any, Any], Any]]] = {
    "sum": lambda old, new: old + new,
    "prod": lambda old, new: old * new,
    "max": lambda old, new: old if old >= new or old != old else new,
    "min": lambda old, new: old if old <= new or old != old else new,
}


def run(
    program: Program,
    inputs: Mapping[str, AnyArray],
    sizes: Mapping[str, int] | None = None,
    strict: bool = False,
) -> dict[str, AnyArray]:
    """Return the OUTPUT buffers by name.

    Loops of every kind run in order; a Tile runs dims, then lanes. Everything that is not an
    input starts as poison (NaN, or bytes 0xA5), LOCAL and REGISTER buffers at every Alloc.

    Args:
        inputs: one array for every INPUT and CONSTANT buffer, of its shape and dtype; bfloat16 as
            uint16 bit patterns, here and in the result.
        sizes: the values of the named sizes of a symbolic program.
        strict: also raise where an element is used, or an output left, that nothing wrote.

    Raises:
        SpecError: an input is missing or has another shape or dtype.
        LoweringError: an index is out of range; a variable is not bound; strict: see above.
    """
    machine = _Machine(sizes or {}, strict)
    for buffer in program.buffers:
        machine.declare(buffer)
        if buffer.scope in (Scope.INPUT, Scope.CONSTANT):
            machine.give(buffer, inputs)
        else:
            machine.poison(buffer.name)
    # Poison and overflow are meant to flow on; a warning per point would say nothing new.
    with np.errstate(all="ignore"):
        for phase in program.phases:
            machine.compile(substitute_stmt(first_tasks(phase), machine.values))()
    outputs = (buffer for buffer in program.buffers if buffer.scope is Scope.OUTPUT)
    return {buffer.name: machine.take(buffer) for buffer in outputs}


class _Machine:
    """Compiles statements to thunks over one frame."""

    def __init__(self, sizes: Mapping[str, int], strict: bool) -> None:
        self.values: dict[str, Expr] = {name: Const(int(n)) for name, n in sizes.items()}
        self.strict = strict
        self.frame = Frame()
        self.bound: set[str] = set()

    def declare(self, buffer: Buffer) -> Array:
        """Make room for a buffer; its shape must be numbers once the sizes are put in."""
        shape = map_shape(buffer, lambda e: substitute(e, self.values)).shape
        frame = Frame()
        extents = tuple(int(index_thunk(extent, frame)()) for extent in shape)
        if frame.slots:
            raise LoweringError(f"{buffer.name}: no value for {', '.join(frame.slots)}")
        array = Array(buffer.name, extents, buffer.dtype)
        self.frame.arrays[buffer.name] = array
        return array

    def give(self, buffer: Buffer, inputs: Mapping[str, AnyArray]) -> None:
        name = buffer.name
        array = self.frame.arrays[name]
        shape = buffer.given or array.shape
        if name not in inputs:
            raise SpecError(f"input {name!r} is missing; given: {', '.join(inputs) or 'none'}")
        given = inputs[name]
        if given.shape != shape or given.dtype != storage(array.dtype):
            raise SpecError(
                f"input {name!r} is {given.dtype}{list(given.shape)},"
                f" expected {array.dtype}{list(shape)}"
            )
        if array.dtype == "bfloat16":
            given = checked_array(given, array.dtype, name).astype(np.float32)
        array.data[:] = list(given.ravel())

    def poison(self, name: str) -> None:
        array = self.frame.arrays[name]
        empty = None if self.strict else _poison(array.dtype)
        array.data[:] = [empty] * prod(array.shape)

    def take(self, buffer: Buffer) -> AnyArray:
        name = buffer.name
        array = self.frame.arrays[name]
        shape = buffer.given or array.shape
        if any(value is None for value in array.data):
            raise LoweringError(f"output {name}: an element is never written")
        if array.dtype == "bfloat16":
            packed = tensor_bytes(np.array(array.data, np.float32), array.dtype)
            return np.frombuffer(packed, storage(array.dtype)).reshape(shape)
        return np.array(array.data, dtype=array.dtype).reshape(shape)

    def compile(self, stmt: Stmt) -> Thunk:
        """Return a function that runs `stmt` once."""
        match stmt:
            case Store():
                return self._store(stmt)
            case For(var=var, extent=extent, body=body):
                return self._loop(var, self._index(extent), lambda: self.compile(body))
            case If(cond=cond, then=then, other=other):
                return self._if(cond, then, other)
            case Seq(stmts=stmts):
                parts = tuple(map(self.compile, stmts))

                def in_order() -> None:
                    for part in parts:
                        part()

                return in_order
            case Alloc(buffer=buffer, body=body):
                return self._alloc(buffer, body)
            case Tile():
                return self._tile(stmt)
            case Prefetch(offset=offset):
                self._closed(offset)
                return lambda: None

    def _index(self, expr: Expr) -> Thunk:
        self._closed(expr)
        return index_thunk(expr, self.frame)

    def _closed(self, *exprs: Expr) -> None:
        # Slots outlive their loop, so a stray variable would silently keep its last value.
        for expr in exprs:
            free = variables(expr) - self.bound
            if free:
                raise LoweringError(f"{expr}: nothing binds {', '.join(sorted(free))}")

    def _loop(self, var: str, extent: Thunk, inside: Callable[[], Thunk]) -> Thunk:
        slot, env = self.frame.slot(var), self.frame.env
        shadowed = var in self.bound
        self.bound.add(var)
        body = inside()
        if not shadowed:
            self.bound.discard(var)

        def loop() -> None:
            for i in range(extent()):
                env[slot] = i
                body()

        return loop

    def _if(self, cond: Expr, then: Stmt, other: Stmt | None) -> Thunk:
        test, yes = self._index(cond), self.compile(then)
        no = None if other is None else self.compile(other)

        def branch() -> None:
            if test():
                yes()
            elif no is not None:
                no()

        return branch

    def _alloc(self, buffer: Buffer, body: Stmt) -> Thunk:
        outer = self.frame.arrays.get(buffer.name)
        self.declare(buffer)
        array, inside = self.frame.arrays[buffer.name], self.compile(body)
        if outer is not None:
            self.frame.arrays[buffer.name] = outer
        else:
            del self.frame.arrays[buffer.name]
        fresh = [None if self.strict else _poison(array.dtype)] * prod(array.shape)

        def scope() -> None:
            array.data[:] = fresh
            inside()

        return scope

    def _tile(self, tile: Tile) -> Thunk:
        def inside() -> Thunk:
            inner: Stmt = tile.store if tile.mask is None else If(tile.mask, tile.store)
            return self.compile(inner)

        if tile.matrix is not None and tile.matrix.fresh:
            zero = Const(0, self._array(tile.store.buffers[0]).dtype)
            store = replace(tile.store, values=(zero,), combiner=None)
            plain = replace(tile, store=store, dot=None, matrix=None)
            added = replace(tile, matrix=replace(tile.matrix, fresh=False))
            return self.compile(Seq((plain, added)))
        build = inside
        for var, extent in reversed(tile.spans):
            build = self._nested(var, extent, build)
        return build()

    def _nested(self, var: str, extent: int, inside: Callable[[], Thunk]) -> Callable[[], Thunk]:
        return lambda: self._loop(var, lambda: extent, inside)

    def _store(self, store: Store) -> Thunk:
        self._closed(*store.index, *store.values)
        arrays = [self._array(name) for name in store.buffers]
        place = place_thunk(arrays[0], store.index, self.frame)
        values = [value_thunk(value, self.frame, self.strict) for value in store.values]
        if store.combiner in ("argmax", "argmin"):
            return _pair(arrays, place, values, store.combiner == "argmax")
        if store.combiner is not None:
            return _combine(arrays[0], place, values[0], _COMBINE[store.combiner])
        return _assign(arrays, place, values)

    def _array(self, name: str) -> Array:
        if name not in self.frame.arrays:
            raise LoweringError(f"no buffer {name!r} in scope")
        return self.frame.arrays[name]


def _assign(arrays: list[Array], place: Thunk, values: list[Thunk]) -> Thunk:
    if len(arrays) == 1:
        data, value = arrays[0].data, values[0]

        def assign() -> None:
            data[place()] = value()

        return assign
    pairs = [(array.data, value) for array, value in zip(arrays, values, strict=True)]

    def assign_all() -> None:
        at = place()
        for data, value in pairs:
            data[at] = value()

    return assign_all


def _combine(array: Array, place: Thunk, value: Thunk, combine: Callable[[Any, Any], Any]) -> Thunk:
    data = array.data

    def update() -> None:
        at = place()
        old = data[at]
        if old is None:
            raise unwritten(array)
        data[at] = combine(old, value())

    return update


def _pair(arrays: list[Array], place: Thunk, values: list[Thunk], largest: bool) -> Thunk:
    (best, where), (value, index) = (array.data for array in arrays), values

    def update() -> None:
        at = place()
        old, new, spot = best[at], value(), index()
        if old is None or where[at] is None:
            raise unwritten(arrays[0])
        better = new > old if largest else new < old
        if better or (new == old and spot < where[at]):
            best[at], where[at] = new, spot

    return update


def _poison(dtype: str) -> Any:
    if dtype in FLOATS:
        return scalar_type(dtype)("nan")
    return np.frombuffer(b"\xa5" * SIZE_BYTES[dtype], dtype=scalar_type(dtype))[0]
