"""The name under which a tuning uses a cluster: its tenant, its priority, its job."""

import getpass
import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final
from uuid import uuid4

from ansorpy.errors import SpecError

TENANT: Final = "ANSORPY_CLUSTER_TENANT"
PRIORITY: Final = "ANSORPY_CLUSTER_PRIORITY"
JOB: Final = "ANSORPY_CLUSTER_JOB"
NAME_CHARACTERS: Final = 64
PRIORITIES: Final = range(-100, 101)


@dataclass(frozen=True, slots=True)
class ClusterUser:
    """A tuning among others.

    Args:
        driver: an id that no other tuning has.
        tenant: tunings of one tenant share its part of the slots.
        priority: the highest one is served first.
        job: id of the job; "" if the tuning is none of a service.
    """

    driver: str
    tenant: str
    priority: int = 0
    job: str = ""


def own_share(environment: Mapping[str, str] = os.environ) -> ClusterUser:
    """Return the share of this process, by the three variables.

    Raises:
        SpecError: the priority is no number from -100 to 100.
    """
    text = environment.get(PRIORITY, "").strip() or "0"
    try:
        priority = int(text)
    except ValueError:
        priority = PRIORITIES.stop
    if priority not in PRIORITIES:
        raise SpecError(
            f"cannot use {PRIORITY}={text[:20]!r} because it is no priority; expected a whole"
            f" number from {PRIORITIES[0]} to {PRIORITIES[-1]}"
        )
    tenant = environment.get(TENANT, "").strip() or _user()
    job = environment.get(JOB, "")
    return ClusterUser(uuid4().hex, tenant[:NAME_CHARACTERS], priority, job[:NAME_CHARACTERS])


def share_variables(tenant: str, priority: int, job: str) -> dict[str, str]:
    """Return the variables from which `own_share` makes the share of a job."""
    return {TENANT: tenant, PRIORITY: str(priority), JOB: job}


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a process without an account
        return str(os.getuid())
