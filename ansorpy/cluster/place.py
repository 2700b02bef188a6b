"""The slots that ANSORPY_CLUSTER names: of a Ray cluster, or of this machine."""

import os
import re
from collections.abc import Mapping, Sequence
from typing import Final

from ansorpy.cluster.bridged import BridgedSlots
from ansorpy.cluster.processes import ProcessSlots
from ansorpy.cluster.ray.environment import ray_environment
from ansorpy.cluster.share import own_share
from ansorpy.cluster.slots import SlotGroup
from ansorpy.errors import SpecError
from ansorpy.measure.cores import usable_cores

CLUSTER: Final = "ANSORPY_CLUSTER"
_HERE: Final = re.compile(r"here:([1-9][0-9]{0,3})")
_ADDRESS: Final = re.compile(r"([A-Za-z0-9.-]{1,253}|\[[0-9a-fA-F:]{2,39}\]):([1-9][0-9]{0,4})")


def named_cluster(environment: Mapping[str, str] = os.environ) -> str:
    """Return the address of the cluster in the environment; "" if there is none.

    Raises:
        SpecError: it is no address.
    """
    text = environment.get(CLUSTER, "").strip()
    if text and not (_HERE.fullmatch(text) or _ADDRESS.fullmatch(text)):
        raise SpecError(
            f"cannot use {CLUSTER}={text[:80]!r} because it is no address; expected HOST:PORT of a"
            " cluster's head, or here:N for slots of N cores of this machine"
        )
    return text


def head_address(text: str) -> str:
    """Return the HOST:PORT of a head.

    Raises:
        SpecError: it is no such address.
    """
    if _HERE.fullmatch(text.strip()) or not _ADDRESS.fullmatch(text.strip()):
        raise SpecError(
            f"cannot use {text[:80]!r} as a cluster because it is no address; expected HOST:PORT"
            " of a cluster's head"
        )
    return text.strip()


def slots_at(address: str) -> SlotGroup:
    """Return the slots of an address; slots of this machine start now.

    Raises:
        SpecError: there is no secret for the cluster, or Ray is not installed, or the priority in
            the environment is none.
    """
    here = _HERE.fullmatch(address)
    if here:
        return ProcessSlots(core_sets(usable_cores(), int(here[1])))
    return BridgedSlots(address, ray_environment(), own_share())


def core_sets(cores: Sequence[int], size: int) -> list[tuple[int, ...]]:
    """Return whole sets of `size` cores in order; fewer cores make one set."""
    begins = range(0, len(cores) - size + 1, size)
    return [tuple(cores[at : at + size]) for at in begins] or [tuple(cores)]
