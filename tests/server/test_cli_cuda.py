"""`ansorpy tune` for a GPU on a machine without one: from the request to the zip."""

import io
import json
import zipfile
from pathlib import Path
from typing import Any, Final

import pytest

from ansorpy.events import TaskResult
from ansorpy.measure.outcome import Estimated
from ansorpy.result import summary
from tests.server.test_cli import ansorpy

pytestmark = pytest.mark.usefixtures("few_candidates")

TEXTS: Final = {
    "softmax": """def softmax(float(4, 96) A) -> (S) {
        M(i) max=! A(i, j)
        E(i, j) = exp(A(i, j) - M(i))
        T(i) +=! E(i, j)
        S(i, j) = E(i, j) / T(i)
    }""",
    "conv_relu": """def conv_relu(float(1, 4, 8, 8) X, float(8, 4, 3, 3) W) -> (R) {
        Y(n, f, h, w) +=! X(n, c, h + kh, w + kw) * W(f, c, kh, kw) where h in 0:6, w in 0:6
        R(n, f, h, w) = fmax(Y(n, f, h, w), 0)
    }""",
}
PARTS: Final = {
    "issue_s",
    "l2_s",
    "latency_s",
    "launch_s",
    "matrix_s",
    "memory_s",
    "multiply_add_s",
    "shared_s",
}
DONE: Final = TaskResult(
    "mm", "k", None, None, 8, 1.0, True, None, Path("mm.zip"), estimated=True,
    estimate=Estimated(
        12e-6, (("issue_s", 10e-6), ("launch_s", 2e-6), ("multiply_add_s", 4e-6)), 64, True
    ),
)  # fmt: skip


@pytest.fixture
def env(tmp_path: Path) -> dict[str, str]:
    return {"ANSORPY_DATA_DIR": str(tmp_path / "data"), "XDG_DATA_HOME": str(tmp_path / "home")}


def tuned(env: dict[str, str], folder: Path, name: str, *more: str) -> dict[str, Any]:
    """Return the object that `tune --json` prints, of eight trials."""
    path = folder / f"{name}.te"
    path.write_text(TEXTS[name])
    asked = ("--target", "cuda:sm_90", "--trials", "8", "--out", str(folder / "kernels"), "--json")
    found = ansorpy(env, "tune", str(path), *asked, *more)
    assert found.exit_code == 0, found.output
    told: dict[str, Any] = json.loads(found.stdout)
    return told


@pytest.mark.parametrize("name", TEXTS)
def test_a_request_for_a_gpu_ends_with_a_zip_and_its_profile(
    env: dict[str, str], tmp_path: Path, name: str
) -> None:
    (task,) = tuned(env, tmp_path, name, "--profile")["tasks"]
    assert (task["estimated"], task["verified"], task["trials"]) == (True, True, 8)
    for number in ("best_s", "baseline_s", "naive_s", "numpy_s", "flop_per_s", "winner"):
        assert task[number] is None, number
    estimate = task["estimate"]
    assert set(estimate["parts"]) == PARTS
    longest = max(seconds for part, seconds in estimate["parts"].items() if part != "launch_s")
    assert estimate["seconds"] > longest > 0
    assert estimate["registers"] > 0
    with zipfile.ZipFile(io.BytesIO(Path(task["kernel"]).read_bytes())) as package:
        manifest = json.loads(package.read("manifest.json"))
        assert b".visible .entry" in package.read("kernel.ptx")
    assert (manifest["verified"], manifest["timed"]) == ("emulated", False)
    assert "estimate" not in manifest


def test_the_estimate_is_shown_by_profile_alone(env: dict[str, str], tmp_path: Path) -> None:
    (task,) = tuned(env, tmp_path, "softmax")["tasks"]
    assert task["estimated"]
    assert "estimate" not in task
    assert "12 us" not in summary([DONE])


def test_a_profile_has_the_estimate_and_its_parts_the_longest_first() -> None:
    assert summary([DONE], profile=True).splitlines()[-1] == (
        "  estimate  12 us by the analytic model, not measured"
        " (issue 10 us, multiply add 4 us, launch 2 us; 64 registers, counted by ptxas)"
    )


def test_a_profile_of_a_cpu_is_refused(env: dict[str, str], tmp_path: Path) -> None:
    path = tmp_path / "softmax.te"
    path.write_text(TEXTS["softmax"])
    for file in (str(path), "model.onnx"):
        found = ansorpy(env, "tune", file, "--profile")
        assert (found.exit_code, found.stdout) == (2, "")
        assert "cannot show estimates for cpu" in found.stderr
        assert "because its candidates are timed; expected cuda:sm_80 or cuda:sm_90" in found.stderr
