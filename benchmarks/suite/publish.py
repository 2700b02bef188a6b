"""Page and plots from a result file.

python -m benchmarks.suite.publish [FILE]
"""

import json
import sys
from pathlib import Path
from typing import Any

from benchmarks.common import RESULTS
from benchmarks.suite import plots
from benchmarks.suite.duel import read
from benchmarks.suite.page import page


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
    path.with_suffix(".md").write_text(page(rows, duels, found["facts"][0], drawn))


def main() -> None:
    """Publish one file."""
    publish(Path(sys.argv[1]) if len(sys.argv) > 1 else RESULTS / "suite.json")


if __name__ == "__main__":
    main()
