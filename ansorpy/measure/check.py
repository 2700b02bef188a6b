"""Is a kernel right? Against the float64 reference with its error bound, between guard pages."""

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from ansorpy.loopir.nodes import Buffer, Scope
from ansorpy.measure.backend import Loaded
from ansorpy.measure.cases import Case, Expected
from ansorpy.measure.guard import Arena, extents, poison
from ansorpy.measure.inputs import Array, Inputs, decode
from ansorpy.measure.outcome import Failed
from ansorpy.measure.stack import PATTERNS as STACK_PATTERNS
from ansorpy.measure.stack import scribbler
from ansorpy.te.expr import FLOATS
from ansorpy.te.numeric import LARGEST

Layout = Sequence[tuple[str, int, int, int, int]]
Watch = Callable[[str, Layout], None]


def verify(
    loaded: Loaded,
    buffers: Sequence[Buffer],
    cases: Sequence[Case],
    constants: Inputs,
    watch: Watch = lambda phase, layout: None,
) -> Failed | None:
    """Return what is wrong with a kernel; None where every case holds.

    A kernel that leaves its buffers may end the process: `watch` is told where they lie.
    """
    for case in cases:
        failed = verify_case(loaded, buffers, case, constants, watch)
        if failed is not None:
            return failed
    return None


def verify_case(
    loaded: Loaded, buffers: Sequence[Buffer], case: Case, constants: Inputs, watch: Watch
) -> Failed | None:
    """Run one case twice: over poison, then over what the first run left behind, backwards.

    What runs ahead finds poison where inputs come with the call.
    """
    arena = Arena(buffers, case.side)
    given = {**case.inputs, **constants}
    scribble = scribbler()
    arena.fill({**constants, **{name: case.inputs[name] for name in case.constant}}, "nan")
    watch(f"check with {case.name} inputs", arena.layout)
    addresses = arena.addresses
    scribble(STACK_PATTERNS[0])
    loaded.run_ahead(addresses)
    arena.put(case.inputs)
    scribble(STACK_PATTERNS[0])
    loaded.run(addresses)
    failed = _trespass(arena, given, case) or compare_all(case, arena.array, arena.buffers)
    if failed is not None:
        return failed
    outputs = [buffer for buffer in buffers if buffer.scope is Scope.OUTPUT]
    first = {buffer.name: arena.array(buffer.name).tobytes() for buffer in outputs}
    for buffer in outputs:
        poison(arena.array(buffer.name), buffer.dtype, "bytes")
    scribble(STACK_PATTERNS[1])
    loaded.run_backwards(addresses)
    for buffer in outputs:
        if arena.array(buffer.name).tobytes() != first[buffer.name]:
            return Failed("wrong", f"{case.name} inputs: two runs differ in {buffer.name}")
    return _trespass(arena, given, case)


def compare_all(
    case: Case, array: Callable[[str], Array], buffers: Mapping[str, Buffer]
) -> Failed | None:
    """Compare every output of a run with what the case expects."""
    for expected in case.expected:
        buffer = buffers.get(expected.name)
        if buffer is None or extents(buffer) != expected.value.shape:
            shape = "missing" if buffer is None else extents(buffer)
            return Failed("wrong", f"output {expected.name} is {shape}, not {expected.value.shape}")
        message = compare(expected, array(expected.name), case.nans)
        if message is not None:
            return Failed("wrong", f"{case.name} inputs: {message}")
    return None


def compare(expected: Expected, stored: Array, nans: bool = False) -> str | None:
    """Return how many elements are wrong and the first of them; None where all are right.

    Where the reference is not a number nothing is claimed, or, with `nans`, that the kernel's is
    none either; where its bound is infinite nothing is claimed. Where it
    may be beyond the largest number of the dtype, infinity of the same sign is right too.
    """
    got = decode(stored, expected.dtype)
    if expected.bound is None:
        right = got == expected.value
    else:
        value = expected.value.astype(np.float64)
        with np.errstate(invalid="ignore", over="ignore"):
            right = np.abs(got.astype(np.float64) - value) <= expected.bound
            unclaimed = np.isnan(value) | ~np.isfinite(expected.bound)
            if nans and expected.dtype in FLOATS:
                unclaimed &= ~np.isnan(value) | np.isnan(got)
            right |= (got == value) | unclaimed
            if expected.dtype in FLOATS:
                beyond = np.abs(value) + expected.bound >= LARGEST[expected.dtype]
                right |= beyond & np.isinf(got) & (np.sign(got) == np.sign(value))
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
        if name in arena.buffers and arena.array(name).tobytes() != before.tobytes():
            return Failed("wrong", f"{case.name} inputs: {name}, an input, was changed")
    return None
