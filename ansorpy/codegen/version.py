"""The versions of the code generators, stored with every record (ADR-0021, ADR-0038)."""

from collections.abc import Iterator
from typing import Final

from ansorpy.expr.dtypes import FLOATS, NARROW
from ansorpy.expr.expr import Binary, Call, Expr, Select, reads, walk
from ansorpy.te.dag import Dag

# Raise it in a commit that changes the machine code of any candidate: a pass, a printer of LLVM
# text or numba source, the options of a compilation. A commit that only moves code leaves it;
# `python -m tests.candidates.digests` tells the two apart.
# Records of another number are measured again before anything is answered from them.
CODEGEN_VERSION: Final = 6
# Raised instead if only kernels of some Dags change: those with 16-bit floats, those with a product
# or quotient of floats that several nodes read, those that choose between tensors by position, and
# those with a function of POWERS.
NARROW_VERSION: Final = 1
SHARED_VERSION: Final = 1
CHOICE_VERSION: Final = 1
POWER_VERSION: Final = 1
POWERS: Final = ("exp", "sigmoid", "erf")
# Digests of earlier SIMD compilers (`simd_file.simd_version`) that make the same machine code of a
# Dag of equal `codegen_version`. A commit that changes the compiler and no version adds the digest
# of the compiler before it: records that name that digest go on answering.
EARLIER_COMPILERS: Final = ("a992222a550ae7bc", "5163c160496dca43", "cdab381036a142b1")


def codegen_version(dag: Dag | None = None) -> str:
    """Return the version of the code of a Dag; None: of Dags of every kind."""
    parts = [str(CODEGEN_VERSION)]
    if dag is None or _is_narrow(dag):
        parts.append(f"16bit.{NARROW_VERSION}")
    if dag is None or _shares_products(dag):
        parts.append(f"shared.{SHARED_VERSION}")
    if dag is None or _chooses(dag):
        parts.append(f"choice.{CHOICE_VERSION}")
    if dag is None or any(isinstance(part, Call) and part.fn in POWERS for part in _parts(dag)):
        parts.append(f"power.{POWER_VERSION}")
    return "+".join(parts)


def _is_narrow(dag: Dag) -> bool:
    return any(dtype in NARROW for node in dag.computes for dtype in node.dtypes)


def _shares_products(dag: Dag) -> bool:
    """Return True if several nodes read a node without a reduction that multiplies or divides."""
    return any(
        len(dag.consumers[node.name]) > 1 and any(map(_is_product, walk(node.body[0])))
        for node in dag.computes
        if node.combiner is None
    )


def _chooses(dag: Dag) -> bool:
    """Return True if a node takes elements of different tensors, by a condition on its axes."""
    return any(
        isinstance(part, Select)
        and not reads(part.cond)
        and {one.tensor for one in reads(part.then)} != {one.tensor for one in reads(part.other)}
        and reads(part.then)
        and reads(part.other)
        for part in _parts(dag)
    )


def _parts(dag: Dag) -> Iterator[Expr]:
    return (part for node in dag.computes for body in node.body for part in walk(body))


def _is_product(part: Expr) -> bool:
    return isinstance(part, Binary) and part.op in ("mul", "div") and part.dtype in FLOATS
