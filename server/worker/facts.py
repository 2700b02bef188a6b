"""What a worker says of itself: its target, versions and sandbox."""

import json
from dataclasses import asdict
from importlib.metadata import version
from typing import Final

from ansorpy.measure.host import local_target
from ansorpy.records import target_digest

PACKAGES: Final = ("ansorpy", "llvmlite", "numba", "numpy")


def describe() -> tuple[str, str]:
    """Return the digest of this machine as a target, and the facts of its row as JSON."""
    target = local_target(None)
    facts = {
        "target": asdict(target),
        "versions": {name: version(name) for name in PACKAGES},
    }
    return target_digest(target), json.dumps(facts)
