"""TVM: the shared object of MetaSchedule's best record."""

from pathlib import Path
from typing import Any, Final

import numpy as np

from benchmarks.suite.peers.common import Job, Ready, Unfit, module
from benchmarks.suite.peers.tvm_forms import primitive

LIBRARY: Final = "best.so"
INFO: Final = "info.json"
UNTUNED: Final = "untuned"


def prepare(job: Job) -> Ready:
    """Return the call; `job.variant` is the folder of the tuning, or `UNTUNED` for plain loops.

    Raises:
        Unfit: the case was not tuned, or no candidate succeeded.
    """
    library = Path(job.variant) / LIBRARY
    if job.variant == UNTUNED:
        main = module("tvm.driver").build(primitive(job.form), target=target(job.threads))["main"]
    elif library.exists():
        main = module("tvm").runtime.load_module(str(library))["main"]
    else:
        raise Unfit("not tuned")
    runtime, device = module("tvm").runtime, module("tvm").cpu()
    given = [runtime.tensor(array, device) for array in job.arrays]
    output = runtime.tensor(np.zeros(job.form.output, np.float32), device)
    return Ready(lambda: main(*given, output), output.numpy)


def target(threads: int) -> Any:
    """Return the target of this machine, with LLVM's name of the processor."""
    cpu = module("tvm").target.codegen.llvm_get_system_cpu()
    return module("tvm.target").Target({"kind": "llvm", "mcpu": cpu, "num-cores": threads})
