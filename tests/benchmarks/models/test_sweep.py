"""The sweep of operators against two oracles.

`make test` compares a case of half of the operators; `make test-all` also takes 10 minutes, with a
seed of the day, which the summary tells.
"""

import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from ansorpy.graph.graph import Array
from ansorpy.graph.interp import reference
from ansorpy.te.dag import Dag
from benchmarks.models import sweep as command
from benchmarks.models.sweep import NO_TEXT, REFUSED, UNKNOWN, Sweep, compared, judgments, main
from benchmarks.models.sweep_cases import SweepCase, case_of
from benchmarks.models.sweep_operators import OPERATORS
from tests.night import night


@pytest.mark.parametrize("whole", night((False, True), [False]))
def test_we_agree_with_the_oracles(whole: bool) -> None:
    seed = int(time.time() // 86_400) if whole else 11
    names = [str(one) for one in np.random.default_rng(seed).permutation(list(OPERATORS))]
    sweep = Sweep(seed, kernels=0.02 if whole else 0.0, names=names)
    sweep.run(600.0, most=1 << 30 if whole else 60)
    total, counts = sweep.counts.total(), sweep.counts
    assert total >= 20
    assert counts["agreed"] > 0.5 * total
    assert counts[UNKNOWN] + counts[REFUSED] < 0.2 * total
    assert not sweep.faults, f"seed {seed}: {sweep.summary()}"


def of(operator: str, opset: int) -> SweepCase:
    rng = np.random.default_rng(0)
    found = case_of(operator, OPERATORS[operator], rng, opset)
    assert found is not None
    return found


def test_a_wrong_result_of_ours_is_a_fault(tmp_path: Path) -> None:
    def wrong(dag: Dag, inputs: dict[str, Array]) -> Sequence[Array]:
        return [one + 1 for one in reference(dag, inputs)]

    case = of("Tanh", 13)
    assert compared(case, reference, (), tmp_path).kind == "agreed"
    found = compared(case, wrong, (), tmp_path)  # type: ignore[arg-type]
    assert (found.kind, found.fault) == ("both oracles differ from us", True)
    assert found.why.startswith("ONNX Runtime: ")
    open_one = replace(judgments()[0], operator="Tanh", tags=(), first=1, last=99, wrong=NO_TEXT)
    assert not compared(case, wrong, (open_one,), tmp_path).fault  # type: ignore[arg-type]
    other = replace(open_one, wrong="onnx.reference")
    found = compared(case, wrong, (other,), tmp_path)  # type: ignore[arg-type]
    assert (found.kind, found.fault) == ("ONNX Runtime alone differs from us", True)


def test_a_judgment_names_operator_versions_and_text() -> None:
    for one in judgments():
        assert one.operator in OPERATORS
        assert one.wrong in ("ONNX Runtime", "onnx.reference", NO_TEXT)
        assert one.text.startswith(one.operator)
        assert len(one.text) > 40


def test_the_sweep_needs_two_oracles(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(command, "find_spec", lambda _: None)
    assert main(["--seconds", "1"]) == 2
    assert capsys.readouterr().err.startswith(
        "cannot sweep because onnxruntime is not installed; expected two oracles"
    )
