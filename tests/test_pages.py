"""Markdown pages name existing commands, links, tests, paths and modules."""

import re
from pathlib import Path

import pytest

from ansorpy.tuner.options.plugins import LISTED
from tests.prose import files

ROOT = Path(__file__).parent.parent
MARKDOWN = [
    *ROOT.glob("*.md"),
    *(ROOT / "docs").rglob("*.md"),
    *(ROOT / "benchmarks").rglob("*.md"),
]
MAKEFILE = (ROOT / "Makefile").read_text()
TARGETS = set(re.findall(r"^([a-z-]+):", MAKEFILE, re.MULTILINE))


def test_every_make_command_in_the_pages_exists() -> None:
    for page in ROOT.glob("*.md"):
        for command in re.findall(r"\bmake ([a-z-]+)\b", page.read_text()):
            assert command in TARGETS, f"{page}: make {command}"


def test_every_make_target_is_explained() -> None:
    explained = set(re.findall(r"^([a-z-]+):.*## ", MAKEFILE, re.MULTILINE))
    assert explained == TARGETS


@pytest.mark.parametrize("page", sorted(MARKDOWN), ids=lambda p: str(p.relative_to(ROOT)))
def test_every_link_leads_somewhere(page: Path) -> None:
    for link in re.findall(r"\]\(([^)#]+)\)", page.read_text()):
        if not link.startswith("http"):
            assert (page.parent / link).exists(), f"{page}: {link}"


def test_every_test_that_the_security_page_names_exists() -> None:
    named = re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", (ROOT / "SECURITY.md").read_text())
    assert named
    for path, name in named:
        assert f"def {name}(" in (ROOT / path).read_text(), f"{path}: no {name}"


FOLDERS = ("ansorpy", "rules", "server", "tests", "benchmarks", "docs", "examples")
CODE = re.compile(r"`([^`\n]+)`|```.*?```|python -m [\w.]+", re.DOTALL)
NAME = re.compile(rf"(?<![\w./@:-])(?:{'|'.join(FOLDERS)})(?:[./]\w+)+(?![\w*])")
# Names of files in examples, which are not part of the repository.
EXAMPLES = {"ansorpy.dump", "rules.py"}
POINTS = {group.points for group in LISTED}  # groups of entry points


def names_in(text: str) -> set[str]:
    """The paths, modules and attributes of modules that the code of a Markdown page names."""
    return {name for code in CODE.finditer(text) for name in NAME.findall(code[0])}


def exists(name: str) -> bool:
    """Tell whether a path exists, or a module or an attribute that its source mentions."""
    if "/" in name:
        return (ROOT / name).exists()
    parts = name.split(".")
    for known in range(len(parts), 0, -1):
        place, rest = ROOT.joinpath(*parts[:known]), parts[known:]
        for path in (place.with_suffix(".py"), place / "__init__.py"):
            if path.exists():
                return not rest or re.search(rf"\b{rest[0]}\b", path.read_text()) is not None
        if place.is_dir():
            return not rest
    return False


@pytest.mark.parametrize("page", sorted(MARKDOWN), ids=lambda p: str(p.relative_to(ROOT)))
def test_every_path_and_module_in_a_page_exists(page: Path) -> None:
    missing = {name for name in names_in(page.read_text()) - EXAMPLES - POINTS if not exists(name)}
    assert not missing, f"{page}: no {', '.join(sorted(missing))}"


FILE = re.compile(rf"(?<![\w./@:-])(?:{'|'.join(FOLDERS)})/[\w/.-]+\.(?:py|md|json|js|html|txt)\b")


def test_every_file_that_a_source_names_exists() -> None:
    for path in files():
        if path != Path(__file__):
            for name in FILE.findall(path.read_text()):
                assert (ROOT / name).exists(), f"{path}: no {name}"


def test_names_in_pages_are_found() -> None:
    assert names_in("`ansorpy/x.py`, `ansorpy.x.y` and x") == {"ansorpy/x.py", "ansorpy.x.y"}
    assert names_in("    python -m tests.no.such --count 2") == {"tests.no.such"}
    assert not exists("ansorpy/no_such.py")
    assert not exists("ansorpy.tuner.no_such")
    assert exists("ansorpy.state.rule.Rule")
