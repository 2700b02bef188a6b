"""Page and plots from a result file.

    python -m benchmarks.suite.publish [FILE] [--with OTHER ...]

With OTHER files, their rows are added first if FILE lacks them: one page for a run on two threads
and an older run on one, or for repeated rows and the rest.
"""

import argparse
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.common import RESULTS, write_lists
from benchmarks.suite import plots
from benchmarks.suite.cases import CASES
from benchmarks.suite.duel import read
from benchmarks.suite.page import of_run, page

Key = tuple[str, int]  # case and threads


def publish(path: Path) -> None:
    """Write the page and the plots that belong to a result file, beside it."""
    found: dict[str, Any] = json.loads(path.read_text())
    rows, duels = found["rows"], [read(row) for row in found["duels"]]
    names = {
        "ratios": plots.ratios(path.with_name(f"{path.stem}-ratios.svg"), rows),
        "roofline": plots.roofline(path.with_name(f"{path.stem}-roofline.svg"), rows),
        "curves": plots.curves(path.with_name(f"{path.stem}-curves.svg"), duels),
    }
    drawn = {name: file.name for name, file in names.items() if file is not None}
    path.with_suffix(".md").write_text(page(rows, duels, found["facts"], drawn))


def joined(files: Sequence[Mapping[str, Any]]) -> dict[str, list[Any]]:
    """Join several result files: each row comes from the first file with that row."""
    answer: dict[str, list[Any]] = {"facts": [], "rows": [], "duels": []}
    known: set[Key] = set()
    made: list[tuple[Mapping[str, Any], set[Key]]] = []
    for found in files:
        new = set(map(key_of, found["rows"])) - known
        known |= new
        for facts in found["facts"]:
            made.append((facts, {key_of(row) for row in of_run(found["rows"], facts)} & new))
        for name in ("rows", "duels"):
            answer[name] += [row for row in found[name] if key_of(row) in new]
    for facts, mine in made:
        threads = sorted({count for _, count in mine})
        plain = {name: value for name, value in facts.items() if name not in ("threads", "cases")}
        whole = mine == {key for key in known if key[1] in threads}
        cases = {} if whole else {"cases": sorted({case for case, _ in mine})}
        answer["facts"] += [{**plain, "threads": threads, **cases}] if mine else []
    order = list(CASES)
    for name in ("rows", "duels"):
        answer[name].sort(key=lambda row: (-row["threads"], order.index(row["case"])))
    return answer


def key_of(row: Mapping[str, Any]) -> Key:
    """Return the key of a row or duel."""
    return row["case"], row["threads"]


def main() -> None:
    """Publish one file."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("file", type=Path, nargs="?", default=RESULTS / "suite.json")
    parser.add_argument("--with", type=Path, nargs="+", default=[], dest="others", metavar="OTHER")
    args = parser.parse_args()
    if args.others:
        files = [json.loads(path.read_text()) for path in (args.file, *args.others)]
        write_lists(args.file, joined(files))
    publish(args.file)


if __name__ == "__main__":
    main()
