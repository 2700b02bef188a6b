"""The delivered form for a processor: numba source races, a zip with it and a library follows."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import sha256
from pathlib import Path
from typing import Final

from ansorpy.artifact import pack
from ansorpy.artifact.archive import kernel_files
from ansorpy.artifact.kernel_file import helpers_text
from ansorpy.codegen import shared_library
from ansorpy.codegen.exported_types import Library
from ansorpy.codegen.kernel import Kernel
from ansorpy.codegen.numba_source import emit
from ansorpy.codegen.simd_file import simd_version
from ansorpy.codegen.version import EARLIER_COMPILERS
from ansorpy.errors import BuildError
from ansorpy.loopir.nodes import Program
from ansorpy.measure.outcome import Failed
from ansorpy.measure.pool import RacePool
from ansorpy.measure.timing.interleave import PairedTimes as Times
from ansorpy.records import Race, Record
from ansorpy.search import Candidate
from ansorpy.target import Target
from ansorpy.te.dag import Dag
from ansorpy.tuner.race.calm_race import calm_race
from ansorpy.tuner.race.contestant import Contestant, finalist
from ansorpy.tuner.race.export import export_of
from ansorpy.tuner.race.form import RaceResult
from ansorpy.tuner.race.race_record import record_of
from ansorpy.tuner.race.ranking import NAIVE
from ansorpy.tuner.race.size_times import timed_by_size
from ansorpy.tuner.requests.own_kernels import OwnByTask
from ansorpy.tuner.tasks.history import History
from ansorpy.tuner.tasks.task import Task
from ansorpy.tuner.tasks.twins import renamed, schedule_of

LEADERS: Final = 32  # candidates timed again in turns: a single trial may have been lucky
LEADING: Final = 1.5  # ratio of a leader's cost to the third least: the least may be too small
RERANK_S: Final = 1.0  # seconds in which the leaders are timed again
FINALISTS: Final = 3  # candidates in the race, in their delivered form
LATE: Final = Failed("build", "no time was left")
OUTCLASSED = 20.0  # times the best trial
OUTCLASSED_S = 1.0


@dataclass(frozen=True, slots=True)
class CpuForm:
    """Numba source for a processor, as `DeliveredForm`.

    own    kernels of the user's own, which are timed and told, and never delivered, by task
    peers  installed libraries are timed and told, too, and never win
    """

    own: OwnByTask = field(default_factory=dict)
    peers: bool = False

    @property
    def on_the_way(self) -> bool:
        """True: a library is checked in less than a second."""
        return True

    def emit(self, program: Program, target: Target) -> Kernel:
        """Return the numba source of a program."""
        return emit(program, target, target.cores)

    def leaders(self, history: History, hurried: bool) -> list[Candidate]:
        """Return the candidates that may race; one alone if seconds are few, each takes one.

        A cost measured beside other load may be too small: one or two such costs exclude neither
        all other candidates nor the fastest as measured (ADR-0074).
        """
        if hurried:
            return history.ranked()[:1]
        ranked = history.ranked()[:LEADERS]
        limit_s = LEADING * max((history.costs_s[one] for one in ranked[:FINALISTS]), default=0.0)
        near = [candidate for candidate in ranked if history.costs_s[candidate] <= limit_s]
        leaders = near if len(near) > FINALISTS else ranked[:FINALISTS]
        return list(dict.fromkeys([*leaders, *history.fastest()[:FINALISTS]]))

    def finalists(
        self, task: Task, leaders: Sequence[Candidate], pool: RacePool, tight: bool
    ) -> dict[Candidate, Contestant[Kernel] | Failed]:
        """Return the finalists among the leaders, the fastest when timed again in turns first.

        To compile their form takes a second, on another core while leaders are timed.
        """
        if len(leaders) <= FINALISTS or tight:
            some = leaders[: 1 if tight else FINALISTS]
            return {leader: finalist(task, leader, self.emit) for leader in some}
        first = finalist(task, leaders[0], self.emit)
        kernel = first.kernel if isinstance(first, Contestant) else None
        times = pool.rerank(
            [task.space.unbound(candidate) for candidate in leaders], RERANK_S, kernel
        )
        codes: dict[int, tuple[float, int]] = {}  # by machine code: its time, its first place
        for place, timed in enumerate(times):
            if timed is not None:
                codes.setdefault(timed.code, (timed.cost_s, place))
        ranked = [leaders[place] for _, place in sorted(codes.values())]
        best = ranked[:FINALISTS] or leaders[:FINALISTS]
        return {one: first if one == leaders[0] else finalist(task, one, self.emit) for one in best}

    def hold(
        self,
        task: Task,
        kernels: Mapping[str, Kernel],
        pool: RacePool,
        best_s: float | None,
        costs_s: Mapping[str, float | None],
        late: Callable[[], bool],
        beside: Callable[[], object],
    ) -> tuple[dict[str, Times | Failed], float]:
        """Race the kernels, NumPy and guests until the machine is calm; as `DeliveredForm.hold`."""

        def prepare() -> None:
            helpers_text()
            beside()

        def race() -> dict[str, Times | Failed]:
            return pool.race(
                kernels, first_case_s=patience(best_s), late=late, beside=prepare,
                own=self.own.get(task.name, ()), peers=self.peers,
            )  # fmt: skip

        return calm_race(race, costs_s, late)

    def recorded(
        self, task: Task, pool: RacePool, entry: Contestant[Kernel], race: Race, now_s: float,
        late: bool,
    ) -> RaceResult[Kernel] | Failed:  # fmt: skip
        """Return the race with its delivered kernel, or the failure of its file.

        The file that is to be delivered is called as its user will call it. That goes on beside the
        export of the library, for which there is no time if it is late.
        """
        race = replace(race, peak_flop_per_s=pool.attainable_flop_per_s())
        files = kernel_files(task.dag, entry.kernel, entry.schedule, race, task.target)
        end_call = pool.begin_call(files, entry.kernel.meaning)
        done = LATE if late else pool.export(export_of(task, entry))
        compile_s = end_call()
        if isinstance(compile_s, Failed):
            return compile_s
        if isinstance(done, Failed):
            native: Library | str = (note := f"not exported: {done.message}")
            race = replace(race, native_note=note)
        else:
            native, times_s = done.library, done.outcome.times_s
            race = replace(race, native_sha256=done.library.object_sha256, native_s=times_s)
        race = replace(race, by_size=() if late else timed_by_size(task, pool, entry.kernel, race))
        source = sha256(entry.kernel.source.encode()).hexdigest()
        return RaceResult(record_of(task, entry, race, source, now_s, compile_s), entry, native)

    def again(
        self, task: Task, entry: Contestant[Kernel], record: Record
    ) -> RaceResult[Kernel] | None:
        """Return the race of a record if the text is the same, with its library if that is, too."""
        if record.race is None or record.source_sha256 not in raced_digests(entry.kernel.source):
            return None
        return RaceResult(record, entry, library_again(task, entry, record.race))

    def write(
        self, task: Task, dag: Dag, raced: RaceResult[Kernel], folder: Path, best_so_far: bool
    ) -> Path:
        """Write the zip with the source and the library."""
        entry, native = raced.entry, raced.native
        kernel = replace(entry.kernel, buffers=renamed(entry.kernel.buffers, task, dag))
        if isinstance(native, Library):
            native = replace(native, buffers=renamed(native.buffers, task, dag))
        schedule = schedule_of(entry.schedule, task, dag)
        return pack(folder, dag, kernel, schedule, raced.record, task.target, native, best_so_far)


def patience(best_s: float | None) -> dict[str, float]:
    """Return how many seconds the untuned kernel may take where there is a tuned one.

    It may be hundreds of times slower: then it is out of the race without having run to the end.

    Args:
        best_s: time of the tuned kernel in seconds; None if there is none.
    """
    return {} if best_s is None else {NAIVE: max(OUTCLASSED_S, OUTCLASSED * best_s)}


def raced_digests(source: str) -> Iterator[str]:
    """Yield the sha256 of a kernel's text, hex, as it is and as earlier compilers headed it."""
    for compiler in (simd_version(), *EARLIER_COMPILERS):
        yield sha256(source.replace(simd_version(), compiler).encode()).hexdigest()


def library_again(task: Task, entry: Contestant[Kernel], race: Race) -> Library | str:
    """Return the library of a record where its code is the very code that was verified."""
    if not race.native_sha256:
        return race.native_note or "not exported: tuned by an older version"
    try:
        library = shared_library.build(export_of(task, entry), task.target)
    except BuildError as error:
        return f"not exported: {error}"
    same = library.object_sha256 == race.native_sha256
    return library if same else "not exported: other machine code than what was verified"
