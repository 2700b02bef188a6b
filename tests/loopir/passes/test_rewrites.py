"""Every pass of the pipeline by example: one phase before and after it, as text.

A case of `cases.json` names a definition, the text of a plan (`ansorpy.replay.plan_text`), a row
and the phase that is shown; the cases are in the order of the passes.
The golden files are short enough to be read: at most twenty lines on either side.
"""

import json
from pathlib import Path
from typing import Any, Final

import pytest

from ansorpy.frontends.tc.text import parse
from ansorpy.loopir.nodes import Program
from ansorpy.loopir.printer import text
from ansorpy.plan.bind import passes
from ansorpy.replay import plan_from_text
from ansorpy.target import Target
from tests.conftest import Golden

CASES: Final[dict[str, Any]] = json.loads((Path(__file__).parent / "cases.json").read_text())
FEATURES: Final = (
    "avx2", "avx512bf16", "avx512bw", "avx512dq", "avx512f", "avx512vl", "avx512vnni", "fma",
)  # fmt: skip
AMX: Final = tuple(sorted((*FEATURES, "amx-bf16", "amx-int8", "amx-tile")))
TARGETS: Final = {
    "T1": Target(features=FEATURES, cpu="znver4"),
    "T2": Target(features=FEATURES, cpu="znver4", cores=2),
    # Caches so small that a tensor of a few KiB does not fit.
    "TS": Target(
        features=FEATURES, cpu="znver4", l1_bytes=512, l2_bytes=1024, l3_bytes=2048
    ),
    "TA": Target(features=AMX, cpu="sapphirerapids"),
}  # fmt: skip
LINES: Final = 20  # lines of the program before or after a pass at most


def phase_text(program: Program, number: int) -> str:
    """Return one phase, without the program's buffers."""
    return "phase " + text(program).split("\nphase ")[1 + number].rstrip("\n") + "\n"


def shown(name: str) -> tuple[str, str]:
    """Return the phase of a case before and after its pass."""
    case = CASES[name]
    target = TARGETS[case["target"]]
    (dag,) = parse(case["text"])
    plan = plan_from_text(dag, target, case["plan"])
    before = plan.program
    for done, after in passes(plan, case["row"], target):
        if done == name:
            return phase_text(before, case["phase"]), phase_text(after, case["phase"])
        before = after
    raise AssertionError(f"no pass {name}")


def test_every_pass_of_the_pipeline_has_a_case() -> None:
    (dag,) = parse(CASES["bind_sizes"]["text"])
    target = TARGETS["T1"]
    plan = plan_from_text(dag, target, CASES["bind_sizes"]["plan"])
    assert [name for name, _ in passes(plan, CASES["bind_sizes"]["row"], target)] == list(CASES)


@pytest.mark.parametrize("name", CASES)
def test_rewrite(name: str, golden: Golden) -> None:
    before, after = shown(name)
    assert before != after
    assert max(before.count("\n"), after.count("\n")) <= LINES
    golden.check(f"{before}->\n{after}")
