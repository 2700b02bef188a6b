"""Checks of the built site: links and anchors, third parties, words, paths from the home page."""

import json
import posixpath
import re
from collections import deque
from html.parser import HTMLParser
from pathlib import Path
from typing import Any, Final
from urllib.parse import unquote, urlsplit

import yaml

ROOT: Final = Path(__file__).resolve().parents[2]
SITE: Final = ROOT / ".site"
MOST_WORDS: Final = 25_000  # without maintainers' pages and the generated reference
MOST_CLICKS: Final = 3
# Pages that a test or a hook writes from the program.
GENERATED: Final = {
    "reference/commands.md", "reference/routes.md", "reference/python.md", "operators.md",
    "rules.md", "passes.md", "service/settings.md",
}  # fmt: skip
# Parts of pages that a program writes, and comments, which no reader sees.
MADE: Final = re.compile(r"<!-- \w+: begin.*?<!-- \w+: end -->|<!--.*?-->", re.DOTALL)
CODE: Final = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
# Tasks of readers, and the page that each must reach.
WANTED: Final = {
    "tune my operator": "text.html",
    "with dynamic batch": "every-batch.html",
    "use it in a PyTorch model": "torch.html",
    "deploy for a team": "service/deployment.html",
    "use a second machine": "service/second-machine.html",
    "GPU": "cuda.html",
    "understand my result": "results.html",
    "why is it slower than ONNX Runtime": "understand/slower.html",
}
# Elements and attributes that a browser loads by itself.
LOADED: Final = {
    ("script", "src"), ("img", "src"), ("iframe", "src"), ("source", "src"), ("video", "src"),
    ("object", "data"), ("embed", "src"), ("image", "href"), ("use", "href"), ("form", "action"),
}  # fmt: skip
LINKED: Final = {"canonical", "alternate", "next", "prev", "edit"}  # told, not loaded


class Page(HTMLParser):
    """Links, loaded addresses and anchors of a page; `content` has the links of its article."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: list[str] = []
        self.content: list[str] = []
        self.loaded: list[str] = []
        self.anchors: set[str] = set()
        self.articles = 0
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note the attributes of an element."""
        values = {name: value or "" for name, value in attrs}
        self.anchors |= {values[name] for name in ("id", "name") if name in values}
        self.articles += tag == "article"
        if tag == "a" and "href" in values:
            self.links.append(values["href"])
            if self.articles:
                self.content.append(values["href"])
        if tag == "link" and values.get("rel") not in LINKED:
            self.loaded.append(values.get("href", ""))
        self.loaded += [value for name, value in values.items() if (tag, name) in LOADED]
        self.loaded += re.findall(r"url\(([^)]+)\)", values.get("style", ""))

    def handle_endtag(self, tag: str) -> None:
        """Leave an article."""
        self.articles -= tag == "article"


def read() -> dict[str, Page]:
    """Return the pages of the site by their paths."""
    return {
        str(path.relative_to(SITE)): Page(path.read_text())
        for path in SITE.rglob("*.html")
        if path.name != "404.html"
    }


def outside(address: str) -> bool:
    """Tell whether an address is of another host."""
    return bool(urlsplit(address.strip("'\" ")).netloc)


def dead_links(pages: dict[str, Page]) -> list[str]:
    """Return links and loaded files of the site that do not exist, anchors included."""
    errors = []
    for name, page in pages.items():
        for address in (*page.links, *page.loaded):
            parts = urlsplit(address)
            if parts.scheme or parts.netloc or not address:
                continue
            target = unquote(parts.path)
            path = (
                posixpath.normpath(posixpath.join(posixpath.dirname(name), target))
                if target
                else name
            )
            path = f"{path}/index.html" if (SITE / path).is_dir() else path.removeprefix("./")
            path = posixpath.normpath(path)
            if not (SITE / path).exists():
                errors.append(f"{name}: {address} does not exist")
            anchor = unquote(parts.fragment)
            if anchor and path in pages and anchor not in pages[path].anchors | {"__skip"}:
                errors.append(f"{name}: {address} has no such anchor")
    return errors


