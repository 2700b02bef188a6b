"""The actor of a slot: it starts a slot daemon on a core set of its machine, and passes frames."""

import os
import sys
from subprocess import PIPE, Popen
from typing import BinaryIO, cast

import ray

from ansorpy.cluster.messages import read_frame, write_frame
from ansorpy.cluster.processes import MAIN
from ansorpy.cluster.ray.environment import CORES


@ray.remote(num_cpus=0, max_restarts=0, max_task_retries=0)
class SlotActor:
    """A slot daemon; it ends with the actor.

    The daemon is a process of its own: `multiprocessing` in a worker of Ray would import the main
    module of Ray in each child.

    Args:
        place: of the core set in ANSORPY_SLOT_CORES of the node; all cores if that is not set.
        module: the daemon.
    """

    def __init__(self, place: int, module: str = MAIN) -> None:
        sets = os.environ.get(CORES, "").split("/")
        cores = sets[place] if place < len(sets) else ""
        self._process = Popen([sys.executable, "-m", module, cores], stdin=PIPE, stdout=PIPE)

    def ready(self) -> int:
        """Return the id of the daemon's process."""
        return self._process.pid

    def ask(self, frame: bytes) -> bytes:
        """Return the answer to a question.

        Raises:
            ConnectionError: the daemon has ended.
        """
        assert self._process.stdin is not None
        write_frame(self._process.stdin.fileno(), frame)
        answer = read_frame(cast(BinaryIO, self._process.stdout))
        if answer is None:
            raise ConnectionError("the slot daemon has ended")
        return answer
