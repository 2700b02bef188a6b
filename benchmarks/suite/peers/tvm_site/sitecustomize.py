"""Restrict TVM's processes, on whose path this file is, to tensor intrinsics of x86.

MetaSchedule imports the intrinsics of every target, which takes longer than the time limit of its
build workers (16 seconds of CPU, over 60 beside other work), so that stock builds time out.
"""

import sys
from types import ModuleType

for _name in ("cuda", "arm_cpu", "rocm", "hexagon", "riscv_cpu"):
    _full = f"tvm.s_tir.tensor_intrin.{_name}"
    sys.modules[_full] = ModuleType(_full, "Left out: no target of a benchmark on this machine.")
