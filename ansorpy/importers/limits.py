"""Read a model of a stranger in a child process first, with bounded memory and time.

The importer refuses hostile models by name; a parser in C++ may run out of memory, or crash, before
that. A model that the child could read is read again by the caller.
"""

import json
import os
import resource
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from ansorpy.errors import GraphError

PER_FILE: Final = 8  # bytes of memory per byte of the file: parsed, converted, imported


@dataclass(frozen=True, slots=True)
class ReadLimits:
    """Bounds of the child.

    Args:
        memory_bytes: address space beside PER_FILE times the file.
        cpu_s: processor time; the wall clock may take twice of it.
    """

    memory_bytes: int = 4 << 30
    cpu_s: int = 60
    file_bytes: int = 8 << 30


def check_file(
    path: Path,
    bind: Mapping[str, float] | None = None,
    shapes: Mapping[str, Sequence[int]] | None = None,
    hosted: bool = False,
    limits: ReadLimits | None = None,
) -> None:
    """Verify in a child process that a model can be read; the arguments are those of `read_model`.

    Raises:
        GraphError: the message of the importer, or the limit that the child went beyond.
    """
    bounds = limits or ReadLimits()
    action = f"read {path.name[:80]}"
    size = path.stat().st_size if path.is_file() else -1
    if not 0 <= size <= bounds.file_bytes:
        raise GraphError(
            f"cannot {action} because it is no file of at most {bounds.file_bytes} bytes;"
            " expected an ONNX model"
        )
    request = {
        "path": str(path), "bind": dict(bind or {}), "hosted": hosted, "cpu_s": bounds.cpu_s,
        "shapes": {name: list(shape) for name, shape in (shapes or {}).items()},
        "memory_bytes": bounds.memory_bytes + PER_FILE * size,
    }  # fmt: skip
    try:
        ended = subprocess.run(
            [sys.executable, "-c", _PROGRAM, json.dumps(sys.path)],
            input=json.dumps(request).encode(),
            capture_output=True,
            timeout=2 * bounds.cpu_s,
            check=False,
            env={"OPENBLAS_NUM_THREADS": "1", "PATH": os.defpath},
        )
    except subprocess.TimeoutExpired:
        raise GraphError(
            f"cannot {action} because that takes more than {2 * bounds.cpu_s} s;"
            " expected a smaller model"
        ) from None
    if ended.returncode:
        raise GraphError(
            f"cannot {action} because its reader ended with status {ended.returncode} within"
            f" {bounds.cpu_s} s and {request['memory_bytes']} bytes; expected a smaller model"
        )
    message = json.loads(ended.stdout)
    if message:
        raise GraphError(message)


_PROGRAM: Final = (
    "import json, sys; sys.path[:] = json.loads(sys.argv[1]);"
    " from ansorpy.importers.limits import main; main()"
)


def main() -> None:
    """Read the model that standard input names; write the message of its error as JSON."""
    request = json.load(sys.stdin)
    for kind, value in (
        (resource.RLIMIT_AS, request["memory_bytes"]), (resource.RLIMIT_CPU, request["cpu_s"]),
        (resource.RLIMIT_CORE, 0), (resource.RLIMIT_FSIZE, 0), (resource.RLIMIT_NOFILE, 256),
    ):  # fmt: skip
        resource.setrlimit(kind, (value, value))
    from ansorpy.importers.model_file import read_model

    message = ""
    try:
        read_model(Path(request["path"]), request["bind"], request["shapes"], request["hosted"])
    except GraphError as error:
        message = str(error)
    except (MemoryError, RecursionError) as error:
        message = f"cannot read the model because of {error!r}; expected a smaller one"
    sys.stdout.write(json.dumps(message))
