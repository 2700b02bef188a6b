"""Bundles outside of this package: from C, from the unpacked folder, with NumPy only."""

import re
import shutil
import subprocess
import sys
import zipfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from ansorpy.bundle.container import hosted_text, runner_text, write_bundle
from ansorpy.bundle.header import model_header
from ansorpy.bundle.memory import memory_of
from ansorpy.bundle.plan import ModelPlan
from ansorpy.graph import Output
from tests.bundle.models import Model, model, with_self_test

ROOT = Path(__file__).parent.parent.parent
GCC = pytest.mark.skipif(shutil.which("gcc") is None, reason="needs gcc")
STRICT = ("-Wall", "-Wextra", "-Werror")


def unpacked(made: Model, folder: Path, plan: ModelPlan | None = None) -> Path:
    path = write_bundle(folder / "small.zip", plan or with_self_test(made))
    with zipfile.ZipFile(path) as archive:
        archive.extractall(folder / "small")
    return folder / "small"


@GCC
@pytest.mark.slow
@pytest.mark.parametrize("threads", [1, 3])
def test_a_model_is_called_from_c(threads: int, tmp_path: Path) -> None:
    made = model(hosted=False)
    plan = replace(made.plan, outputs=(Output("y", "sum"),))
    folder = unpacked(made, tmp_path, plan)
    (x,) = made.inputs(threads)
    x.tofile(folder / "x.bin")
    wanted = made.expected(x)[0]
    source = str(ROOT / "examples" / "call_model.c")
    subprocess.run(
        ["gcc", "-std=gnu11", "-O1", *STRICT, "-I.", source, "./libmodel.so", "-o", "call_model"],
        cwd=folder, check=True,
    )  # fmt: skip
    words = ["x.bin", str(x.nbytes), "y.bin", str(wanted.nbytes), str(threads)]
    subprocess.run(["./call_model", *words], cwd=folder, check=True, timeout=60)
    found = np.fromfile(folder / "y.bin", np.float32).reshape(wanted.shape)
    np.testing.assert_array_equal(found, wanted)


@GCC
def test_headers_compile_together_as_c_and_cpp(tmp_path: Path) -> None:
    names = []
    for hosted in (True, False):
        plan = model(hosted).plan
        names.append(f"model{hosted}.h")
        text = model_header(plan, memory_of(plan), f"ansorpy_model_{hosted}")
        (tmp_path / names[-1]).write_text(text)
    lines = "\n".join(f'#include "{name}"' for name in names)
    source = f"#define ANSORPY_LONG_NAMES\n{lines}\nint main(void) {{ return 0; }}\n"
    for compiler, name in (("gcc", "main.c"), ("g++", "main.cpp")):
        if shutil.which(compiler):
            (tmp_path / name).write_text(source)
            subprocess.run([compiler, *STRICT, "-c", name, "-o", "m.o"], cwd=tmp_path, check=True)


def test_names_of_users_cannot_leave_the_comments_of_the_header() -> None:
    plan = model(hosted=False).plan
    odd = "*/ int evil; /*\\\n\r??/ \N{LATIN SMALL LETTER U WITH DIAERESIS}" + "y" * 99
    outputs = (Output(odd, "sum"), *plan.outputs[1:])
    text = model_header(replace(plan, name=odd, outputs=outputs), memory_of(plan), "p")
    plain = model_header(replace(plan, name="n"), memory_of(plan), "p")
    assert text.isascii()
    assert text.count("\n") == plain.count("\n")
    assert not re.search(r"evil;", re.sub(r"/\*.*?\*/", "", text, flags=re.DOTALL))
    assert "\\" not in text
    assert len(max(text.splitlines(), key=len)) < 120


@pytest.mark.slow
@pytest.mark.parametrize("hosted", [True, False])
def test_the_runner_of_an_unpacked_bundle_tests_and_times_itself(
    hosted: bool, tmp_path: Path
) -> None:
    folder = unpacked(model(hosted), tmp_path)
    command = [sys.executable, "-I", "model.py", "--selftest", "--bench", "--threads", "2"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert re.fullmatch(r"selftest passed\nnow: .* us \(median .* us, \d+ calls\)\n", done.stdout)
    samples = bytearray((folder / "selftest.safetensors").read_bytes())
    samples[-1] ^= 0x40
    (folder / "selftest.safetensors").write_bytes(samples)
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=60)
    assert done.returncode == 1
    assert done.stdout.startswith("selftest failed:")


def test_the_texts_of_a_bundle_are_whole_programs() -> None:
    for text in (runner_text(), hosted_text(model().plan)):
        compile(text, "text", "exec")
        assert "ansorpy." not in text.replace("ansorpy.bundle", "")


@pytest.mark.slow
def test_a_bundle_runs_in_an_environment_that_has_numpy_only(tmp_path: Path) -> None:
    """`uv` installs NumPy into a new environment, from its cache or a registry."""
    folder = unpacked(model(), tmp_path)
    uv = [sys.executable, "-m", "uv", "--quiet"]
    subprocess.run([*uv, "venv", "--python", sys.executable, "own"], cwd=tmp_path, check=True)
    python = str(tmp_path / "own" / "bin" / "python")
    subprocess.run([*uv, "pip", "install", "--python", python, "numpy"], cwd=tmp_path, check=True)
    done = subprocess.run(
        [python, "-I", "model.py", "--selftest"], cwd=folder, capture_output=True, text=True
    )
    assert (done.returncode, done.stdout) == (0, "selftest passed\n"), done.stderr
