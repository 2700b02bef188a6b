"""Merge rounds to rows: medians over processes, ratios to the peers, means. Pure functions."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from statistics import geometric_mean, median
from typing import Any, Final

from benchmarks.common import Row, spread
from benchmarks.suite.cases import CASES
from benchmarks.suite.contestants import (
    CONTESTANTS,
    OURS,
    OURS_RUNTIME,
    PEERS,
    WITH_WINOGRAD,
    ours_against,
)
from benchmarks.suite.forms import has_weights, moved_bytes

NOISY: Final = 0.2  # spread of the FMA peak above which virtual cores shared a physical core

Figures = Mapping[str, Any]  # times, error or failure of one contestant in one row


def merged(rounds: Sequence[Row]) -> list[Row]:
    """Return one row per case and threads, in the order of the suite, most threads first.

    Noisy rounds are left out if there is a quiet round, regardless of the results.
    """
    groups: dict[tuple[str, int], list[Row]] = defaultdict(list)
    for row in rounds:
        groups[row["case"], row["threads"]].append(row)
    order = list(CASES)
    keys = sorted(groups, key=lambda key: (-key[1], order.index(key[0])))
    return [_merged(case, threads, groups[case, threads]) for case, threads in keys]


def _merged(case: str, threads: int, held: Sequence[Row]) -> Row:
    form = CASES[case].form
    quiet = [row for row in held if row["fma_spread"] <= NOISY]
    rounds = quiet or held
    return {
        "case": case,
        "threads": threads,
        "rounds": len(rounds),
        "quiet": bool(quiet),
        "flop": form.flop,
        "bytes": moved_bytes(form),
        "fma_flop_per_s": median(r["fma_flop_per_s"] for r in rounds),
        "copy_bytes_per_s": median(r["copy_bytes_per_s"] for r in rounds),
        "kernels": rounds[-1]["kernels"],
        "contestants": {
            name: _figures([r["contestants"][name] for r in rounds if name in r["contestants"]])
            for name in CONTESTANTS
            if any(name in r["contestants"] for r in rounds)
        },
    }


def _figures(answers: Sequence[Figures]) -> Figures:
    """Return the spread over processes, or the reason if every process failed."""
    good = [a for a in answers if "median_s" in a]
    if not good:
        return {key: answers[-1][key] for key in ("unfit", "failed") if key in answers[-1]}
    return {
        **asdict(spread(a["median_s"] for a in good)),
        "fastest_s": min(a["least_s"] for a in good),
        "away": max(a["away"] for a in good),
        "foreign": median(a["foreign"] for a in good),
        "ready_s": median(a["facts"]["ready_s"] for a in good),
        "failures": len(answers) - len(good),
    }


def time_s(row: Row, name: str) -> float | None:
    """Return the median of a contestant in a merged row, None without a time."""
    found: float | None = row["contestants"].get(name, {}).get("median")
    return found


def ours_s(row: Row, who: str) -> float | None:
    """Return our time; without weights both columns have the same kernel."""
    same = who == OURS and not has_weights(CASES[row["case"]].form)
    return time_s(row, OURS_RUNTIME if same else who)


def ratio(row: Row, peer: str) -> float | None:
    """Return our speed-up over a peer, with constant weights if the peer has them."""
    theirs, ours = time_s(row, peer), ours_s(row, ours_against(peer))
    return theirs / ours if theirs is not None and ours is not None else None


def ratio_with_winograd(row: Row, peer: str) -> float | None:
    """Return our speed-up with Winograd's transforms allowed."""
    theirs, who = time_s(row, peer), ours_against(peer)
    allowed = time_s(row, WITH_WINOGRAD[who])
    ours = ours_s(row, who) if allowed is None else allowed
    return theirs / ours if theirs is not None and ours is not None else None


@dataclass(frozen=True, slots=True)
class Best:
    """The fastest of some peers in a row, and our speed-up over it."""

    peer: str
    time_s: float
    ratio: float | None
    winograd: float | None  # speed-up with the transforms allowed, if they apply


def best_of(row: Row, peers: Iterable[str] = PEERS) -> Best | None:
    """Return the fastest of the peers that have a time."""
    found = [(time, name) for name in peers if (time := time_s(row, name)) is not None]
    if not found:
        return None
    fastest_s, name = min(found)
    return Best(name, fastest_s, ratio(row, name), ratio_with_winograd(row, name))


def best_runtime(row: Row) -> Best | None:
    """Return the fastest of the peers with weights at run time, compared with ours at run time."""
    return best_of(row, [name for name in PEERS if not CONTESTANTS[name].constant_weights])


@dataclass(frozen=True, slots=True)
class Mean:
    """A geometric mean of ratios, with the number of rows."""

    ratio: float
    rows: int
    least: tuple[float, str]
    most: tuple[float, str]


def mean(ratios: Mapping[str, float | None]) -> Mean | None:
    """Return the geometric mean of the existing ratios, None if there are none."""
    found = sorted((value, name) for name, value in ratios.items() if value is not None)
    if not found:
        return None
    return Mean(geometric_mean(value for value, _ in found), len(found), found[0], found[-1])


def means(rows: Sequence[Row], threads: int) -> dict[str, Mean]:
    """Return our mean speed-up over the best of all, the best without packing, and each peer."""
    some = [row for row in rows if row["threads"] == threads]

    def over(value: Any) -> Mean | None:
        return mean({row["case"]: value(row) for row in some})

    def against(peer: str) -> Mean | None:
        return over(lambda row: ratio(row, peer))

    found = {
        "best": over(lambda row: best.ratio if (best := best_of(row)) else None),
        "best_winograd": over(lambda row: best.winograd if (best := best_of(row)) else None),
        "best_runtime": over(lambda row: best.ratio if (best := best_runtime(row)) else None),
        **{peer: against(peer) for peer in PEERS},
    }
    return {name: value for name, value in found.items() if value is not None}


def share_of_fma(row: Row, time: float) -> float:
    """Return the share of the FMA peak measured beside the row."""
    found: float = row["flop"] / time / row["fma_flop_per_s"]
    return found


def share_of_copy(row: Row, time: float) -> float:
    """Return the share of the rate of a plain copy that moves as many bytes."""
    found: float = row["bytes"] / time / row["copy_bytes_per_s"]
    return found
