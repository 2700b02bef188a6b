"""All benchmarks, one after the other; each goes on where it was interrupted.

    python -m benchmarks [NAME ...]

NAMEs: columnar rate speed builders search; `python -m benchmarks.NAME -h` tells what one takes.
"""

import argparse
import subprocess
import sys
from typing import Final

from benchmarks.common import chosen, say

NAMES: Final = ("columnar", "rate", "speed", "builders", "search")


def main() -> int:
    """Run the benchmarks that are asked for; return 1 where one failed."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(NAMES))
    failed: list[str] = []
    for name in chosen(NAMES, parser.parse_args().names or None):
        say(f"benchmarks.{name}")
        if subprocess.run([sys.executable, "-m", f"benchmarks.{name}"], check=False).returncode:
            failed.append(name)
    if failed:
        say(f"failed: {', '.join(failed)}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
