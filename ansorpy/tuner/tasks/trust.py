"""Records that may be believed, and records that only start a search (ADR-0021)."""

from collections.abc import Mapping
from functools import cache
from importlib.metadata import version
from typing import Final

from ansorpy.codegen.version import codegen_version
from ansorpy.cost.simt import ESTIMATE_VERSION
from ansorpy.records import ESTIMATED, MEASURED, Record
from ansorpy.te.dag import Dag

PACKAGES: Final = ("ansorpy", "llvmlite", "numba", "numpy")
CODEGEN: Final = "codegen"  # the name of `codegen_version` among the versions of a record
ESTIMATE: Final = "estimate"  # the name of ESTIMATE_VERSION, in records of estimates only
DECISIVE: Final = ("llvmlite", "numba")  # with CODEGEN, for the machine code of a plan and a row


def versions(dag: Dag | None = None, estimated: bool = False) -> tuple[tuple[str, str], ...]:
    """Return the versions that an outcome depends on, sorted by name as records keep them.

    Args:
        dag: the Dag of the outcome; None for any Dag, as for a whole model.
        estimated: outcomes are estimates, which depend on the analytic model, too.
    """
    return _versions(codegen_version(dag), estimated)


@cache
def _versions(codegen: str, estimated: bool) -> tuple[tuple[str, str], ...]:
    made_with = {name: version(name) for name in PACKAGES} | {CODEGEN: codegen}
    if estimated:
        made_with[ESTIMATE] = str(ESTIMATE_VERSION)
    return tuple(sorted(made_with.items()))


def are_current(made_with: Mapping[str, str], dag: Dag | None = None) -> bool:
    """Return whether this installation makes the machine code of a Dag that these versions made.

    Args:
        dag: None for any Dag.
    """
    ours = dict(versions(dag))
    parts = made_with.get(CODEGEN, "").split("+")  # parts of other kinds of Dags do not matter
    same = all(made_with.get(name) == ours[name] for name in DECISIVE)
    return same and set(ours[CODEGEN].split("+")) <= set(parts)


def is_current(record: Record, dag: Dag) -> bool:
    """Return whether this installation makes the machine code that a record of `dag` measured.

    An estimate has to be one of this installation's analytic model.
    """
    made_with = dict(record.versions)
    estimated = record.key.endswith(ESTIMATED)
    same_model = not estimated or made_with.get(ESTIMATE) == str(ESTIMATE_VERSION)
    return same_model and are_current(made_with, dag)


def is_trusted(record: Record, dag: Dag) -> bool:
    """Return whether times and races of a record count as measurements of this installation."""
    return record.origin == MEASURED and is_current(record, dag)
