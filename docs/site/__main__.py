"""Check and build the site: `make docs`.

Runs the blocks of the pages and two notebooks, builds into .site, checks links, third parties,
words and the paths from the home page. `--build` leaves the blocks and the notebooks out.
"""

import os
import subprocess
import sys
import time
from pathlib import Path

from docs.site import blocks, check, notebooks

HERE = Path(__file__).parent


def build() -> list[str]:
    """Build the site, strictly; return an error, or nothing."""
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--clean", "-f", HERE / "mkdocs.yml"],
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    return [done.stdout + done.stderr] if done.returncode else []


def main() -> int:
    """Print the figures and the errors; return the exit code."""
    begin_s = time.monotonic()
    errors = []
    if "--build" not in sys.argv[1:]:
        errors += blocks.run_all(blocks.pages())
        errors += notebooks.try_first()
    failed = build()
    errors += failed or check.check()
    print(f"{len(errors)} errors after {time.monotonic() - begin_s:.0f} s; the site is in .site")
    print("\n".join(errors), file=sys.stderr)
    return bool(errors)


if __name__ == "__main__":
    sys.exit(main())
