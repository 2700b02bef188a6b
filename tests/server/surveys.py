"""A stand-in for the survey process of a cluster, and the lines that it prints.

    python -m tests.server.surveys FILE

prints the lines of FILE, waits for the end of its input, and appends `end` to FILE.ends.
"""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ansorpy.server.schemas.survey import SurveyReport

SLOT: dict[str, Any] = {
    "name": "north/0", "host": "north", "address": "10.0.0.2", "kind": "bd495f1bbf07f2ce",
    "version": "0.2.0", "cores": [0, 1], "state": "idle", "until": "", "doing": None, "waiting": 0,
    "busy_s": 0.0, "up_s": 10.0, "trials": 0, "drift": None,
}  # fmt: skip


def slot(name: str = "north/0", **changes: Any) -> dict[str, Any]:
    """Return a slot of a report."""
    return {**SLOT, "name": name, "host": name.partition("/")[0], **changes}


def work(job: str, tenant: int = 1, **changes: Any) -> dict[str, Any]:
    """Return the work of a slot for a job."""
    return {
        "tenant": str(tenant), "job": job, "method": "measure", "trials": 16, "seconds": 1.2,
        **changes,
    }  # fmt: skip


def line(*slots: dict[str, Any], reason: str = "") -> str:
    """Return the line of a report."""
    return json.dumps({"slots": list(slots), "reason": reason})


def report(*slots: dict[str, Any], reason: str = "") -> SurveyReport:
    """Return a report."""
    return SurveyReport.model_validate_json(line(*slots, reason=reason))


def starter(file: Path) -> Callable[[str], "subprocess.Popen[bytes]"]:
    """Return a function that starts the stand-in with the lines of a file."""

    def start(_: str) -> "subprocess.Popen[bytes]":
        return subprocess.Popen(
            [sys.executable, __file__, str(file)], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            bufsize=0, start_new_session=True, env={"PYTHONPATH": ":".join(filter(None, sys.path))},
        )  # fmt: skip

    return start


def main(file: Path) -> None:
    """Print the lines, and wait for the end of the input; `EXIT` ends the process before."""
    for text in file.read_text().splitlines():
        if text == "EXIT":
            sys.exit(3)
        sys.stdout.write(text + "\n")
        sys.stdout.flush()
    while sys.stdin.buffer.read(4096):
        pass
    with file.with_suffix(".ends").open("a") as ends:
        ends.write("end\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
