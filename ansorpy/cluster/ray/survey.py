"""The machines of a Ray cluster as JSON: `python -m ansorpy.cluster.ray.survey ADDRESS`.

A process of its own, which imports Ray and takes no slot.
"""

import json
import os
import sys

import ray

from ansorpy.cluster.ray.environment import SLOT


def main() -> None:
    """Print a JSON object: machines with the number of their slots and their labels; free slots."""
    out = os.dup(1)
    os.dup2(2, 1)
    ray.init(address=sys.argv[1], log_to_driver=False, logging_level="ERROR")
    machines = [
        {
            "host": node["NodeManagerHostname"],
            "address": node["NodeManagerAddress"],
            "alive": node["Alive"],
            "slots": sum(name.startswith(SLOT) for name in node["Resources"]),
            "labels": node.get("Labels", {}),
        }
        for node in ray.nodes()
    ]
    free = sum(n for name, n in ray.available_resources().items() if name.startswith(SLOT))
    os.write(out, json.dumps({"machines": machines, "free": int(free)}).encode())
    ray.shutdown()


if __name__ == "__main__":
    main()
