"""Hooks of mkdocs: pages of the repository outside of docs/, sources as pages, generated reference.

A link of a page leads to a file of the repository, so that it works in a checkout as well. Files
outside of docs/ have a place below `repo/` in the site: a page, a copy of a picture, or a page with
the source of any other file.
"""

import json
import os
import posixpath
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from mkdocs.structure.files import File, Files

ROOT: Final = Path(__file__).resolve().parents[2]
LINK: Final = re.compile(r"(\]\()([^)#\s]*)(#[^)\s]*)?(\))")
FENCE: Final = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
PICTURES: Final = {".svg", ".png"}
SOURCE_BYTES: Final = 200_000  # a longer file is a page that tells its size
LANGUAGES: Final = {".py": "python", ".json": "json", ".c": "c", ".yml": "yaml", ".toml": "toml"}
# Pages of the root and of the benchmarks that have a place in the navigation.
PAGES: Final = ("GLOSSARY.md", "CONTRIBUTING.md", "ARCHITECTURE.md", "SECURITY.md", "CHANGELOG.md")


def place(path: str) -> str:
    """Return the address in the site's sources of a path of the repository."""
    if path.startswith("docs/"):
        path = path.removeprefix("docs/")
        return f"{path}/README.md" if (ROOT / "docs" / path).is_dir() else path
    if (ROOT / path).is_dir():
        return (
            f"repo/{path}/index.md"
            if not (ROOT / path / "README.md").exists()
            else f"repo/{path}/README.md"
        )
    return f"repo/{path}" + ("" if Path(path).suffix in {".md", *PICTURES} else ".md")


def targets(path: str) -> Iterator[str]:
    """Yield the paths of the repository that a page links to."""
    text = FENCE.sub("", (ROOT / path).read_text())
    for _, link, _, _ in LINK.findall(text):
        if link and ":" not in link:
            yield posixpath.normpath(posixpath.join(posixpath.dirname(path), link))


def linked() -> dict[str, str]:
    """Return the place of each path outside of docs/ that pages of the site lead to."""
    waiting = [*PAGES, "benchmarks/README.md"]
    waiting += [str(page.relative_to(ROOT)) for page in (ROOT / "docs").rglob("*.md")]
    places: dict[str, str] = {}
    seen = set()
    while waiting:
        path = waiting.pop()
        if path in seen or not (ROOT / path).exists():
            continue
        seen.add(path)
        if not path.startswith("docs/"):
            places[path] = place(path)
        if (ROOT / path).is_dir() and (ROOT / path / "README.md").exists():
            path = f"{path}/README.md"
        if path.endswith(".md"):
            waiting += targets(path)
    return places


def source_page(path: str) -> str:
    """Return a page with the text of a file, or the list of a folder."""
    file = ROOT / path
    head = "---\nsearch: {exclude: true}\n---\n"
    if file.is_dir():
        names = sorted(each.name for each in file.iterdir() if each.name[0] not in "_.")
        return f"{head}# {path}\n\n" + "\n".join(f"- `{name}`" for name in names) + "\n"
    if file.stat().st_size > SOURCE_BYTES:
        return f"{head}# {path}\n\nA file of {file.stat().st_size // 1000} KB in the repository.\n"
    language = LANGUAGES.get(file.suffix, "text")
    return f"{head}# {path}\n\n````{language}\n{file.read_text()}\n````\n"


def on_files(files: Files, config: Any) -> Files:
    """Add pages of the repository, sources, and the generated reference."""
    for path, uri in linked().items():
        file = ROOT / path
        if file.is_dir() and uri.endswith("README.md"):
            file = file / "README.md"
        if files.get_file_from_path(uri):
            continue
        if file.suffix in {".md", *PICTURES}:
            files.append(File.generated(config, uri, abs_src_path=str(file)))
        else:
            files.append(File.generated(config, uri, content=source_page(path)))
    files.append(File.generated(config, "reference/commands.md", content=commands()))
    files.append(File.generated(config, "reference/routes.md", content=routes()))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Files) -> str:
    """Turn links to files of the repository into links of the site."""
    uri = page.file.src_uri
    if uri.startswith("reference/"):
        return markdown
    path = uri.removeprefix("repo/") if uri.startswith("repo/") else f"docs/{uri}"

    def moved(link: re.Match[str]) -> str:
        begin, address, anchor, end = link.groups()
        if not address or ":" in address:
            return link[0]
        target = place(posixpath.normpath(posixpath.join(posixpath.dirname(path), address)))
        return (
            begin + posixpath.relpath(target, posixpath.dirname(uri) or ".") + (anchor or "") + end
        )

    parts = re.split(r"(^```.*?^```$|^````.*?^````$)", markdown, flags=re.MULTILINE | re.DOTALL)
    return "".join(part if part.startswith("```") else LINK.sub(moved, part) for part in parts)


def commands() -> str:
    """Return a page with the help of every command."""
    env = {**os.environ, "COLUMNS": "100", "NO_COLOR": "1", "TERM": "dumb"}
    script = (
        "import json, typer.main\n"
        "from ansorpy.server.cli import app\n"
        "print(json.dumps(list(typer.main.get_command(app).commands)))"
    )
    names = json.loads(run([sys.executable, "-c", script], env))
    text = "# Every command\n\nThe help of the program itself, with all options.\n"
    for name in names:
        shown = run([sys.executable, "-m", "ansorpy", name, "--help-all"], env)
        text += f"\n## ansorpy {name}\n\n```text\n{shown.strip()}\n```\n"
    return text


def routes() -> str:
    """Return a page with a row for every route of the service, from its OpenAPI document."""
    script = (
        "import json\nfrom ansorpy.server.app import create_app\n"
        "from ansorpy.server.settings import ServiceSettings\n"
        "print(json.dumps(create_app(ServiceSettings()).openapi()['paths']))"
    )
    paths = json.loads(run([sys.executable, "-c", script], dict(os.environ)))
    rows = [
        f"| `{method.upper()}` | `{path}` | {entry.get('summary', '').replace('|', ' ')} |"
        for path, entries in paths.items()
        for method, entry in entries.items()
    ]
    head = "# Every route\n\nFrom the OpenAPI document of the service, `/openapi.json`.\n\n"
    return head + "| method | path | |\n|---|---|---|\n" + "\n".join(rows) + "\n"


def run(command: list[str], env: dict[str, str]) -> str:
    """Return the output of a command."""
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=False, cwd=ROOT)
    if done.returncode:
        raise RuntimeError(f"{command}: {done.stderr}")
    return done.stdout
