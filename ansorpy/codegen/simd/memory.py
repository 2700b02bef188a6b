"""Loads and stores, registers, and the conditions under which they happen."""

from collections.abc import Collection, Iterator
from contextlib import contextmanager
from typing import Any, Final

from llvmlite import ir

from ansorpy.codegen.simd.kinds import (
    BYTES,
    I1,
    I8,
    I32,
    I64,
    POINTER,
    STORED,
    VOID,
    computed,
    declared,
    lanes_of,
    lanes_on,
    mangled,
    vector,
    whole_number,
    width,
)
from ansorpy.codegen.simd.tile import TileExpr
from ansorpy.codegen.simd.values import Expressions, Guards, Index, Point, RuntimeValue

LINE_BYTES: Final = 64


class MemoryAccess(Expressions):
    """Reads and writes of one tile operation."""

    streaming = False  # whether the stores being written are non-temporal

    @contextmanager
    def when(self, cond: Any) -> Iterator[None]:
        """Run the emitted block only if the scalar `cond` holds; registers get phis."""
        tiles = {k: list(v) for k, v in self.values.items() if isinstance(v, list)}
        memo, shared, entry = dict(self.memo), dict(self.shared), self.b.block
        with self.b.if_then(cond):
            yield
            end = self.b.block
        self.memo, self.shared = memo, shared
        for name, before in tiles.items():
            for k, (old, new) in enumerate(zip(before, self.values[name], strict=True)):
                if old is not new:
                    phi = self.b.phi(new.type)
                    phi.add_incoming(old, entry)
                    phi.add_incoming(new, end)
                    self.values[name][k] = phi

    def write(self, target: TileExpr, point: Point, value: Any, guard: Any) -> None:
        """Write one value to a register or to memory; guard None: at every point of the mask."""
        operand, name = self.tile.of(target), target.args[0]
        if operand.shape is None:
            index = self.index(target.args[1], point)
            allowed = self.allowed((), point, self.kept) if guard is None else guard
            self.save(name, operand.dtype, index, self.stored(value, operand.dtype), allowed)
            return
        place, lanes = self.register(target, point)
        if operand.lanes and lanes != tuple(range(operand.lanes)):
            raise ValueError("cannot write a part of a register")
        if guard is not None and guard is not True:
            old = self.as_computed(self.values[name][place], operand.dtype)
            value = self.b.select(guard, value, old)
        self.values[name][place] = self.stored(value, "bool") if operand.dtype == "bool" else value

    def as_computed(self, register: Any, dtype: str) -> Any:
        """Return the value of a register; all types but bool are held in their computing form."""
        return self.loaded(register, "bool") if dtype == "bool" else register

    def save(self, name: str, dtype: str, index: Any, value: Any, guard: Any) -> None:
        """Store to memory under a guard: a scalar, a whole vector, masked, or scattered."""
        align, lanes = BYTES.get(dtype, 1), width(value)
        if guard is False:
            return
        if lanes and not consecutive(index):
            self.masked("scatter", value, self.addresses(name, dtype, index), align, guard)
            return
        place = self.address(name, dtype, index)
        if guard is True:
            if self.streaming and lanes * align == LINE_BYTES and in_lines(index, lanes):
                past_caches(self.b, value, place)
            else:
                self.b.store(value, place, align=align)
        elif len(only := lanes_on(guard)) == 1:
            # LLVM 22 writes one lane of a truncated vector as wide as it was before.
            element = self.b.extract_element(value, ir.Constant(I32, only[0]))
            offset = [ir.Constant(I32, only[0])]
            place = self.b.gep(place, offset, source_etype=element.type)
            self.b.store(element, place, align=align)
        elif lanes:
            self.masked("store", value, place, align, guard)
        else:
            with self.when(self.any(guard)):
                self.b.store(value, place, align=align)

    def masked(self, name: str, value: Any, place: Any, align: int, guard: Any) -> Any:
        """Call llvm.masked.`name`: store, scatter; load, gather return 0 in masked lanes."""
        kind, writes = value.type, name in ("store", "scatter")
        mask = self.splat(ir.Constant(I1, 1) if guard is True else guard, kind.count)
        width_of = ir.Constant(I32, align)
        args = [value, place, width_of, mask] if writes else [place, width_of, mask, value]
        function = ir.FunctionType(ir.VoidType() if writes else kind, [arg.type for arg in args])
        full = f"llvm.masked.{name}.{mangled(kind)}.{mangled(place.type)}"
        return self.b.call(declared(self.b.module, full, function), args)

    def allowed(self, guards: Guards, point: Point, keep: Collection[str] | None) -> Any:
        """Return the condition of an access: True, False, or an i1 (vector).

        `keep`: the tile variables that the access depends on; it happens where the mask holds for
        some value of the others, which is at their 0 when the mask only shrinks.
        """
        parts: list[Any] = []
        if self.tile.mask is not None and self.n:
            if keep is not None and not self.stepwise:
                corner = {name: at if name in keep else (0,) for name, at in point.items()}
                parts.append(self.eval(self.tile.mask, corner))
            else:
                parts.append(self.eval(self.tile.mask, point))
        for k, (node, positive) in enumerate(guards):
            cond = self.eval(node, point, guards[:k])
            parts.append(cond if positive else self.logic("not", cond))
        result: Any = True
        for part in parts:
            result = self.logic("and", result, part)
        return result.ir if isinstance(result, RuntimeValue) else result

    def shortened(self, guard: Any, count: int, lanes: int) -> Any:
        """Return a guard that holds in the first `count` of `lanes` lanes only."""
        if guard is False or count == lanes:
            return guard
        short = lanes_of(I1, [k < count for k in range(lanes)])
        return short if guard is True else self.conjunction(guard, short)

    def any(self, guard: Any) -> Any:
        """Return an i1: whether a lane of `guard` is set."""
        if not width(guard):
            return guard
        function = ir.FunctionType(I1, [guard.type])
        name = f"llvm.vector.reduce.or.{mangled(guard.type)}"
        return self.b.call(declared(self.b.module, name, function), [guard])

    def register(self, read: TileExpr, point: Point) -> tuple[int, tuple[int, ...]]:
        """Return the number of a register in its tile, and the lanes that a read mentions."""
        operand, place = self.tile.of(read), 0
        where = [self.constant(part, point) for part in read.args[1:]]
        lanes = where.pop() if operand.lanes else (0,)
        for (number, *_), extent in zip(where, operand.shape or (), strict=True):
            place = place * extent + number
        return place, lanes

    def constant(self, part: TileExpr, point: Point) -> tuple[int, ...]:
        """Return an index into a register tile: known numbers, one per lane."""
        if part.op == "name" and (at := point.get(part.args[0])) is not None:
            return at
        index = self.index(part, point)
        if not isinstance(index, Index) or index.terms:
            raise ValueError("a register is chosen at run time")
        return index.lanes

    def load(self, read: TileExpr, point: Point, guards: Guards) -> tuple[str, Any]:
        """Return the dtype and the value of a read: one element, or a vector of them."""
        operand, name = self.tile.of(read), read.args[0]
        if operand.shape is None:
            index = self.index(read.args[1], point, guards)
            allowed = self.allowed(guards, point, read.uses)
            vector = not isinstance(index, Index) or len(index.lanes) > 1
            fetch = self.fetch_vector if vector else self.fetch_scalar
            return computed(operand.dtype), fetch(name, operand.dtype, index, allowed)
        place, lanes = self.register(read, point)
        value = self.as_computed(self.values[name][place], operand.dtype)
        if operand.lanes and len(lanes) == 1:
            value = self.b.extract_element(value, ir.Constant(I32, lanes[0]))
        elif operand.lanes and lanes != tuple(range(operand.lanes)):
            value = self.shuffle(value, value, list(lanes))
        return computed(operand.dtype), value

    def fetch_scalar(self, name: str, dtype: str, index: Index, guard: Any) -> Any:
        """Load one element, or element 0 if the guard does not hold."""
        if guard is False:
            index = Index({}, (0,))
        elif guard is not True:
            offset = self.b.select(self.any(guard), self.whole(index), ir.Constant(I64, 0))
            index = Index({self.term(offset): 1}, (0,))
        place = self.address(name, dtype, index)
        return self.loaded(self.b.load(place, typ=STORED[dtype], align=BYTES.get(dtype, 1)), dtype)

    def fetch_vector(self, name: str, dtype: str, index: Any, guard: Any) -> Any:
        """Load a vector; lanes outside of the guard are 0, and their memory is not read."""
        lanes = len(index.lanes) if isinstance(index, Index) else width(index.ir)
        kind, align = vector(STORED[dtype], lanes), BYTES.get(dtype, 1)
        value = ir.Constant(kind, None)
        if guard is not False and consecutive(index):
            if guard is True:
                value = self.loaded_vector(name, dtype, index)
            else:
                place = self.address(name, dtype, index)
                value = self.masked("load", value, place, align, guard)
        elif guard is not False:
            value = self.masked("gather", value, self.addresses(name, dtype, index), align, guard)
        value = self.loaded(value, dtype)
        if guard is not True:
            self.zeroed[id(value)] = value
        return value

    def loaded_vector(self, name: str, dtype: str, index: Index) -> Any:
        """Load a vector, once for all points of the tile that read the same address."""
        key = ("vector", name, frozenset(index.terms.items()), index.lanes)
        if key in self.memo and name not in self.written:
            return self.memo[key]
        kind = vector(STORED[dtype], len(index.lanes))
        place = self.address(name, dtype, index)
        value = self.memo[key] = self.b.load(place, typ=kind, align=BYTES.get(dtype, 1))
        return value

    def address(self, name: str, dtype: str, index: Index) -> Any:
        """Return the pointer to the element at an index (to its first lane)."""
        key = ("address", name, frozenset(index.terms.items()))
        known = self.memo if self.tile.hints.reload else self.memo_of(index.terms)
        if key not in known:
            base: Any = self.values[name]
            if not isinstance(base.type, ir.PointerType):
                base = self.b.inttoptr(base, POINTER)
            offset = self.scalar(index.terms)
            known[key] = self.b.gep(base, [offset], source_etype=STORED[dtype])
        first = whole_number(index.lanes[0])
        return self.b.gep(known[key], [first], source_etype=STORED[dtype])

    def addresses(self, name: str, dtype: str, index: Any) -> Any:
        """Return a vector of pointers, one per lane."""
        if isinstance(index, Index):
            base = self.address(name, dtype, Index(index.terms, (0,)))
            kind = I32 if all(abs(k) < 2**31 for k in index.lanes) else I64
            offsets = lanes_of(kind, index.lanes * (self.n if len(index.lanes) == 1 else 1))
        else:
            base, offsets = self.address(name, dtype, Index({}, (0,))), index.ir
        result = self.b.gep(base, [offsets], source_etype=STORED[dtype])
        result.type = vector(POINTER, width(offsets))  # llvmlite gives it the type of one pointer
        return result


