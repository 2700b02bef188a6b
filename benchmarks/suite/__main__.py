"""The operator suite: tune our kernels, hold the contests, write tables and plots.

    python -m benchmarks.suite [--set one] [--rounds 5] [--trials 256] [--seconds 7200]

The command resumes after an interrupt: kernels, tunings of MetaSchedule, references and contests
are kept under benchmarks/results/raw; a contest is repeated if one of its kernels is new.
"""

import argparse
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from ansorpy.measure.cores import slot_cores
from benchmarks.common import RAW, RESULTS, Results, chosen, say, write_lists
from benchmarks.machine import run_facts
from benchmarks.suite import metaschedule
from benchmarks.suite.cases import DUEL
from benchmarks.suite.contest import Terms, party
from benchmarks.suite.contestants import CONTESTANTS, DUEL_TRIALS, METASCHEDULE, OWN
from benchmarks.suite.duel import collected
from benchmarks.suite.environments import pythons
from benchmarks.suite.guest import versions_of
from benchmarks.suite.options import add_peers, add_who, rows_parser, selected
from benchmarks.suite.publish import publish
from benchmarks.suite.rounds import FOLDER, KEYS, Plan, kernel_paths, play, warm
from benchmarks.suite.summary import merged
from benchmarks.suite.tune import tune_all, wanted

PREPARING: Final = 0.6  # maximum share of `--seconds` for tuning; contests need the rest
START_S: Final = 60.0


def arguments() -> argparse.Namespace:
    """Return the parsed command line."""
    parser = rows_parser(__doc__)
    add_who(parser)
    add_peers(parser)
    parser.add_argument("--rounds", type=int, default=5, help="fresh processes of everybody")
    parser.add_argument("--visits", type=int, default=2, help="turns per process")
    parser.add_argument("--visit-seconds", type=float, default=0.15, help="of sampling per turn")
    parser.add_argument("--no-tune", action="store_true", help="contest the kernels there are")
    parser.add_argument(
        "--warm", action="store_true", help="only let the peers compile what they can keep"
    )
    parser.add_argument("--fresh", action="store_true", help="forget the contests that are there")
    parser.add_argument("--out", type=Path, default=RESULTS / "suite.json", help="result file")
    return parser.parse_args()


def who_is_here(names: list[str], environments: Mapping[str, Path]) -> dict[str, dict[str, str]]:
    """Return the contestants that can take part, with their versions."""
    found = {}
    with party(environments, 1, sorted(slot_cores(1)), FOLDER / "guests.log") as guests:
        for name in names:
            one = CONTESTANTS[name]
            if one.environment not in environments:
                say(f"{one.title} is left out: no environment {one.environment} (make bench-peers)")
                continue
            versions = versions_of(guests.guest(one), START_S)
            if versions or one.environment == OWN:
                found[name] = versions or {}
            else:
                say(f"{one.title} is left out: not installed in {environments[one.environment]}")
    return found


def main() -> None:
    """Tune and contest the missing rows; write JSON, tables and plots."""
    args = arguments()
    begin_s = time.monotonic()
    end_s = begin_s + args.seconds
    environments = pythons(args.peers, args.env)
    cases = selected(args)
    present = who_is_here(chosen(CONTESTANTS, args.who), environments)
    kernels = [one for one in wanted(cases, args) if one.who in present]
    if not (args.no_tune or args.warm):
        ready_s = begin_s + PREPARING * args.seconds
        if METASCHEDULE in present:
            both = [case for case in cases if case in DUEL]
            metaschedule.tune_all(both, args.threads, DUEL_TRIALS, args.seed, environments, ready_s)
        tune_all(kernels, ready_s)
    absent = [one.path.name for one in kernels if not one.path.exists()]
    if absent:
        say(
            f"{len(absent)} of {len(kernels)} kernels of ours are not there and do not take part,"
            f" {absent[0]} among them: --trials and --seed say which ones are meant"
        )
    terms = Terms(args.visits, args.visit_seconds, seed=args.seed)
    plan = Plan(
        tuple(cases), tuple(args.threads), args.rounds,
        tuple(CONTESTANTS[name] for name in present), terms,
        kernel_paths(kernels, cases, args.seed),
    )  # fmt: skip
    if args.warm:
        warm(plan, environments)
        return
    facts = run_facts(max(args.threads), args.seed, rounds=args.rounds, trials=args.trials)
    facts["contestants"] = present
    raw = RAW / "suite" / f"{args.out.stem}-rounds.json"
    results = Results(raw, KEYS, facts, args.fresh)
    complete = play(plan, environments, results, end_s)
    rows = merged(results.rows)
    write_lists(args.out, {"facts": [facts], "rows": rows, "duels": collected(rows, args.seed)})
    publish(args.out)
    say(f"{'complete' if complete else 'incomplete'}: {args.out.with_suffix('.md')}")


if __name__ == "__main__":
    main()
