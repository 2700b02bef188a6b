"""The main job, from submitting a text to running the downloaded kernel without ansorpy.

    make demo

Starts the service on SQLite and a free loopback port, submits conv2d + bias + relu for a bounded
time, shows progress, downloads the zip, unpacks it into a fresh folder, and runs its self-test and
bench in an interpreter that cannot import ansorpy.
"""

import argparse
import os
import socket
import subprocess
import sys
import tempfile
import time
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ansorpy import Client
from ansorpy.client import Job, ServiceError, TaskState

HERE = Path(__file__).parent
TASK = "conv2d_bias_relu"
# Only numba, numpy and their friends may be found: no ansorpy, not even by accident.
ISOLATED = """
import sys, runpy
try:
    import ansorpy
except ImportError:
    print("  ansorpy cannot be imported here")
else:
    raise SystemExit("ansorpy is importable: the check would prove nothing")
kernel = runpy.run_path("kernel.py", run_name="kernel")
status = kernel["RUNNER"].main(["--selftest", "--bench"])
if status:
    raise SystemExit(status)

# The same computation in NumPy: windows, one matrix product, bias, relu.
import time
import numpy as np

x, w, bias = kernel["RUNNER"].random_inputs(np.random.default_rng(1))

def in_numpy():
    padded = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), axis=(2, 3))
    columns = windows.transpose(0, 2, 3, 1, 4, 5).reshape(56 * 56, -1)
    product = columns @ w.reshape(64, -1).T + bias
    return np.maximum(product, 0).T.reshape(1, 64, 56, 56)

tuned = kernel["prepare"](x, w, bias)
calls = {"numpy": in_numpy, "ours": tuned}
np.testing.assert_allclose(tuned(), in_numpy(), rtol=1e-3, atol=1e-3)
best_s = dict.fromkeys(calls, float("inf"))
for _ in range(20):  # in turns, so that both see the same machine
    for name, call in calls.items():
        start_s = time.perf_counter()
        call()
        best_s[name] = min(best_s[name], time.perf_counter() - start_s)
ratio = best_s["numpy"] / best_s["ours"]
print(f"  NumPy (windows and one matrix product) {best_s['numpy'] * 1e6:.1f} us:"
      f" ours is {ratio:.2f}x faster")
"""


def main() -> int:
    """Run the demo; return the exit code."""
    parser = argparse.ArgumentParser(description="Tune a convolution through the service.")
    parser.add_argument("--seconds", type=float, default=60.0, help="time for the search")
    parser.add_argument("--trials", type=int, default=256)
    parser.add_argument("--cores", type=int, default=1)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="ansorpy-demo-") as folder:
        with service(Path(folder)) as client:
            text = (HERE / f"{TASK}.te").read_text()
            print(f"submitting examples/{TASK}.te for {options.seconds:.0f} s of search")
            submitted = client.submit(
                text, trials=options.trials, seconds=options.seconds, cores=options.cores
            )
            job = follow(client, submitted.id)
            if job.state != "succeeded":
                print(f"the job {job.state}: {job.reason}")
                return 1
            path = client.pull(job.id, TASK, Path(folder))
            print(f"downloaded {path.name}, {path.stat().st_size} bytes; every byte was checked")
        print("self-test and bench in a process without ansorpy:")
        status = run_alone(path, Path(folder) / "alone", options.cores)
        report(job.task(TASK))
        return status


@contextmanager
def service(folder: Path) -> Iterator[Client]:
    """Run `ansorpy serve` in `folder` while the block runs."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    log = folder / "service.log"
    command = [sys.executable, "-m", "ansorpy", "serve", "--port", str(port)]
    env = {**os.environ, "ANSORPY_DATA_DIR": str(folder / "data")}
    with log.open("wb") as stream:
        process = subprocess.Popen(command, stdout=stream, stderr=stream, env=env)
    try:
        with Client(f"http://127.0.0.1:{port}", attempts=1) as client:
            wait_until_up(client, process, log)
            print(f"the service listens on {client.url} (SQLite in a temporary folder)")
            yield client
    finally:
        process.terminate()
        process.wait(30)


def wait_until_up(client: Client, process: "subprocess.Popen[bytes]", log: Path) -> None:
    """Return when the service answers."""
    for _ in range(300):
        if process.poll() is not None:
            raise SystemExit(f"the service did not start:\n{log.read_text()}")
        try:
            client.health()
        except ServiceError:
            time.sleep(0.2)
        else:
            return
    raise SystemExit("the service does not answer")


def follow(client: Client, job_id: str) -> Job:
    """Print progress until the job ends."""
    shown = ""
    for job in client.watch(job_id):
        for task in job.tasks:
            best = "none yet" if task.best_s is None else f"{task.best_s * 1e6:8.1f} us"
            failed = sum(task.failures.values())
            line = f"  {task.name}: {task.trials:4d} trials, best {best}, {failed} failed"
            if line != shown:
                print(line, flush=True)
                shown = line
    return job


def run_alone(path: Path, folder: Path, cores: int) -> int:
    """Unpack the zip and run its program where only numba and numpy can be found."""
    with zipfile.ZipFile(path) as archive:
        archive.extractall(folder)
    # A path of its own, with links to what a kernel needs: the rest of the environment, where
    # ansorpy is installed, stays out of sight.
    packages = folder / "packages"
    packages.mkdir()
    import llvmlite
    import numba
    import numpy

    for module in (numba, numpy, llvmlite):
        place = Path(str(module.__file__)).parent
        for item in (place, place.with_name(f"{place.name}.libs")):
            if item.exists():
                (packages / item.name).symlink_to(item)
    clean = {k: v for k, v in os.environ.items() if not k.startswith("PYTHON")}
    clean["PYTHONPATH"] = str(packages)
    clean["NUMBA_CACHE_DIR"] = str(folder)
    clean["OPENBLAS_NUM_THREADS"] = str(cores)  # NumPy gets as many threads as the kernel
    finished = subprocess.run(
        [sys.executable, "-S", "-c", ISOLATED], cwd=folder, env=clean, check=False
    )
    return finished.returncode


def report(task: TaskState) -> None:
    """Print what the race measured."""
    assert task.best_s is not None
    print(f"latency {task.best_s * 1e6:.1f} us, {task.gflops or 0:.1f} GFLOP/s", end="")
    print(f" after {task.trials} trials; winner: {task.winner}")
    if task.naive_s is not None:
        ratio = task.naive_s / task.best_s
        print(f"  the untuned kernel {task.naive_s * 1e6:.1f} us: ours is {ratio:.2f}x faster")


if __name__ == "__main__":
    raise SystemExit(main())
