"""OpenVINO on the ONNX model, weights constant, float32 throughout, tensors shared with NumPy."""

import io

import numpy as np

from benchmarks.suite.peers.common import Job, Ready, module
from benchmarks.suite.peers.onnx_forms import model


def prepare(job: Job) -> Ready:
    """Return the call.

    Raises:
        Unfit: ONNX cannot express the form.
    """
    openvino = module("openvino")
    data, _ = model(job, constant_weights=True)
    core = openvino.Core()
    settings = {
        "INFERENCE_PRECISION_HINT": "f32", "INFERENCE_NUM_THREADS": job.threads,
        "PERFORMANCE_HINT": "LATENCY", "NUM_STREAMS": 1,
    }  # fmt: skip
    compiled = core.compile_model(core.read_model(io.BytesIO(data)), "CPU", settings)
    request = compiled.create_infer_request()
    out = np.zeros(job.form.output, np.float32)
    for port in compiled.inputs:
        array = job.given[port.get_any_name()]
        request.set_tensor(port, openvino.Tensor(array, shared_memory=True))
    request.set_tensor(compiled.outputs[0], openvino.Tensor(out, shared_memory=True))
    return Ready(request.infer, lambda: out)
