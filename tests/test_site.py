"""Pages of the site are in its navigation, and each block runs or has a reason (`make docs`)."""

import json
import re
from pathlib import Path

import pytest

from docs.site import blocks, check

DOCS = Path(__file__).parent.parent / "docs"
PAGES = blocks.pages()
NOTEBOOKS = sorted((DOCS / "notebooks").glob("*.ipynb"))
MARK = re.compile(r"<!-- skip\b.*?-->\n?(\n?```(?:python|sh)\n)?", re.DOTALL)
COMMAND = re.compile(r"^(?:\$ |ansorpy (?!: )[a-z]+ |pip install |python3? -m )", re.MULTILINE)


def test_every_page_is_in_the_navigation_once() -> None:
    named = [name for names in check.sections().values() for name in names]
    assert len(named) == len(set(named))
    here = {str(path.relative_to(DOCS)) for path in [*DOCS.rglob("*.md"), *NOTEBOOKS]}
    left = {name for name in here if re.match(r"adr/\d", name)}
    made = {"reference/commands.md", "reference/routes.md"}
    assert {name for name in named if not name.startswith("repo/")} == here - left | made


@pytest.mark.parametrize("page", PAGES)
def test_a_block_has_a_language_and_runs_unless_its_mark_has_a_reason(page: str) -> None:
    text = (DOCS / page).read_text()
    outside = blocks.BLOCK.sub("", text)
    assert not re.search(r"(?:\A|\n\n)(?:    |\t)\S", outside), "an indented block does not run"
    for found in blocks.BLOCK.finditer(text):
        if found["language"] is not None:
            assert found["language"], f"no language: {found['text'][:60]}"
        if found["language"] == "text":
            assert not COMMAND.search(found["text"]), (
                f"a command does not run: {found['text'][:60]}"
            )
    marks = list(MARK.finditer(text))
    assert all(found[1] for found in marks), "a mark stands before a block of Python or shell"
    reasons = [step.reason for step in blocks.steps(page) if step.reason]
    assert len(reasons) == len(marks)
    assert all(len(reason.split()) >= 3 for reason in reasons)


def test_the_text_of_the_site_stays_within_its_words(capsys: pytest.CaptureFixture[str]) -> None:
    assert not check.words()
    assert "Tutorials" in capsys.readouterr().out


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_has_outputs_without_paths_of_a_machine(path: Path) -> None:
    cells = [cell for cell in json.loads(path.read_text())["cells"] if cell["cell_type"] == "code"]
    assert all(cell["execution_count"] == i for i, cell in enumerate(cells, 1))
    outputs = [output for cell in cells for output in cell["outputs"]]
    assert outputs
    for output in outputs:
        assert output["output_type"] != "error"
        shown = {form: text for form, text in output.get("data", {}).items() if "image" not in form}
        assert not re.search(r"/(?:root|home|tmp|work|Users)/", f"{output.get('text')} {shown}")


def test_a_mark_a_hidden_block_and_a_block_are_told_apart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "page.md").write_text(
        "<!-- before sh\nexport A=1\n-->\n\n```sh\ntrue\n```\n\n"
        "<!-- skip: needs two machines -->\n```python\nx = 1\n```\n\n```text\nsh\n```\n"
    )
    monkeypatch.setattr(blocks, "ROOT", tmp_path)
    found = [(step.language, step.reason, step.hidden) for step in blocks.steps("page.md")]
    assert found == [("sh", "", True), ("sh", "", False), ("python", "needs two machines", False)]
