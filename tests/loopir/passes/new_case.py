"""Make the case of a pass: `python -m tests.loopir.passes.new_case NAME 'def ...' [TARGET]`.

Writes the candidate with the shortest text that the pass changes to `cases.json`; then
`pytest tests/loopir/passes/test_rewrites.py --update-golden` writes its golden file.
"""

import json
import sys
from collections.abc import Iterator
from typing import Any, Final

import numpy as np

from ansorpy.frontends.tc.text import parse
from ansorpy.plan.bind import passes
from ansorpy.plan.choices import all_plans
from ansorpy.population import sample
from ansorpy.replay import plan_text
from ansorpy.rules import CPU, CUDA
from ansorpy.sketch import derive
from tests.loopir.passes.test_rewrites import CASES, FILE, LINES, TARGETS, order, phase_text

PLANS: Final = 200  # plans that are looked at, at most
ROWS: Final = 40  # candidates of each


def found(name: str, text: str, label: str) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield the lines and the case of each phase of a candidate that the pass changes."""
    (dag,), target = parse(text), TARGETS[label]
    rng = np.random.default_rng(0)
    sketches = derive(dag, target, CUDA if target.kind == "cuda" else CPU).sketches
    for plan in all_plans(sketches, target)[:PLANS]:
        for row in sample(plan, ROWS, rng).tolist():
            before = plan.program
            for done, after in passes(plan, row, target):
                if done == name:
                    for number in range(min(len(before.phases), len(after.phases))):
                        texts = phase_text(before, number), phase_text(after, number)
                        case = {"target": label, "text": text, "plan": plan_text(plan)}
                        if texts[0] != texts[1]:
                            longest = max(one.count("\n") for one in texts)
                            yield longest, {**case, "row": row, "phase": number}
                    break
                before = after


def main(name: str, text: str, label: str = "T1") -> None:
    """Add the case of a pass."""
    refused = f"cannot make a case of {name} because"
    if name not in order():
        sys.exit(f"{refused} it is in no pipeline; expected one of {', '.join(order())}")
    lines, case = min(found(name, text, label), key=lambda one: one[0], default=(0, None))
    if case is None:
        sys.exit(f"{refused} it changes no candidate; expected another definition or target")
    if lines > LINES:
        sys.exit(f"{refused} a program has {lines} lines; expected {LINES} at most")
    cases = {**CASES, name: case}
    ordered = {one: cases[one] for one in order() if one in cases}
    FILE.write_text(json.dumps(ordered, indent=1) + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
