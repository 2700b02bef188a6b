"""A builder that is a local worker process; see `measure.protocols.Builder`."""

import time
from collections.abc import Sequence

from ansorpy.measure.outcome import Failed
from ansorpy.measure.protocols import BuildRequest, BuildResult
from ansorpy.measure.workers.failure_kinds import failed_build
from ansorpy.measure.workers.replies import Returned
from ansorpy.measure.workers.worker import Worker
from ansorpy.measure.workers.worker_main import BuildBatch

MAIN = "ansorpy.measure.workers.worker_main"


class LocalBuilder:
    """A worker whose child compiles; a child that crashes or hangs is replaced."""

    def __init__(self, worker: Worker) -> None:
        self.worker = worker
        self._batch: tuple[BuildRequest, ...] = ()
        self._began_s = 0.0

    @property
    def cores(self) -> frozenset[int]:
        """The cores of the worker."""
        return self.worker.spec.cores

    @property
    def idle(self) -> bool:
        """True if the worker has started and has no batch in progress."""
        return not self._batch and self.worker.idle

    def submit(self, requests: Sequence[BuildRequest], timeout_s: float) -> None:
        """Send a batch of one back end."""
        self._batch = tuple(requests)
        self._began_s = time.monotonic()
        if len(self._batch) == 1:
            self.worker.send(f"{MAIN}:build", self._batch[0], timeout_s)
        else:
            batch = BuildBatch(self._batch[0].backend, self._batch)
            self.worker.send(f"{MAIN}:build_batch", batch, timeout_s)

    def fileno(self) -> int:
        """Return the descriptor of the worker."""
        return self.worker.fileno()

    def patience_s(self) -> float:
        """Return the seconds until a silent worker counts as lost."""
        return self.worker.patience_s()

    def results(self) -> list[BuildResult | Failed]:
        """Return one result per request of the batch."""
        reply = self.worker.receive()
        count, self._batch = len(self._batch), ()
        if isinstance(reply, Returned) and isinstance(reply.value, BuildResult):
            return [reply.value]
        if isinstance(reply, Returned) and isinstance(reply.value, tuple):
            return list(reply.value)
        return [failed_build(reply, time.monotonic() - self._began_s)] * count

    def abandon(self) -> None:
        """Kill the worker and forget the batch in progress."""
        self.worker.kill()
        self._batch = ()