def in_lines(index: Index, lanes: int) -> bool:
    """Return True if an offset is a multiple of the lanes for any values of its terms."""
    return all(scale % lanes == 0 for scale in (index.lanes[0], *index.terms.values()))


def past_caches(builder: Any, value: Any, place: Any) -> None:
    """Store a whole cache line past the caches: the line is not read before it is written."""
    stored = builder.store(value, place, align=LINE_BYTES)
    stored.set_metadata("nontemporal", builder.module.add_metadata([ir.Constant(I32, 1)]))


def fetch(builder: Any, place: Any) -> None:
    """Prefetch a cache line into the second-level cache."""
    kind = ir.FunctionType(VOID, [POINTER, I32, I32, I32])
    for_reading, second_cache, data = (ir.Constant(I32, number) for number in (0, 2, 1))
    function = declared(builder.module, "llvm.prefetch.p0", kind)
    builder.call(function, [place, for_reading, second_cache, data])


def settle(builder: Any) -> None:
    """Emit a store fence: earlier non-temporal stores become visible to other threads."""
    kind = ir.FunctionType(VOID, [])
    builder.call(declared(builder.module, "llvm.x86.sse.sfence", kind), [])


def consecutive(index: Any) -> bool:
    """Return True if the lanes of an offset lie side by side."""
    return isinstance(index, Index) and index.lanes == tuple(
        range(index.lanes[0], index.lanes[0] + len(index.lanes))
    )


def reserve(builder: Any, size_bytes: int) -> Any:
    """Return a pointer to 64-byte aligned memory on the stack, reserved once per call."""
    with builder.goto_entry_block():
        memory = builder.alloca(ir.ArrayType(I8, size_bytes))
        memory.align = 64
        # llvmlite distinguishes pointers by their target type, and leaves out a cast to the plain
        # pointer type, so that the plain type has to be set.
        memory.type = POINTER
        return memory
