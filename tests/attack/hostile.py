"""A back end whose candidates attack: as they are built, or as they run.

A program is called "role|move|aims as JSON"; everything else is as in `tests.measure.fake`.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass

from ansorpy.codegen.kernel import Kernel
from ansorpy.loopir.nodes import Program
from ansorpy.target import Target
from tests.attack.moves import MOVES, Aims
from tests.measure import fake
from tests.measure.fake import FakeBuilt

BACKEND = "tests.attack.hostile"
BUILT = FakeBuilt


def attack(name: str, role: str) -> bool:
    """Make the move of a candidate if this is its role; return whether it is hostile at all."""
    if "|" not in name:
        return False
    mine, move, aims = name.split("|", 2)
    if mine == role:
        MOVES[move](Aims(**json.loads(aims)))
    return True


def build(program: Program, target: Target) -> FakeBuilt:
    attack(program.name, "builder")
    return fake.build(program, target)


def build_source(kernel: Kernel, target: Target) -> FakeBuilt:
    return fake.build_source(kernel, target)


def load(built: FakeBuilt) -> fake.Fake:
    return Hostile(built) if "|" in built.name else fake.load(built)


@dataclass(frozen=True)
class Hostile(fake.Fake):
    """Compute the right result after the move."""

    def run(self, addresses: Sequence[int]) -> None:
        attack(self.built.name, "slot")
        super().run(addresses)
