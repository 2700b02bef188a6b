"""A slot: a process that builds, checks and times for a driver at the other end of its pipes.

    python -m ansorpy.cluster.slot_daemon [CORE,CORE ...]

Frames with questions come by the standard input, answers go to the standard output, one after the
other. SIGUSR1 ends a measurement early: candidates that it did not come to have no outcome. The
process, its builders and its kernels have the same cores. With its parent, or at the end of its
input, it ends with every process that it started.
"""

import os
import signal
import socket
import sys
from collections.abc import Callable
from dataclasses import replace
from typing import Any, BinaryIO, Final

from ansorpy.cluster.messages import (
    Question,
    SlotAnswer,
    SlotFacts,
    asked,
    own_versions,
    read_frame,
    write_frame,
)
from ansorpy.errors import AnsorError
from ansorpy.measure.cores import usable_cores
from ansorpy.measure.host import local_target
from ansorpy.measure.local import LocalBackEnd, LocalPool
from ansorpy.measure.pool import RacePool
from ansorpy.measure.timing.settings import MeasureSettings
from ansorpy.measure.values import encode
from ansorpy.parent import end_with_parent
from ansorpy.records import target_digest
from ansorpy.target import Target
from ansorpy.te.dag import Dag

GIVE_WAY: Final = signal.SIGUSR1  # asks for the outcomes by now
METHODS: Final = frozenset({
    "measure", "prebuild", "begin_cases", "verify", "race", "rerank", "time_sizes", "begin_call",
    "export", "attainable_flop_per_s",
})  # fmt: skip
Open = Callable[[Dag, Target, int, MeasureSettings], RacePool]


class LocalPools:
    """Pools of local processes, which tasks of one target and equal settings share."""

    def __init__(self) -> None:
        self._back_ends: dict[tuple[Target, MeasureSettings], LocalBackEnd[LocalPool]] = {}

    def open(
        self, dag: Dag, target: Target, cold_bytes: int, settings: MeasureSettings
    ) -> RacePool:
        """Return a pool for a task; files are in a temporary folder of this machine."""
        settings = replace(settings, folder=MeasureSettings().folder)
        known = self._back_ends.get((target, settings))
        if known is None:
            known = self._back_ends[target, settings] = LocalBackEnd(target, settings, LocalPool)
        return known.open(dag, target, cold_bytes)

    def close(self) -> None:
        """End every process."""
        for one in self._back_ends.values():
            one.close()


class SlotServer:
    """The pools of a driver, by number, and the methods that it may call.

    Args:
        open_pool: opens a pool for a task.
    """

    def __init__(self, open_pool: Open) -> None:
        self._open = open_pool
        self._pools: dict[int, RacePool] = {}
        self._yielding = False

    def give_way(self, *_: object) -> None:
        """Begin no further candidate of the question under way; a handler of `GIVE_WAY`."""
        self._yielding = True

    def answer(self, question: Question) -> SlotAnswer:
        """Call a method; an error of ours, or of the call, is an answer, too."""
        try:
            return SlotAnswer(self._value(question))
        except AnsorError as error:
            return SlotAnswer(error=f"{type(error).__name__}: {error}")
        except (TypeError, ValueError, KeyError, AttributeError, OSError) as error:
            return SlotAnswer(error=f"{type(error).__name__} in {question.method}: {error}")

    def _value(self, question: Question) -> Any:
        method, number, arguments = question.method, question.pool, question.arguments
        self._yielding = False
        if method == "hello":
            return facts()
        if method == "open":
            self._pools[number] = self._open(*arguments)
            return None
        if method == "close":
            pool = self._pools.pop(number, None)
            return pool.close() if pool is not None else None
        if method not in METHODS:
            raise ValueError("no such method")
        late = {"late": lambda: self._yielding} if method == "measure" else {}
        value = getattr(self._pools[number], method)(*arguments, **question.options, **late)
        return value() if method == "begin_call" else value

    def close(self) -> None:
        """Close the pools that are open."""
        for pool in self._pools.values():
            pool.close()


def facts() -> SlotFacts:
    """Return the facts of this process as a slot."""
    target = local_target(len(usable_cores()))
    return SlotFacts(
        target_digest(target), socket.gethostname(), usable_cores(), target, own_versions()
    )


def serve(slot: SlotServer, stream: BinaryIO, out: int) -> None:
    """Answer questions until the stream ends."""
    signal.signal(GIVE_WAY, slot.give_way)
    while (frame := read_frame(stream)) is not None:
        write_frame(out, encoded(slot.answer(asked(frame))))


def encoded(answer: SlotAnswer) -> bytes:
    """Return the frame of an answer, or of the reason why it cannot travel."""
    try:
        return encode(answer)
    except AnsorError as error:
        return encode(SlotAnswer(error=str(error)))


def settle(cores: str) -> int:
    """Make this process a slot on some cores; return the descriptor for its answers.

    Other texts for the standard output go to the standard error.
    """
    signal.signal(GIVE_WAY, signal.SIG_IGN)
    end_with_parent(signal.SIGTERM)
    if cores:
        os.sched_setaffinity(0, {int(core) for core in cores.split(",")})
    out = os.dup(1)
    os.dup2(2, 1)
    return out


def main() -> None:
    """Serve the driver; SIGTERM ends the processes of all pools."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the driver's
    out = settle(sys.argv[1] if len(sys.argv) > 1 else "")
    pools = LocalPools()
    slot = SlotServer(pools.open)
    try:
        serve(slot, sys.stdin.buffer, out)
    finally:
        slot.close()
        pools.close()


if __name__ == "__main__":
    main()
