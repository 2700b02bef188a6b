"""The derivation rules, as sets: ordered, each tried until one applies alone.

RELEASED_CPU and RELEASED_CUDA have the orders and parameters of the released auto-scheduler
(ansor.md B3), whose golden sketch counts hold with exactly these sets. CPU and CUDA put our own
rules in front of them; do the same with yours: `(Mine(), *CPU)`. CUDA has another structure: its
threads are inside of the outer reduce loops, so that all of a block share one copy of an operand.

Rules that change the rounding of results are in sets of their own, one per name that a request
may allow; they are tried before the others.
"""

from ansorpy.rules.add_cache_read import AddCacheRead
from ansorpy.rules.add_cache_write import AddCacheWrite
from ansorpy.rules.add_rfactor import AddRfactor
from ansorpy.rules.align_rows import AlignRows
from ansorpy.rules.allow_rounding import AllowRounding
from ansorpy.rules.always_inline import AlwaysInline
from ansorpy.rules.cross_thread_reduction import CrossThreadReduction
from ansorpy.rules.fuse_chain import FuseChain
from ansorpy.rules.inline_transpose import InlineTranspose
from ansorpy.rules.join_axes import JoinAxes
from ansorpy.rules.keep_row import KeepRow
from ansorpy.rules.simplify_const import SimplifyConst
from ansorpy.rules.skip import Skip
from ansorpy.rules.skip_padding import SkipPadding
from ansorpy.rules.special_compute_location import SpecialComputeLocation
from ansorpy.rules.split_groups import SplitGroups
from ansorpy.rules.split_phases import SplitPhases
from ansorpy.rules.split_reduction import SplitReduction
from ansorpy.rules.stream_reduction import StreamReduction
from ansorpy.rules.tensorize import Tensorize
from ansorpy.rules.tiling import Tiling
from ansorpy.rules.tiling_with_fusion import TilingWithFusion
from ansorpy.rules.winograd import Winograd
from ansorpy.state.rule import Rule
from ansorpy.target import GpuTarget, Target

RELEASED_CPU: tuple[Rule, ...] = (
    AlwaysInline(everything=False),
    SimplifyConst(),
    AddRfactor(grain=16),
    AddCacheWrite(alone=False),
    TilingWithFusion("SSRSRS", levels=(1, 2), alone=False),
    Tiling("SSRSRS"),
    Skip(),
)
WINOGRAD2: tuple[Rule, ...] = (Winograd(outputs=2),)
WINOGRAD4: tuple[Rule, ...] = (Winograd(outputs=4),)
CPU: tuple[Rule, ...] = (
    JoinAxes(),
    SplitPhases(),
    SplitGroups(),
    Tensorize(),
    StreamReduction(),
    InlineTranspose(),
    FuseChain("SSRSRS", first="SSRS"),
    SkipPadding("SSRSRS", level=1, share=1 / 64, tile=28, strided=7),
    *RELEASED_CPU,
)
TF32: tuple[Rule, ...] = (AllowRounding("tf32"),)
RELEASED_CUDA: tuple[Rule, ...] = (
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
CUDA: tuple[Rule, ...] = (
    # A block then copies the channels of its groups only.
    SplitGroups(),
    AlignRows(),
    KeepRow(),
    SplitReduction(),
    # The threads that share a reduction are a choice of the plan, its lane axis.
    *(rule for rule in RELEASED_CUDA[:-3] if not isinstance(rule, CrossThreadReduction)),
    # block | step of the reduction | quads | threads | reduction within a step | own elements
    TilingWithFusion("SRSTRS", levels=(1,), alone=True),
    Tiling("SRSTRS"),
    Skip(),
)

__all__ = [
    "CPU",
    "CUDA",
    "RELEASED_CPU",
    "RELEASED_CUDA",
    "TF32",
    "WINOGRAD2",
    "WINOGRAD4",
    "AddCacheRead",
    "AddCacheWrite",
    "AddRfactor",
    "AlignRows",
    "AllowRounding",
    "AlwaysInline",
    "CrossThreadReduction",
    "FuseChain",
    "InlineTranspose",
    "JoinAxes",
    "KeepRow",
    "SimplifyConst",
    "Skip",
    "SkipPadding",
    "SpecialComputeLocation",
    "SplitGroups",
    "SplitPhases",
    "SplitReduction",
    "StreamReduction",
    "Tensorize",
    "Tiling",
    "TilingWithFusion",
    "Winograd",
    "released",
]


def released(target: Target) -> tuple[Rule, ...]:
    """Return the released rule set of a target."""
    return RELEASED_CUDA if isinstance(target, GpuTarget) else RELEASED_CPU
