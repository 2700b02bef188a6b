"""The Markdown page of the suite."""

from collections.abc import Mapping, Sequence
from statistics import median
from typing import Any, Final

from benchmarks.common import Row, duration, percent, table, times
from benchmarks.suite.cases import CASES, takes_winograd
from benchmarks.suite.contestants import CONTESTANTS, OURS, OURS_RUNTIME, PEERS
from benchmarks.suite.duel import Duel
from benchmarks.suite.forms import has_weights
from benchmarks.suite.summary import (
    Mean,
    best_of,
    best_runtime,
    mean,
    means,
    ours_s,
    share_of_copy,
    share_of_fma,
    time_s,
)

COUNTS: Final = {1: "One thread", 2: "Two threads"}
HEADS: Final = {
    "best": "**the best of all**",
    "best_winograd": "**the best of all, Winograd allowed to us**",
    "best_runtime": "**the best, weights at run time**",
}

HOW: Final = """\
A figure is the median over fresh processes of each process' median; everybody in turns, on the
same arrays, pinned to the same cores, all others standing still. Every result is compared with
float64. We write into held memory, as do the peers that can.

"Weights constant" are known ahead and may be packed before the clock runs, for us exactly where
they are for the peer: against ONNX Runtime, OpenVINO and torch with packed weights our packed
kernel counts; against all others our kernel that takes weights at every call. "Best peer" is the
fastest of all; "without packing" compares us with the fastest of those that take weights at run
time. "Winograd allowed" is the ratio where the request also allows `winograd2` and `winograd4`,
which round differently ("How exact" has the errors); "=" where they do not apply. GFLOP are those
of the formula; those of inserted zeros do not count. "Of FMA" is the share of the peak that
independent FMAs reach on these cores in the same contest, "of copy" that of a plain copy moving
as many bytes. "Spread" is that of our processes; "noisy" says that the FMA peak itself fell by more
than a fifth during every contest of the row. Where a quiet contest was held the noisy ones do not
count.
"""


def page(
    rows: Sequence[Row],
    duels: Sequence[Duel],
    facts: Sequence[Mapping[str, Any]],
    plots: Mapping[str, str],
) -> str:
    """Return the page.

    Args:
        facts: of every run of the rows; `threads` assigns rows to runs.
        plots: file names by `ratios`, `roofline`, `curves`; missing plots are left out.
    """
    threads = sorted({row["threads"] for row in rows}, reverse=True)
    parts = [_head(rows, facts), HOW]
    if threads:
        parts.append(_means(rows, threads))
    parts += _picture(plots, "ratios", "Ratio to the best peer, row by row")
    for count in threads:
        some = [row for row in rows if row["threads"] == count]
        parts.append(f"## {_title(count)}\n\n{_rows(some)}")
    parts += _picture(plots, "roofline", "Roofline")
    if duels:
        parts.append(_duels(duels, threads))
        parts += _picture(plots, "curves", "Tuning curves")
    for count in threads:
        some = [row for row in rows if row["threads"] == count]
        title = _title(count).lower()
        parts.append(f"## Everybody, {title}, milliseconds\n\n{everybody(some)}")
    parts.append(_notes(rows))
    return "\n".join(parts)


def _title(threads: int) -> str:
    return COUNTS.get(threads, f"{threads} threads")


def _picture(plots: Mapping[str, str], name: str, title: str) -> list[str]:
    return [f"![{title}]({plots[name]})\n"] if name in plots else []


def _head(rows: Sequence[Row], facts: Sequence[Mapping[str, Any]]) -> str:
    runs = "\n".join(_run(rows, one) for one in facts)
    again = "Make it again: `make bench-peers bench-suite` (benchmarks/README.md has the choices)."
    return f"# The operator suite against its peers\n\n{runs}\n{again}\n"


