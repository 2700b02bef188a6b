"""Blocks of the site's pages: each Python and shell block runs, unless a mark has a reason.

`<!-- skip: REASON -->` on the line before a block leaves it out. A comment `<!-- before python` or
`<!-- before sh`, lines of code and `-->`, prepares files or names for the blocks behind it, unseen.
The blocks of a page run in order, in a folder of their own, with few trials and small extents;
names of Python last to the end of the page.
"""

import json
import re
import shutil
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[2]
BLOCK: Final = re.compile(
    r"<!-- before (?P<hidden>python|sh)\n(?P<before>.*?)^-->$"
    r"|(?:^<!-- skip: (?P<reason>[^\n]+) -->\n\n?)?^```(?P<language>[^\n]*)\n(?P<text>.*?)^```$",
    re.MULTILINE | re.DOTALL,
)
LIMIT_S: Final = 900  # deadline of a page on a busy machine; two minutes on a quiet one
PAGES_AT_ONCE: Final = 2
SECONDS: Final = 15  # in place of longer limits of a tuning
# Decisions and notes of maintainers have no blocks for users.
NOT_RUN: Final = ("adr/", "notes/")


@dataclass(frozen=True)
class Step:
    """A block of a page, shown or not, and the reason why it is left out."""

    page: str
    language: str
    text: str
    reason: str = ""
    hidden: bool = False


def pages() -> list[str]:
    """Return the pages whose blocks run, relative to docs/."""
    found = sorted(str(path.relative_to(ROOT / "docs")) for path in (ROOT / "docs").rglob("*.md"))
    return [page for page in found if not page.startswith(NOT_RUN)]


def steps(page: str) -> list[Step]:
    """Return the Python and shell blocks of a page, in order."""
    found = []
    for block in BLOCK.finditer((ROOT / "docs" / page).read_text()):
        if block["hidden"]:
            found.append(Step(page, block["hidden"], block["before"], hidden=True))
        elif block["language"] in ("python", "sh"):
            found.append(Step(page, block["language"], block["text"], block["reason"] or ""))
    return found


def run_page(page: str, base: Path, env: dict[str, str]) -> str:
    """Run the blocks of a page that are not left out; return an error, or nothing."""
    from tests.blocks import Snippet, shrunk

    chosen = [step for step in steps(page) if not step.reason]
    if all(step.hidden for step in chosen):
        return ""
    folder = base / page.replace("/", "-").removesuffix(".md")
    shutil.copytree(ROOT / "examples", folder / "examples")
    for example in (folder / "examples").glob("*.te"):
        example.write_text(shrunk(example.read_text()))
    small = []
    for step in chosen:
        text = Snippet(step.language, step.text).small(env["ANSORPY_URL"])
        small.append((step.language, re.sub(r"--seconds \d+", f"--seconds {SECONDS}", text)))
    begin_s = time.monotonic()
    try:
        done = subprocess.run(
            [sys.executable, __file__], input=json.dumps(small), cwd=folder, env=env,
            capture_output=True, text=True, timeout=LIMIT_S, check=False,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return f"{page}: not done after {LIMIT_S} s"
    print(f"  {page}: {len(small)} blocks, {time.monotonic() - begin_s:.0f} s", flush=True)
    return f"{page}:\n{done.stdout[-2000:]}{done.stderr[-3000:]}" if done.returncode else ""


def run_all(chosen: list[str]) -> list[str]:
    """Run the blocks of pages beside a service; print the counts; return the errors."""
    from tests.blocks import served

    with TemporaryDirectory() as name, served(Path(name)) as env:
        base = Path(name) / "pages"
        base.mkdir()
        with ThreadPoolExecutor(PAGES_AT_ONCE) as pool:
            errors = [
                error for error in pool.map(lambda page: run_page(page, base, env), chosen) if error
            ]
    every = [step for page in chosen for step in steps(page) if not step.hidden]
    left = [step for step in every if step.reason]
    print(f"blocks: {len(every) - len(left)} run, {len(left)} left out")
    for reason in sorted({step.reason for step in left}):
        print(f"  {sum(step.reason == reason for step in left):3} left out: {reason}")
    return errors


def execute(blocks: list[tuple[str, str]]) -> None:
    """Run blocks one after the other, Python in one namespace; an exception ends the process."""
    sys.path[0] = ""  # modules of the page's folder, not of this file's
    names: dict[str, object] = {"__name__": "page"}
    for number, (language, text) in enumerate(blocks):
        if language == "python":
            named = re.match(r"# (\w+\.py)\n", text)  # a block that is a file, by its first line
            file = Path(named[1] if named else f"block_{number}.py")  # traces read sources
            file.write_text(text)
            exec(compile(text, str(file), "exec"), names)
        else:
            subprocess.run(["bash", "-euo", "pipefail", "-c", text], check=True)


if __name__ == "__main__":
    execute(json.load(sys.stdin))
