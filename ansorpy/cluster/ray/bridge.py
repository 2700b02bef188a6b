"""The bridge between a tuning and the slots of a Ray cluster: a process that imports Ray.

    python -m ansorpy.cluster.ray.bridge ADDRESS SHARE [MODULE]

SHARE is the JSON object of a `ClusterUser`. Ray ends its driver if the head is away for a minute:
the bridge ends then, and not the tuning. Messages are frames (`messages.read_frame`) of a line of
JSON and bytes:

    to the bridge     {"ask": number, "slot": name, "limit": seconds, "method": name,
                      "trials": number} and a question
    from the bridge   {"answer": number} and its frame; {"lost": number, "reason": text};
                      {"returned": number, "reason": text};
                      {"slots": [name, ...], "resting": text}, whenever they change and as a sign
                      of life

The name of a slot is HOST/PLACE.NUMBER; no two daemons have the same.
"""

import json
import os
import signal
import sys
import time
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from itertools import count
from queue import Empty, SimpleQueue
from threading import Lock, Thread
from typing import Any, Final

import ray

from ansorpy.cluster.messages import read_frame, write_frame
from ansorpy.cluster.processes import MAIN
from ansorpy.cluster.ray.actor import AWAY, connected, slot_actor
from ansorpy.cluster.ray.environment import SLOT
from ansorpy.cluster.share import ClusterUser
from ansorpy.parent import end_with_parent

WATCH_S: Final = 1.0  # seconds between two looks at the nodes
SEEN_S: Final = 5.0  # seconds between two signs of life to a slot, and to the tuning
SILENT_S: Final = 60.0  # seconds without an answer to a sign of life until a slot is lost
LEAVE_S: Final = 3.0


@dataclass(slots=True)
class JoinedSlot:
    """A slot of a node: its actor, and whether the daemon of this tuning runs there."""

    name: str
    actor: Any
    ready: bool = False
    resting: str = ""  # until when, as ISO 8601
    asked_s: float | None = None  # when the last sign of life without an answer was given


