"""The snippets of the README and the pages of first use: all parse, and most run, made small."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from ansorpy.events import TaskResult
from ansorpy.model.compile import ModelResult
from ansorpy.verdict import Judgment, Peer
from tests.blocks import FENCE, ROOT, Snippet, environment, run, served, snippets

README = (ROOT / "README.md").read_text()
PAGES = (
    "README.md", "docs/command-line.md", "docs/every-batch.md", "docs/python.md",
    "docs/service/first-steps.md",
)  # fmt: skip
# `make demo` and pip need the network, `make test` runs this test, a fixture starts the service,
# tests/model/test_examples.py tunes models.
ELSEWHERE = ("make demo", "python3 -m venv", "ansorpy serve", "ansorpy example")
WORDS, LINES = 700, 120  # two screens
SNIPPETS = snippets(*PAGES)
SHELL = [one for one in SNIPPETS if one.language == "sh"]
PYTHON = [one for one in SNIPPETS if one.language == "python"]


def test_every_block_names_its_language() -> None:
    assert {one.language for one in SNIPPETS} == {"sh", "python", "text"}
    for page in PAGES:
        outside = FENCE.sub("", (ROOT / page).read_text())
        assert not re.search(r"^(    |\t)\S", outside, re.MULTILINE), "an indented block: no test"


@pytest.mark.parametrize("snippet", SHELL, ids=lambda one: one.text.splitlines()[0][:40])
def test_a_shell_snippet_parses_and_has_no_placeholder(snippet: Snippet) -> None:
    subprocess.run(["bash", "-n"], input=snippet.text, text=True, check=True, timeout=60)
    assert not re.search(r"<[a-zA-Z_-]+>", snippet.text), "a redirection, once it is pasted"


@pytest.mark.parametrize("snippet", PYTHON, ids=lambda one: one.text.splitlines()[-1][:40])
def test_a_python_snippet_parses(snippet: Snippet) -> None:
    compile(snippet.text, "README.md", "exec")


def test_the_readme_is_a_door() -> None:
    """Two screens: purpose, both commands, a verdict, the losers, and for whom it is not."""
    assert len(README.split()) <= WORDS
    assert len(README.splitlines()) <= LINES
    first, *_ = FENCE.findall(README)
    assert [line.split("#")[0].strip() for line in first[1].splitlines()] == [
        "make demo", "make test",
    ]  # fmt: skip
    assert README.index("make demo") < 400
    for told in (
        "pip install .", "ansorpy example encoder", "](benchmarks/results/models-ratios.svg)",
        "Behind are", "**Not for**", "CPU, Linux", "inference", "docs/dims.md", "Dtypes: float32",
        "code of its author",
    ):  # fmt: skip
        assert told in README, told
    assert "docs/adr/" not in README.split("## Read on")[0], "decisions are for maintainers"
    assert not re.search(r"\]\(https?://", README), "an address that this project does not have"


def test_the_transcript_has_the_words_and_columns_of_the_program() -> None:
    """Times differ on each machine: every number counts as 0."""
    (told,) = [one.text for one in SNIPPETS if one.text.startswith("encoder: ")]
    ort = Peer("ONNX Runtime 1.32.0", 2.0)
    verdict = Judgment("bundle", 1.0, (ort,), 2, "ONNX Runtime 1.32.0")
    task = TaskResult("t", "k", 1.0, None, 8, 1.0, True, "tuned", None)
    result = ModelResult(
        Path("encoder.zip"), 1.0, 0.0, 0.0, "", 60, (task, task), (), 8, 60.0, "trials",
        verdict=verdict,
    )  # fmt: skip
    printed = f"{result}\nnext: ansorpy run encoder.zip\n"
    assert plain(told) == plain(printed)


def plain(text: str) -> str:
    """Return a text with each number as 0, and each unit of time as s."""
    return re.sub(r"\b(us|ms)\b", "s", re.sub(r"\d+(\.\d+)*", "0", text))


def run_python(snippets: list[Snippet], more: str, folder: Path, env: dict[str, str]) -> str:
    """Run snippets one after the other, and some assertions; return the output."""
    code = [one.small(env.get("ANSORPY_URL", "")) for one in snippets if one.language == "python"]
    (folder / "snippets.py").write_text("\n".join([*code, more, 'print("the end")']))
    told = run([sys.executable, "snippets.py"], folder, env)
    assert told.endswith("the end\n")
    return told


@pytest.mark.night
def test_the_python_snippets_run_one_after_the_other(tmp_path: Path) -> None:
    more = """
np.testing.assert_allclose(c, a @ b, rtol=1e-4)
np.testing.assert_allclose(call(), a @ b, rtol=1e-4)
assert again.tasks[0].from_store
"""
    pages = snippets("README.md", "docs/python.md")
    assert "mm: " in run_python(pages, more, tmp_path, environment(tmp_path))


@pytest.mark.night
def test_the_snippets_of_a_client_run(tmp_path: Path) -> None:
    with served(tmp_path) as env:
        more = "assert y.shape == (1, 64, 14, 14)"
        run_python(snippets("docs/service/first-steps.md"), more, tmp_path, env)


@pytest.mark.night
def test_the_shell_snippets_run_one_after_the_other(tmp_path: Path) -> None:
    with served(tmp_path) as env:
        for one in SHELL:
            if not one.text.startswith(ELSEWHERE):
                run(
                    ["bash", "-euo", "pipefail", "-c", one.small(env["ANSORPY_URL"])], tmp_path, env
                )
    assert (tmp_path / "conv" / "kernel.py").exists()
    assert (tmp_path / "mm.zip").read_bytes().startswith(b"PK")
    assert len(list((tmp_path / "kernels").glob("*.zip"))) == 3  # two tuned here, one pulled
