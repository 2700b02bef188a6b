"""Analysis of nodes for rules: their reads, their cost, and the key of a computation."""

from ansorpy.te.analysis.access import Access, access, reads_by_producer
from ansorpy.te.analysis.answer import Answer, no, yes
from ansorpy.te.analysis.flops import flop_count
from ansorpy.te.analysis.indices import index_ranges
from ansorpy.te.analysis.key import structure_key, workload_key
from ansorpy.te.analysis.predicates import (
    Common,
    common_outer,
    elementwise,
    needs_tiling,
    permutes,
    strictly_inlineable,
)
from ansorpy.te.analysis.weights import weight_bytes

__all__ = [
    "Access",
    "Answer",
    "Common",
    "access",
    "common_outer",
    "elementwise",
    "flop_count",
    "index_ranges",
    "needs_tiling",
    "no",
    "permutes",
    "reads_by_producer",
    "strictly_inlineable",
    "structure_key",
    "weight_bytes",
    "workload_key",
    "yes",
]
