"""Every pass of the pipelines by example: one phase before and after it, as text.

A case of `cases.json` names a definition, the text of a plan (`ansorpy.replay.plan_text`), a row
and the phase that is shown; `tests.loopir.passes.new_case` makes one. The cases are in the order of
the passes, those for a GPU only at the end.
The golden files are short enough to be read: at most twenty lines on either side.
"""

import json
import re
from inspect import getdoc, getsource
from pathlib import Path
from typing import Any, Final

import pytest

from ansorpy.frontends.tc.text import parse
from ansorpy.loopir import pipeline
from ansorpy.loopir.interp import run
from ansorpy.loopir.nodes import Program
from ansorpy.loopir.printer import text
from ansorpy.measure.verify.cases import make_cases
from ansorpy.measure.verify.check import compare_all
from ansorpy.measure.verify.inputs import constants
from ansorpy.plan.bind import passes
from ansorpy.replay import plan_from_text
from ansorpy.target import Target, cuda_target
from ansorpy.te.dag import Dag
from ansorpy.te.dims import widest
from tests.conftest import Golden

FILE: Final = Path(__file__).parent / "cases.json"
CASES: Final[dict[str, Any]] = json.loads(FILE.read_text())
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
    "GPU": cuda_target("sm_90"),
}  # fmt: skip
LINES: Final = 20  # lines of the program before or after a pass at most


def phase_text(program: Program, number: int) -> str:
    """Return one phase, without the program's buffers."""
    return "phase " + text(program).split("\nphase ")[1 + number].rstrip("\n") + "\n"


def order() -> list[str]:
    """Return the names of all passes, those for a GPU only at the end."""
    texts = (getsource(pipeline.lower_for_cpu), getsource(pipeline.lower_for_cuda))
    return [*dict.fromkeys(name for text in texts for name in re.findall(r'yield "(\w+)"', text))]


def rewritten(name: str) -> tuple[Dag, Program, Program]:
    """Return the Dag of a case, and its program before and after the pass."""
    case = CASES[name]
    target = TARGETS[case["target"]]
    (dag,) = parse(case["text"])
    plan = plan_from_text(dag, target, case["plan"])
    before = plan.program
    for done, after in passes(plan, case["row"], target):
        if done == name:
            return dag, before, after
        before = after
    raise AssertionError(f"no pass {name}")


def test_every_pass_of_the_pipelines_has_a_case() -> None:
    assert [*CASES] == order(), "python -m tests.loopir.passes.new_case NAME 'def ...' makes one"


@pytest.mark.parametrize("name", order())
def test_the_docstring_of_a_pass_has_its_contract(name: str) -> None:
    text = getdoc(getattr(pipeline, name)) or ""
    assert all(f"\n{row}" in text for row in ("Needs        ", "Keeps        ", "Not handled  "))


def test_passes_that_a_gpu_leaves_out_are_named_with_the_reason() -> None:
    left_out = [name for name in CASES if f'"{name}"' not in getsource(pipeline.lower_for_cuda)]
    text = getdoc(pipeline.lower_for_cuda) or ""
    assert [name for name in left_out if f"`{name}`" not in text] == []


@pytest.mark.parametrize("name", CASES)
def test_rewrite(name: str, golden: Golden) -> None:
    _, *programs = rewritten(name)
    before, after = (phase_text(one, CASES[name]["phase"]) for one in programs)
    assert before != after
    assert max(before.count("\n"), after.count("\n")) <= LINES
    golden.check(f"{before}->\n{after}")


@pytest.mark.parametrize("name", CASES)
def test_the_rewrite_of_a_case_keeps_the_meaning(name: str) -> None:
    """Random Dags, in `test_meaning`, may lack the statements that a pass changes."""
    dag, _, after = rewritten(name)
    case = make_cases(widest(dag), 0)[0]
    largest = {dim.var.name: dim.counts[1] for dim in after.dims}
    got = run(after, {**case.inputs, **constants(dag)}, largest)
    assert compare_all(case, got.__getitem__, after.by_name) is None
