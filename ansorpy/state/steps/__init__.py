"""Every transform of a state. Stages and loops go by name, so inserting a stage moves nothing."""

from ansorpy.state.steps.insert import CacheRead, CacheWrite, Rfactor
from ansorpy.state.steps.location import ComputeAt, ComputeInline, ComputeRoot
from ansorpy.state.steps.order import Annotate, Fuse, Reorder
from ansorpy.state.steps.reformulate import (
    Reformulation,
    RoundOperands,
    Winograd,
    executed_flop,
    meaning,
    reformulated,
    reformulations,
)
from ansorpy.state.steps.regroup import Join, PadRows, SkipPadding, SplitGroups, SplitPhases
from ansorpy.state.steps.split import FollowFusedSplit, FollowSplit, Split
from ansorpy.state.steps.tensorize import Tensorize

__all__ = [
    "Annotate",
    "CacheRead",
    "CacheWrite",
    "ComputeAt",
    "ComputeInline",
    "ComputeRoot",
    "FollowFusedSplit",
    "FollowSplit",
    "Fuse",
    "Join",
    "PadRows",
    "Reformulation",
    "Reorder",
    "Rfactor",
    "RoundOperands",
    "SkipPadding",
    "Split",
    "SplitGroups",
    "SplitPhases",
    "Tensorize",
    "Winograd",
    "executed_flop",
    "meaning",
    "reformulated",
    "reformulations",
]
