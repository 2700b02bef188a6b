"""Plain words hold: prose of Python files, decisions, changelog, commit subjects."""

import re
import subprocess
from pathlib import Path
from typing import Final

import pytest

from tests.prose import FOLDERS, ROOT, files, findings, findings_in, page_findings

PAGE_WORDS: Final = 600  # words on one printed page
ENTRY_CHARACTERS: Final = 210  # characters of a line of the changelog: two lines on a screen

# Subjects are checked from the commit after this one on; earlier history is fixed.
FIRST_CHECKED: Final = "408e7737040a90b128eff7f81cc1d5fc116b05af"
SUBJECT_CHARACTERS: Final = 72  # characters that a log shows on one line
SUBJECT: Final = re.compile(r"[a-z][a-z0-9_/.-]*: [a-z]")
NOT_IMPERATIVE: Final = re.compile(
    r": (an?|the|one|two|no|all|what|who|where|how|which|it|its|is|are|\w+ed|\w+ing)\b"
)
VERBS: Final = frozenset({"bring", "embed", "feed", "need", "seed", "shed", "speed", "string"})
# Subjects that were on trunk before the check was run on them.
EARLIER: Final = frozenset((
    "loopir: one frozen Hints on Tile, a tuple of lanes, an access width",
    "codegen: one runtime that prints one phase loop for every launcher",
    "expr: one table of dtypes, one of operators",
    "expr: one affine form",
    "names: call loops of a domain AxisPart, dimensions of an access AccessIndex",
    "importers, ops: word the docstrings by their objects",
    "node tests: run the graph passes first with --passes",
    "model: compare bfloat16 outputs as numbers, with a bound for narrow dtypes",
    "graph: passes for transposes, products, arithmetic and spelt-out formulas",
))  # fmt: skip


@pytest.mark.parametrize("path", files(), ids=lambda path: str(path.relative_to(ROOT)))
def test_prose_is_plain(path: Path) -> None:
    found = sorted(findings(path))
    assert not found, "\n" + "\n".join(map(str, found))


# Results are written by the benchmarks; decisions are immutable.
PAGES: Final = [
    *(path for path in ROOT.glob("*.md") if path.name != "CHANGELOG.md"),
    *(path for path in (ROOT / "docs").rglob("*.md") if path.parent.name != "adr"),
    ROOT / "benchmarks" / "README.md",
]


@pytest.mark.parametrize("path", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_pages_name_their_objects(path: Path) -> None:
    found = sorted(page_findings(path))
    assert not found, "\n" + "\n".join(map(str, found))


def test_a_pronoun_in_place_of_a_noun_is_found() -> None:
    source = '"""Return a plan as of the fields."""\n# waits for so many\n'
    assert [one.text for one in findings_in(source, "ansorpy/te/dag.py")] == [
        "as of the",
        "so many",
    ]


def test_a_parameter_or_a_field_without_a_noun_is_found() -> None:
    source = "class A:\n    made: int\n    def f(self, one=0):\n        self._told = found = one\n"
    assert sorted(each.text for each in findings_in(source, "ansorpy/te/dag.py")) == [
        "_told",
        "made",
        "one",
    ]
    assert not list(findings_in(source, "tests/te/test_api.py"))


def test_a_decision_takes_at_most_one_page() -> None:
    for path in sorted((ROOT / "docs" / "adr").glob("[0-9]*.md")):
        words = sum(any(map(str.isalnum, word)) for word in path.read_text().split())
        assert words <= PAGE_WORDS, f"{path}: {words} words; expected {PAGE_WORDS}: shorten it"


def test_lines_of_the_changelog_are_short() -> None:
    for i, line in enumerate((ROOT / "CHANGELOG.md").read_text().splitlines(), 1):
        assert len(line) <= ENTRY_CHARACTERS, f"CHANGELOG.md:{i}: {len(line)} characters; shorten"


def git(*arguments: str) -> str | None:
    """The output of git, or None without a repository."""
    done = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True)
    return done.stdout if done.returncode == 0 else None


def test_subjects_of_commits_name_the_area_and_begin_with_an_imperative() -> None:
    log = git("log", "--format=%h %s", "--no-merges", f"{FIRST_CHECKED}..HEAD")
    if log is None:
        pytest.skip("no git history of this release")
    wrong = []
    for row in log.splitlines():
        _, _, subject = row.partition(" ")
        verb = subject.partition(": ")[2].partition(" ")[0]
        mood = NOT_IMPERATIVE.search(subject) and verb not in VERBS
        if len(subject) > SUBJECT_CHARACTERS or not SUBJECT.match(subject) or mood:
            wrong += [row] if subject not in EARLIER else []
    assert not wrong, "expected `area: imperative` of at most 72 characters:\n" + "\n".join(wrong)


def test_the_checker_finds_every_kind_of_finding() -> None:
    text = (
        '"""What is kept."""\n'
        "LIMIT = 3  # of a round\n"
        "def test_what_is_kept() -> None:\n"
        '    """Return the one that `nobody` asked, None where it is \'nobody\'."""\n'
    )
    found = [(each.line, each.text) for each in sorted(findings_in(text, "sample.py"))]
    assert found == [
        (1, "What is kept."), (1, "what"), (2, "of a round"), (3, "test_what_is_kept"),
        (4, "None where"), (4, "nobody"), (4, "one that"),
    ]  # fmt: skip


def test_the_folders_are_all_there() -> None:
    for folder in FOLDERS:
        assert (ROOT / folder).is_dir(), folder
        assert files((folder,)) or (ROOT / folder).is_symlink(), folder
