"""`python -m tests.attack.child`: every move of a hostile child, as slot and as builder.

With and without bubblewrap, if it is installed. Prints effects as JSON lines, and in the last
line how many moves were made. Exit code 1 if anything did.
"""

import argparse
import json
import sys
import time
from collections.abc import Sequence

from ansorpy.measure.sandbox import isolation
from tests.attack.moves import MOVES
from tests.attack.stage import stage

ROLES = ("slot", "builder")


def play_all(role: str, bwrap: str, moves: Sequence[str], verbose: bool) -> list[str]:
    """Make the moves one after the other, all against one pool; return the effects."""
    wrong = []
    with stage(bwrap) as set_up:
        for name in moves:
            begin_s = time.monotonic()
            found = [f"{role} {name}: {one}" for one in set_up.play(role, name)]
            wrong += found
            if verbose:
                print(f"{role} {name} {time.monotonic() - begin_s:.1f} s {found}", flush=True)
    return wrong + [f"{role}: {one}" for one in set_up.left()]


def main() -> None:
    """Make the moves that were asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--moves", nargs="*", default=list(MOVES), choices=list(MOVES))
    parser.add_argument("--roles", nargs="*", default=list(ROLES), choices=ROLES)
    parser.add_argument("--bwrap", choices=("with", "without", "both"), default="both")
    parser.add_argument("--verbose", action="store_true")
    chosen = parser.parse_args()
    bwrap = isolation._bwrap()
    cages = [bwrap] * (chosen.bwrap != "without" and bool(bwrap)) + [""] * (chosen.bwrap != "with")
    wrong = []
    for cage in cages:
        for role in chosen.roles:
            where = "bubblewrap" if cage else "no bubblewrap"
            found = play_all(role, cage, chosen.moves, chosen.verbose)
            wrong += [f"{where}: {one}" for one in found]
    for one in wrong:
        print(json.dumps({"wrong": one}))
    made = len(chosen.moves) * len(chosen.roles) * len(cages)
    told = {"moves": len(chosen.moves), "made": made, "wrong": len(wrong), "bwrap": bool(bwrap)}
    print(json.dumps(told))
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
