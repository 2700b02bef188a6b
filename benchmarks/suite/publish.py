"""Page and plots from a result file.

    python -m benchmarks.suite.publish [FILE] [--with OTHER ...]

With others, what they have of numbers of threads that the file lacks is added to it first: one
page of a run on two threads and an older one on one.
"""

import argparse
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.common import RESULTS, write_lists
from benchmarks.suite import plots
from benchmarks.suite.duel import read
from benchmarks.suite.page import of_run, page


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
    """Return several result files as one: each number of threads is of the first that has it."""
    answer: dict[str, list[Any]] = {"facts": [], "rows": [], "duels": []}
    known: set[int] = set()
    for found in files:
        new = {row["threads"] for row in found["rows"]} - known
        known |= new
        for facts in found["facts"]:
            mine = new & of_run(found["rows"], facts)
            answer["facts"] += [{**facts, "threads": sorted(mine)}] if mine else []
        for name in ("rows", "duels"):
            answer[name] += [row for row in found[name] if row["threads"] in new]
    return answer


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
