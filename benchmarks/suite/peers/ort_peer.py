"""ONNX Runtime with bound inputs and output; weights constant, or given at run time."""

import numpy as np

from benchmarks.suite.forms import has_weights
from benchmarks.suite.peers.common import Job, Ready, Unfit, module
from benchmarks.suite.peers.onnx_forms import OUTPUT, model


def prepare(job: Job) -> Ready:
    """Return the call of a variant: constant or runtime.

    Raises:
        Unfit: ONNX cannot express the form, or both variants are the same.
    """
    constant = job.variant == "constant"
    if not constant and not has_weights(job.form):
        raise Unfit("no weights: the same as with constant ones")
    ort = module("onnxruntime")
    data, late = model(job, constant)
    options = ort.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads = job.threads, 1
    options.log_severity_level = 3
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_ENABLE_ALL
    session = ort.InferenceSession(data, options, providers=["CPUExecutionProvider"])
    binding = session.io_binding()
    values = {name: ort.OrtValue.ortvalue_from_numpy(job.given[name]) for name in late}
    for name, value in values.items():
        binding.bind_ortvalue_input(name, value)
    output = ort.OrtValue.ortvalue_from_numpy(np.zeros(job.form.output, np.float32))
    binding.bind_ortvalue_output(OUTPUT, output)

    def call() -> object:
        session.run_with_iobinding(binding)
        return values  # the call borrows them

    return Ready(call, output.numpy)