def third_parties(pages: dict[str, Page]) -> list[str]:
    """Return addresses of other hosts that a browser would load, in pages and styles."""
    errors = [
        f"{name}: loads {address}"
        for name, page in pages.items()
        for address in page.loaded
        if outside(address)
    ]
    for style in SITE.rglob("*.css"):
        for address in re.findall(r"(?:url\(|@import )([^)\s;]+)", style.read_text()):
            if outside(address):
                errors.append(f"{style.relative_to(SITE)}: loads {address}")
    return errors


def paths(pages: dict[str, Page]) -> list[str]:
    """Print the clicks from the home page to each wanted page, by links in texts; return errors."""
    came: dict[str, str] = {"index.html": ""}
    waiting = deque(["index.html"])
    while waiting:
        name = waiting.popleft()
        for address in pages[name].content:
            parts = urlsplit(address)
            if parts.scheme or not parts.path:
                continue
            path = posixpath.normpath(posixpath.join(posixpath.dirname(name), parts.path))
            if path in pages and path not in came:
                came[path] = name
                waiting.append(path)
    errors = []
    print("I want to:")
    for task, target in WANTED.items():
        clicks = []
        while target and target in came:
            clicks.append(target)
            target = came[target]
        print(f"  {task}: {' > '.join(reversed(clicks))}")
        if not clicks or len(clicks) - 1 > MOST_CLICKS:
            errors.append(f"{task}: not within {MOST_CLICKS} clicks of the home page")
    return errors


def sections() -> dict[str, list[str]]:
    """Return the pages of each section of the navigation."""

    def leaves(entry: Any) -> list[str]:
        match entry:
            case str():
                return [entry]
            case list():
                return [leaf for each in entry for leaf in leaves(each)]
            case _:
                return [leaf for each in entry.values() for leaf in leaves(each)]

    text = (Path(__file__).parent / "mkdocs.yml").read_text()
    nav = yaml.safe_load(text)["nav"]
    return {title: leaves(entry) for each in nav for title, entry in each.items()}


def words_of(page: str) -> tuple[int, int]:
    """Return the words of a page, or of the cells of a notebook: of the text, and of its code.

    Comments and parts that a program writes do not count.
    """
    path = ROOT / page.removeprefix("repo/") if page.startswith("repo/") else ROOT / "docs" / page
    text = path.read_text()
    if page.endswith(".ipynb"):
        cells = json.loads(text)["cells"]
        fences = {"code": "```\n", "markdown": ""}
        text = "\n".join(
            f"{fences[cell['cell_type']]}{''.join(cell['source'])}\n{fences[cell['cell_type']]}"
            for cell in cells
        )
    shown = MADE.sub("", text)
    prose = CODE.sub("", shown)
    every, plain = (
        sum(any(map(str.isalnum, word)) for word in each.split()) for each in (shown, prose)
    )
    return plain, every - plain


def words() -> list[str]:
    """Print the words of each section; return an error if there are too many."""
    total = code = 0
    print("words: text, code blocks")
    for title, names in sections().items():
        counts = [words_of(name) for name in names if name not in GENERATED]
        plain, blocks = (sum(column) for column in zip(*counts, strict=True))
        print(f"  {plain:6} {blocks:6} {title}")
        if title != "Maintainers":
            total, code = total + plain, code + blocks
    print(f"  {total:6} {code:6} without Maintainers and the generated reference")
    return [f"{total} words of text; expected at most {MOST_WORDS}"] if total > MOST_WORDS else []


def check() -> list[str]:
    """Check the built site; print the figures; return the errors."""
    pages = read()
    links = sum(len(page.links) for page in pages.values())
    dead, others = dead_links(pages), third_parties(pages)
    print(f"links: {links} in {len(pages)} pages, {len(dead)} dead")
    print(f"loaded from other hosts: {len(others)}")
    return [*dead, *others, *words(), *paths(pages)]
