"""The rule set of a target, found without importing upward."""

from collections.abc import Sequence
from importlib.metadata import entry_points

from ansorpy.errors import SpecError
from ansorpy.state.rule import Rule

GROUP = "ansorpy.rules"


def find_rules(
    kind: str, allow: Sequence[str] = (), without: Sequence[str] = ()
) -> tuple[Rule, ...]:
    """Return the rule set that is registered for a kind of target.

    Args:
        allow: words; the sets that are registered as "<kind>+<word>" come first, by name.
        without: names of rules that are left out: "SplitPhases".

    Raises:
        SpecError: none is registered, one is not a tuple of rules, a word or a rule is not known,
            or no rule is left.
    """
    prefix = f"{kind}+"
    names = [point.name for point in entry_points(group=GROUP)]
    known = sorted(name.removeprefix(prefix) for name in names if name.startswith(prefix))
    for word in allow:
        if word not in known:
            listed = ", ".join(known) or "nothing"
            raise SpecError(f"allow {word!r}: what may be allowed for {kind} is {listed}")
    more = (_load(prefix + word) for word in sorted(set(allow)))
    rules = (*(rule for rules in more for rule in rules), *_load(kind))
    return _left(rules, without)


def _left(rules: tuple[Rule, ...], without: Sequence[str]) -> tuple[Rule, ...]:
    names = dict.fromkeys(type(rule).__name__ for rule in rules)
    for name in without:
        if name not in names:
            raise SpecError(
                f"cannot switch off {name} because no rule has that name;"
                f" expected {', '.join(names)}"
            )
    left = tuple(rule for rule in rules if type(rule).__name__ not in without)
    if not left:
        raise SpecError(
            "cannot switch off every rule because no sketch would be left; expected one less"
        )
    return left


def _load(kind: str) -> tuple[Rule, ...]:
    found = entry_points(group=GROUP, name=kind)
    if not found:
        known = sorted(point.name for point in entry_points(group=GROUP))
        raise SpecError(f"no rule set for target {kind!r}; there are {', '.join(known) or 'none'}")
    rules = next(iter(found)).load()
    if not isinstance(rules, tuple) or not rules:
        raise SpecError(f"the rule set for {kind!r} is {type(rules).__name__}, not a tuple")
    return rules
