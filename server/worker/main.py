"""A worker from start to end, embedded in the service or by itself."""

import logging
import os
import signal
import sys
import threading
from collections.abc import Callable, Collection
from types import FrameType

from ansorpy.measure.workers.cores import lock_folder
from ansorpy.server.db.upgrade import open_database
from ansorpy.server.logs import configure, fields
from ansorpy.server.settings import ServiceSettings
from ansorpy.server.worker.identity import ProcessIdentity
from ansorpy.server.worker.scratch import scratch
from ansorpy.server.worker.stop_flag import StopFlag
from ansorpy.server.worker.tuner_process import TunerProcess
from ansorpy.server.worker.worker_loop import WorkerLoop

log = logging.getLogger(__name__)


def work(
    settings: ServiceSettings,
    stop: StopFlag,
    start_tuner: Callable[[ServiceSettings], TunerProcess] = TunerProcess,
) -> None:
    """Work until SIGTERM or SIGINT, or until `stop` is set.

    Raises:
        SpecError: the database is not of this version.
    """

    def ask_to_stop(_signal: int, _frame: FrameType | None) -> None:
        stop.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, ask_to_stop)
    configure(settings.log_format)
    engine = open_database(settings.url)
    identity = ProcessIdentity.current()
    with scratch(lock_folder(), identity) as folder:
        log.info("worker starts", extra=fields(worker=str(identity)))
        WorkerLoop(settings, engine, identity, folder, stop, start_tuner).run()
        log.info("worker ends", extra=fields(worker=str(identity)))
    engine.dispose()


def embedded(cores: Collection[int]) -> None:
    """Work on `cores` for the process that started this one: settings come by its pipe.

    The end of the pipe is ours.
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
