"""Checks of prose: docstrings, comments, names of tests, decisions, changelog, commit subjects.

python -m tests.prose [PATH ...]      print every finding in files and folders, default: all
"""

import ast
import io
import os
import re
import sys
import tokenize
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parent.parent
FOLDERS: Final = ("ansorpy", "rules", "server", "tests", "benchmarks")

# Words that open a relative clause or a question in place of the object's name.
OPENINGS: Final = {
    "what", "whatever", "who", "whoever", "whose", "where", "how", "which", "whether", "why",
    "when",
}  # fmt: skip
WORDS: Final = {
    "what": "name the object: a noun in place of the clause",
    "whatever": "name the condition: `for any`, `regardless of`",
    "whoever": "name the caller, reader or process",
    "nobody": "name the object: `no caller`, `no kernel`",
    "the ones": "repeat the noun",
    "those of": "repeat the noun",
    "that of": "repeat the noun",
    "one of some": "name the set",
    "so many": "name the number",
    "as of the": "repeat the noun",
    "one that": "repeat the noun",
    "ones that": "repeat the noun",
    "None where": "a condition is `if`; `where` is for places",
    "only where": "a condition is `if`; `where` is for places",
    "unless where": "a condition is `if`; `where` is for places",
    "except where": "a condition is `if`; `where` is for places",
}
_WORDS: Final = {
    word: re.compile(r"(?<![\w`.-])" + word.replace(" ", r"\s+") + r"(?![\w`:-])", re.IGNORECASE)
    for word in WORDS
}
# Words that Markdown pages must not have either.
PRONOUNS: Final = ("those of", "that of", "one of some", "so many", "as of the")
# Names that tell nothing of a value. Parameters and fields have a noun, but for those in tests.
NAMELESS: Final = ("one", "found", "made", "told")
_CODE: Final = re.compile(r"``.*?``|`[^`]*`|\"[^\"\n]*\"", re.DOTALL)
_FENCE: Final = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
_CLAUSE: Final = re.compile(r"(of|that|which|whose|who|whom|where)\b(?! is | are )")
_NAME_WORDS: Final = re.compile(
    r"_(what|whatever|whoever|nobody|the_one_that|the_ones|one_that|ones_that)(?=_|$)"
)


@dataclass(frozen=True, slots=True, order=True)
class Finding:
    """A place in the prose, and the remedy."""

    path: str
    line: int
    text: str
    remedy: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.text!r}: {self.remedy}"


def findings(path: Path) -> Iterator[Finding]:
    """Yield the findings in one Python file of the repository."""
    return findings_in(path.read_text(), str(path.relative_to(ROOT)))


def findings_in(source: str, name: str) -> Iterator[Finding]:
    """Yield the findings in the source of a module; `name` is its path in the findings."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            yield from _in_docstring(name, node)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            for found in _NAME_WORDS.finditer(node.name) if node.name[:5] == "test_" else ():
                yield Finding(name, node.lineno, node.name, f"{found[1]!r}: name the object")
        if not name.startswith("tests/"):
            yield from _nameless(name, node)
    for line, text in _comments(source):
        if text.startswith(("noqa", "type:", "fmt:")):
            continue
        if _CLAUSE.match(text):
            yield Finding(name, line, text[:60], "begin with the noun that the clause describes")
        for offset, word in _words(text):
            yield Finding(name, line + offset, word, WORDS[word])


def _nameless(name: str, node: ast.AST) -> Iterator[Finding]:
    """Yield the parameters of a function, or the fields of a class, with a name of NAMELESS."""
    named: list[tuple[str, int]] = []
    match node:
        case ast.FunctionDef(args=args) | ast.AsyncFunctionDef(args=args):
            named = [
                (each.arg, each.lineno) for each in ast.walk(args) if isinstance(each, ast.arg)
            ]
        case ast.ClassDef(body=body):
            fields = (each for each in body if isinstance(each, ast.AnnAssign))
            named = [(ast.unparse(each.target), each.lineno) for each in fields]
        case ast.Attribute(attr=attribute, ctx=ast.Store()):
            named = [(attribute, node.lineno)]
        case _:
            pass
    for word, line in named:
        if word.strip("_") in NAMELESS:
            yield Finding(name, line, word, "take the noun of its value")


def page_findings(path: Path) -> Iterator[Finding]:
    """Yield the findings of `PRONOUNS` in a Markdown page."""
    name = str(path.relative_to(ROOT))
    text = _FENCE.sub(lambda block: "\n" * block[0].count("\n"), path.read_text())
    for offset, word in _words(text):
        if word in PRONOUNS:
            yield Finding(name, 1 + offset, word, WORDS[word])


def _in_docstring(
    name: str, node: ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
) -> Iterator[Finding]:
    text = ast.get_docstring(node, clean=False)
    if not text or not text.split():
        return
    line = node.body[0].lineno
    opening = text.split()[0].strip("`.,:;").lower()
    if opening in OPENINGS:
        remedy = "begin with an imperative or with the field's noun"
        yield Finding(name, line, " ".join(text.split()[:8]), remedy)
    for offset, word in _words(text):
        yield Finding(name, line + offset, word, WORDS[word])


def _words(text: str) -> Iterator[tuple[int, str]]:
    """Yield (line, word) of the list, outside of code and quotations."""
    plain = _CODE.sub(lambda found: re.sub(r"[^\n]", "`", found[0]), text)
    for word, pattern in _WORDS.items():
        for found in pattern.finditer(plain):
            yield plain.count("\n", 0, found.start()), word


def _comments(source: str) -> Iterator[tuple[int, str]]:
    """Yield (line, text) of comments; a comment of several lines is one text."""
    block: list[str] = []
    first, last = 0, -1
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type != tokenize.COMMENT:
            continue
        row, own = token.start[0], token.line[: token.start[1]].strip() == ""
        text = token.string.lstrip("#:! ").rstrip()
        if own and block and row == last + 1:
            block.append(text)
        else:
            if block:
                yield first, "\n".join(block)
            block, first = [text], row
        last = row if own else -1
    if block:
        yield first, "\n".join(block)


def files(places: tuple[str, ...] = FOLDERS) -> list[Path]:
    """Return the Python files of the places, each once: links to folders are not followed."""
    found: list[Path] = []
    for place in places:
        path = ROOT / place
        if path.is_file():
            found.append(path)
        for folder, _, names in os.walk(path):
            found += [Path(folder, name) for name in names if name.endswith(".py")]
    return sorted(set(found))


def main(places: tuple[str, ...]) -> int:
    """Print the findings; the exit code tells if there are any."""
    found = [finding for path in files(places or FOLDERS) for finding in sorted(findings(path))]
    sys.stdout.writelines(f"{each}\n" for each in found)
    sys.stdout.write(f"{len(found)} findings\n")
    return int(bool(found))


if __name__ == "__main__":
    sys.exit(main(tuple(sys.argv[1:])))
