"""The delivered form for a GPU: the program races, a zip with its PTX is delivered."""

from collections.abc import Callable, Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Final

from ansorpy.artifact.cuda import PTX, members, pack_raced
from ansorpy.errors import BuildError
from ansorpy.loopir.nodes import Program
from ansorpy.measure.outcome import Failed
from ansorpy.measure.pool import RacePool
from ansorpy.measure.timing.interleave import PairedTimes as Times
from ansorpy.records import Race, Record
from ansorpy.search import Candidate
from ansorpy.target import Target
from ansorpy.te.dag import Dag
from ansorpy.tuner.race.contestant import Contestant, finalist
from ansorpy.tuner.race.form import RaceResult
from ansorpy.tuner.race.race_record import record_of
from ansorpy.tuner.race.ranking import NAIVE
from ansorpy.tuner.tasks.history import History
from ansorpy.tuner.tasks.task import Task
from ansorpy.tuner.tasks.twins import renamed_program

FINALISTS: Final = 6  # programs in the race; those clearly beaten leave it after one process
LEADERS: Final = 64  # candidates that are looked at: several rows may give one program
UNTUNED_S: Final = 30.0  # time-out of the first case of the untuned kernel if there is a tuned one


class GpuForm:
    """Programs for a GPU, as `DeliveredForm`."""

    on_the_way = False  # to check a kernel takes longer than a round

    def emit(self, program: Program, target: Target) -> Program:
        """Return the program: the device compiles its PTX."""
        return program

    def leaders(self, history: History, hurried: bool) -> list[Candidate]:
        """Return the best candidates."""
        return history.ranked()[:LEADERS]

    def finalists(
        self, task: Task, leaders: Sequence[Candidate], pool: RacePool, tight: bool
    ) -> dict[Candidate, Contestant[Program] | Failed]:
        """Return the best candidates, one for each program."""
        programs = set[Program]()
        entries: dict[Candidate, Contestant[Program] | Failed] = {}
        for leader in leaders:
            entry = finalist(task, leader, self.emit)
            if isinstance(entry, Contestant):
                if entry.program in programs:
                    continue
                programs.add(entry.program)
            entries[leader] = entry
            if len(entries) == FINALISTS:
                break
        return entries

    def hold(
        self,
        task: Task,
        kernels: Mapping[str, Program],
        pool: RacePool,
        best_s: float | None,
        costs_s: Mapping[str, float | None],
        late: Callable[[], bool],
        beside: Callable[[], object],
    ) -> tuple[dict[str, Times | Failed], float]:
        """Race the programs without NumPy; as `DeliveredForm.hold`.

        If no times come back, the untuned kernel may have taken all of them: the others race again.
        """
        patience = {NAIVE: UNTUNED_S} if len(kernels) > 1 else {}
        times = pool.race(kernels, numpy=False, first_case_s=patience, late=late, beside=beside)
        if len(kernels) > 1 and not any(isinstance(one, Times) for one in times.values()):
            rest = {name: program for name, program in kernels.items() if name != NAIVE}
            times |= pool.race(rest, numpy=False, late=late)
        return times, 1.0

    def recorded(
        self, task: Task, pool: RacePool, entry: Contestant[Program], race: Race, now_s: float,
        late: bool,
    ) -> RaceResult[Program] | Failed:  # fmt: skip
        """Return the race, whose record has the digest of the PTX."""
        try:
            digest = digest_of(task, entry.program)
        except BuildError as error:
            return Failed("build", str(error))
        return RaceResult(record_of(task, entry, race, digest, now_s), entry)

    def again(
        self, task: Task, entry: Contestant[Program], record: Record
    ) -> RaceResult[Program] | None:
        """Return the race of a record if the PTX is the same."""
        same = digest_of(task, entry.program) == record.source_sha256
        return RaceResult(record, entry) if same else None

    def write(
        self, task: Task, dag: Dag, raced: RaceResult[Program], folder: Path, best_so_far: bool
    ) -> Path:
        """Write the zip with PTX, cubins and a loader."""
        program = renamed_program(raced.entry.program, task, dag)
        return pack_raced(folder, dag, program, raced.record, task.target)


def digest_of(task: Task, program: Program) -> str:
    """Return the digest of the PTX of a program.

    Raises:
        BuildError: the program has no kernels.
    """
    return sha256(members(task.dag, program, task.target).files[PTX]).hexdigest()
