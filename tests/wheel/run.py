"""Install the wheel in clean environments and use it inside a hostile folder.

    python -m tests.wheel.run [lowest] [locked]

`lowest` holds the lowest versions that pyproject.toml allows of every direct dependency, `locked`
the versions of requirements.lock, by hash. The folder has a `rules.py` and a `server/` that raise
when they are imported, and PYTHONPATH names it, as it does for many a project. Inside: `doctor`, a
tuning through Python, an example of a model, `serve`, `submit --watch`, the dashboard, `kernels
pull`.
"""

import json
import os
import re
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from tests.server.process import free_port

ROOT: Final = Path(__file__).parents[2]
UV: Final = (sys.executable, "-m", "uv", "--quiet")
HOSTILE: Final = "raise ImportError('a module of the user was imported in place of ours')\n"
TEXT: Final = "def mm(float(16,24) A, float(24,32) B) -> (C) { C(i,j) +=! A(i,k) * B(k,j) }\n"
TUNING: Final = """
import numpy as np
import ansorpy
result = ansorpy.tune(open("mm.te").read(), trials=4, out="zips")
a, b = np.ones((16, 24), "float32"), np.ones((24, 32), "float32")
assert (result.kernels["mm"](a, b) == 24).all()
"""
TYPED: Final = """
import ansorpy
from ansorpy import te

A = te.placeholder((8, 8), name="A")
C = te.compute((8, 8), lambda i, j: A[i, j] * 2.0, name="C")
dag = te.dag(C, name="double")
reveal_type(ansorpy.tune(dag, trials=8, seconds=60.0, without=["SplitPhases"]))
"""
# Calls with a misspelt keyword or a value of a wrong type, and the message of mypy.
MISTYPED: Final = {
    "ansorpy.tune(dag, trails=8)": 'Unexpected keyword argument "trails" for',
    'ansorpy.tune(dag, trials="8")': 'matches argument types "Dag", "str"',
    "ansorpy.Client().submit(dags=[dag], second=1.0)": 'argument "second" for "submit"',
}
PYTHONS: Final = ("3.11", "3.12", "3.13")
START_S: Final = 120.0


@dataclass(frozen=True, slots=True)
class Place:
    """An environment and the folder in which its commands run."""

    venv: Path
    folder: Path

    @property
    def environ(self) -> Mapping[str, str]:
        """Variables of a user who works in the folder."""
        kept = {k: v for k, v in os.environ.items() if not k.startswith(("ANSORPY_", "PYTHON"))}
        data = {"ANSORPY_DATA_DIR": str(self.folder / "data"), "XDG_DATA_HOME": str(self.folder)}
        return {**kept, **data, "PYTHONPATH": "."}

    def run(self, program: str, *arguments: str, **environ: str) -> str:
        """Return the output of a program of the environment; its exit code must be 0."""
        command = [str(self.venv / "bin" / program), *arguments]
        done = subprocess.run(
            command, cwd=self.folder, env={**self.environ, **environ},
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        if done.returncode:
            raise SystemExit(f"{command} ended with {done.returncode}:\n{done.stdout}{done.stderr}")
        return done.stdout


def environment(kind: str, wheel: Path, venv: Path) -> None:
    """Make a virtual environment that holds the wheel and its dependencies only."""
    subprocess.run([*UV, "venv", "--python", sys.executable, str(venv)], check=True)
    install = [*UV, "pip", "install", "--python", str(venv / "bin" / "python")]
    if kind == "lowest":
        pins = venv.with_suffix(".txt")
        lowest = ["--resolution", "lowest-direct", "--python", sys.executable, "-o", str(pins)]
        subprocess.run([*UV, "pip", "compile", *lowest, str(ROOT / "pyproject.toml")], check=True)
        subprocess.run([*install, "--only-binary", ":all:", "-r", str(pins)], check=True)
    else:
        lock = ["--require-hashes", "--only-binary", ":all:", "-r", str(ROOT / "requirements.lock")]
        subprocess.run([*install, *lock], check=True)
    subprocess.run([*install, "--no-deps", str(wheel)], check=True)


def hostile_folder(folder: Path) -> Path:
    """Make a folder whose modules have the names of ours, and a definition to tune."""
    (folder / "server").mkdir(parents=True)
    (folder / "server" / "__init__.py").write_text(HOSTILE)
    (folder / "rules.py").write_text(HOSTILE)
    (folder / "mm.te").write_text(TEXT)
    return folder


@contextmanager
def service(place: Place) -> Iterator[str]:
    """Run `ansorpy serve` with its worker; yield its address."""
    address = f"http://127.0.0.1:{free_port()}"
    command = [str(place.venv / "bin" / "ansorpy"), "serve", "--port", address.rpartition(":")[2]]
    with (place.folder / "serve.log").open("wb") as log:
        process = subprocess.Popen(
            command, cwd=place.folder, env=place.environ, stdout=log, stderr=subprocess.STDOUT
        )
        try:
            await_answer(f"{address}/readyz", process)
            yield address
        finally:
            process.terminate()
            process.wait(timeout=60)


def await_answer(url: str, process: "subprocess.Popen[bytes]") -> None:
    """Wait until the service answers."""
    end_s = time.monotonic() + START_S
    while time.monotonic() < end_s and process.poll() is None:
        try:
            page(url)
        except OSError:
            time.sleep(0.2)
        else:
            return
    raise SystemExit("the service does not answer")


def page(url: str) -> str:
    """Return the body of a page that must be found."""
    with urllib.request.urlopen(url, timeout=30) as reply:
        return str(reply.read().decode())


def types_are_known(place: Place) -> None:
    """Check a user's program with mypy; without `py.typed` everything would be Any."""
    right = mypy(place, TYPED)
    if right.returncode or "ansorpy.result.Result" not in right.stdout:
        raise SystemExit(f"mypy on a user's program:\n{right.stdout}{right.stderr}")
    wrong = mypy(place, "\n".join([TYPED, *MISTYPED]))
    lost = [told for told in MISTYPED.values() if told not in wrong.stdout]
    if lost:
        raise SystemExit(f"mypy does not tell {lost}:\n{wrong.stdout}{wrong.stderr}")


def mypy(place: Place, program: str) -> subprocess.CompletedProcess[str]:
    """Run mypy on a program that uses the installed package."""
    (place.folder / "typed.py").write_text(program)
    python = str(place.venv / "bin" / "python")
    return subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--python-executable", python, "typed.py"],
        cwd=place.folder, capture_output=True, text=True, check=False,
    )  # fmt: skip


