"""Run numba.cuda source thread by thread: a kernel becomes a generator that stops where it waits.

`cuda.syncthreads()` and shuffles become `yield`; between two of them a thread runs alone, in either
order of the threads, so that a missing barrier gives other results.
"""

import ast
import math
from collections.abc import Callable, Mapping, Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
BARRIER = "cuda.syncthreads"
WARP = 32


class _Stops(ast.NodeTransformer):
    """Puts `yield` in place of calls in which a thread waits for others."""

    def visit_Call(self, node: ast.Call) -> ast.expr:
        self.generic_visit(node)
        name = ast.unparse(node.func)
        if name in ("cuda.syncthreads", "cuda.syncwarp"):
            return ast.Yield(ast.Constant(name))
        if name == "cuda.shfl_xor_sync":
            mask, value, distance = node.args
            assert ast.unparse(mask) == "-1"
            return ast.Yield(ast.Tuple([value, distance], ast.Load()))
        return node


class Executor:
    """The kernels of a source; `launches` are their names and numbers."""

    def __init__(self, source: str) -> None:
        tree = ast.parse(source)
        self.names = {
            alias.name for part in tree.body if isinstance(part, ast.ImportFrom)
            for alias in part.names
        }  # fmt: skip
        tree.body = [part for part in tree.body if not isinstance(part, ast.ImportFrom)]
        for part in tree.body:
            if isinstance(part, ast.FunctionDef):
                part.body.append(ast.parse("yield").body[0])
        self.shared: list[Array] = []
        self.scope: dict[str, Any] = self._scope()
        assert self.names <= self.scope.keys(), self.names
        code = compile(ast.fix_missing_locations(_Stops().visit(tree)), "kernel.py", "exec")
        exec(code, self.scope)
        self.launches: Sequence[tuple[Any, int, int, bool]] = self.scope["LAUNCHES"]

    def _scope(self) -> dict[str, Any]:
        self.here = SimpleNamespace(thread=0, block=0, arrays=0)
        cuda = SimpleNamespace(
            jit=lambda function: function,
            threadIdx=_Number(lambda: self.here.thread),
            blockIdx=_Number(lambda: self.here.block),
            shared=SimpleNamespace(array=self._shared),
            local=SimpleNamespace(array=_undefined),
            fma=fma,
        )
        return {
            "cuda": cuda, "libdevice": LIBDEVICE, "inf": math.inf, "nan": math.nan, "abs": np.abs,
            **{name: _cast(name) for name in ("int8", "int16", "int32", "int64", "uint64",
                                              "float16", "float32", "float64")},
        }  # fmt: skip

    def _shared(self, count: int, dtype: Any) -> Array:
        at = self.here.arrays
        self.here.arrays += 1
        if at == len(self.shared):
            self.shared.append(_undefined(count, dtype))
        array: Array = self.shared[at]
        return array

    def run(self, arrays: Sequence[Array], ahead: bool, backwards: bool = False) -> None:
        """Run the launches in order on flat arrays."""
        for kernel, blocks, threads, early in self.launches:
            if early is ahead:
                for block in range(blocks)[:: -1 if backwards else 1]:
                    self._block(kernel, arrays, block, threads, backwards)

    def _block(
        self, kernel: Any, arrays: Sequence[Array], block: int, threads: int, backwards: bool
    ) -> None:
        self.shared = []
        order = list(range(threads))[:: -1 if backwards else 1]
        running = {thread: kernel(*arrays) for thread in order}
        given: dict[int, Any] = dict.fromkeys(order)  # answers to threads that may go on
        met: dict[int, Any] = {}
        while running:
            for thread in [one for one in order if one in given]:
                self.here.thread, self.here.block, self.here.arrays = thread, block, 0
                met[thread] = running[thread].send(given[thread])
            given = {}
            for first in range(0, threads, WARP):
                given |= self._warp({k: met[k] for k in range(first, first + WARP) if k in running})
            for thread in [one for one in order if one in running and met[one] is None]:
                del running[thread]
            if not given and running:
                places = {str(met[one]) for one in running}
                assert places == {BARRIER}, f"threads wait at different places: {places}"
                given = dict.fromkeys(running)

    def _warp(self, met: dict[int, Any]) -> dict[int, Any]:
        """Return answers to the threads of a warp if they wait for one another."""
        kinds: set[Any] = {
            one if isinstance(one, str | None) else ("shuffle", one[1]) for one in met.values()
        }
        assert len(kinds) <= 1, f"threads of a warp wait at different places: {kinds}"
        if kinds == {"cuda.syncwarp"}:
            return dict.fromkeys(met)
        if not kinds or kinds & {None, BARRIER}:
            return {}
        ((_, distance),) = kinds
        assert 0 < distance < WARP
        return {thread: met[thread ^ distance][0] for thread in met}


class _Number:
    """A special register with the member x."""

    def __init__(self, read: Callable[[], int]) -> None:
        self._read = read

    @property
    def x(self) -> Any:
        return np.int64(self._read())


def _cast(name: str) -> Any:
    """Return a type of NumPy whose numbers wrap around, as in compiled code."""
    kind = getattr(np, name)
    if not name.startswith("int"):
        return kind

    class Whole(kind):  # type: ignore[valid-type, misc]
        """A dtype for arrays that is called to convert."""

        def __new__(cls, value: Any) -> Any:
            number = int(value) if math.isfinite(value) else 0
            bits = 8 * np.dtype(name).itemsize
            return kind((number + (1 << bits - 1)) % (1 << bits) - (1 << bits - 1))

    return Whole


def _undefined(count: int, dtype: Any) -> Array:
    kind = np.dtype(dtype.__mro__[1] if dtype.__name__ == "Whole" else dtype)
    return np.array([np.nan if kind.kind == "f" else np.iinfo(kind).max] * count, kind)


def fma(a: Any, b: Any, c: Any) -> Any:
    """Return a * b + c, nearly rounded once."""
    wide = np.float64 if isinstance(a, np.float32) else np.longdouble
    return type(a)(wide(a) * wide(b) + wide(c))


def _bits(kind: Any) -> Callable[[Any], Any]:
    return lambda x: x.view(kind)


LIBDEVICE = SimpleNamespace(
    float_as_int=_bits(np.int32), int_as_float=_bits(np.float32),
    double_as_longlong=_bits(np.int64), longlong_as_double=_bits(np.float64),
    fmul_rn=np.multiply, dmul_rn=np.multiply,
    **{name + short: getattr(np, name) for name in ("floor", "ceil", "rint", "trunc", "copysign",
                                                    "sqrt") for short in ("", "f")},
)  # fmt: skip
FLAT: Mapping[str, Any] = {
    "bool": np.int8, "uint8": np.int8, "uint16": np.int16, "uint32": np.int32, "uint64": np.int64,
    "bfloat16": np.int16,
}  # fmt: skip
