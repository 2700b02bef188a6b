"""Our rows of the suite: cases and their Dags.

from benchmarks.suite.rows import ROWS
dag = ROWS["c2d_r64"].dag(constant_weights=True)
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Final

from ansorpy.te.dag import Dag
from benchmarks.suite.cases import CASES, Case
from benchmarks.suite.dags import dag_of
from benchmarks.suite.forms import Form, has_weights


@dataclass(frozen=True, slots=True)
class Row:
    """One case as a task for ansorpy."""

    case: Case

    @property
    def name(self) -> str:
        """The name of the case."""
        return self.case.name

    @property
    def form(self) -> Form:
        """The formula with its sizes."""
        return self.case.form

    @property
    def has_weights(self) -> bool:
        """True if `constant_weights` changes the Dag."""
        return has_weights(self.form)

    def dag(self, constant_weights: bool = False) -> Dag:
        """Return the Dag, named after the row; its placeholders are named after the form's inputs.

        Shapes are as in the form, except depthwise weights: [channels, kernel, kernel].
        """
        return replace(dag_of(self.form, constant_weights), name=self.name)


ROWS: Final[Mapping[str, Row]] = MappingProxyType({name: Row(case) for name, case in CASES.items()})
