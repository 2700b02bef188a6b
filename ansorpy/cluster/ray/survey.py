"""The machines of a Ray cluster as JSON: `python -m ansorpy.cluster.ray.survey ADDRESS [--watch]`.

A process of its own, which imports Ray and takes no turn of a slot. With `--watch` it prints a line
every 5 s until its standard input ends.
"""

import json
import os
import select
import signal
import sys
import time
from collections import Counter
from contextlib import suppress
from typing import Any, Final

import ray
from ray.exceptions import RayError

from ansorpy.cluster.ray.actor import AWAY, actor_name, connected
from ansorpy.cluster.ray.environment import NAMESPACE, SLOT
from ansorpy.parent import end_with_parent

EVERY_S: Final = 5.0
STATE_S: Final = 5.0  # seconds for the states of all slots
UNUSED: Final[dict[str, Any]] = {  # the state of a slot that no tuning has used by now
    "cores": [], "state": "idle", "until": "", "doing": None, "waiting": 0, "busy_s": 0.0,
    "up_s": 0.0, "trials": 0, "drift": None,
}  # fmt: skip


def slots() -> list[dict[str, Any]]:
    """Return the slots of the machines that are there."""
    found: list[dict[str, Any]] = []
    calls: dict[Any, dict[str, Any]] = {}
    names = Counter[str]()
    for node in [one for one in ray.nodes() if one["Alive"]]:
        labels, host = node.get("Labels", {}), node["NodeManagerHostname"]
        for resource in sorted(name for name in node["Resources"] if name.startswith(SLOT)):
            name = f"{host}/{resource.removeprefix(SLOT)}"
            names[name] += 1  # containers may have one host name
            slot = {
                "name": name if names[name] == 1 else f"{name}#{node['NodeID'][:8]}",
                "host": host,
                "address": node["NodeManagerAddress"],
                "kind": labels.get("ansorpy.kind", ""),
                "version": labels.get("ansorpy.version", ""),
                **UNUSED,
            }
            found.append(slot)
            with suppress(ValueError):  # no tuning has used it
                actor = ray.get_actor(actor_name(node["NodeID"], resource), NAMESPACE)
                calls[actor.state.remote()] = slot
    end_s = time.monotonic() + STATE_S
    for call, slot in calls.items():
        try:
            slot |= json.loads(ray.get(call, timeout=max(0.0, end_s - time.monotonic())))
        except RayError:  # it ended, or is late
            slot["state"] = "left"
    return found


def main() -> None:
    """Print JSON objects with the slots."""
    out = os.dup(1)
    os.dup2(2, 1)
    end_with_parent(signal.SIGTERM)
    try:
        with connected(sys.argv[1]):
            survey(out, "--watch" in sys.argv)
    except AWAY as error:
        tell(out, [], str(error))
        raise SystemExit(1) from None


def survey(out: int, watch: bool) -> None:
    """Print the slots once, or every few seconds until the standard input ends."""
    while True:
        try:
            tell(out, slots(), "")
        except AWAY as error:
            tell(out, [], str(error))
        ready = watch and select.select([sys.stdin], [], [], EVERY_S)[0]
        if not watch or (ready and not os.read(0, 1 << 16)):
            return


def tell(out: int, listed: list[dict[str, Any]], reason: str) -> None:
    """Print a JSON object with the slots, or the reason why there are none."""
    first = reason.strip().partition("\n")[0]
    os.write(out, json.dumps({"slots": listed, "reason": first}).encode() + b"\n")


if __name__ == "__main__":
    main()
