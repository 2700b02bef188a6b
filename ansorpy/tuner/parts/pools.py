"""The measuring pools of the tasks, a few open at a time, and the back end of a request."""

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import replace
from functools import partial

from ansorpy.cluster.place import named_cluster, slots_at
from ansorpy.cluster.pool import ROUNDS, ClusterBackEnd
from ansorpy.measure.cores import slot_cores
from ansorpy.measure.estimates import EstimatePool, emulated
from ansorpy.measure.free_memory import return_freed
from ansorpy.measure.local import LocalBackEnd, LocalPool
from ansorpy.measure.measured_by import slot_of
from ansorpy.measure.pool import BackEnd, MeasurePool, Memory, RacePool
from ansorpy.measure.timing.settings import MeasureSettings
from ansorpy.target import CpuTarget
from ansorpy.te.dims import ranges_of
from ansorpy.tuner.options.plugins import MEASURERS, chosen_part
from ansorpy.tuner.parts.plugged import measurer_of
from ansorpy.tuner.requests.request import Request
from ansorpy.tuner.tasks.task import Task

OPEN_POOLS = 3  # open pools at most; each holds a process per core and the reference results
FEW_TASKS = 6  # first answers for which a second builder, which imports for 0.6 s, does not pay
CLUSTER_POOLS = ROUNDS + 4  # likewise, on slots: each task of a round that is under way has one


class Pools:
    """A pool per task, opened on first use; at the limit the least recently used is closed.

    Args:
        closed: called after a pool was closed for another one: its references are freed.
        most: open pools, at most.
    """

    def __init__(
        self,
        back_end: BackEnd[MeasurePool],
        closed: Callable[[], None] = return_freed,
        most: int = OPEN_POOLS,
    ) -> None:
        self._back_end, self._closed, self._most = back_end, closed, most
        self._pools: OrderedDict[str, MeasurePool] = OrderedDict()

    def of(self, task: Task) -> MeasurePool:
        """Return the open pool of a task."""
        if task.name not in self._pools:
            while len(self._pools) >= self._most:
                self._pools.popitem(last=False)[1].close()
                self._closed()
            opened = self._back_end.open(task.dag, task.target, task.identity.cold_bytes)
            self._pools[task.name] = opened
        self._pools.move_to_end(task.name)
        return self._pools[task.name]

    def racing(self, task: Task) -> RacePool:
        """Return the open pool of a task, which can race.

        Raises:
            TypeError: its back end only checks and estimates.
        """
        pool = self.of(task)
        if not isinstance(pool, RacePool):
            raise TypeError(f"cannot race kernels with {type(pool).__name__}; expected times")
        return pool

    def memory(self) -> Memory:
        """Return the memory of the machine that measures."""
        return self._back_end.memory()

    def rounds(self) -> int:
        """Return how many rounds of trials may be under way at once."""
        return self._back_end.rounds()

    def news(self) -> list[str]:
        """Return changes of the places that measure, each once."""
        return self._back_end.news()

    def close(self) -> None:
        """Close every pool, and end the back end; may be called twice."""
        while self._pools:
            self._pools.popitem()[1].close()
        self._back_end.close()


def pools_of(request: Request, settings: MeasureSettings | None = None) -> Pools:
    """Return pools on the slots of ANSORPY_CLUSTER, or of processes of this machine.

    Raises:
        SpecError: the variable has no address, there is no secret, or Ray is not installed.
    """
    if measured_elsewhere(request):
        return cluster_pools(request, named_cluster(), settings)
    return shared_pools(request, settings)


def measured_elsewhere(request: Request) -> bool:
    """Return whether slots measure a request: one call of a CPU at a time.

    Other requests are measured by processes of this machine.
    """
    ours = request.measurer == MEASURERS.default
    cpu = isinstance(request.target, CpuTarget) and request.copies == 1
    return ours and cpu and bool(named_cluster())


def shared_pools(request: Request, settings: MeasureSettings | None = None) -> Pools:
    """Return pools for the tasks of a request.

    Without trials nothing needs the runner. The start of a second builder would delay the answers
    of a few tasks.
    """
    settings = settings or MeasureSettings()
    if not request.trials:
        few = len(request.dags) <= FEW_TASKS
        settings = replace(settings, runner=False, builders=1 if few else settings.builders)
    if request.copies > 1:
        cores = tuple(sorted(slot_cores(request.copies)))
        settings = replace(settings, sampling=replace(settings.sampling, cores=cores))
    return pools_over(back_end_of(request, settings), request)


def cluster_pools(request: Request, address: str, settings: MeasureSettings | None = None) -> Pools:
    """Return pools whose tasks are measured by slots of a cluster (ADR-0212).

    Raises:
        SpecError: there is no secret for the cluster, or Ray is not installed.
    """
    found = ClusterBackEnd(slots_at(address), request.target, settings or MeasureSettings())
    return Pools(found, most=CLUSTER_POOLS)


def pools_over(back_end: BackEnd[MeasurePool], request: Request) -> Pools:
    """Return pools of a back end: the ranges of an only Dag are searched in turn, and all open.

    References of all ranges together are little more than the references of the Dag.
    """
    alone = len(request.dags) == 1
    ranges = ranges_of(request.dags[0], request.kernels_per_dim) if alone else ()
    return Pools(back_end, most=max(OPEN_POOLS, 1 + len(ranges)))


def back_end_of(request: Request, settings: MeasureSettings) -> BackEnd[MeasurePool]:
    """Return the measuring back end of a request.

    Raises:
        PluginError: the measuring back end cannot be loaded or made.
    """
    plugin = chosen_part(MEASURERS, request)
    if plugin.is_ours:
        found: BackEnd[MeasurePool] = plugin.make(request, settings)
        return found
    slot = slot_of(measurer_of(request, plugin))
    return LocalBackEnd(request.target, settings, partial(LocalPool, slot_of=slot))


def estimates(request: Request, settings: MeasureSettings) -> BackEnd[MeasurePool]:
    """Return pools that estimate candidates for a GPU, and emulate finalists."""
    return LocalBackEnd(request.target, emulated(settings), EstimatePool)


def own_processes(request: Request, settings: MeasureSettings) -> BackEnd[MeasurePool]:
    """Return pools whose candidates run on this processor, or on the device of the request.

    Without a device, candidates for a GPU are estimated.
    """
    if request.estimated:
        return estimates(request, settings)
    settings = replace(settings, backend=request.device or settings.backend)
    return LocalBackEnd(request.target, settings, LocalPool)
