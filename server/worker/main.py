"""Entry points of a worker process: standalone, or embedded in the service."""

import logging
import os
import signal
import sys
import threading
from collections.abc import Callable, Collection
from types import FrameType

from ansorpy.measure.cores import lock_folder
from ansorpy.server.db.upgrade import open_database
from ansorpy.server.identity import ProcessIdentity
from ansorpy.server.logs import configure, fields
from ansorpy.server.scratch import scratch
from ansorpy.server.settings import ServiceSettings
from ansorpy.server.worker.stop_flag import StopFlag
from ansorpy.server.worker.surveyor import surveying
from ansorpy.server.worker.tuner_process import TunerProcess
from ansorpy.server.worker.worker_loop import WorkerLoop

log = logging.getLogger(__name__)


def work(
    settings: ServiceSettings,
    stop: StopFlag,
    start_tuner: Callable[[ServiceSettings], TunerProcess] = TunerProcess,
) -> None:
    """Run a worker until SIGTERM, SIGINT or `stop`.

    Raises:
        SpecError: the schema of the database is of another version.
    """

    def ask_to_stop(_signal: int, _frame: FrameType | None) -> None:
        stop.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, ask_to_stop)
    configure(settings.log_format)
    engine = open_database(settings.url)
    identity = ProcessIdentity.current()
    with scratch(lock_folder(), identity) as folder, surveying(engine, identity):
        log.info("worker started", extra=fields(worker=str(identity)))
        WorkerLoop(settings, engine, identity, folder, stop, start_tuner).run()
        log.info("worker stopped", extra=fields(worker=str(identity)))
    engine.dispose()


def embedded(cores: Collection[int]) -> None:
    """Run a worker on `cores` for a supervisor: read the settings from its pipe.

    The worker stops when the pipe is closed.
    """
    os.sched_setaffinity(0, cores)
    settings = ServiceSettings.model_validate_json(sys.stdin.readline())
    stop = StopFlag()
    link = sys.stdin.fileno()

    def wait_for_the_end() -> None:
        while os.read(link, 4096):
            pass
        stop.set()

    threading.Thread(target=wait_for_the_end, name="parent", daemon=True).start()
    work(settings, stop)
