"""Times for people: latencies in the unit that reads best, spans as minutes and seconds."""


def duration(seconds: float) -> str:
    """Return a latency with four digits: `12.34 us`."""
    for unit, unit_s in (("us", 1e-6), ("ms", 1e-3)):
        if seconds < 1000 * unit_s:
            return f"{seconds / unit_s:.4g} {unit}"
    return f"{seconds:.4g} s"


def size(size_bytes: int) -> str:
    """Return a size with four digits: `12.5 MiB`."""
    for unit, shift in (("bytes", 0), ("KiB", 10), ("MiB", 20)):
        if size_bytes < 1 << (shift + 10):
            return f"{size_bytes / (1 << shift):.4g} {unit}"
    return f"{size_bytes / (1 << 30):.4g} GiB"


def counted(number: int, noun: str) -> str:
    """Return a number and its noun: `1 task`, `2 tasks`."""
    return f"{number} {noun}{'' if number == 1 else 's'}"


def clock(seconds: float | None) -> str:
    """Return minutes and seconds: `1:05`; `-` for None."""
    if seconds is None:
        return "-"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"


def eta_s(done: int, asked: int, spent_s: float, limit_s: float | None) -> float | None:
    """Return the seconds that a search may still take: by trials or by time, the smaller one.

    None before the first trial of a search without a time limit.
    """
    left: list[float] = []
    if done > 0 and spent_s > 0:
        left.append((asked - done) * spent_s / done)
    if limit_s is not None:
        left.append(limit_s - spent_s)
    return max(0.0, min(left)) if left else None
