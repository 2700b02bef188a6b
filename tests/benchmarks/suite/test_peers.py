"""Every peer computes the formulas, at tiny sizes, where its environment is installed.

`ANSORPY_PEERS` names the folder of the environments; `make bench-peers` makes it.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.suite.contestants import CONTESTANTS, METASCHEDULE, OWN, PEERS, Contestant
from benchmarks.suite.environments import FOLDER, ROOT, pythons, settings_of
from benchmarks.suite.peers.check import FAILED
from benchmarks.suite.peers.tvm_peer import UNTUNED
from benchmarks.suite.small import FORMS
from tests.night import night

ENVIRONMENTS = pythons(Path(os.environ.get("ANSORPY_PEERS", FOLDER)))
NOT_OFFERED = {
    "numpy": 13, "torch": 0, "torch_channels_last": 15, "torch_packed": 14, "torch_compile": 0,
    "ort": 1, "ort_rt": 11, "openvino": 1, "jax": 0, "halide": 15, METASCHEDULE: 0,
}  # fmt: skip
TOLERANCE = 1e-5  # float32, sums of at most a few hundred products


def found(one: Contestant, python: Path) -> dict[str, float | str]:
    """Return the result of the check of a contestant."""
    variant = UNTUNED if one.name == METASCHEDULE else one.variant
    done = subprocess.run(
        [str(python), "-m", "benchmarks.suite.peers.check", one.module, variant], cwd=ROOT,
        env=settings_of(one, 1), capture_output=True, text=True, check=True, timeout=280,
    )  # fmt: skip
    answer: dict[str, float | str] = json.loads(done.stdout)
    return answer


@pytest.mark.night
@pytest.mark.parametrize("name", night(PEERS, {*PEERS} - {"torch_compile", "halide"}))  # minutes
def test_a_peer_computes_every_form_that_it_offers(name: str) -> None:
    one = CONTESTANTS[name]
    if one.name == "numpy":
        python = Path(sys.executable)
    elif one.environment in ENVIRONMENTS:
        python = ENVIRONMENTS[one.environment]
    else:
        pytest.skip(f"no environment {one.environment}: make bench-peers")
    answers = found(one, python)
    assert set(answers) == set(FORMS)
    failed = [why for why in answers.values() if isinstance(why, str) and FAILED in why]
    assert failed == []
    assert all(away < TOLERANCE for away in answers.values() if isinstance(away, float))
    refused = [why for why in answers.values() if isinstance(why, str)]
    assert len(refused) == NOT_OFFERED[name]
    assert one.environment != OWN
