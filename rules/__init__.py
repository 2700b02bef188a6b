"""The derivation rules, as sets: ordered, each tried until one applies alone.

The orders and parameters are those of the released auto-scheduler (ansor.md B3), whose golden
sketch counts hold with exactly these sets. Put a rule of your own in front: `(Mine(), *CPU)`.
"""

from ansorpy.state.rule import Rule
from ansorpy.target import Target
from rules.add_cache_read import AddCacheRead
from rules.add_cache_write import AddCacheWrite
from rules.add_rfactor import AddRfactor
from rules.always_inline import AlwaysInline
from rules.cross_thread_reduction import CrossThreadReduction
from rules.simplify_const import SimplifyConst
from rules.skip import Skip
from rules.special_compute_location import SpecialComputeLocation
from rules.tiling import Tiling
from rules.tiling_with_fusion import TilingWithFusion

CPU: tuple[Rule, ...] = (
    AlwaysInline(everything=False),
    SimplifyConst(),
    AddRfactor(grain=16),
    AddCacheWrite(alone=False),
    TilingWithFusion("SSRSRS", levels=(1, 2), alone=False),
    Tiling("SSRSRS"),
    Skip(),
)
CUDA: tuple[Rule, ...] = (
    AddCacheRead(),
    SpecialComputeLocation(),
    AlwaysInline(everything=True),
    SimplifyConst(),
    CrossThreadReduction(),
    AddCacheWrite(alone=True),
    # block, virtual thread, thread | two reduce tiles | inner tiles of one thread
    TilingWithFusion("SSSRRSRS", levels=(3,), alone=True),
    Tiling("SSSRRSRS"),
    Skip(),
)

__all__ = [
    "CPU",
    "CUDA",
    "AddCacheRead",
    "AddCacheWrite",
    "AddRfactor",
    "AlwaysInline",
    "CrossThreadReduction",
    "SimplifyConst",
    "Skip",
    "SpecialComputeLocation",
    "Tiling",
    "TilingWithFusion",
    "for_target",
]


def for_target(target: Target) -> tuple[Rule, ...]:
    """Return the rule set of `target.kind`."""
    match target.kind:
        case "cpu":
            return CPU
        case "cuda":
            return CUDA
