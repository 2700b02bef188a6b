"""The measuring processes of the tasks, a few open at a time."""

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import replace
from functools import partial

from ansorpy.measure.estimates import EstimatePool, emulated
from ansorpy.measure.measured_by import MeasurerPool
from ansorpy.measure.pool import MeasurePool, SharedProcesses
from ansorpy.measure.timing.settings import MeasureSettings
from ansorpy.measure.workers.cores import slot_cores
from ansorpy.target import Target
from ansorpy.te.dag import Dag
from ansorpy.tuner.options.plugins import MEASURERS, check_chosen
from ansorpy.tuner.parts.plugged import measurer_of
from ansorpy.tuner.requests.request import Request
from ansorpy.tuner.tasks.task import Task

OPEN_POOLS = 3  # open pools at most; each holds a process per core and the reference results

Open = Callable[[Dag, Target], MeasurePool]
OpenShared = Callable[[Dag, Target, MeasureSettings, SharedProcesses], MeasurePool]


class Pools:
    """A pool per task, opened on first use; at the limit the least recently used is closed."""

    def __init__(self, open_pool: Open = MeasurePool) -> None:
        self._open_pool = open_pool
        self._pools: OrderedDict[str, MeasurePool] = OrderedDict()

    def of(self, task: Task) -> MeasurePool:
        """Return the open pool of a task."""
        if task.name not in self._pools:
            while len(self._pools) >= OPEN_POOLS:
                self._pools.popitem(last=False)[1].close()
            self._pools[task.name] = self._opened(task)
        self._pools.move_to_end(task.name)
        return self._pools[task.name]

    def _opened(self, task: Task) -> MeasurePool:
        return self._open_pool(task.dag, task.target)

    def close(self) -> None:
        """Close every pool; may be called twice."""
        while self._pools:
            self._pools.popitem()[1].close()


class SharedPools(Pools):
    """Pools whose tasks, all of one target, use the same processes one after the other."""

    def __init__(
        self, target: Target, settings: MeasureSettings, kind: OpenShared = MeasurePool
    ) -> None:
        super().__init__()
        self._kind = kind
        self._shared, self._settings = SharedProcesses(target, settings), settings

    def _opened(self, task: Task) -> MeasurePool:
        sampling = replace(self._settings.sampling, cold_bytes=task.cold_bytes)
        settings = replace(self._settings, sampling=sampling)
        return self._kind(task.dag, task.target, settings, self._shared)

    def close(self) -> None:
        """Close every pool and end the processes; may be called twice."""
        super().close()
        self._shared.close()


def shared_pools(request: Request, settings: MeasureSettings | None = None) -> Pools:
    """Return pools for the tasks of a request.

    Without trials nothing needs the runner. The start of a second builder would delay the answers
    of a few tasks.
    """
    settings = settings or MeasureSettings()
    if not request.trials:
        few = len(request.dags) <= OPEN_POOLS
        settings = replace(settings, runner=False, builders=1 if few else settings.builders)
    if request.copies > 1:
        cores = tuple(sorted(slot_cores(request.copies)))
        settings = replace(settings, sampling=replace(settings.sampling, cores=cores))
    kind, settings = pool_of(request, settings)
    return SharedPools(request.target, settings, kind)


def pool_of(request: Request, settings: MeasureSettings) -> tuple[OpenShared, MeasureSettings]:
    """Return how to open the pools of a request, and their settings.

    Raises:
        PluginError: the measuring back end cannot be loaded or made.
    """
    plugin = check_chosen(MEASURERS, request)
    if plugin.is_ours:
        found: tuple[OpenShared, MeasureSettings] = plugin.make(request, settings)
        return found
    return partial(MeasurerPool, measurer_of(request, plugin)), settings


def estimate_pool(_: Request, settings: MeasureSettings) -> tuple[OpenShared, MeasureSettings]:
    """Return pools that estimate candidates for a GPU, and emulate finalists."""
    return EstimatePool, emulated(settings)


def own_pool(request: Request, settings: MeasureSettings) -> tuple[OpenShared, MeasureSettings]:
    """Return pools whose candidates run on this processor, or on the device of the request.

    Without a device, candidates for a GPU are estimated.
    """
    if request.estimated:
        return estimate_pool(request, settings)
    return MeasurePool, replace(settings, backend=request.device or settings.backend)
