"""Options that the commands of the suite share."""

import argparse
from pathlib import Path

from benchmarks.common import chosen
from benchmarks.suite.cases import CASES, DUEL, ONE
from benchmarks.suite.contestants import CONTESTANTS
from benchmarks.suite.environments import FOLDER

SETS = ("one", "duel", "all")


def rows_parser(description: str | None) -> argparse.ArgumentParser:
    """Return a parser with the options of both tuning and contests."""
    parser = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", nargs="+", metavar="CASE", help="these cases only")
    parser.add_argument(
        "--set", choices=SETS, default="all",
        help="one: batch 1 and subgraphs; duel: the 13 against MetaSchedule; all (default)",
    )  # fmt: skip
    parser.add_argument("--threads", type=int, nargs="+", default=[2, 1], help="default: 2 1")
    parser.add_argument("--trials", type=int, default=256, help="of a kernel of ours, at most")
    parser.add_argument(
        "--tune-seconds", type=float, default=60.0, help="of a kernel of ours, at most"
    )
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--seconds", type=float, default=float("inf"), help="stop in good order after that"
    )
    return parser


def add_who(parser: argparse.ArgumentParser) -> None:
    """Add the option that selects contestants."""
    parser.add_argument("--who", nargs="+", metavar="NAME", help=f"of {', '.join(CONTESTANTS)}")


def add_peers(parser: argparse.ArgumentParser) -> None:
    """Add the options that locate the environments of the peers."""
    parser.add_argument("--peers", type=Path, default=FOLDER, help="folder of environments")
    parser.add_argument(
        "--env", action="append", default=[], metavar="NAME=FOLDER",
        help="an environment elsewhere; may be repeated",
    )  # fmt: skip


def selected(args: argparse.Namespace) -> list[str]:
    """Return the names of the requested cases."""
    sets = {"one": [case.name for case in ONE], "duel": list(DUEL), "all": list(CASES)}
    if args.only:
        return chosen(CASES, args.only)
    return sets[args.set]
