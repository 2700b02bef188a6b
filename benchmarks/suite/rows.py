"""The rows of the suite for us: a case and its Dag.

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
    """One case, as we are asked to tune it."""

    case: Case

    @property
    def name(self) -> str:
        """The name of the case."""
        return self.case.name

    @property
    def form(self) -> Form:
        """What is computed."""
        return self.case.form

    @property
    def has_weights(self) -> bool:
        """Whether `constant_weights` makes a difference."""
        return has_weights(self.form)

    def dag(self, constant_weights: bool = False) -> Dag:
        """Return the Dag, named after the row; its placeholders are called as the form's inputs.

        Shapes are those of the form, but for depthwise weights: [channels, kernel, kernel].
        """
        return replace(dag_of(self.form, constant_weights), name=self.name)


ROWS: Final[Mapping[str, Row]] = MappingProxyType({name: Row(case) for name, case in CASES.items()})
