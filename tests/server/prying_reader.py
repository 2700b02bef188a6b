"""A reader of models that tries to leave its sandbox; the model is the path of a folder."""

import json
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from ansorpy.server.service.model_child import _request


def describe() -> None:
    """Write the attempts that worked, as the error of the reader."""
    folder = Path(Path(_request()["path"]).read_text())
    attempts: dict[str, Callable[[], object]] = {
        "read": (folder / "secret").read_text,
        "write": lambda: (folder / "new").write_text("x"),
        "program": lambda: subprocess.run(["/bin/true"], check=True),
        "socket": socket.socket,
    }
    told = ", ".join(f"{name}: {_works(attempt)}" for name, attempt in attempts.items())
    sys.stdout.write(json.dumps({"error": told}) + "\n")


def _works(attempt: Callable[[], object]) -> bool:
    try:
        attempt()
    except OSError:
        return False
    return True
