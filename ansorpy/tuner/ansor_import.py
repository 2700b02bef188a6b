"""Import of a log of the released Ansor: every line replayed, and turned into a warm start."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final

from ansorpy.ansor_log import Starter, check_cpu, dag_of, function_of, nest, parse_line, replay
from ansorpy.errors import AnsorError, shown
from ansorpy.records import Record
from ansorpy.replay import UNFIT
from ansorpy.sketch import derive
from ansorpy.target import Target
from ansorpy.te.dag import Dag
from ansorpy.tuner.rules import find_rules
from ansorpy.tuner.task import rules_name

COMMENTS: Final = ("#", " ")  # first characters of the lines that a log's reader skips
MAX_NOTE: Final = 500  # characters
STARTERS: Final = 64  # Dags whose sketches are kept


@dataclass(frozen=True, slots=True)
class LineReport:
    """The result of one line: a loop nest, a record that starts a search, and a note."""

    number: int  # position of the line, counted from 1
    nest: str = ""  # "": the line was not replayed
    record: Record | None = None  # None: the line starts no search
    note: str = ""  # reason of a refusal, or lengths that have been changed


@dataclass(slots=True)
class LogImport:
    """The import of a log for a target.

    Args:
        dag: the computation of the lines; None if their keys name registered functions.
        workload: a function of `topi.workloads` that makes the Dag of each key; "" if none.
    """

    target: Target
    dag: Dag | None = None
    workload: str = ""
    starters: dict[Dag, Starter] = field(default_factory=dict)

    def read(self, lines: Iterable[str]) -> Iterator[LineReport]:
        """Yield the report of every line but for blank ones and comments; no line ends the import.

        Raises:
            SpecError: `workload` is not registered.
        """
        if self.workload:
            function_of(self.workload)
        for number, text in enumerate(lines, start=1):
            if text.strip() and not text.startswith(COMMENTS):
                yield self._report(number, text)

    def _report(self, number: int, text: str) -> LineReport:
        made = ""
        try:
            line = parse_line(text)
            check_cpu(line)  # first: a user of a log for a GPU needs no Dag to be told
            dag = dag_of(line, self.dag, self.workload)
            replayed = replay(dag, line)
            made = nest(replayed)
            starter = self._starter(dag)
            start = starter.start(replayed)
            note = f"lengths {', '.join(start.moved)}" if start.moved else ""
            return LineReport(number, made, starter.record(line, start), note)
        except UNFIT as error:
            kind = "" if isinstance(error, AnsorError) else f"{type(error).__name__} "
            return LineReport(number, made, note=f"{kind}{shown(error, MAX_NOTE)}")

    def _starter(self, dag: Dag) -> Starter:
        found = self.starters.get(dag)
        if found is None:
            kind = self.target.kind
            rules = find_rules(kind)
            sketches = derive(dag, self.target, rules).sketches
            found = Starter(dag, self.target, rules_name(kind, rules), sketches)
            if len(self.starters) == STARTERS:
                self.starters.clear()
            self.starters[dag] = found
        return found