def walk(place: Place) -> None:
    """Use the installed package as a user would."""
    assert "not found" not in place.run("ansorpy", "--help")
    found = json.loads(
        place.run("python", "-c", "import json, ansorpy; print(json.dumps(ansorpy.__path__))")
    )
    assert str(place.venv) in found[0], found
    assert "rules" in place.run("ansorpy", "doctor")
    place.run("python", "-c", TUNING)
    place.run("ansorpy", "example", "squeezenet")
    assert "GlobalAveragePool" in place.run("ansorpy", "explain", "squeezenet.onnx")
    with service(place) as address:
        submit = ("submit", "mm.te", "--trials", "4", "--watch", "--json")
        told = place.run("ansorpy", *submit, ANSORPY_URL=address)
        job = re.findall(r"[0-9a-f]{32}|[0-9a-f-]{36}", told)[0]
        assert "mm" in page(f"{address}/jobs/{job}")
        assert job[:8] in page(f"{address}/")
        place.run("ansorpy", "kernels", "pull", job, "--out", "pulled", ANSORPY_URL=address)
    assert list((place.folder / "pulled").rglob("*.zip"))


def locks_fit_every_python(scratch: Path) -> None:
    """Resolve both locks for every Python that is promised, without installing them."""
    dry = [*UV, "pip", "install", "--dry-run", "--require-hashes", "--only-binary", ":all:"]
    for lock in ("requirements.lock", "requirements-dev.lock", "requirements-build.lock"):
        for version in PYTHONS:
            target = ["--python-version", version, "--target", str(scratch / version)]
            subprocess.run([*dry, *target, "-r", str(ROOT / lock)], check=True)


def main(kinds: list[str]) -> None:
    """Build the wheel, and walk through every environment that is asked for."""
    with TemporaryDirectory() as name:
        subprocess.run([*UV, "build", "--wheel", "--out-dir", name, str(ROOT)], check=True)
        (wheel,) = Path(name).glob("*.whl")
        walks(wheel, kinds or ["lowest", "locked"])


def walks(wheel: Path, kinds: list[str]) -> None:
    """Resolve the locks, and use a wheel in environments of some kinds."""
    with TemporaryDirectory() as name:
        scratch = Path(name)
        locks_fit_every_python(scratch)
        for kind in kinds:
            venv = scratch / f"venv-{kind}"
            environment(kind, wheel, venv)
            place = Place(venv, hostile_folder(scratch / kind))
            walk(place)
            if kind == "locked":  # our types, against one version of numpy's
                types_are_known(place)
            sys.stdout.write(f"wheel with {kind} versions: ok\n")


if __name__ == "__main__":
    main(sys.argv[1:])
