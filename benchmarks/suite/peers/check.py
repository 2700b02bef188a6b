"""Check the results of a peer: every form at a tiny size, in the peer's environment.

    python -m benchmarks.suite.peers.check MODULE [VARIANT]

Prints a JSON object: by form, the difference from float64, or the reason why there is no result.
"""

import json
import os
import sys
import tempfile
from pathlib import Path
from typing import Final

import numpy as np

from benchmarks.suite.forms import Form
from benchmarks.suite.peers.common import Job, Unfit, aligned, module
from benchmarks.suite.reference import away, random_inputs, reference
from benchmarks.suite.small import FORMS

FAILED: Final = "failed:"


def checked(peer: str, variant: str, name: str, form: Form, folder: Path) -> float | str:
    """Return the difference from float64, or the reason why the peer lacks the form."""
    given = random_inputs(form, 0)
    held = {key: aligned(array) for key, array in given.items()}
    job = Job(name, form, held, 1, variant, folder)
    try:
        ready = module(f"benchmarks.suite.peers.{peer}").prepare(job)
        for _ in range(2):  # a second call must not depend on the first
            ready.call()
    except Unfit as why:
        return str(why)
    except Exception as error:  # noqa: BLE001 -- the border to code that is not ours
        return f"{FAILED} {error}"
    return away(np.asarray(ready.output()), reference(form, given))


def main() -> None:
    """Check all forms; output of libraries goes to standard error."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    peer, variant = (*sys.argv[1:], "")[:2]
    with tempfile.TemporaryDirectory(prefix="ansorpy-check-") as folder:
        found = {
            name: checked(peer, variant, name, form, Path(folder) / name)
            for name, form in FORMS.items()
        }
    json.dump(found, answers)
    answers.flush()


if __name__ == "__main__":
    main()
