"""The rule set of a target, found without importing upward."""

from importlib.metadata import entry_points

from ansorpy.errors import SpecError
from ansorpy.state.rule import Rule

GROUP = "ansorpy.rules"


def find_rules(kind: str) -> tuple[Rule, ...]:
    """Return the rule set that is registered for a kind of target.

    Raises:
        SpecError: none is registered, or it is not a tuple of rules.
    """
    found = entry_points(group=GROUP, name=kind)
    if not found:
        known = sorted(point.name for point in entry_points(group=GROUP))
        raise SpecError(f"no rule set for target {kind!r}; there are {', '.join(known) or 'none'}")
    rules = next(iter(found)).load()
    if not isinstance(rules, tuple) or not rules:
        raise SpecError(f"the rule set for {kind!r} is {type(rules).__name__}, not a tuple")
    return rules
