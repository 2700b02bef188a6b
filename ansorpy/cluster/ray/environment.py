"""The environment of every process of Ray: its secret, its checks of health, no statistics."""

import os
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from ansorpy.errors import SpecError

TOKEN_FILE: Final = "ANSORPY_CLUSTER_TOKEN_FILE"
LEAST_SECRET: Final = 16  # characters
SLOT: Final = "ansorpy_slot_"  # begins the name of the resource of a slot; its place follows
NAMESPACE: Final = "ansorpy"  # namespace of actors
HOURS: Final = "ANSORPY_SLOT_HOURS"  # hours of a node's slots
FOLDER: Final = "ANSORPY_SLOT_FOLDER"  # a folder of a node (`shared_slot.LEAVING`)
CORES: Final = "ANSORPY_SLOT_CORES"  # core sets of a node, as 0,1/2,3
SETTINGS: Final[Mapping[str, str]] = {
    "RAY_AUTH_MODE": "token",
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_DEDUP_LOGS": "0",
    # A lost machine is noticed after 9 s in place of 66 s.
    "RAY_health_check_initial_delay_ms": "0",
    "RAY_health_check_period_ms": "1000",
    "RAY_health_check_timeout_ms": "2000",
    "RAY_health_check_failure_threshold": "3",
}


def ray_environment(own: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Return the environment of a process of Ray: the one of this process, with SETTINGS.

    Raises:
        SpecError: Ray is not installed, or there is no secret.
    """
    if find_spec("ray") is None:
        raise SpecError("cannot use a cluster because Ray is not installed; expected ansorpy[ray]")
    file = Path(own.get(TOKEN_FILE, ""))
    if not own.get(TOKEN_FILE) or not file.is_file():
        raise SpecError(
            f"cannot use a cluster because {TOKEN_FILE} names no file; expected a file with the"
            " secret that all its machines share"
        )
    if len(file.read_text().strip()) < LEAST_SECRET:
        raise SpecError(
            f"cannot use a cluster because the secret in {file} is too short; expected at least"
            f" {LEAST_SECRET} characters"
        )
    rest = {name: value for name, value in own.items() if not name.startswith("RAY_AUTH_TOKEN")}
    return {**rest, **SETTINGS, "RAY_AUTH_TOKEN_PATH": str(file.resolve())}
