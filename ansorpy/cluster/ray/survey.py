"""The machines of a Ray cluster as JSON: `python -m ansorpy.cluster.ray.survey ADDRESS [--watch]`.

A process of its own, which imports Ray and takes no turn of a slot. With `--watch` it prints a line
every 5 s until its standard input ends.
"""

import json
import os
import select
import sys
from typing import Any, Final

import ray
from ray.exceptions import RayError

from ansorpy.cluster.ray.actor import actor_name
from ansorpy.cluster.ray.environment import NAMESPACE, SLOT

EVERY_S: Final = 5.0
STATE_S: Final = 5.0  # seconds for the states of all slots
UNUSED: Final[dict[str, Any]] = {  # the state of a slot that no tuning has used by now
    "cores": [], "state": "idle", "until": "", "doing": None, "waiting": 0, "busy_s": 0.0,
    "up_s": 0.0, "trials": 0, "drift": None,
}  # fmt: skip


def slots() -> list[dict[str, Any]]:
    """Return the slots of the machines, and those of machines that have left."""
    found: list[dict[str, Any]] = []
    calls: dict[Any, dict[str, Any]] = {}
    for node in ray.nodes():
        labels = node.get("Labels", {})
        for resource in sorted(name for name in node["Resources"] if name.startswith(SLOT)):
            number = resource.removeprefix(SLOT)
            slot = {
                "name": f"{node['NodeManagerHostname']}/{number}",
                "host": node["NodeManagerHostname"],
                "address": node["NodeManagerAddress"],
                "kind": labels.get("ansorpy.kind", ""),
                "version": labels.get("ansorpy.version", ""),
                **UNUSED,
            }
            found.append(slot)
            if not node["Alive"]:
                slot["state"] = "left"
                continue
            try:
                actor = ray.get_actor(actor_name(node["NodeID"], resource), NAMESPACE)
                calls[actor.state.remote()] = slot
            except ValueError:
                continue
    ready, late = (
        ray.wait(list(calls), num_returns=len(calls), timeout=STATE_S) if calls else ([], [])
    )
    for call in ready:
        try:
            calls[call].update(json.loads(ray.get(call)))
        except RayError:
            late.append(call)
    for call in late:
        calls[call]["state"] = "left"
    return found


def main() -> None:
    """Print JSON objects with the slots."""
    out = os.dup(1)
    os.dup2(2, 1)
    ray.init(
        address=sys.argv[1], namespace=NAMESPACE, log_to_driver=False, logging_level="ERROR"
    )  # fmt: skip
    while True:
        os.write(out, json.dumps({"slots": slots(), "reason": ""}).encode() + b"\n")
        if "--watch" not in sys.argv:
            break
        if select.select([sys.stdin], [], [], EVERY_S)[0] and not os.read(0, 1 << 16):
            break
    ray.shutdown()


if __name__ == "__main__":
    main()
