"""The summary of the suite in docs/measured.md, from its result file; the page has every row.

python -m benchmarks.suite.measured [FILE]
"""

import json
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from benchmarks.common import RESULTS, Row, duration, table, times
from benchmarks.suite.cases import CASES, ONE
from benchmarks.suite.contestants import CONTESTANTS, OURS, OURS_RUNTIME, PEERS
from benchmarks.suite.environments import ROOT
from benchmarks.suite.page import of_run
from benchmarks.suite.summary import best_of, means, ours_s

BEGIN: Final = "<!-- suite: begin; made by `python -m benchmarks.suite.measured` -->"
END: Final = "<!-- suite: end -->"
PAGE: Final = "../benchmarks/results/suite.md"  # from docs/
# A row per kind of operator, including a row that a peer wins.
FEW: Final = (
    "gmm_512", "c2d_r64", "dep_32", "mm_bias_gelu", "attention", "softmax_2048x512", "layernorm",
    "redsum_ax1",
)  # fmt: skip


def _also(rows: Sequence[Row], facts: Mapping[str, Any]) -> str:
    """Return the sentence about the date of another run."""
    date, told = facts["date"][:10], ""
    for count, many in sorted(Counter(row["threads"] for row in of_run(rows, facts)).items()):
        some = f"{many} row{'s'[: many > 1]} of " if "cases" in facts else ""
        told += f" ({some}{count} thread{'s'[: count > 1]}: {date})"
    return told


def section(rows: Sequence[Row], runs: Sequence[Mapping[str, Any]]) -> str:
    """Return the text between the markers: the means of `ONE`, and `FEW` at the most threads."""
    rows = [row for row in rows if row["case"] in {case.name for case in ONE}]
    threads = max(row["threads"] for row in rows)
    facts = max(runs, key=lambda one: sum(r["threads"] == threads for r in of_run(rows, one)))
    others = (one for one in runs if one["date"][:10] != facts["date"][:10])
    older = "".join(_also(rows, one) for one in others)
    machine = facts["machine"]
    body = table(
        [row for row in rows if row["threads"] == threads and row["case"] in FEW],
        {
            "row": lambda r: CASES[r["case"]].title,
            "ansorpy": lambda r: duration(_ours_s(r)),
            "best peer": lambda r: _peer(r),
            "we are faster by": lambda r: times(best.ratio) if (best := best_of(r)) else "-",
        },
    )
    who = "; ".join(CONTESTANTS[n].title for n in PEERS if n in facts["contestants"])
    return (
        f"{machine['model']} ({machine['vector_bits']} bits), float32, {facts['date'][:10]},"
        f" {threads} threads{older}. Against the best peer of every row, in the geometric mean,"
        f" our kernels are faster by {_means(rows)}. Peers: {who}.\n\n{body}\n"
        f"[Every row, every peer, errors and spread]({PAGE})."
    )


def _means(rows: Sequence[Row]) -> str:
    told = []
    for count in sorted({row["threads"] for row in rows}):
        best = means(rows, count).get("best")
        if best is not None:
            of = f"{best.rows} row{'s'[: best.rows > 1]}"
            told.append(f"{times(best.ratio)} on {count} thread{'s'[: count > 1]} ({of})")
    return ", ".join(told)


def _ours_s(row: Row) -> float | None:
    """Return our time, with constant weights if the best peer has them."""
    best = best_of(row)
    packed = best is not None and CONTESTANTS[best.peer].constant_weights
    return ours_s(row, OURS if packed else OURS_RUNTIME)


def _peer(row: Row) -> str:
    best = best_of(row)
    return "-" if best is None else f"{duration(best.time_s)}, {CONTESTANTS[best.peer].title}"


def inserted(text: str, body: str) -> str:
    """Return a text with `body` between its markers.

    Raises:
        ValueError: the markers are missing.
    """
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"no {BEGIN} ... {END}")
    return f"{before}{BEGIN}\n{body}\n{END}{after}"


def main() -> None:
    """Rewrite docs/measured.md."""
    path = Path(sys.argv[1]) if len(sys.argv) > 1 else RESULTS / "suite.json"
    found = json.loads(path.read_text())
    summary = ROOT / "docs" / "measured.md"
    summary.write_text(inserted(summary.read_text(), section(found["rows"], found["facts"])))


if __name__ == "__main__":
    main()
