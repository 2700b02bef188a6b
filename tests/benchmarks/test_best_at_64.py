"""Replay of searches with stored times: keys, tables, proposals."""

import json
from collections.abc import Iterator, Sequence
from math import inf
from pathlib import Path

from ansorpy.target import Target
from ansorpy.topi.workloads import matmul
from benchmarks.best_at_64 import (
    FOLDER,
    Candidate,
    Proposals,
    Replayed,
    TrialTable,
    key_of,
    replayed,
)
from benchmarks.proposals import ROUND, Search
from benchmarks.workloads import FIVE

ROOT = Path(__file__).parents[2]
PLAN = '{"steps":[["SP","C","i",4,[]]],"choices":{"C":{"at":"root","parallel":0}}}'
TARGET = Target(cores=1)


class Fixed:
    """Proposals of two rounds, written down; records the answers."""

    workload = "w"

    def __init__(self) -> None:
        self.answers: list[Sequence[float | None]] = []

    def __iter__(self) -> Iterator[list[Candidate]]:
        yield [(PLAN, (1,)), (PLAN, (2,))]
        yield [(PLAN, (2,)), (PLAN, (3,))]

    def answer(self, costs_s: Sequence[float | None]) -> None:
        self.answers.append(costs_s)


def test_a_key_depends_on_workload_plan_and_row_and_not_on_spaces() -> None:
    key = key_of("w", (PLAN, (4, 2)))
    assert key == "7bd73b1a33491a95"  # tables are under version control: keys must not change
    assert key == key_of("w", (json.dumps(json.loads(PLAN)), (4, 2)))
    others = [
        ("v", (PLAN, (4, 2))),
        ("w", (PLAN, (2, 4))),
        ("w", (PLAN.replace("root", "x"), (4, 2))),
    ]
    assert key not in [key_of(workload, candidate) for workload, candidate in others]


def test_missing_rows_are_measured_once_and_added_to_the_table(tmp_path: Path) -> None:
    times: dict[tuple[int, ...], float | None] = {(1,): 3.0, (2,): 1.0000049, (3,): None}
    asked: list[Candidate] = []

    def measure(candidates: Sequence[Candidate], best_s: float) -> list[float | None]:
        asked.extend(candidates)
        assert best_s == (inf if len(asked) == 2 else 1.0)
        return [times[row] for _, row in candidates]

    table = TrialTable(tmp_path / "trials.json", TARGET)
    search = Fixed()
    assert replayed(search, table, measure) == Replayed((3.0, 1.0, 1.0, inf), missing=3)
    assert [row for _, row in asked] == [(1,), (2,), (3,)]
    assert search.answers == [[3.0, 1.0], [1.0, None]]
    again = TrialTable(tmp_path / "trials.json", Target(cores=2))
    assert again.target == TARGET
    assert replayed(Fixed(), again, measure).missing == 0


def test_a_search_repeats_its_proposals_for_equal_times() -> None:
    chosen = []
    for _ in range(2):
        search = Search(matmul(32, 48, 16), TARGET, seed=1)
        for _ in range(2):
            batch = search.propose(ROUND)
            search.learn(batch, [1e-6 * (1 + sum(each.row)) for each in batch])
        chosen.append(list(search.costs_s))
        assert len(chosen[-1]) == 2 * ROUND
    assert chosen[0] == chosen[1]


def test_a_process_proposes_the_same_candidates_as_this_process() -> None:
    here = Search(FIVE["norm"](), TARGET, seed=3)
    process = Proposals(ROOT, "norm", 3, TARGET)
    assert process.workload == here.key
    first = next(iter(process))
    assert first == [(here.texts[c.plan], c.row) for c in here.propose(ROUND)]
    process.close()


def test_the_stored_tables_hold_times_of_all_five_workloads() -> None:
    for name in FIVE:
        table = TrialTable(FOLDER / f"{name}.json")
        assert table.target.cores == 1
        assert len(table.costs_s) >= 64
        assert all(cost is None or 0 < cost < 1 for cost in table.costs_s.values())
