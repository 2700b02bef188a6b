"""torch: eager, eager on channels_last tensors, with weights packed for oneDNN, compiled."""

import os
import time
from collections.abc import Callable
from typing import Any

from benchmarks.suite.forms import Conv, MaxPool, TransposedConv
from benchmarks.suite.peers.common import Job, Ready, Unfit, module
from benchmarks.suite.peers.torch_forms import eager, function
from benchmarks.suite.peers.torch_packed import packed
from benchmarks.suite.reference import Array

Tensors = list[Any]


def prepare(job: Job) -> Ready:
    """Return the call of a variant: eager, channels_last, packed or compile.

    Raises:
        Unfit: the variant makes no difference to this form, or does not offer it.
    """
    if job.variant == "compile":
        # Compile in this process: helper processes would stay and use the cores of timed calls.
        os.environ["TORCHINDUCTOR_COMPILE_THREADS"] = "1"
        os.environ.setdefault("TORCHINDUCTOR_CACHE_DIR", str(job.folder.parent / "inductor"))
    torch = module("torch")
    torch.set_num_threads(job.threads)
    tensors = [torch.from_numpy(array) for array in job.arrays]
    variants: dict[str, Callable[[Any, Job, Tensors], Callable[[], Any]]] = {
        "eager": _eager,
        "channels_last": _channels_last,
        "packed": lambda torch, job, tensors: packed(torch, job.form, tensors),
        "compile": _compiled,
    }
    begin_s = time.perf_counter()
    with torch.inference_mode():
        timed = variants[job.variant](torch, job, tensors)
        timed()
    facts = {"prepare_s": time.perf_counter() - begin_s}

    def call() -> Any:
        with torch.inference_mode():
            return timed()

    return Ready(call, lambda: _output(job, call()), facts)


def as_nchw(torch: Any, tensors: Tensors) -> Tensors:
    """Return an NHWC convolution's data and weights as channels_last tensors of the same values."""
    weights = tensors[1].permute(3, 2, 0, 1).contiguous(memory_format=torch.channels_last)
    return [tensors[0].permute(0, 3, 1, 2), weights, *tensors[2:]]


def _is_nhwc(job: Job) -> bool:
    return isinstance(job.form, Conv) and job.form.nhwc


def _output(job: Job, result: Any) -> Array:
    found: Array = (result.permute(0, 2, 3, 1) if _is_nhwc(job) else result).detach().numpy()
    return found


def _eager(torch: Any, job: Job, tensors: Tensors) -> Callable[[], Any]:
    if _is_nhwc(job):
        tensors = as_nchw(torch, tensors)
    return eager(torch, job.form, tensors)


def _channels_last(torch: Any, job: Job, tensors: Tensors) -> Callable[[], Any]:
    """Store data, weights and result channels last, as is usual for deployment."""
    form = job.form
    if not isinstance(form, Conv | TransposedConv | MaxPool) or _is_nhwc(job):
        raise Unfit("no layout to choose")
    rank = form.rank if isinstance(form, Conv) else 2
    if rank == 1:
        raise Unfit("torch has no channels_last format in one dimension")
    layout = torch.channels_last if rank == 2 else torch.channels_last_3d
    moved = [t.contiguous(memory_format=layout) if t.dim() == rank + 2 else t for t in tensors]
    return eager(torch, form, moved)


def _compiled(torch: Any, job: Job, tensors: Tensors) -> Callable[[], Any]:
    if _is_nhwc(job):
        tensors = as_nchw(torch, tensors)
    # Graphs of earlier rows count towards a limit, beyond which torch compiles no more.
    torch.compiler.reset()
    compiled = torch.compile(function(torch, job.form))
    return lambda: compiled(*tensors)
