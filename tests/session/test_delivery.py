"""Who races in the end."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import cast

import pytest

from ansorpy.codegen.kernel import Kernel
from ansorpy.loopir.nodes import Program
from ansorpy.measure.draft import Draft
from ansorpy.measure.outcome import Failed
from ansorpy.measure.pool import MeasurePool
from ansorpy.measure.timing import Race
from ansorpy.records import MemoryStore
from ansorpy.session.delivery import FINALISTS
from ansorpy.session.pools import Pools
from ansorpy.target import Target
from ansorpy.te.dag import Dag
from ansorpy.te.library import matmul
from ansorpy.tune import Request, run
from rules import CPU
from tests.fakes import FakePool


@pytest.mark.parametrize("same", [True, False])
def test_of_leaders_with_the_same_machine_code_one_races(tmp_path: Path, same: bool) -> None:
    raced: list[list[str]] = []

    class Pool(FakePool):
        def heat(
            self,
            candidates: Sequence[Program | Draft],
            budget_s: float,
            meanwhile: Kernel | None = None,
        ) -> list[float | None]:
            assert len(candidates) > FINALISTS
            return [1e-3 + (0.0 if same else 1e-5 * place) for place in range(len(candidates))]

        def race(
            self, contestants: Mapping[str, Program | Kernel], *rest: object, **named: object
        ) -> dict[str, Race | Failed]:
            raced.append([*contestants])
            return super().race(contestants)

    def open_pool(dag: Dag, target: Target) -> MeasurePool:
        return cast(MeasurePool, Pool(dag, target))

    request = Request((matmul(48, 48, 48),), Target(), 32, fresh=True)
    list(run(request, CPU, MemoryStore(), tmp_path, pools=lambda: Pools(open_pool)))
    assert raced == [["naive", *(f"tuned {n}" for n in range(1 if same else FINALISTS))]]
