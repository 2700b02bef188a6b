"""Build and run a program every way there is, with guard values around every buffer."""

from collections.abc import Mapping
from typing import Any

import numpy.typing as npt

from ansorpy.codegen.loader import Built, build, build_source, load
from ansorpy.codegen.numba_source import emit
from ansorpy.loopir.nodes import Program
from ansorpy.target import Target
from tests.codegen.programs import arrays_of

Array = npt.NDArray[Any]
AVX2 = Target(
    vector_bits=256, registers=16, cpu="x86-64-v3",
    features=("avx2", "bmi", "bmi2", "f16c", "fma", "lzcnt", "movbe"),
)  # fmt: skip
SSE = Target(vector_bits=128, registers=16, cpu="x86-64", features=("sse2",))


def run_built(built: Built, program: Program, inputs: Mapping[str, Array]) -> dict[str, Array]:
    arrays = arrays_of(program, inputs)
    loaded = load(built)
    addresses = [array.ctypes.data for array in arrays.values()]
    loaded.run_ahead(addresses)
    loaded.run(addresses)
    return arrays


def run_llvm(
    program: Program, inputs: Mapping[str, Array], target: Target | None = None
) -> dict[str, Array]:
    target = target or Target()
    return run_built(build(program, target), program, inputs)


def run_source(program: Program, inputs: Mapping[str, Array]) -> dict[str, Array]:
    return run_built(build_source(emit(program, Target()), Target()), program, inputs)


def run_all(program: Program, inputs: Mapping[str, Array], source: bool = True) -> dict[str, Array]:
    """Run through every back end; all must give the same bits; return one of them."""
    first = run_llvm(program, inputs)
    others = [run_llvm(program, inputs, AVX2)]
    if source:
        others.append(run_source(program, inputs))
    for other in others:
        for name, array in other.items():
            assert array.tobytes() == first[name].tobytes(), name
    return first
