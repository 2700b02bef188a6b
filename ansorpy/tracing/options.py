"""Options of `ansorpy.jit`, and the mode of a process."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from ansorpy.artifact.package import parse_digest
from ansorpy.errors import SpecError, shown
from ansorpy.tuner.options.tune_options import default_cores

VARIABLE: Final = "ANSORPY_TUNE"
MODES: Final = ("off", "first", "background", "now")
EXPECTED: Final = "off, first, background, now, or a number of seconds"
TESTING: Final = ("PYTEST_VERSION", "CI")  # variables of a run whose machine has other work


@dataclass(frozen=True, slots=True)
class Mode:
    """The kind of tuning that a call starts: one of MODES; `seconds` limits "now"."""

    kind: str
    seconds: float | None = None

    def __str__(self) -> str:
        return self.kind if self.seconds is None else f"{self.kind} ({self.seconds:g} s)"


@dataclass(frozen=True, slots=True, kw_only=True)
class JitOptions:
    """The options of a traced function.

    Args:
        tune: "off" calls the function itself; "first" keeps the first answer; "background" tunes
            in a child process; "now", or a number of seconds, tunes before the first result.
            None: "background", and "first" in tests. ANSORPY_TUNE overrides all of them.
        trials: candidates of a tuning.
        cores: threads of the kernels; "all", or a number.
        allow, without: rules of the tuning, by name.
        store: the name of a store of records.
        config: `sha256:` and the digest of a bundle, which answers every call.
        verify: compare the first result with the function itself.
    """

    tune: str | float | None = None
    trials: int = 64
    cores: int | str = "all"
    allow: tuple[str, ...] = ()
    without: tuple[str, ...] = ()
    store: str | None = None
    config: str | None = None
    verify: bool = True

    def __post_init__(self) -> None:
        if self.cores != "all" and (not isinstance(self.cores, int) or self.cores < 1):
            raise SpecError(
                f"cannot take cores={shown(repr(self.cores))} because it is no number of threads;"
                " expected 'all', or a number from 1"
            )
        if self.config is not None:
            parse_digest(self.config)

    @property
    def threads(self) -> int:
        """The threads of the kernels."""
        return default_cores() if self.cores == "all" else int(self.cores)

    def mode(self, environment: Mapping[str, str]) -> Mode:
        """Return the mode of a process with these variables.

        Raises:
            SpecError: the variable, or the option, names no mode.
        """
        asked = environment.get(VARIABLE)
        if asked:
            return _mode(asked, VARIABLE)
        if self.tune is not None:
            return _mode(self.tune, "tune")
        return Mode("first" if any(map(environment.get, TESTING)) else "background")


def _mode(asked: str | float, name: str) -> Mode:
    if asked == "never":  # Helion's word
        return Mode("first")
    if asked in MODES:
        return Mode(str(asked))
    try:
        seconds = float(asked)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds < float("inf"):
        raise SpecError(
            f"cannot take {name}={shown(repr(asked))} because it is no mode; expected {EXPECTED}"
        )
    return Mode("now", seconds)
