"""A back end whose programs are NumPy matmuls, and misbehave as their name says."""

import ctypes
import os
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from ansorpy.codegen.kernel import Kernel, PhaseInfo
from ansorpy.errors import BuildError
from ansorpy.expr.expr import Binary, Const, Read, Var
from ansorpy.loopir.nodes import Buffer, Program, Scope
from ansorpy.measure.values import data
from ansorpy.target import Target
from ansorpy.te.dag import Axis, Compute, Dag, Placeholder

Array = np.ndarray[Any, Any]
BACKEND = "tests.measure.fake"


def matmul(m: int = 16, n: int = 16, k: int = 8, dtype: str = "float32", left: str = "A") -> Dag:
    body = Binary(
        "mul", Read(left, (Var("i"), Var("k")), dtype), Read("B", (Var("k"), Var("j")), dtype)
    )
    axes, reduce_axes = (Axis("i", m), Axis("j", n)), (Axis("k", k),)
    return Dag(
        (
            Placeholder(left, (m, k), dtype),
            Placeholder("B", (k, n), dtype),
            Compute("C", axes, (body,), (dtype,), reduce_axes, "sum"),
        ),
        ("C",),
    )


def program(name: str, dag: Dag) -> Program:
    buffers = []
    for node in dag.nodes:
        scope = Scope.INPUT if isinstance(node, Placeholder) else Scope.OUTPUT
        dtype = node.dtype
        buffers.append(Buffer(node.name, dtype, tuple(map(Const, node.shape)), scope))
    return Program(name, tuple(buffers), ())


@data
@dataclass(frozen=True)
class FakeBuilt:
    name: str
    buffers: tuple[Buffer, ...]
    phases: tuple[PhaseInfo, ...] = ()
    steady: tuple[str, ...] = ()


BUILT = FakeBuilt


def build(program: Program, target: Target) -> FakeBuilt:
    if program.name == "build-error":
        raise BuildError("register %7 is not defined")
    if program.name == "build-hang":
        _hang()
    if program.name == "build-crash":
        ctypes.string_at(8)
    return FakeBuilt(program.name, program.buffers)


def build_source(kernel: Kernel, target: Target) -> FakeBuilt:
    return FakeBuilt(kernel.source, kernel.buffers)


def load(built: FakeBuilt) -> "Fake":
    if built.name == "load-error":
        raise ImportError("symbol not found")
    return Fake(built)


@dataclass(frozen=True)
class Fake:
    built: FakeBuilt

    def run(self, addresses: Sequence[int]) -> None:
        arrays = self._arrays(addresses)
        if self.built.name == "packs-ahead":
            arrays[1] = _PACKED[-1]
        BEHAVIOUR.get(self.built.name, _good)(*arrays)

    def run_backwards(self, addresses: Sequence[int]) -> None:
        if self.built.name == "ordered":
            self._arrays(addresses)[-1].fill(0)
        else:
            self.run(addresses)

    def bind(self, addresses: Sequence[int]) -> Callable[[], None]:
        return partial(self.run, addresses)

    def bind_parallel(self, addresses: Sequence[int], threads: int) -> Callable[[], None]:
        if self.built.name == "wrong-in-parallel":
            return lambda: None
        return partial(self.run, addresses)

    def run_ahead(self, addresses: Sequence[int]) -> None:
        _PACKED.append(self._arrays(addresses)[1].copy())

    def _arrays(self, addresses: Sequence[int]) -> list[Array]:
        return [_view(a, b) for a, b in zip(addresses, self.built.buffers, strict=True)]


def _view(address: int, buffer: Buffer) -> Array:
    shape = buffer.extents
    kind = np.ctypeslib.as_ctypes_type(np.dtype(buffer.dtype))
    pointer = ctypes.cast(address, ctypes.POINTER(kind))
    return np.ctypeslib.as_array(pointer, shape)


def _good(a: Array, b: Array, c: Array) -> None:
    np.matmul(a, b, out=c)


def _slow(a: Array, b: Array, c: Array) -> None:
    time.sleep(0.02)
    _good(a, b, c)


def _hang(*_: Array) -> None:
    while True:
        pass


def _crash(*_: Array) -> None:
    ctypes.memset(8, 0, 1)


def _dropped(a: Array, b: Array, c: Array) -> None:
    np.matmul(a[:, :-1], b[:-1], out=c)


def _swapped(a: Array, b: Array, c: Array) -> None:
    c[...] = np.matmul(a, b).T


def _partly(a: Array, b: Array, c: Array) -> None:
    c[:-1] = np.matmul(a[:-1], b)


def _after(a: Array, b: Array, c: Array) -> None:
    _good(a, b, c)
    ctypes.memset(c.ctypes.data + c.nbytes, 0, c.itemsize)


def _before(a: Array, b: Array, c: Array) -> None:
    _good(a, b, c)
    ctypes.memset(a.ctypes.data - 4, 0, 4)


def _accumulates(a: Array, b: Array, c: Array) -> None:
    c += np.matmul(a, b)


def _writes_input(a: Array, b: Array, c: Array) -> None:
    _good(a, b, c)
    b[0, 0] += 1


def _unstable(a: Array, b: Array, c: Array) -> None:
    _good(a, b, c)
    _CALLS.append(1)
    c[0, 0] = np.nextafter(c[0, 0], np.float32(len(_CALLS) % 2 * 100))


def _flood(a: Array, b: Array, c: Array) -> None:
    for _ in range(2000):
        sys.stdout.write("flood " * 2000)
    _good(a, b, c)


def _bomb(a: Array, b: Array, c: Array) -> None:
    kept = []
    while True:
        kept.append(np.empty(1 << 26, np.uint8))


def _raises(a: Array, b: Array, c: Array) -> None:
    sys.stderr.write("words of the kernel\n")
    raise ValueError("bad task")


def _forks(a: Array, b: Array, c: Array) -> None:
    if os.fork() == 0:
        time.sleep(1000)
    os.kill(os.getpid(), 9)


_CALLS: list[int] = []
_PACKED: list[Array] = []
BEHAVIOUR: Mapping[str, Callable[[Array, Array, Array], None]] = {
    "good": _good,
    "slow": _slow,
    "hang": _hang,
    "crash": _crash,
    "abort": lambda a, b, c: os.abort(),
    "exit": lambda a, b, c: os._exit(3),
    "dropped": _dropped,
    "swapped": _swapped,
    "uninitialised": _partly,
    "after": _after,
    "before": _before,
    "accumulates": _accumulates,
    "writes-input": _writes_input,
    "unstable": _unstable,
    "flood": _flood,
    "bomb": _bomb,
    "raises": _raises,
    "forks": _forks,
}
