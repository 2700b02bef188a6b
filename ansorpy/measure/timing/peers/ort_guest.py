"""ONNX Runtime as a guest of a race: the main file, beside `model.onnx` and `guest.json`.

Inputs and outputs of a timed call are bound, so that it copies none of them.
"""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime

HERE = Path(__file__).parent
SETTINGS = json.loads((HERE / "guest.json").read_text())


def _session(arrays: dict[str, Any]) -> Any:
    """Return a session that knows the constant inputs, with its optimiser on."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = SETTINGS["threads"]
    options.inter_op_num_threads = 1
    options.log_severity_level = 3
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL
    names = SETTINGS["constant"]
    if names:
        values = [onnxruntime.OrtValue.ortvalue_from_numpy(arrays[name]) for name in names]
        options.add_external_initializers(names, values)
    path = str(HERE / "model.onnx")
    return onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])


def _named(arrays: tuple[Any, ...]) -> dict[str, Any]:
    return {f"t{at}": array for at, array in enumerate(arrays)}


def run(*arrays: Any) -> tuple[Any, ...]:
    """Return the outputs for the arguments of the Dag."""
    given = _named(arrays)
    session = _session(given)
    late = {name: array for name, array in given.items() if name not in SETTINGS["constant"]}
    return tuple(session.run(None, late))


def prepare(*arrays: Any) -> Callable[[], object]:
    """Return a call without arguments on these arrays."""
    given = _named(arrays)
    session = _session(given)
    binding = session.io_binding()
    values = {
        name: onnxruntime.OrtValue.ortvalue_from_numpy(array)
        for name, array in given.items()
        if name not in SETTINGS["constant"]
    }
    for name, value in values.items():
        binding.bind_ortvalue_input(name, value)
    outputs = []
    for name, shape, dtype in SETTINGS["outputs"]:
        outputs.append(onnxruntime.OrtValue.ortvalue_from_numpy(np.zeros(shape, dtype)))
        binding.bind_ortvalue_output(name, outputs[-1])

    def call() -> object:
        session.run_with_iobinding(binding)
        return values, outputs  # the call borrows them

    return call