def _run(rows: Sequence[Row], facts: Mapping[str, Any]) -> str:
    """Return the section about one run: machine, versions, parameters."""
    mine = of_run(rows, facts)
    held = sorted({(row["threads"], row["rounds"]) for row in mine})
    rounds = ", ".join(f"{many} of {_title(count).lower()}" for count, many in held)
    peaks = ", ".join(
        f"{_peak(mine, count) / 1e9:.0f} GFLOP/s on {_title(count).lower()}"
        for count in sorted({count for count, _ in held})
    )
    machine, settings = facts["machine"], facts["settings"]
    versions = sorted(
        {f"{n} {v}" for have in facts["contestants"].values() for n, v in have.items()}
    )
    some = f" of {', '.join(facts['cases'])}" if "cases" in facts else ""
    caches = ", ".join(f"{name} {size}" for name, size in machine["caches"].items())
    return (
        f"{facts['date'][:10]}, {machine['model']}"
        f" ({machine['cpu']}, {machine['vector_bits']} bits, {caches}); commit"
        f" {facts['commit'] or 'unknown'}, seed {facts['seed']}, at most"
        f" {settings['trials']} trials per kernel; rounds{some}: {rounds or 'none'}. FMA peak,"
        f" median of the contests: {peaks or 'none'}.\n"
        f"{'; '.join(versions)}.\n"
    )


def _peak(rows: Sequence[Row], threads: int) -> float:
    """Return the median of the FMA peaks beside the rows, in FLOP/s."""
    found: float = median(row["fma_flop_per_s"] for row in rows if row["threads"] == threads)
    return found


def of_run(rows: Sequence[Row], facts: Mapping[str, Any]) -> list[Row]:
    """Return the rows of a run: of all numbers of threads and cases, if it does not list them."""
    return [
        row
        for row in rows
        if row["threads"] in facts.get("threads", [row["threads"]])
        and row["case"] in facts.get("cases", [row["case"]])
    ]


def _means(rows: Sequence[Row], threads: Sequence[int]) -> str:
    """Return the table of our geometric mean speed-up over each peer."""
    found = {count: means(rows, count) for count in threads}
    names = [name for name in (*HEADS, *PEERS) if any(name in found[count] for count in threads)]

    def cell(mean: Mean | None) -> str:
        if mean is None:
            return "-"
        low, high = f"{mean.least[0]:.2f} {mean.least[1]}", f"{mean.most[0]:.2f} {mean.most[1]}"
        return f"{times(mean.ratio)} ({mean.rows} rows; {low} to {high})"

    body = table(
        [{"name": name} for name in names],
        {"we are faster than": lambda r: HEADS.get(r["name"]) or CONTESTANTS[r["name"]].title}
        | {
            _title(count).lower(): lambda r, count=count: cell(found[count].get(r["name"]))  # type: ignore[misc]
            for count in threads
        },
    )
    return f"## Geometric means\n\n{body}"


def _rows(rows: Sequence[Row]) -> str:
    """Return the table of a number of threads: our kernel against the best peer."""
    return table(
        [{**row, "best": best_of(row), "runtime": best_runtime(row)} for row in rows],
        {
            "row": lambda r: CASES[r["case"]].title,
            "ours, weights constant": lambda r: _packed(r),
            "ours": lambda r: duration(time_s(r, OURS_RUNTIME)),
            "best peer": lambda r: CONTESTANTS[r["best"].peer].title if r["best"] else "-",
            "its time": lambda r: duration(r["best"].time_s) if r["best"] else "-",
            "faster by": lambda r: times(r["best"].ratio) if r["best"] else "-",
            "Winograd allowed": lambda r: _winograd(r),
            "without packing": lambda r: times(r["runtime"].ratio) if r["runtime"] else "-",
            "GFLOP/s": lambda r: _figure(r, lambda r, s: f"{r['flop'] / s / 1e9:.1f}"),
            "of FMA": lambda r: _figure(r, lambda r, s: percent(share_of_fma(r, s))),
            "of copy": lambda r: _figure(r, lambda r, s: percent(share_of_copy(r, s))),
            "spread": lambda r: percent(_spread(r)) + ("" if r["quiet"] else ", noisy"),
        },
    )


def _winograd(row: Row) -> str:
    return times(row["best"].winograd) if row["best"] and takes_winograd(row["case"]) else "="


def _packed(row: Row) -> str:
    return duration(time_s(row, OURS)) if has_weights(CASES[row["case"]].form) else "="


def _fastest(row: Row) -> float | None:
    """Return the better of our times."""
    return min((s for s in (ours_s(row, OURS), ours_s(row, OURS_RUNTIME)) if s), default=None)


def _figure(row: Row, figure: Any) -> str:
    seconds = _fastest(row)
    return "-" if seconds is None else str(figure(row, seconds))


