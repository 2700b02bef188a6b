"""The rule sets that the package registers, by name, read from `pyproject.toml`."""

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from ansorpy import rules
from ansorpy.state.rule import Rule, name_of

_PROJECT: Final = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())
_POINTS: Final[Mapping[str, str]] = _PROJECT["project"]["entry-points"]["ansorpy.rules"]

SETS: Final[Mapping[str, tuple[Rule, ...]]] = {
    name: getattr(rules, point.partition(":")[2]) for name, point in _POINTS.items()
}
EVERY: Final[tuple[Rule, ...]] = tuple(dict.fromkeys(r for one in SETS.values() for r in one))
BY_NAME: Final[Mapping[str, Rule]] = {name_of(rule): rule for rule in EVERY}
