"""The child process that reads and simplifies models of tenants, confined and bounded.

It writes lines of JSON; the first line of a description comes before the costly part, so that it
is there if a limit ends the child.
"""

import json
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from ansorpy.errors import GraphError
from ansorpy.importers.child import child_request
from ansorpy.measure.sandbox.confine import confine

SIMPLIFIED: Final = "simplified.onnx"  # the file beside the model


def describe() -> None:
    """Write the facts of a model, then the refusal of the importer, "" if it can be read."""
    request = _request()
    from ansorpy.importers.limits import refusal
    from ansorpy.importers.onnx_facts import file_facts

    try:
        facts = file_facts(Path(request["path"]))
    except GraphError as error:
        _say({"error": str(error)})
        return
    _say({"facts": facts})
    _say({"refusal": refusal(request)})


def simplify() -> None:
    """Write the simplified model beside the model, then the report."""
    request = _request()
    from ansorpy.model.simplify import simplify_file
    from ansorpy.te.bindings import bound

    path = Path(request["path"])
    try:
        simplified = simplify_file(
            path,
            path.with_name(SIMPLIFIED),
            bound(request["bind"]),
            request["shapes"],
            request["exact"],
        )
    except (GraphError, MemoryError, RecursionError) as error:
        told = str(error) if isinstance(error, GraphError) else (
            f"cannot simplify the model because of {error!r}; expected a smaller one"
        )  # fmt: skip
        _say({"error": told})
        return
    fired: dict[str, dict[str, int]] = {}
    for one in simplified.fired:
        sums = fired.setdefault(one.name, {"sites": 0, "nodes_removed": 0})
        sums["sites"] += one.sites
        sums["nodes_removed"] += one.nodes_before - one.nodes_after
    _say(
        {
            "report": {
                "before": dict(simplified.before),
                "after": dict(simplified.after),
                "fired": [{"name": name, **sums} for name, sums in fired.items()],
                "compared_by": simplified.comparison.by,
                "error": simplified.comparison.error,
                "error_of_original": simplified.comparison.before,
                "error_of_simplified": simplified.comparison.after,
            }
        }
    )


def _request() -> dict[str, Any]:
    """Return the request, with the path below the working directory: messages contain it."""
    request = child_request(_confine)
    path = Path(request["path"])
    os.chdir(path.parent)
    return {**request, "path": path.name}


def _confine(request: Mapping[str, Any]) -> None:
    confine(request["sandbox"])


def _say(message: Mapping[str, Any]) -> None:
    sys.stdout.write(json.dumps(message) + "\n")
    sys.stdout.flush()
