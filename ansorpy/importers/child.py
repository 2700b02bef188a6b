"""A child process that reads a file of a stranger, with bounded memory, time and output.

The child gets a request as JSON and writes lines of text. Nothing that it writes is unpickled.
"""

import json
import os
import resource
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any, Final

from ansorpy.errors import GraphError
from ansorpy.parent import end_with_parent

PER_FILE: Final = 8  # bytes of memory per byte of the file: parsed, converted, imported
ANSWER_BYTES: Final = 1 << 20  # size of the answer of a child


@dataclass(frozen=True, slots=True)
class ReadLimits:
    """Bounds of the child.

    Args:
        memory_bytes: address space beside PER_FILE times the file.
        cpu_s: processor time; the wall clock may take twice of it.
        file_bytes: largest file that is read.
    """

    memory_bytes: int = 4 << 30
    cpu_s: int = 60
    file_bytes: int = 8 << 30


@dataclass(frozen=True, slots=True)
class ChildAnswer:
    """The lines that a child wrote, and the limit that ended it, as a message, "" if none did."""

    lines: Sequence[str]
    refusal: str


def ask_child(
    entry: str,
    path: Path,
    request: Mapping[str, Any],
    limits: ReadLimits,
    *,
    written_bytes: int = 0,
    wrap: Callable[[list[str]], list[str]] = list,
) -> ChildAnswer:
    """Run a function in a child process and return its answer.

    Args:
        entry: MODULE:FUNCTION; the function reads its request by `child_request`.
        path: the file that the child reads.
        request: facts for the function, JSON.
        written_bytes: size of a file that the child may write.
        wrap: makes another command of a command, such as one in a sandbox.

    Raises:
        GraphError: the path is no file, or the file is too large.
    """
    action = f"read {path.name[:80]}"
    size = path.stat().st_size if path.is_file() else -1
    if not 0 <= size <= limits.file_bytes:
        raise GraphError(
            f"cannot {action} because it is no file of at most {limits.file_bytes} bytes;"
            " expected an ONNX model"
        )
    memory_bytes = limits.memory_bytes + PER_FILE * size
    whole = {
        **request, "path": str(path), "memory_bytes": memory_bytes, "cpu_s": limits.cpu_s,
        "written_bytes": max(written_bytes, ANSWER_BYTES),
    }  # fmt: skip
    module, _, function = entry.partition(":")
    program = (
        "import json, sys; sys.path[:] = json.loads(sys.argv[1]);"
        f" from {module} import {function} as run; run()"
    )
    # An answer in a file is bounded by the limit of file sizes; a pipe would fill our memory.
    with TemporaryFile() as answer:
        try:
            ended = subprocess.run(
                wrap(
                    [sys.executable, "-P", "-c", program, json.dumps(list(filter(None, sys.path)))]
                ),
                input=json.dumps(whole).encode(),
                stdout=answer,
                stderr=subprocess.DEVNULL,
                timeout=2 * limits.cpu_s,
                check=False,
                env={"OPENBLAS_NUM_THREADS": "1", "PATH": os.defpath},
                start_new_session=True,
            )
        except subprocess.TimeoutExpired:
            return ChildAnswer(
                _lines(answer.fileno()),
                f"cannot {action} because that takes more than {2 * limits.cpu_s} s;"
                " expected a smaller model",
            )
        if ended.returncode:
            return ChildAnswer(
                _lines(answer.fileno()),
                f"cannot {action} because its reader ended with status {ended.returncode} within"
                f" {limits.cpu_s} s and {memory_bytes} bytes; expected a smaller model",
            )
        return ChildAnswer(_lines(answer.fileno()), "")


def child_request(confine: Callable[[Mapping[str, Any]], None] | None = None) -> dict[str, Any]:
    """Return the request of this child, after its limits hold.

    Args:
        confine: called before the limits, with the request.
    """
    end_with_parent()
    request: dict[str, Any] = json.load(sys.stdin)
    if confine is not None:
        confine(request)
    for kind, value in (
        (resource.RLIMIT_AS, request["memory_bytes"]), (resource.RLIMIT_CPU, request["cpu_s"]),
        (resource.RLIMIT_CORE, 0), (resource.RLIMIT_FSIZE, request["written_bytes"]),
        (resource.RLIMIT_NOFILE, 256),
    ):  # fmt: skip
        resource.setrlimit(kind, (value, value))
    return request


def _lines(descriptor: int) -> Sequence[str]:
    """Return the whole lines of the answer of a child."""
    text = os.pread(descriptor, ANSWER_BYTES, 0).decode("utf-8", "replace")
    *whole, _ = text.split("\n")
    return whole
