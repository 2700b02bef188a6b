"""The bridge between a tuning and the slots of a Ray cluster: a process that imports Ray.

    python -m ansorpy.cluster.ray.bridge ADDRESS [MODULE]

Ray ends its driver if the head is away for a minute: the bridge ends then, and not the tuning.
Messages are frames (`messages.read_frame`) of a line of JSON and bytes:

    to the bridge     {"ask": number, "slot": name} and a question; {"drop": name}
    from the bridge   {"answer": number} and its frame; {"lost": number, "reason": text};
                      {"slots": [name, ...]}, whenever they change

The name of a slot is HOST/PLACE.NUMBER; no two actors have the same.
"""

import json
import os
import signal
import sys
import time
from contextlib import suppress
from functools import partial
from itertools import count
from queue import Empty, SimpleQueue
from threading import Lock, Thread
from typing import Any, Final

import ray
from ray.exceptions import RayError
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from ansorpy.cluster.messages import read_frame, write_frame
from ansorpy.cluster.processes import MAIN
from ansorpy.cluster.ray.actor import SlotActor
from ansorpy.cluster.ray.environment import SLOT

WATCH_S: Final = 1.0  # seconds between two looks at the nodes


class SlotActors:
    """The actors of the cluster's slots, by name, and the questions that they have."""

    def __init__(self, out: int, module: str = MAIN) -> None:
        self._out, self._module = out, module
        self._actors: dict[str, Any] = {}  # by name, once they are ready
        self._places: dict[tuple[str, str], str] = {}  # (node, resource) -> name of the actor
        self._asked: dict[int, str] = {}  # slots of questions without an answer, by number
        self._gone: SimpleQueue[str] = SimpleQueue()  # names of actors to forget, by `watch`
        self._numbers = count(1)
        self._lock = Lock()

    def tell(self, header: dict[str, Any], data: bytes = b"") -> None:
        """Send a message to the tuning."""
        with self._lock:
            write_frame(self._out, json.dumps(header).encode() + b"\n" + data)

    def watch(self) -> None:
        """Look at the nodes, and forget actors, for ever.

        Ray calls back in a thread of its own, which must not wait for Ray.
        """
        next_s = time.monotonic()
        while True:
            with suppress(Empty):
                self._forget(self._gone.get(timeout=max(0.01, next_s - time.monotonic())))
                continue
            next_s = time.monotonic() + WATCH_S
            with suppress(RayError, OSError, RuntimeError, ValueError):  # the head is away
                self.look()

    def look(self) -> None:
        """Make actors for slots that came, and forget the slots of nodes that went."""
        found = {
            (node["NodeID"], resource): node["NodeManagerHostname"]
            for node in ray.nodes()
            if node["Alive"]
            for resource in node["Resources"]
            if resource.startswith(SLOT)
        }
        for place, host in found.items():
            if place not in self._places:
                self._start(place, host)
        for place in [one for one in self._places if one not in found]:
            self._forget(self._places[place])

    def _start(self, place: tuple[str, str], host: str) -> None:
        """Make the actor of a slot; it waits for the slot while another tuning has it."""
        node, resource = place
        number = resource.removeprefix(SLOT)
        name = f"{host}/{number}.{next(self._numbers)}"
        self._places[place] = name
        actor = SlotActor.options(  # type: ignore[attr-defined]
            resources={resource: 1},
            scheduling_strategy=NodeAffinitySchedulingStrategy(node, soft=False),
        ).remote(int(number), self._module)
        ready = actor.ready.remote().future()
        ready.add_done_callback(partial(self._note, name, actor))

    def _note(self, name: str, actor: Any, ready: Any) -> None:
        if ready.exception() is not None:
            self._gone.put(name)
            return
        self._actors[name] = actor
        self.tell({"slots": list(self._actors)})

    def _forget(self, name: str) -> None:
        """Forget the actor of a slot: the next look makes another one, if the node is there."""
        self._places = {place: one for place, one in self._places.items() if one != name}
        actor = self._actors.pop(name, None)
        for number in [number for number, one in list(self._asked.items()) if one == name]:
            if self._asked.pop(number, None):
                self.tell({"lost": number, "reason": f"slot {name} is gone"})
        if actor is not None:
            self.tell({"slots": list(self._actors)})
            with suppress(RayError, OSError, RuntimeError, ValueError):
                ray.kill(actor)

    def take(self, frame: bytes) -> None:
        """Carry out a message of the tuning."""
        line, _, data = frame.partition(b"\n")
        header = json.loads(line)
        if "drop" in header:
            self._gone.put(header["drop"])
            return
        number, name = header["ask"], header["slot"]
        actor = self._actors.get(name)
        if actor is None:
            self.tell({"lost": number, "reason": f"there is no slot {name}"})
            return
        self._asked[number] = name
        answer = actor.ask.remote(data).future()
        answer.add_done_callback(partial(self._answer, number, name))

    def _answer(self, number: int, name: str, answer: Any) -> None:
        error = answer.exception()
        if not self._asked.pop(number, None):  # its slot was dropped
            return
        if error is None and isinstance(answer.result(), bytes):
            self.tell({"answer": number}, answer.result())
            return
        reason = str(error).strip().splitlines()[-1:] if error else ["no bytes"]
        self.tell({"lost": number, "reason": f"slot {name}: {type(error).__name__} {reason}"})
        self._gone.put(name)


def main() -> None:
    """Serve the tuning at the other end of the pipes, until its input ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the tuning's
    out = os.dup(1)
    os.dup2(2, 1)
    ray.init(address=sys.argv[1], log_to_driver=False, logging_level="ERROR")
    actors = SlotActors(out, *sys.argv[2:3])
    Thread(target=actors.watch, daemon=True).start()
    while (frame := read_frame(sys.stdin.buffer)) is not None:
        actors.take(frame)
    ray.shutdown()


if __name__ == "__main__":
    main()
