"""The snippets of the README: all parse, and those that need no network run, made small."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.server.process import process

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text()
FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
# `make demo` and pip need the network, `make test` runs this test, a fixture starts the service.
ELSEWHERE = ("make demo", "python3 -m venv", "ansorpy serve")
FIRST_SCREEN = 60  # lines
RUN_S = 240  # deadline of one snippet on a busy machine
# Extents of the README and of its example, and those that run here: untuned loops of the former
# take 0.1 s a call, and every final race calls them.
EXTENTS = {"512": "64", "56": "14", "58": "16"}
EXAMPLE = Path("examples/conv2d_bias_relu.te")


def shrunk(text: str) -> str:
    """Return a text with the extents that run here."""
    return re.sub(rf"\b({'|'.join(EXTENTS)})\b", lambda found: EXTENTS[found[0]], text)


@dataclass(frozen=True)
class Snippet:
    """One fenced block."""

    language: str
    text: str

    def small(self, url: str) -> str:
        """Return it with small extents and few trials, for a service at `url`."""
        text = re.sub(r'(trials["= :]+)\d+', r"\g<1>4", shrunk(self.text))
        return text.replace("http://localhost:8720", url).replace(
            "localhost:8720", url.removeprefix("http://")
        )


SNIPPETS = [Snippet(*found) for found in FENCE.findall(README)]
SHELL = [one for one in SNIPPETS if one.language == "sh"]
PYTHON = [one for one in SNIPPETS if one.language == "python"]


def test_every_block_names_its_language() -> None:
    assert {one.language for one in SNIPPETS} == {"sh", "python", "text"}
    outside = FENCE.sub("", README)
    assert not re.search(r"^(    |\t)\S", outside, re.MULTILINE), "an indented block is not tested"


@pytest.mark.parametrize("snippet", SHELL, ids=lambda one: one.text.splitlines()[0][:40])
def test_a_shell_snippet_parses_and_has_no_placeholder(snippet: Snippet) -> None:
    subprocess.run(["bash", "-n"], input=snippet.text, text=True, check=True, timeout=60)
    assert not re.search(r"<[a-zA-Z_-]+>", snippet.text), "a redirection, once it is pasted"


@pytest.mark.parametrize("snippet", PYTHON, ids=lambda one: one.text.splitlines()[-1][:40])
def test_a_python_snippet_parses(snippet: Snippet) -> None:
    compile(snippet.text, "README.md", "exec")


def test_the_first_screen_has_purpose_usage_and_limits() -> None:
    screen = "\n".join(README.splitlines()[:FIRST_SCREEN])
    for told in (
        "CPU only", "Linux", "static shapes", "inference", "Dtypes: float32", "pip install .",
        "make demo", "make test", "ansorpy tune examples/",
        "](benchmarks/results/suite-curves.svg)",
    ):  # fmt: skip
        assert told in screen, told
    usage = README.split("## What it reaches")[0]
    assert "docs/adr/" not in usage, "decisions are for maintainers"


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, dict[str, str]]]:
    """A folder with the example, and the environment of a service that listens."""
    folder = tmp_path_factory.mktemp("readme")
    (folder / EXAMPLE).parent.mkdir()
    (folder / EXAMPLE).write_text(shrunk((ROOT / EXAMPLE).read_text()))
    own = {
        "ANSORPY_DATA_DIR": str(folder / "data"),
        "XDG_DATA_HOME": str(folder / "user"),
        "XDG_CACHE_HOME": str(folder / "cache"),
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
    }
    url = f"sqlite:///{folder / 'service.db'}"
    with process(url, ANSORPY_EMBEDDED_WORKER="1", **own) as running:
        yield folder, {**os.environ, **own, "ANSORPY_URL": running.url}


def run(command: list[str], folder: Path, env: dict[str, str]) -> str:
    found = subprocess.run(
        command, cwd=folder, env=env, capture_output=True, text=True, timeout=RUN_S, check=False
    )
    assert found.returncode == 0, f"{command}\n{found.stdout}\n{found.stderr}"
    return found.stdout


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_the_shell_snippets_run_one_after_the_other(place: tuple[Path, dict[str, str]]) -> None:
    folder, env = place
    for one in SHELL:
        if not one.text.startswith(ELSEWHERE):
            run(["bash", "-euo", "pipefail", "-c", one.small(env["ANSORPY_URL"])], folder, env)
    assert (folder / "conv" / "kernel.py").exists()
    assert (folder / "mm.zip").read_bytes().startswith(b"PK")
    assert len(list((folder / "kernels").glob("*.zip"))) == 2  # tuned here, pulled


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_the_python_snippets_run_one_after_the_other(place: tuple[Path, dict[str, str]]) -> None:
    folder, env = place
    code = "\n".join(one.small(env["ANSORPY_URL"]) for one in PYTHON)
    code += """
np.testing.assert_allclose(c, a @ b, rtol=1e-4)
np.testing.assert_allclose(call(), a @ b, rtol=1e-4)
assert again.tasks[0].from_store
assert y.shape == (1, 64, 14, 14)
print("the end")
"""
    (folder / "snippets.py").write_text(code)
    told = run([sys.executable, "snippets.py"], folder, env)
    assert "mm: " in told
    assert told.endswith("the end\n")
