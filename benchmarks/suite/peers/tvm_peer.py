"""TVM: the shared object that MetaSchedule's best record was built into."""

from pathlib import Path
from typing import Final

import numpy as np

from benchmarks.suite.peers.common import Job, Ready, Unfit, module

LIBRARY: Final = "best.so"
INFO: Final = "info.json"


def folder_of(root: Path, case: str, trials: int, threads: int, seed: int) -> Path:
    """Return where a tuning of MetaSchedule is kept."""
    return root / f"{case}-{trials}x{threads}-s{seed}"


def prepare(job: Job) -> Ready:
    """Return the call; `job.variant` is the folder of the tuning.

    Raises:
        Unfit: the case was not tuned, or nothing survived.
    """
    library = Path(job.variant) / LIBRARY
    if not library.exists():
        raise Unfit("not tuned")
    runtime = module("tvm").runtime
    main = runtime.load_module(str(library))["main"]
    device = module("tvm").cpu()
    given = [runtime.tensor(array, device) for array in job.arrays]
    output = runtime.tensor(np.zeros(job.form.output, np.float32), device)
    return Ready(lambda: main(*given, output), output.numpy)
