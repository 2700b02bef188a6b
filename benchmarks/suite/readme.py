"""The table of the README, from the result file of the suite.

python -m benchmarks.suite.readme [FILE]
"""

import json
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from benchmarks.common import RESULTS, Row, duration, percent, table, times
from benchmarks.suite.cases import CASES, ONE, takes_winograd
from benchmarks.suite.contestants import CONTESTANTS, OURS, OURS_RUNTIME, PEERS
from benchmarks.suite.environments import ROOT
from benchmarks.suite.page import of_run
from benchmarks.suite.summary import best_of, best_runtime, means, ours_s, share_of_fma

BEGIN: Final = "<!-- suite: begin; made by `python -m benchmarks.suite.readme` -->"
END: Final = "<!-- suite: end -->"


def _also(rows: Sequence[Row], facts: Mapping[str, Any]) -> str:
    """Return when the rows of another run were made."""
    date, told = facts["date"][:10], ""
    for count, many in sorted(Counter(row["threads"] for row in of_run(rows, facts)).items()):
        some = f"{many} row{'s'[: many > 1]} of " if "cases" in facts else ""
        told += f" ({some}{count} thread{'s'[: count > 1]}: {date})"
    return told


def section(rows: Sequence[Row], runs: Sequence[Mapping[str, Any]]) -> str:
    """Return what stands between the markers: the rows of `ONE` at the most threads, the means."""
    rows = [row for row in rows if row["case"] in {case.name for case in ONE}]
    threads = max(row["threads"] for row in rows)
    facts = max(runs, key=lambda one: sum(r["threads"] == threads for r in of_run(rows, one)))
    others = (one for one in runs if one["date"][:10] != facts["date"][:10])
    older = "".join(_also(rows, one) for one in others)
    some = [row for row in rows if row["threads"] == threads]
    machine = facts["machine"]
    found = {count: means(rows, count) for count in sorted({r["threads"] for r in rows})}
    told = "; ".join(
        f"{times(one['best'].ratio)} the best of all peers on {count} thread{'s'[: count > 1]}"
        f" ({one['best'].rows} rows)"
        for count, one in found.items()
        if "best" in one
    )
    allowed = "; ".join(
        f"{times(one['best_winograd'].ratio)} on {count} thread{'s'[: count > 1]}"
        for count, one in found.items()
        if "best_winograd" in one
    )
    body = table(
        some,
        {
            "row": lambda r: CASES[r["case"]].title,
            "ansorpy": lambda r: duration(_ours_s(r)),
            "best peer": lambda r: _peer(r),
            "faster by": lambda r: times(best.ratio) if (best := best_of(r)) else "-",
            "Winograd allowed": lambda r: _winograd(r),
            "without packing": lambda r: times(best.ratio) if (best := best_runtime(r)) else "-",
            "of FMA": lambda r: percent(share_of_fma(r, s)) if (s := _ours_s(r)) else "-",
        },
    )
    who = "; ".join(CONTESTANTS[n].title for n in PEERS if n in facts["contestants"])
    return (
        f"{machine['model']} ({machine['vector_bits']} bits), float32, {facts['date'][:10]},"
        f" {threads} threads{older}. In the geometric mean we run at {told};"
        f" with Winograd's transforms allowed {allowed}. Peers in this run: {who}.\n\n{body}"
    )


def _ours_s(row: Row) -> float | None:
    """Return our time: weights constant where the best peer's are."""
    best = best_of(row)
    packed = best is not None and CONTESTANTS[best.peer].constant_weights
    return ours_s(row, OURS if packed else OURS_RUNTIME)


def _winograd(row: Row) -> str:
    best = best_of(row)
    return times(best.winograd) if best is not None and takes_winograd(row["case"]) else "="


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
    """Rewrite the README."""
    path = Path(sys.argv[1]) if len(sys.argv) > 1 else RESULTS / "suite.json"
    found = json.loads(path.read_text())
    readme = ROOT / "README.md"
    readme.write_text(inserted(readme.read_text(), section(found["rows"], found["facts"])))


if __name__ == "__main__":
    main()
