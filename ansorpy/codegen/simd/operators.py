"""Tile operations as numba intrinsics."""

import inspect
import math
from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba import types as numba_types
from numba.core.datamodel import models
from numba.extending import intrinsic, register_model

from ansorpy.codegen.simd.expansion import Expansion
from ansorpy.codegen.simd.kinds import I64, POINTER, Operand, declared
from ansorpy.codegen.simd.matrices import allow_matrices, configure, release
from ansorpy.codegen.simd.memory import fetch, reserve, settle
from ansorpy.codegen.simd.parser import parse


class TileType(numba_types.Type):
    """The numba type of a register tile, by its text: "float32x16[8,3]"."""

    def __init__(self, text: str) -> None:
        self.operand = Operand.of(text)
        super().__init__(name=text)


@register_model(TileType)
class TileModel(models.PrimitiveModel):
    """A register tile is an LLVM array of vectors; LLVM keeps them apart, in registers."""

    def __init__(self, dmm: Any, kind: TileType) -> None:
        count = math.prod(kind.operand.shape or (1,))
        super().__init__(  # type: ignore[no-untyped-call]
            dmm, kind, ir.ArrayType(kind.operand.element, count)
        )


def tile(
    text: str,
    dims: tuple[tuple[str, int], ...] = (),
    lane: tuple[str, int] | None = None,
    mask: str | None = None,
    types: dict[str, str] | None = None,
    dot: tuple[str, str] | None = None,
    matrix: tuple[str, str, bool] | None = None,
    **hints: Any,
) -> Any:
    """Return the intrinsic of a tile operation; `parse` documents the arguments."""
    parsed, kind_of = parse(text, dims, lane, mask, types, dot, matrix, **hints), types or {}
    kinds = [
        TileType(kind_of[name]) if parsed.in_registers(name) else numba_types.int64
        for name in parsed.names
    ]
    results = [kinds[parsed.names.index(name)] for name in parsed.results]
    answer = results[0] if len(results) == 1 else numba_types.Tuple(results)  # type: ignore[no-untyped-call]

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        prefer_wide_vectors(builder.function)
        keep_loops(builder)
        values = {
            name: [builder.extract_value(arg, k) for k in range(arg.type.count)]
            if parsed.in_registers(name)
            else arg
            for name, arg in zip(parsed.names, args, strict=True)
        }
        try:
            after = Expansion(parsed, builder, values).run()
        except ValueError as error:
            raise ValueError(f"{error}: {text}") from error
        packed = [
            pack(builder, context.get_value_type(kind), after[name])
            for kind, name in zip(results, parsed.results, strict=True)
        ]
        if len(packed) == 1:
            return packed[0]
        if packed:
            return context.make_tuple(builder, signature.return_type, packed)
        return context.get_dummy_value()

    return named(parsed.names, kinds, answer if results else numba_types.void, code)


def registers(text: str) -> Any:
    """Return the intrinsic that makes a register tile whose values are not yet defined."""
    kind = TileType(text)

    def code(context: Any, _builder: Any, _signature: Any, _args: Any) -> Any:
        return ir.Constant(context.get_value_type(kind), ir.Undefined)

    return named([], [], kind, code)


def scratch(size_bytes: int) -> Any:
    """Return the intrinsic for the address of 64-byte aligned memory on the stack."""

    def code(_context: Any, builder: Any, _signature: Any, _args: Any) -> Any:
        return builder.ptrtoint(reserve(builder, size_bytes), I64)

    return named([], [], numba_types.int64, code)


def matrices(on: bool) -> Any:
    """Return the intrinsic that configures the registers of matrices, or releases them.

    Raises RuntimeError if the system does not let this process use them.
    """
    if not allow_matrices():
        raise RuntimeError(
            "cannot run this kernel because the system does not let a process use AMX"
        )

    def code(context: Any, builder: Any, _signature: Any, _args: Any) -> Any:
        configure(builder) if on else release(builder)
        return context.get_dummy_value()

    return named([], [], numba_types.void, code)


@intrinsic
def settled(_context: Any) -> Any:
    """Make earlier non-temporal stores visible to other threads."""

    def code(context: Any, builder: Any, _signature: Any, _args: Any) -> Any:
        settle(builder)
        return context.get_dummy_value()

    return numba_types.void(), code


@intrinsic
def prefetch(_context: Any, place: Any) -> Any:
    """Prefetch the cache line of an address into the second-level cache."""

    def code(context: Any, builder: Any, _signature: Any, args: Any) -> Any:
        fetch(builder, builder.inttoptr(args[0], POINTER))
        return context.get_dummy_value()

    return numba_types.void(numba_types.int64), code


@intrinsic
def address(_context: Any, array: Any) -> Any:
    """Return the address of an array's data."""

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        data = context.make_array(signature.args[0])(context, builder, args[0]).data
        return builder.ptrtoint(data, I64)

    return numba_types.int64(array), code


def named(names: list[str], kinds: list[Any], answer: Any, code: Callable[..., Any]) -> Any:
    """Return a numba intrinsic with these parameters."""

    def typing(_context: Any, *_args: Any) -> Any:
        return answer(*kinds), code

    words = [inspect.Parameter(n, inspect.Parameter.POSITIONAL_OR_KEYWORD) for n in ("_", *names)]
    typing.__signature__ = inspect.Signature(words)  # type: ignore[attr-defined]
    return intrinsic(typing)


def pack(builder: Any, kind: Any, registers: list[Any]) -> Any:
    """Return the registers as one LLVM array."""
    result = ir.Constant(kind, ir.Undefined)
    for k, value in enumerate(registers):
        result = builder.insert_value(result, value, k)
    return result


def keep_loops(builder: Any) -> None:
    """Keep LLVM from unrolling the loops around this point.

    In an unrolled loop it would merge loads of several iterations and run out of registers, at
    half the speed.
    """
    nothing = declared(builder.module, "llvm.sideeffect", ir.FunctionType(ir.VoidType(), []))
    call = builder.call(nothing, [])
    set.add(call.attributes, "noduplicate")  # llvmlite does not know this attribute


def prefer_wide_vectors(function: Any) -> None:
    """Make LLVM use 512-bit registers if the machine has them; it prefers 256 bits."""
    set.add(function.attributes, '"prefer-vector-width"="512"')  # llvmlite refuses the text