def _spread(row: Row) -> float | None:
    for name in (OURS, OURS_RUNTIME):
        found = row["contestants"].get(name, {})
        if "median" in found:
            return float((found["most"] - found["least"]) / found["median"])
    return None


def everybody(rows: Sequence[Row]) -> str:
    """Return the table of all contestants; the fastest peer of a row is bold."""
    present = [n for n in CONTESTANTS if any(time_s(row, n) is not None for row in rows)]

    def cell(row: Row, name: str) -> str:
        seconds, best = time_s(row, name), best_of(row)
        if seconds is None:
            return "failed" if "failed" in row["contestants"].get(name, {}) else ""
        text = f"{seconds * 1e3:.3g}"
        return f"**{text}**" if best is not None and best.peer == name else text

    return table(
        rows,
        {"row": lambda r: r["case"]}
        | {CONTESTANTS[name].title: lambda r, name=name: cell(r, name) for name in present},
    )


def _duels(duels: Sequence[Duel], threads: Sequence[int]) -> str:
    """Return the tables against MetaSchedule."""
    parts = ["## MetaSchedule, 64 trials each\n"]
    for count in threads:
        some = [duel for duel in duels if duel.threads == count]
        if not some:
            continue
        faster = mean({duel.case: duel.ratio for duel in some})
        allowed = mean({duel.case: duel.ratio_with_winograd for duel in some})
        share = mean({duel.case: duel.share for duel in some})
        reached = sum(duel.share is not None for duel in some)
        told = f"{_title(count)}: "
        if faster is not None:
            told += f"our kernel is {times(faster.ratio)} faster, mean of {faster.rows} rows"
            told += f", {times(allowed.ratio)} with Winograd allowed. " if allowed else ". "
        if share is not None:
            told += (
                f"Their result was reached in {reached} of {len(some)}, after {share.ratio:.1%}"
                f" of their tuning time in the mean, {share.most[0]:.1%} at most. "
            )
        body = table(
            [{"duel": duel} for duel in some],
            {
                "row": lambda r: CASES[r["duel"].case].title,
                "ours": lambda r: duration(r["duel"].our_s),
                "theirs": lambda r: duration(r["duel"].their_s),
                "faster by": lambda r: times(r["duel"].ratio),
                "Winograd allowed": lambda r: _allowed(r["duel"]),
                "our tuning": lambda r: duration(r["duel"].our_tuning_s),
                "theirs, tuning": lambda r: duration(r["duel"].their_tuning_s),
                "theirs reached after": lambda r: duration(r["duel"].reached_s),
                "of their time": lambda r: _share(r["duel"].share),
            },
        )
        parts.append(f"{told}\n\n{body}")
    parts.append(
        "Their result counts as reached once our search has measured a candidate at least as fast"
        " as their kernel in the contest and as the best that their own search saw. Our trials are"
        " timed in proportion to a control; their curve is scaled to end at the time that the"
        " kernel takes in the contest.\n"
    )
    return "\n".join(parts)


def _allowed(duel: Duel) -> str:
    return "=" if duel.winograd_s is None else times(duel.ratio_with_winograd)


def _share(share: float | None) -> str:
    return "-" if share is None else f"{share:.1%}"


def _notes(rows: Sequence[Row]) -> str:
    """Return the section on errors of results and on failures."""
    worst: dict[str, tuple[float, str]] = {}
    failures = []
    for row in rows:
        for name, figures in row["contestants"].items():
            if "away" in figures:
                found = (figures["away"], row["case"])
                worst[name] = max(worst.get(name, found), found)
            if "failed" in figures:
                where = f"{CONTESTANTS[name].title}, {row['case']}, {row['threads']} threads"
                failures.append(f"- {where}: {figures['failed'].splitlines()[0][:160]}")
    exact = table(
        [{"name": name, "away": away, "case": case} for name, (away, case) in worst.items()],
        {
            "contestant": lambda r: CONTESTANTS[r["name"]].title,
            "largest error, of the largest value": lambda r: f"{r['away']:.1e}",
            "in": lambda r: r["case"],
        },
    )
    failed = "\n## Failures\n\n" + "\n".join(failures) + "\n" if failures else ""
    return f"## How exact\n\n{exact}{failed}"
