"""Times for people: latencies in the unit that reads best, spans as minutes and seconds."""


def duration(seconds: float) -> str:
    """Return a latency with four digits: `12.34 us`."""
    for unit, size in (("us", 1e-6), ("ms", 1e-3)):
        if seconds < 1000 * size:
            return f"{seconds / size:.4g} {unit}"
    return f"{seconds:.4g} s"


def clock(seconds: float | None) -> str:
    """Return minutes and seconds: `1:05`; `-` for None."""
    if seconds is None:
        return "-"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"
