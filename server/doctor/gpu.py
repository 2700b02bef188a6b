"""Checks of the tool chain for NVIDIA GPUs; all of it is optional."""

import subprocess
from typing import Final

from ansorpy import te
from ansorpy.codegen.simt.assemble import program
from ansorpy.codegen.simt.device.present import present_gpus
from ansorpy.codegen.simt.ptx import ptx
from ansorpy.codegen.simt.writer import simt_code
from ansorpy.errors import BuildError
from ansorpy.gpus import PRESETS
from ansorpy.measure.estimates import EstimatePool, emulated
from ansorpy.measure.timing.settings import MeasureSettings
from ansorpy.plan.bind import bind
from ansorpy.plan.choices import naive
from ansorpy.server.doctor.finding import Finding
from ansorpy.server.settings import ServiceSettings
from ansorpy.target import cuda_target, listed

TIMEOUT_S: Final = 30.0  # limit of a program that states its version


def _example() -> te.Dag:
    a = te.placeholder((64,), "A")
    return te.dag(te.compute((64,), lambda i: a[i] + 1.0, "B"))


def compiler() -> Finding:
    """Compile a kernel to PTX for every preset."""
    for arch in PRESETS:
        target, plan = cuda_target(arch), naive(_example(), cuda_target(arch))
        for text in simt_code(bind(plan, plan.smallest_row, target), target).texts:
            ptx(text, arch)
    return Finding("nvptx", "ok", f"PTX for {' and '.join(PRESETS)}")


def assembler() -> Finding:
    """State the version of ptxas."""
    try:
        path = program("ptxas")
    except BuildError:
        text = "registers of kernels for a GPU are estimated: `pip install 'ansorpy[cuda]'`"
        return Finding("ptxas", "note", text)
    done = subprocess.run(
        [str(path), "--version"], capture_output=True, text=True, timeout=TIMEOUT_S, check=False,
        stdin=subprocess.DEVNULL,
    )  # fmt: skip
    lines = [line for line in done.stdout.splitlines() if "release" in line]
    if done.returncode or not lines:
        return Finding("ptxas", "bad", f"{path} does not run: install the extra again")
    return Finding("ptxas", "ok", lines[0].strip())


def devices() -> Finding:
    """List the GPUs that the driver shows."""
    gpus = present_gpus()
    if not gpus:
        text = "none: kernels for a GPU are estimated and emulated, not timed"
        return Finding("gpu", "note", text)
    named = (
        f"{one.name} ({one.arch}, {one.memory_bytes / 2**30:.0f} GiB, CUDA {one.driver})"
        for one in gpus
    )
    return Finding("gpu", "ok", listed(named))


def emulator(settings: ServiceSettings) -> Finding:
    """Estimate a kernel for a GPU, and run it under the emulator in an isolated process."""
    target, dag = cuda_target("sm_90"), _example()
    plan = naive(dag, target)
    measuring = emulated(MeasureSettings(builders=1, sandbox=settings.sandbox))
    with EstimatePool(dag, target, measuring) as pool:
        failed = pool.verify(bind(plan, plan.smallest_row, target))
    if failed is not None:
        return Finding("emulator", "bad", f"{failed.kind}: {failed.message}")
    return Finding("emulator", "ok", "one kernel for a GPU, verified")
