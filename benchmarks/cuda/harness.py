"""The measurements on a GPU, by one command; each section writes its JSON as it ends.

    python -m benchmarks.cuda.harness build DIR [--arch sm_90]      kernels beforehand, needs ptxas
    python -m benchmarks.cuda.harness OUT [--prebuilt DIR]          half an hour on a card
    python -m benchmarks.cuda.harness OUT --emulated                small, without a card, no times

Each section runs in a process of its own: a fault ends a section, and the next one goes on.
"""

import argparse
import importlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from ansorpy.codegen.simt.assemble import has_assembler
from ansorpy.codegen.simt.device.backend import build_texts
from ansorpy.errors import AnsorError
from ansorpy.gpus import PRESETS
from ansorpy.target import cuda_target
from benchmarks.cuda.bench import Bench
from benchmarks.cuda.floors import travelling
from benchmarks.cuda.kernels import Candidate, Prebuilt, candidates
from benchmarks.cuda.operators import MINUTES, OPERATORS

# In order of worth: module, and minutes after which a section is ended.
SECTIONS: Final[dict[str, tuple[str, float]]] = {
    "answers": ("answers", 4.0),
    "floors": ("floors", 3.0),
    **{name: ("measured", minutes) for name, minutes in MINUTES.items()},
    "tune": ("tune", 4.0),
    "fit": ("fit", 2.0),
}
SUMMARY: Final = "harness.json"
OF_A_SECTION: Final = "ANSORPY_CUDA_SECTION"  # environment variable: the section of a child


def run_all(out: Path, sections: Sequence[str], given: Sequence[str]) -> int:
    """Run sections one after the other; 0 if each is complete."""
    out.mkdir(parents=True, exist_ok=True)
    told: dict[str, Any] = {}
    for name in sections:
        start = time.monotonic()
        told[name] = {**_child(out, name, given), "seconds": round(time.monotonic() - start, 1)}
        (out / SUMMARY).write_text(json.dumps(told, indent=1))
        print(f"{name}: {told[name]['state']} after {told[name]['seconds']} s", flush=True)
    return 0 if all(one["state"] == "complete" for one in told.values()) else 1


def _child(out: Path, name: str, given: Sequence[str]) -> dict[str, Any]:
    command = [sys.executable, "-m", "benchmarks.cuda.harness", str(out), *given]
    # Kernels that are loaded at their first launch cannot be captured in a graph.
    env = {**os.environ, OF_A_SECTION: name, "CUDA_MODULE_LOADING": "EAGER"}
    try:
        done = subprocess.run(
            command, env=env, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False,
            timeout=60.0 * SECTIONS[name][1],
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return {"state": "timed out"}
    if done.returncode:
        return {"state": "failed", "status": done.returncode, "told": done.stderr[-2000:]}
    return {"state": "complete"}


def run_one(section: str, out: Path, emulated: bool, prebuilt: Path | None) -> int:
    """Run a section in this process."""
    try:
        bench = Bench(section, out, emulated, prebuilt)
    except AnsorError as error:
        print(error, file=sys.stderr)
        return 2
    importlib.import_module(f"benchmarks.cuda.{SECTIONS[section][0]}").run(bench)
    bench.end()
    return 0


def build(folder: Path, arch: str, names: Sequence[str]) -> int:
    """Write kernels to a folder, as cubins; no GPU is needed. An interrupted build goes on.

    Args:
        names: parts of the names of operators; none for all.
    """
    if not has_assembler():
        print("cannot build because ptxas is not installed; expected pip install 'ansorpy[cuda]'")
        return 2
    target, store = cuda_target(arch), Prebuilt(folder)
    gpu = PRESETS[arch]
    for name, floor in travelling(gpu.sms, gpu.l2_bytes).items():
        store.write(name, (Candidate(name, build_texts(floor.code, arch), ()),))
    for operators in OPERATORS.values():
        for one in operators:
            asked = not names or any(part in one.name for part in names)
            if asked and not store.has(one.name):
                made = candidates(one.name, one.full(), target, one.candidates, build_texts)
                store.write(one.name, made)
                print(f"{one.name}: {len(made)} kernels", flush=True)
    return 0


def main(arguments: Sequence[str] | None = None) -> int:
    """Read the command line."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    if given[:1] == ["build"]:
        parser = argparse.ArgumentParser(prog="python -m benchmarks.cuda.harness build")
        parser.add_argument("folder", type=Path)
        parser.add_argument("--arch", choices=sorted(PRESETS), default="sm_90")
        parser.add_argument("--operators", default="", help="parts of names, with commas: 512")
        asked = parser.parse_args(given[1:])
        return build(asked.folder, asked.arch, list(filter(None, asked.operators.split(","))))
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("out", type=Path, help="folder of the results")
    parser.add_argument("--emulated", action="store_true", help="small sizes, no card, no times")
    parser.add_argument("--sections", default=",".join(SECTIONS), help="names, with commas")
    parser.add_argument("--prebuilt", type=Path, help="folder of kernels made by `build`")
    asked = parser.parse_args(given)
    one = os.environ.get(OF_A_SECTION)
    if one:
        return run_one(one, asked.out, asked.emulated, asked.prebuilt)
    sections = asked.sections.split(",")
    unknown = [name for name in sections if name not in SECTIONS]
    if unknown:
        parser.error(f"no section {', '.join(unknown)}; expected {', '.join(SECTIONS)}")
    passed = ["--emulated"] if asked.emulated else []
    passed += ["--prebuilt", str(asked.prebuilt)] if asked.prebuilt else []
    return run_all(asked.out, sections, passed)


if __name__ == "__main__":
    sys.exit(main())
