"""Read a model of a stranger in a child process first, with bounded memory and time.

The importer refuses hostile models by name; a parser in C++ may run out of memory, or crash, before
that. A model that the child could read is read again by the caller.
"""

import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ansorpy.errors import GraphError, SpecError
from ansorpy.importers.child import ReadLimits, ask_child, child_request
from ansorpy.te.bindings import Bound, bound, bound_as_json


def check_file(
    path: Path,
    bind: Bound | None = None,
    shapes: Mapping[str, Sequence[int]] | None = None,
    hosted: bool = False,
    limits: ReadLimits | None = None,
) -> None:
    """Verify in a child process that a model can be read; arguments as for `read_model`.

    Raises:
        GraphError: the message of the importer, or the limit that the child went beyond.
    """
    request = read_request(bind, shapes, hosted)
    answer = ask_child(f"{__name__}:main", path, request, limits or ReadLimits())
    message = answer.refusal or "".join(map(json.loads, answer.lines))
    if message:
        raise GraphError(message)


def read_request(
    bind: Bound | None = None,
    shapes: Mapping[str, Sequence[int]] | None = None,
    hosted: bool = False,
) -> dict[str, Any]:
    """Return the arguments of `read_model` as the request of a child."""
    return {
        "bind": bound_as_json(bind or {}), "hosted": hosted,
        "shapes": {name: list(shape) for name, shape in (shapes or {}).items()},
    }  # fmt: skip


def refusal(request: Mapping[str, Any]) -> str:
    """Return the message of the importer about the model of a request, "" if it can be read."""
    from ansorpy.importers.model_file import read_model

    try:
        bind = bound(request["bind"])
        read_model(Path(request["path"]), bind, request["shapes"], request["hosted"])
    except SpecError as error:
        return str(error)
    except (MemoryError, RecursionError) as error:
        return f"cannot read the model because of {error!r}; expected a smaller one"
    return ""


def main() -> None:
    """Read the model that standard input names; write the message of its error as JSON."""
    sys.stdout.write(json.dumps(refusal(child_request())) + "\n")
