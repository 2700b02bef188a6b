"""Trace the way of the options through one tuning.

    python -m tests.tuner.options_trace

lists the files of `ansorpy/` in which a frame holds a whole `TuneOptions` as a local, and each call
of such a frame from a lower floor (pyproject.toml has the floors). The tuning is
`ansorpy.tune` with measuring processes that answer from a formula.
"""

import sys
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any, Final
from unittest.mock import patch

import ansorpy
from ansorpy.tuner.options.tune_options import TuneOptions
from tests.fakes import fake_pools

PACKAGE: Final = Path(ansorpy.__file__).parent
PYPROJECT: Final = PACKAGE.parent / "pyproject.toml"
TEXT: Final = "def mm(float(24,24) A, float(24,24) B) -> (C) { C(i,j) +=! A(i,k) * B(k,j) }"

DECORATOR: Final = "tuner/options/keywords.py"  # it calls functions of any floor


@dataclass(slots=True)
class Trace:
    """The files that hold the options, and the calls of their frames from a lower floor."""

    files: set[str] = field(default_factory=set)
    upward: set[str] = field(default_factory=set)


def floors() -> dict[str, int]:
    """Return the floor of each package or module of `ansorpy`, 0 for the lowest."""
    settings = tomllib.loads(PYPROJECT.read_text())
    contracts = settings["tool"]["importlinter"]["contracts"]
    layers = next(one["layers"] for one in contracts if one["name"] == "floors of ansorpy")
    return {
        name.strip(): number
        for number, layer in enumerate(reversed(layers))
        for name in layer.split("|")
    }


def place_of(frame: FrameType | None) -> str | None:
    """Return the file of a frame below `ansorpy/`, None for another file."""
    path = "" if frame is None else frame.f_code.co_filename
    return path.removeprefix(f"{PACKAGE}/") if path.startswith(f"{PACKAGE}/") else None


def holds(frame: FrameType) -> bool:
    """Return whether a local of a frame is a whole `TuneOptions`."""
    return any(isinstance(value, TuneOptions) for value in frame.f_locals.values())


@contextmanager
def traced() -> Iterator[Trace]:
    """Trace the calls of this thread."""
    found, floor_of = Trace(), floors()

    def see(frame: FrameType, event: str, _: Any) -> None:
        place = place_of(frame)
        if place is None or event != "return" or not holds(frame):
            return
        found.files.add(place)
        caller = place_of(frame.f_back)
        if caller in (None, DECORATOR):
            return
        if _floor(floor_of, caller) < _floor(floor_of, place):
            found.upward.add(f"{caller} calls {frame.f_code.co_name} of {place}")

    sys.setprofile(see)
    try:
        yield found
    finally:
        sys.setprofile(None)


def _floor(floor_of: dict[str, int], place: str) -> int:
    return floor_of.get(place.split("/")[0].removesuffix(".py"), len(floor_of))


def trace(out: Path, trials: int = 8) -> Trace:
    """Return the trace of one tuning, whose zips go to `out`."""
    with patch("ansorpy.tuner.tune.local_pools", lambda request: fake_pools()), traced() as found:
        ansorpy.tune(TEXT, trials=trials, store=ansorpy.MemoryStore(), out=out, progress=False)
    return found


def main() -> None:
    """Print the trace."""
    from tempfile import TemporaryDirectory

    with TemporaryDirectory() as folder:
        found = trace(Path(folder))
    lines = [f"{len(found.files)} files hold the options:", *sorted(found.files)]
    lines += [f"{len(found.upward)} calls upward:", *sorted(found.upward)]
    sys.stdout.write("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
