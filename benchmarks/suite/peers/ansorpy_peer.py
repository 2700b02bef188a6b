"""ansorpy: the delivered kernel of a zip, as a user calls it on existing arrays."""

import importlib.util
import sys
from pathlib import Path
from typing import Any

from ansorpy.artifact.load import unpack
from benchmarks.contest import held_call
from benchmarks.suite.peers.common import Job, Ready, Unfit


def prepare(job: Job) -> Ready:
    """Return the call; `job.variant` is the zip. Phases that depend on weights only run here.

    Raises:
        Unfit: the case was not tuned, or no kernel passed its checks.
    """
    path = Path(job.variant)
    if not path.exists():
        raise Unfit("not tuned")
    # The folder is kept: it has the compile cache of numba beside the source.
    folder = job.folder / f"{path.stem}-{path.stat().st_mtime_ns}"
    folder.mkdir(parents=True, exist_ok=True)
    if not (folder / "kernel.py").exists():
        unpack(path, folder)
    spec = importlib.util.spec_from_file_location(f"kernel_{job.case}", folder / "kernel.py")
    assert spec is not None
    assert spec.loader is not None
    module: Any = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # numba needs the module to find its compile cache
    spec.loader.exec_module(module)
    runner = module.RUNNER
    inputs = [job.given[tensor.name].reshape(tensor.shape) for tensor in runner.inputs]
    call = held_call(runner, inputs)
    return Ready(call, lambda: call().reshape(job.form.output))
