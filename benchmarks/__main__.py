"""All benchmarks, one after the other; each goes on where it was interrupted.

    python -m benchmarks [--fresh] [NAME ...]

NAMEs: columnar rate speed builders search; `python -m benchmarks.NAME -h` tells what one takes.
"""

import argparse
import subprocess
import sys
from typing import Final

from benchmarks.common import chosen, say

KEEPING: Final = ("rate", "speed", "builders", "search")  # rows that are there are not made again
NAMES: Final = ("columnar", *KEEPING)


def main() -> int:
    """Run the benchmarks that are asked for; return 1 where one failed."""
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