class SlotActors:
    """The slots of the cluster, and the questions that they have."""

    def __init__(self, out: int, share: ClusterUser, module: str = MAIN) -> None:
        self._out, self._share, self._module = out, share, module
        self._places: dict[tuple[str, str], JoinedSlot] = {}  # by node and resource
        self._asked: dict[int, str] = {}  # slots of questions without an answer, by number
        self._gone: SimpleQueue[str] = SimpleQueue()  # names of slots to forget, by `watch`
        self._numbers = count(1)
        self._lock = Lock()

    def tell(self, header: dict[str, Any], data: bytes = b"") -> None:
        """Send a message to the tuning."""
        with self._lock:
            write_frame(self._out, json.dumps(header).encode() + b"\n" + data)

    def tell_slots(self) -> None:
        """Tell which slots are there."""
        places = list(self._places.values())
        resting = [one.resting for one in places if one.resting and not one.ready]
        ready = [one.name for one in places if one.ready]
        self.tell({"slots": ready, "resting": min(resting, default="")})

    def watch(self) -> None:
        """Look at the nodes, and forget slots, for ever.

        Ray calls back in a thread of its own, which must not wait for Ray.
        """
        next_s = seen_s = time.monotonic()
        while True:
            with suppress(Empty):
                self._forget(self._gone.get(timeout=max(0.01, next_s - time.monotonic())))
                continue
            next_s = time.monotonic() + WATCH_S
            with suppress(*AWAY):
                self.look()
            if time.monotonic() >= seen_s:
                seen_s = time.monotonic() + SEEN_S
                self.tell_slots()
                for place in list(self._places.values()):
                    with suppress(*AWAY):
                        self._sign(place)

    def look(self) -> None:
        """Join slots that came, and forget the slots of nodes that went."""
        found = {
            (node["NodeID"], resource): node["NodeManagerHostname"]
            for node in ray.nodes()
            if node["Alive"]
            for resource in node["Resources"]
            if resource.startswith(SLOT)
        }
        for place, host in found.items():
            if place not in self._places:
                with suppress(*AWAY):
                    self._join(place, host)
        for place in [one for one in self._places if one not in found]:
            self._forget(self._places[place].name)

    def _join(self, place: tuple[str, str], host: str) -> None:
        """Let the actor of a slot start a daemon of this tuning."""
        number = place[1].removeprefix(SLOT)
        known = JoinedSlot(
            f"{host}/{number}.{next(self._numbers)}", slot_actor(*place, self._module)
        )
        self._places[place] = known
        share = self._share
        call = known.actor.join.remote(share.driver, share.tenant, share.priority, share.job)
        call.future().add_done_callback(partial(self._note, known))

    def _note(self, place: JoinedSlot, joined: Any) -> None:
        if joined.exception() is not None:
            self._gone.put(place.name)
            return
        place.ready = True
        self.tell_slots()

    def _sign(self, place: JoinedSlot) -> None:
        """Tell a slot that this tuning is there; a slot that does not answer is lost."""
        if place.asked_s is None:
            place.asked_s = time.monotonic()
            call = place.actor.seen.remote(self._share.driver)
            call.future().add_done_callback(partial(self._seen, place))
        elif place.asked_s < time.monotonic() - SILENT_S:
            self._gone.put(place.name)
            ray.kill(place.actor)

    def _seen(self, place: JoinedSlot, answer: Any) -> None:
        place.asked_s = None
        if answer.exception() is not None:
            self._gone.put(place.name)
            return
        told = answer.result()
        place.resting = "" if told in ("known", "unknown") else told
        if place.ready and told != "known":
            self._gone.put(place.name)

    def _forget(self, name: str) -> None:
        """Forget a slot: the next look joins it again, if its node is there."""
        known = len(self._places)
        self._places = {key: one for key, one in self._places.items() if one.name != name}
        if len(self._places) < known:
            self.tell_slots()
        for number in [number for number, one in list(self._asked.items()) if one == name]:
            if self._asked.pop(number, None):
                self.tell({"lost": number, "reason": f"slot {name} is gone"})

    def take(self, frame: bytes) -> None:
        """Carry out a message of the tuning."""
        line, _, data = frame.partition(b"\n")
        header = json.loads(line)
        number, name = header["ask"], header["slot"]
        place = next((one for one in self._places.values() if one.name == name), None)
        if place is None or not place.ready:
            self.tell({"returned": number, "reason": f"there is no slot {name}"})
            return
        self._asked[number] = name
        answer = place.actor.ask.remote(
            self._share.driver, data, header["limit"], header["method"], header["trials"]
        ).future()
        answer.add_done_callback(partial(self._answer, number, place))

    def _answer(self, number: int, place: JoinedSlot, answer: Any) -> None:
        error = answer.exception()
        if not self._asked.pop(number, None):  # its slot was forgotten
            return
        if error is None:
            kind, data = answer.result()
            if kind == "answer":
                self.tell({"answer": number}, data)
                return
            reason = data.decode(errors="replace")
        else:
            kind, reason = "lost", f"{type(error).__name__} {str(error).strip().splitlines()[-1:]}"
        place.ready = False
        self.tell_slots()  # first: a question that comes back must not go there again
        self.tell({kind: number, "reason": f"slot {place.name}: {reason}"})
        self._gone.put(place.name)

    def leave(self) -> None:
        """End the daemons of this tuning."""
        with suppress(*AWAY):
            places = list(self._places.values())
            ray.wait(
                [one.actor.leave.remote(self._share.driver) for one in places],
                num_returns=len(places), timeout=LEAVE_S,
            )  # fmt: skip


def main() -> None:
    """Serve the tuning at the other end of the pipes, until its input ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the tuning's
    out = os.dup(1)
    os.dup2(2, 1)
    end_with_parent(signal.SIGTERM)
    with connected(sys.argv[1]):
        actors = SlotActors(out, ClusterUser(**json.loads(sys.argv[2])), *sys.argv[3:4])
        Thread(target=actors.watch, daemon=True).start()
        while (frame := read_frame(sys.stdin.buffer)) is not None:
            actors.take(frame)
        actors.leave()


if __name__ == "__main__":
    main()
