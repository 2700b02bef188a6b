"""LLVM types by dtype, operands of a tile, constants and declarations."""

import math
from collections.abc import Iterable
from functools import lru_cache
from typing import Any, NamedTuple

from llvmlite import ir
from llvmlite.binding import get_host_cpu_features

I1, I8, I16, I32, I64 = (ir.IntType(bits) for bits in (1, 8, 16, 32, 64))
F32, F64, POINTER, VOID = ir.FloatType(), ir.DoubleType(), ir.PointerType(), ir.VoidType()
STORED = {
    "bool": I8, "int8": I8, "uint8": I8, "int16": I16, "uint16": I16, "int32": I32, "uint32": I32,
    "int64": I64, "uint64": I64,
    "float16": ir.HalfType(), "bfloat16": I16, "float32": F32, "float64": F64,
}  # fmt: skip
COMPUTED = {**STORED, "bool": I1, "float16": F32, "bfloat16": F32}
BYTES = {
    "float16": 2, "bfloat16": 2, "int16": 2, "uint16": 2, "int32": 4, "uint32": 4, "float32": 4,
    "int64": 8, "uint64": 8, "float64": 8,
}  # fmt: skip
FLOATS = ("float32", "float64")
UNSIGNED = ("bool", "uint8", "uint16", "uint32", "uint64")
LARGEST = {
    "int8": 127, "uint8": 255, "int16": 2**15 - 1, "uint16": 2**16 - 1, "int32": 2**31 - 1,
    "uint32": 2**32 - 1, "int64": 2**63 - 1, "uint64": 2**64 - 1, "bool": 1,
}  # fmt: skip
LEAST = {
    "int8": -128, "int16": -(2**15), "int32": -(2**31), "int64": -(2**63),
    **dict.fromkeys(UNSIGNED, 0),
}  # fmt: skip
SHORT = {ir.FloatType: "f32", ir.DoubleType: "f64", ir.HalfType: "f16"}
ALONE = ("nsz",)  # flags of a product that no addition is fused with
FLAGS = ("contract", "nsz")  # never nnan, ninf: NaN and infinity keep their meaning


@lru_cache(maxsize=256)  # one object per type: llvmlite keeps the text of a type on it
def vector(element: Any, count: int) -> Any:
    """Return the type of a vector."""
    return ir.VectorType(element, count)


class Operand(NamedTuple):
    """A buffer of a tile; `shape` is None for memory, `lanes` 0 for scalars."""

    dtype: str
    lanes: int
    shape: tuple[int, ...] | None

    @staticmethod
    def of(text: str) -> "Operand":
        """Read "float32*", "float32x16[8,3]" or "float32[8]"."""
        if text.endswith("*"):
            return Operand(text[:-1], 0, None)
        head, _, tail = text[:-1].partition("[")
        dtype, _, lanes = head.partition("x")
        return Operand(dtype, int(lanes or 0), tuple(int(n) for n in tail.split(",") if n))

    def __str__(self) -> str:
        if self.shape is None:
            return f"{self.dtype}*"
        lanes = f"x{self.lanes}" if self.lanes else ""
        return f"{self.dtype}{lanes}[{','.join(map(str, self.shape))}]"

    @property
    def element(self) -> Any:
        """The LLVM type of one register of the tile."""
        stored = I8 if self.dtype == "bool" else COMPUTED[self.dtype]
        return vector(stored, self.lanes) if self.lanes else stored


def lanes_on(guard: Any) -> list[int]:
    """Return the lanes that a constant vector of i1 sets; [] for anything else."""
    bits = guard.constant if isinstance(guard, ir.Constant) else None
    if not isinstance(bits, list | tuple):
        return []
    return [k for k, bit in enumerate(bits) if bit.constant]


def supports(builder: Any, feature: str) -> bool:
    """Return True if the target of a builder has a feature, by LLVM's name for it.

    A builder without `features` writes for this machine, as numba does. If numba's configuration
    names another processor, no special feature is assumed.
    """
    known = getattr(builder, "features", None)
    if known is not None:
        return feature in known
    from numba import config  # here, because the search does not load numba

    configured = config.CPU_NAME or config.CPU_FEATURES  # type: ignore[attr-defined]
    return not configured and feature in host_features()


@lru_cache(maxsize=1)
def host_features() -> frozenset[str]:
    """Return the features of this processor, by LLVM's names."""
    return frozenset(name for name, on in get_host_cpu_features().items() if on)


def declared(module: Any, name: str, kind: Any) -> Any:
    """Return the function `name` of a module, declared if it is not there yet."""
    known = module.globals.get(name)
    return ir.Function(module, kind, name) if known is None else known


def constant(kind: Any, number: float) -> Any:
    """Return a number in an LLVM type, in every lane of a vector."""
    return _constant(kind, number, type(number).__name__, math.copysign(1, number))


@lru_cache(maxsize=4096)  # entries: printing a constant is slow, and few differ
def _constant(kind: Any, number: float, _python: str, sign: float) -> Any:
    if not isinstance(kind, ir.VectorType):
        return ir.Constant(kind, number)
    if number == 0 and sign > 0:
        return ir.Constant(kind, None)  # zeroinitializer
    return ir.Constant(kind, [number] * kind.count)


@lru_cache(maxsize=256)
def undefined(kind: Any) -> Any:
    """Return the undefined value of an LLVM type."""
    return ir.Constant(kind, ir.Undefined)


@lru_cache(maxsize=4096)
def whole_number(number: int) -> Any:
    """Return an int64 constant."""
    return ir.Constant(I64, number)


def lanes_of(element: Any, numbers: Iterable[float]) -> Any:
    """Return a constant vector of these numbers."""
    return _lanes(element, tuple(int(k) if isinstance(k, bool) else k for k in numbers))


@lru_cache(maxsize=4096)
def _lanes(element: Any, numbers: tuple[float, ...]) -> Any:
    return ir.Constant(vector(element, len(numbers)), list(numbers))


def power_of_two(count: int) -> int:
    """Return the least power of two that is at least `count`."""
    return 1 << (count - 1).bit_length()


def width(*values: Any) -> int:
    """Return the largest number of lanes among some values; 0 for scalars."""
    return max(getattr(value.type, "count", 0) for value in values)


def reshaped(kind: Any, element: Any) -> Any:
    """Return `element`; if `kind` is a vector, a vector of `element` with as many lanes."""
    return vector(element, kind.count) if isinstance(kind, ir.VectorType) else element


def mangled(kind: Any) -> str:
    """Return the spelling of a type in the names of LLVM's overloaded intrinsics."""
    if isinstance(kind, ir.VectorType):
        return f"v{kind.count}{mangled(kind.element)}"
    short = SHORT.get(type(kind))
    if short is not None:
        return short
    words = str(kind)
    return "p0" if words == "ptr" else words


def computed(dtype: str) -> str:
    """Return the dtype in which values of `dtype` are computed."""
    return "float32" if dtype in ("float16", "bfloat16") else dtype
