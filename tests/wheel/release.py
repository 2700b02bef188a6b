"""Build a release, check it and tag it: `make release`. Nothing is uploaded.

The tree must be clean, and CHANGELOG.md, CITATION.cff and pyproject.toml must name one version that
has no tag yet. The wheel and the source archive go to dist/; the wheel is used in clean
environments (`tests.wheel.run`); an annotated tag then has the changelog of the version as its
message.
"""

import re
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from pathlib import Path
from typing import Final

from tests.wheel.run import ROOT, UV, walks

HEADING: Final = re.compile(r"^## \[(.+?)\] - (.+)$", re.MULTILINE)
DATE: Final = re.compile(r"\d{4}-\d{2}-\d{2}")
KINDS: Final = ["lowest", "locked"]


def git(root: Path, *words: str) -> str:
    """Return the output of a command of git."""
    done = subprocess.run(
        ["git", "-C", str(root), *words], capture_output=True, text=True, check=True
    )
    return done.stdout.strip()


def version_of(root: Path) -> str:
    """Return the version that pyproject.toml names."""
    return str(tomllib.loads((root / "pyproject.toml").read_text())["project"]["version"])


def obstacles(root: Path) -> list[str]:
    """Return the reasons for which a checkout cannot be released."""
    version = version_of(root)
    heading = HEADING.search((root / "CHANGELOG.md").read_text())
    cited = re.search(r"^version: (.+)$", (root / "CITATION.cff").read_text(), re.MULTILINE)
    reasons = []
    if git(root, "status", "--porcelain"):
        reasons.append("the tree has changes; expected all of them committed")
    if git(root, "tag", "--list", f"v{version}"):
        reasons.append(f"tag v{version} exists; expected a new version in pyproject.toml")
    if heading is None or heading[1] != version or not DATE.fullmatch(heading[2]):
        told = "no heading" if heading is None else repr(heading[0])
        reasons.append(f"CHANGELOG.md begins with {told}; expected '## [{version}] - YYYY-MM-DD'")
    if cited is None or cited[1] != version:
        reasons.append(f"CITATION.cff names another version; expected {version}")
    return reasons


def changes(root: Path) -> str:
    """Return the section of the newest version in the changelog."""
    return (root / "CHANGELOG.md").read_text().split("\n## ")[1].partition("\n")[2].strip()


def build(root: Path, folder: Path) -> tuple[Path, Path]:
    """Build the wheel and the source archive of a checkout; return them.

    Raises:
        SystemExit: a file is missing from them, or does not belong there.
    """
    subprocess.run([*UV, "build", "--out-dir", str(folder), str(root)], check=True)
    version = version_of(root)
    (wheel,) = folder.glob(f"ansorpy-{version}-*.whl")
    source = folder / f"ansorpy-{version}.tar.gz"
    with zipfile.ZipFile(wheel) as packed, tarfile.open(source) as archive:
        inside, files = packed.namelist(), archive.getnames()
    strange = [name for name in inside if not name.startswith(("ansorpy/", f"ansorpy-{version}."))]
    needed = {"ansorpy/py.typed", "ansorpy/rules/__init__.py", "ansorpy/server/app.py"}
    lost = sorted(needed - {*inside})
    lost += [name for name in ("LICENSE", "README.md") if f"ansorpy-{version}/{name}" not in files]
    if strange or lost:
        raise SystemExit(f"cannot release {wheel.name}: {strange[:3]} are in it, {lost} are not")
    return wheel, source


def main() -> None:
    """Build, check and tag the version of this checkout."""
    reasons = obstacles(ROOT)
    if reasons:
        raise SystemExit("cannot release because " + "; and ".join(reasons))
    wheel, source = build(ROOT, ROOT / "dist")
    walks(wheel, KINDS)
    tag = f"v{version_of(ROOT)}"
    git(ROOT, "tag", "--annotate", tag, "--cleanup=verbatim", "--message", changes(ROOT))
    sys.stdout.write(f"{wheel.name} and {source.name} are in dist/, tag {tag} is made\n")


if __name__ == "__main__":
    main()
