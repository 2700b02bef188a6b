"""One call of a delivered file in a measuring process, as its user calls it."""

import importlib.util
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Final

import numpy as np

from ansorpy.measure.outcome import Failed
from ansorpy.measure.timing.workplace import workplace
from ansorpy.measure.verify.cases import Case, timed_cases
from ansorpy.measure.verify.check import compare
from ansorpy.measure.verify.inputs import Array
from ansorpy.measure.workers.worker_main import watch
from ansorpy.te.tensor_data import storage

KERNEL_FILE: Final = "kernel.py"


@dataclass(frozen=True)
class CallJob:
    """Import the file and run the cases of a folder that are timed through it."""

    file: str
    folder: str


def call(job: CallJob) -> Failed | float:
    """Return the seconds until `run` has returned once; the failure if its results are wrong.

    They are the import of the file and the compilation: a call takes as long as its latency.

    Run it in a fresh process: numba starts threads, and imported modules stay.
    """
    watch(f"a call of {KERNEL_FILE}")
    begin_s = time.perf_counter()
    module = imported(Path(job.file))
    seconds = 0.0
    for case in timed_cases(workplace(job.folder).cases):
        found = module.run(*(np.array(case.inputs[name]) for name in module.INPUTS))
        seconds = seconds or time.perf_counter() - begin_s
        results = found if isinstance(found, tuple) else (found,)
        wrong = unequal(case, module.OUTPUTS, results)
        if wrong is not None:
            return Failed("wrong", f"{KERNEL_FILE}, {case.name} inputs: {wrong}")
    return seconds


def imported(path: Path) -> ModuleType:
    """Return the module of a delivered file, which is run."""
    spec = importlib.util.spec_from_file_location("ansorpy_called_kernel", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def unequal(case: Case, names: Sequence[str], results: Sequence[Array]) -> str | None:
    """Return how results, called `names`, differ from a case's results; None if all are right."""
    given = dict(zip(names, results, strict=True))
    for expected in case.expected:
        result = given[expected.name]
        kind = storage(expected.dtype)
        if (result.dtype, result.shape) != (kind, expected.value.shape):
            return (
                f"{expected.name} is {result.dtype}{list(result.shape)},"
                f" expected {kind}{list(expected.value.shape)}"
            )
        message = compare(expected, result, case.nans)
        if message is not None:
            return message
    return None
