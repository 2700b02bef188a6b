"""The actor of a slot: `SharedSlot` behind the calls of Ray, which pass bytes and texts."""

import json
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import ray
from ray.exceptions import RayError
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from ansorpy.cluster.hours import Hours
from ansorpy.cluster.processes import MAIN
from ansorpy.cluster.ray.environment import CORES, FOLDER, HOURS, NAMESPACE, SLOT
from ansorpy.cluster.ray.node import driver_node
from ansorpy.cluster.share import ClusterUser
from ansorpy.cluster.shared_slot import Reply, SharedSlot

AWAY: Final = (RayError, OSError, RuntimeError, ValueError)  # Ray raises them if the head is away


@ray.remote(num_cpus=0, max_restarts=0, max_task_retries=0)
class SlotActor:
    """The slot of a core set of this machine, for all tunings.

    Its daemons are processes of their own: `multiprocessing` in a worker of Ray would import the
    main module of Ray in each child.

    Args:
        place: of the core set in ANSORPY_SLOT_CORES of the node; all cores if that is not set.
        module: the daemon.
    """

    def __init__(self, place: int, module: str = MAIN) -> None:
        sets = os.environ.get(CORES, "").split("/")
        cores = sets[place] if place < len(sets) else ""
        self._cores = [int(core) for core in cores.split(",") if core]
        folder = os.environ.get(FOLDER, "")
        self._slot = SharedSlot(
            [sys.executable, "-m", module, cores],
            Hours(os.environ.get(HOURS, "")),
            Path(folder) if folder else None,
        )

    async def join(self, driver: str, tenant: str, priority: int, job: str) -> None:
        """Start the daemon of a tuning, once the hours of the slot allow it."""
        await self._slot.join(ClusterUser(driver, tenant, priority, job))

    async def ask(
        self, driver: str, frame: bytes, limit_s: float, method: str, trials: int
    ) -> Reply:
        """Return the answer to a question; as `SharedSlot.ask`."""
        return await self._slot.ask(driver, frame, limit_s, method, trials)

    async def seen(self, driver: str) -> str:
        """Note that a tuning is there; as `SharedSlot.seen`."""
        return self._slot.seen(driver)

    async def leave(self, driver: str) -> None:
        """End the daemon of a tuning."""
        await self._slot.leave(driver)

    async def state(self) -> bytes:
        """Return the state of the slot as JSON."""
        return json.dumps({"cores": self._cores, **self._slot.state()}).encode()


@contextmanager
def connected(address: str) -> Iterator[None]:
    """Let this process be a driver of the cluster at HOST:PORT.

    Raises:
        ConnectionError: the head does not answer within a minute; or another one of AWAY.
    """
    with driver_node(address):
        ray.init(address=address, namespace=NAMESPACE, log_to_driver=False, logging_level="ERROR")
        yield
        ray.shutdown()


def slot_actor(node: str, resource: str, module: str = MAIN) -> Any:
    """Return the handle of the actor of a slot, which is made if there is none.

    Args:
        node: id of the node.
        resource: name of the resource of the slot.

    Raises:
        ValueError: the last actor of the slot ends just now.
    """
    return SlotActor.options(  # type: ignore[attr-defined]
        name=actor_name(node, resource),
        lifetime="detached",
        get_if_exists=True,
        resources={resource: 1},
        scheduling_strategy=NodeAffinitySchedulingStrategy(node, soft=False),
    ).remote(int(resource.removeprefix(SLOT)), module)


def actor_name(node: str, resource: str) -> str:
    """Return the name of the actor of a slot."""
    return f"{node}-{resource}"
