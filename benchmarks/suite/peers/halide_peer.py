"""Halide with the Adams2019 autoscheduler, for the forms that are common in Halide."""

import shutil
import subprocess
import time
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.suite.forms import Conv, Elementwise, Form, Matmul, Softmax
from benchmarks.suite.peers.common import Job, Ready, Unfit, module
from benchmarks.suite.peers.halide_library import ENTRY, loaded

SCHEDULER = "Adams2019"
BEAM = 32  # default beam size of Adams2019
DENSE_BEAM = 8  # beam size for convolutions over channels, which take minutes with the default


def prepare(job: Job) -> Ready:
    """Return the call. The library is kept in the job's folder: scheduling takes half a minute.

    Raises:
        Unfit: the form has no Halide version here, or there is no C compiler to link with.
    """
    job.folder.mkdir(parents=True, exist_ok=True)
    library, facts = job.folder / "pipeline.so", {}
    if not library.exists():
        begin_s = time.perf_counter()
        _build(job, library)
        facts = {"prepare_s": time.perf_counter() - begin_s}
    out = np.zeros(job.form.output, np.float32)
    run, buffers = loaded(library, [*job.arrays, out])

    def call() -> object:
        run()
        return buffers  # the call borrows them

    return Ready(call, lambda: out, facts)


def _build(job: Job, library: Path) -> None:
    """Schedule the form for the job's threads and link it into a shared library."""
    compiler = shutil.which("cc")
    if compiler is None:
        raise Unfit("no C compiler to link with")
    hl = module("halide")
    kind = hl.Float(32)
    given = [hl.ImageParam(kind, len(i.shape), i.name) for i in job.form.inputs]
    out = _function(hl, job.form, given)
    for parameter, one in zip(given, job.form.inputs, strict=True):
        _shape(parameter, one.shape, estimate=True)
    _shape(out.output_buffer(), job.form.output, estimate=False)
    out.set_estimates([(0, extent) for extent in reversed(job.form.output)])
    plugin = Path(hl.__file__).parent / "lib64" / f"libautoschedule_{SCHEDULER.lower()}.so"
    hl.load_plugin(str(plugin))
    target, pipeline = hl.get_host_target(), hl.Pipeline(out)
    beam = DENSE_BEAM if isinstance(job.form, Conv) and job.form.groups == 1 else BEAM
    settings = hl.AutoschedulerParams(
        SCHEDULER, {"parallelism": str(job.threads), "beam_size": str(beam)}
    )
    pipeline.apply_autoscheduler(target, settings)
    prefix = str(library.with_suffix(""))
    pipeline.compile_to_static_library(prefix, given, ENTRY, target)
    link = [
        compiler, "-shared", "-o", f"{prefix}.partial", "-Wl,--whole-archive", f"{prefix}.a",
        "-Wl,--no-whole-archive", "-lpthread", "-ldl", "-lm",
    ]  # fmt: skip
    subprocess.run(link, check=True)
    Path(f"{prefix}.partial").replace(library)


def _shape(holder: Any, shape: tuple[int, ...], estimate: bool) -> None:
    """Fix the extents and strides of a dense array, innermost dimension first."""
    stride = 1
    for at, extent in enumerate(reversed(shape)):
        holder.dim(at).set_bounds(0, extent)
        holder.dim(at).set_stride(stride)
        if estimate:
            holder.dim(at).set_estimate(0, extent)
        stride *= extent


def _function(hl: Any, form: Form, given: list[Any]) -> Any:
    out, x, y = hl.Func("out"), hl.Var("x"), hl.Var("y")
    match form:
        case Matmul():
            k, product = hl.RDom([(0, form.k)]), hl.Func("product")
            product[x, y] = 0.0
            product[x, y] += given[1][x, k.x] * given[0][k.x, y]
            out[x, y] = product[x, y]
        case Conv(nhwc=False) if form.rank == 2 and form.groups in (1, form.channels):
            _conv(hl, form, given, out)
        case Softmax():
            k = hl.RDom([(0, form.columns)])
            most, power, total = hl.Func("most"), hl.Func("power"), hl.Func("total")
            most[y] = hl.maximum(given[0][k.x, y])
            power[x, y] = hl.exp(given[0][x, y] - most[y])
            total[y] = 0.0
            total[y] += power[k.x, y]
            out[x, y] = power[x, y] / total[y]
        case Elementwise():
            out[x, y] = hl.max(given[0][x, y] + given[1][x, y], 0.0) * given[2][x, y]
        case _:
            raise Unfit("not written in Halide")
    return out


def _conv(hl: Any, form: Conv, given: list[Any], out: Any) -> None:
    """Define `out` as a convolution; dimensions are x, y, channel, batch."""
    x, y, c, n = (hl.Var(name) for name in "xycn")
    height, width = form.spatial
    source = given[0]
    if form.padding:
        extents = [(0, width), (0, height), (0, form.channels), (0, form.batch)]
        source = hl.BoundaryConditions.constant_exterior(source, 0.0, extents)
    s, d, p, k = form.stride, form.dilation, form.padding, form.kernel
    deep = form.groups == 1
    r = hl.RDom([(0, k), (0, k), *([(0, form.channels)] if deep else [])])
    product = hl.Func("product")
    product[x, y, c, n] = 0.0
    channel, weight = (r.z, given[1][r.x, r.y, r.z, c]) if deep else (c, given[1][r.x, r.y, 0, c])
    product[x, y, c, n] += weight * source[x * s + r.x * d - p, y * s + r.y * d - p, channel, n]
    if form.layer:
        out[x, y, c, n] = hl.max(product[x, y, c, n] * given[2][c] + given[3][c], 0.0)
    else:
        out[x, y, c, n] = product[x, y, c, n]
