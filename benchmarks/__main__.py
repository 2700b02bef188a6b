"""Run all benchmarks in turn; each resumes behind the last row of its result file.

    python -m benchmarks [--fresh] [NAME ...]

NAMEs: columnar rate speed builders search; `python -m benchmarks.NAME -h` lists the options of one.
"""

import argparse
import subprocess
import sys
from typing import Final

from benchmarks.common import chosen, say

KEEPING: Final = ("rate", "speed", "builders", "search")  # existing rows are not measured again
NAMES: Final = ("columnar", *KEEPING)


def main() -> int:
    """Run the requested benchmarks; return 1 if one failed."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(NAMES))
    parser.add_argument("--fresh", action="store_true", help="forget the rows that are there")
    args = parser.parse_args()
    failed: list[str] = []
    for name in chosen(NAMES, args.names or None):
        say(f"benchmarks.{name}")
        forget = ("--fresh",) if args.fresh and name in KEEPING else ()
        command = (sys.executable, "-m", f"benchmarks.{name}", *forget)
        if subprocess.run(command, check=False).returncode:
            failed.append(name)
    if failed:
        say(f"failed: {', '.join(failed)}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
