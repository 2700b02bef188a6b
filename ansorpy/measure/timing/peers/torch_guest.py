"""PyTorch as a guest of a race: the main file, beside `graph.py` and `guest.json`.

Values that only constant inputs decide are computed before the timed calls.
"""

import importlib.util
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

# Its OpenMP runtime would bind this thread to a core, and a runtime that is loaded later would
# take this core for the only one.
_bound = os.environ.pop("OMP_PROC_BIND", None)
import torch  # noqa: E402

if _bound is not None:
    os.environ["OMP_PROC_BIND"] = _bound

HERE = Path(__file__).parent
SETTINGS = json.loads((HERE / "guest.json").read_text())
torch.set_num_threads(SETTINGS["threads"])


def _graph() -> Any:
    spec = importlib.util.spec_from_file_location("ansorpy_peer_graph", HERE / "graph.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


GRAPH = _graph()


def run(*arrays: Any) -> tuple[Any, ...]:
    """Return the outputs for the arguments of the Dag."""
    found = _bound_call(arrays)()
    return tuple(np.asarray(one.numpy()) for one in found)


def prepare(*arrays: Any) -> Callable[[], object]:
    """Return a call without arguments on these arrays."""
    return _bound_call(arrays)


def _bound_call(arrays: tuple[Any, ...]) -> Callable[[], tuple[Any, ...]]:
    tensors = [torch.from_numpy(array) for array in arrays]
    with np.load(HERE / "constants.npz", allow_pickle=False) as file:
        constants = {name: torch.from_numpy(file[name]) for name in file.files}
    ahead = GRAPH.ahead(constants, *tensors)
    compute, mode = GRAPH.compute, torch.inference_mode

    def call() -> tuple[Any, ...]:
        with mode():
            found: tuple[Any, ...] = compute(ahead, *tensors)
        return found

    return call
