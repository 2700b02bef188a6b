"""Blocks of Markdown pages: found, made small, and run in a folder of their own."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.server.process import process

ROOT = Path(__file__).parent.parent
FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
RUN_S = 240  # deadline of one snippet on a busy machine
# Extents of the README and of its example, and those that run here: untuned loops of the former
# take 0.1 s a call, and every final race calls them.
EXTENTS = {"512": "64", "56": "14", "58": "16"}
EXAMPLE = Path("examples/conv2d_bias_relu.te")


def shrunk(text: str) -> str:
    """Return a text with the extents that run here."""
    return re.sub(rf"\b({'|'.join(EXTENTS)})\b", lambda found: EXTENTS[found[0]], text)


@dataclass(frozen=True)
class Snippet:
    """One fenced block."""

    language: str
    text: str

    def small(self, url: str) -> str:
        """Return it with small extents and few trials, for a service at `url`."""
        text = re.sub(r'(trials["= :]+)\d+', r"\g<1>4", shrunk(self.text))
        return text.replace("http://localhost:8720", url).replace(
            "localhost:8720", url.removeprefix("http://")
        )


def snippets(*pages: str) -> list[Snippet]:
    """Return the fenced blocks of pages."""
    return [Snippet(*found) for page in pages for found in FENCE.findall((ROOT / page).read_text())]


def environment(folder: Path) -> dict[str, str]:
    """Return the environment of commands in a folder that has the example."""
    (folder / EXAMPLE).parent.mkdir()
    (folder / EXAMPLE).write_text(shrunk((ROOT / EXAMPLE).read_text()))
    return {
        **os.environ,
        "ANSORPY_DATA_DIR": str(folder / "data"),
        "XDG_DATA_HOME": str(folder / "user"),
        "XDG_CACHE_HOME": str(folder / "cache"),
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
    }


@contextmanager
def served(folder: Path) -> Iterator[dict[str, str]]:
    """Run a service with a worker; give the environment of its clients."""
    env = environment(folder)
    own = {name: env[name] for name in env if env[name] != os.environ.get(name)}
    url = f"sqlite:///{folder / 'service.db'}"
    with process(url, ANSORPY_EMBEDDED_WORKER="1", **own) as running:
        yield {**env, "ANSORPY_URL": running.url}


def run(command: list[str], folder: Path, env: dict[str, str]) -> str:
    found = subprocess.run(
        command, cwd=folder, env=env, capture_output=True, text=True, timeout=RUN_S, check=False
    )
    assert found.returncode == 0, f"{command}\n{found.stdout}\n{found.stderr}"
    return found.stdout
