"""Files for visitors: the citation, forms of issues, hooks of commits; obstacles of a release."""

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.main import get_command

from ansorpy.server.cli import app
from tests.wheel.release import changes, git, obstacles

ROOT = Path(__file__).parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
FORMS = sorted((ROOT / ".github" / "ISSUE_TEMPLATE").glob("[!c]*.yml"))


def read(path: str | Path) -> Any:
    return yaml.safe_load((ROOT / path).read_text())


def test_the_citation_agrees_with_the_package() -> None:
    citation = read("CITATION.cff")
    for field in ("version", "license", "keywords"):
        assert citation[field] == PROJECT[field], field
    assert citation["title"] == PROJECT["name"]


@pytest.mark.parametrize("path", FORMS, ids=lambda path: path.stem)
def test_a_form_asks_for_commands_that_exist(path: Path) -> None:
    form = read(path)
    assert {"name", "description", "labels", "body"} == set(form)
    names = [field["id"] for field in form["body"]]
    assert len(names) == len(set(names))
    assert all(field["attributes"]["label"] for field in form["body"])
    commands: Any = get_command(app)
    for word in re.findall(r"\bansorpy ([a-z]+)", path.read_text()):
        assert word in commands.commands, word


def test_each_hook_runs_a_tool_of_the_project() -> None:
    extra = " ".join(PROJECT["optional-dependencies"]["dev"])
    (local,) = read(".pre-commit-config.yaml")["repos"]
    assert local["repo"] == "local"
    for hook in local["hooks"]:
        tool = hook["entry"].split()[0].removeprefix(".venv/bin/")
        assert tool == "python" or {"lint-imports": "import-linter"}.get(tool, tool) in extra
        if tool == "python":
            assert (ROOT / f"{hook['entry'].split()[-1].replace('.', '/')}.py").exists()


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A repository that may be released."""
    (tmp_path / "pyproject.toml").write_text('[project]\nversion = "1.2.0"\n')
    (tmp_path / "CITATION.cff").write_text("version: 1.2.0\n")
    (tmp_path / "CHANGELOG.md").write_text(
        "# Changelog\n\n## [1.2.0] - 2026-12-01\n\n- new\n\n## [1.1.0] - 2026-01-01\n\n- old\n"
    )
    git(tmp_path, "init", "--quiet")
    commit(tmp_path)
    return tmp_path


def commit(root: Path) -> None:
    git(root, "add", "--all")
    author = "-c", "user.name=a", "-c", "user.email=a@example.org"
    git(root, *author, "commit", "--quiet", "--message", "tests: begin")


def test_a_clean_checkout_with_one_new_version_can_be_released(checkout: Path) -> None:
    assert obstacles(checkout) == []
    assert changes(checkout) == "- new"


@pytest.mark.parametrize(
    ("file", "text", "told"),
    [
        ("CITATION.cff", "version: 1.1.0\n", "expected 1.2.0"),
        ("CHANGELOG.md", "## [1.2.0] - unreleased\n", "expected '## [1.2.0] - YYYY-MM-DD'"),
        ("CHANGELOG.md", "## [1.1.0] - 2026-01-01\n", "expected '## [1.2.0] - YYYY-MM-DD'"),
    ],
)
def test_a_release_names_one_version(checkout: Path, file: str, text: str, told: str) -> None:
    (checkout / file).write_text(text)
    assert [reason for reason in obstacles(checkout) if told not in reason] == [
        "the tree has changes; expected all of them committed"
    ]
    commit(checkout)
    (reason,) = obstacles(checkout)
    assert told in reason


def test_a_version_is_released_once(checkout: Path) -> None:
    git(checkout, "tag", "v1.2.0")
    assert obstacles(checkout) == ["tag v1.2.0 exists; expected a new version in pyproject.toml"]
