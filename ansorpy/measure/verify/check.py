"""Check a kernel against the float64 reference with its error bound, between guard pages."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

import numpy as np

from ansorpy.loopir.nodes import Buffer, Scope
from ansorpy.measure.backend import CallableCode
from ansorpy.measure.outcome import Failed
from ansorpy.measure.verify.accept import inside, is_right
from ansorpy.measure.verify.cases import Case, Expected
from ansorpy.measure.verify.guard_pages import Arena, GuardedBuffers, poison
from ansorpy.measure.verify.inputs import Array, Inputs, decode
from ansorpy.measure.verify.poison import PATTERNS as STACK_PATTERNS
from ansorpy.measure.verify.poison import scribbler

Layout = Sequence[tuple[str, int, int, int, int]]
Watch = Callable[[str, Layout], None]


def verify(
    loaded: CallableCode,
    buffers: Sequence[Buffer],
    cases: Sequence[Case],
    constants: Inputs,
    watch: Watch = lambda phase, layout: None,
    guarded: GuardedBuffers | None = None,
) -> Failed | None:
    """Return the failure of a kernel; None if every case passes.

    A kernel that accesses memory outside its buffers may end the process: `watch` is called with
    their addresses before.

    Args:
        guarded: memory that earlier kernels used without damage.
    """
    for case in cases:
        failed = verify_case(loaded, buffers, case, constants, watch, guarded)
        if failed is not None:
            return failed
    return None


def verify_case(
    loaded: CallableCode,
    buffers: Sequence[Buffer],
    case: Case,
    constants: Inputs,
    watch: Watch,
    guarded: GuardedBuffers | None = None,
) -> Failed | None:
    """Run one case twice: over poison, then backwards over the results of the first run."""
    arena = Arena(buffers, case.side, guarded, case.part)
    failed = _first_run(loaded, arena, case, constants, watch)
    return failed or _second_run(loaded, arena, case, constants)


def glance(
    loaded: CallableCode,
    buffers: Sequence[Buffer],
    case: Case,
    constants: Inputs,
    watch: Watch,
    guarded: GuardedBuffers | None = None,
) -> Failed | None:
    """Run one case once, over poison: the check before a kernel is timed."""
    return _first_run(loaded, Arena(buffers, case.side, guarded, case.part), case, constants, watch)


def _first_run(
    loaded: CallableCode, arena: Arena, case: Case, constants: Inputs, watch: Watch
) -> Failed | None:
    """Run over poison; phases that run ahead find poison in place of the inputs of the call."""
    scribble = scribbler()
    arena.fill({**constants, **{name: case.inputs[name] for name in case.constant}}, "nan")
    watch(f"check with {case.name} inputs", arena.layout)
    addresses = arena.addresses
    scribble(STACK_PATTERNS[0])
    loaded.run_ahead(addresses)
    arena.put(case.given)
    scribble(STACK_PATTERNS[0])
    loaded.run(addresses)
    failed = _trespass(arena, {**case.given, **constants}, case)
    failed = failed or _stray(arena, case, "nan")
    return failed or compare_all(case, arena.array, arena.buffers)


def _second_run(loaded: CallableCode, arena: Arena, case: Case, constants: Inputs) -> Failed | None:
    """Run again, the last task first: the same bytes must come out."""
    outputs = [b for b in arena.buffers.values() if b.scope is Scope.OUTPUT]
    first = {buffer.name: arena.part(buffer.name).copy() for buffer in outputs}
    for buffer in outputs:
        poison(arena.array(buffer.name), buffer.dtype, "bytes")
    scribbler()(STACK_PATTERNS[1])
    loaded.run_backwards(arena.addresses)
    for name, before in first.items():
        if not arena.holds(name, before):
            return Failed("wrong", f"{case.name} inputs: two runs differ in {name}")
    return _trespass(arena, {**case.given, **constants}, case) or _stray(arena, case, "bytes")


def _stray(arena: Arena, case: Case, pattern: Literal["nan", "bytes"]) -> Failed | None:
    """Return the write to an output beyond the sizes of a call, which was poison."""
    name = arena.stray(pattern)
    if not name:
        return None
    return Failed("out-of-bounds", f"{case.name} inputs: wrote beyond the sizes of {name}")


def compare_all(
    case: Case, array: Callable[[str], Array], buffers: Mapping[str, Buffer]
) -> Failed | None:
    """Compare every output of a run with the expected one."""
    for expected in case.expected:
        buffer = buffers.get(expected.name)
        region: Any = (*case.part(expected.name), ...)
        found = None if buffer is None else array(expected.name)[region]
        if found is None or found.shape != expected.value.shape:
            shape = "missing" if found is None else found.shape
            return Failed("wrong", f"output {expected.name} is {shape}, not {expected.value.shape}")
        message = compare(expected, found, case.nans)
        if message is not None:
            return Failed("wrong", f"{case.name} inputs: {message}")
    return None


def compare(expected: Expected, stored: Array, nans: bool = False) -> str | None:
    """Return how many elements are wrong and the first of them; None if all are right."""
    if expected.interval is not None and inside(stored, expected.dtype, expected.interval):
        return None
    got = decode(stored, expected.dtype)
    if expected.bound is None:
        both_nan = (got != got) & (expected.value != expected.value)  # a NaN literal is exact
        right = (got == expected.value) | both_nan
    else:
        right = is_right(got, expected.value, expected.bound, expected.dtype, nans)
    if right.all():
        return None
    at = tuple(int(i) for i in np.argwhere(~right)[0])
    bound = 0.0 if expected.bound is None else float(expected.bound[at])
    return (
        f"{np.count_nonzero(~right)} of {right.size} elements of {expected.name} are wrong, "
        f"first at {list(at)}: {got[at]!s}, expected {expected.value[at]!s} +- {bound:.3g}"
    )


def _trespass(arena: Arena, given: Inputs, case: Case) -> Failed | None:
    """Return the write beside a buffer, or into an input, that has happened."""
    spot = arena.overrun()
    if spot is not None:
        return Failed(
            "out-of-bounds",
            f"{case.name} inputs: wrote {spot[1]} bytes from the start of {spot[0]}",
        )
    for name, before in given.items():
        if name in arena.buffers and not arena.holds(name, before):
            return Failed("wrong", f"{case.name} inputs: {name}, an input, was changed")
    return None
