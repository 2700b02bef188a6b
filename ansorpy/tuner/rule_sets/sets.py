"""The rule set of a target, found without importing upward."""

from collections.abc import Sequence
from pathlib import Path

from ansorpy.errors import SpecError
from ansorpy.state.rule import Rule
from ansorpy.tuner.options.entry_points import points_of
from ansorpy.tuner.rule_sets.files import check_names, load_rules, rule_folder

GROUP = "ansorpy.rules"


def find_rules(
    kind: str,
    allow: Sequence[str] = (),
    without: Sequence[str] = (),
    folder: Path | None = None,
) -> tuple[Rule, ...]:
    """Return the rule set that is registered for a kind of target.

    Args:
        allow: words; the sets that are registered as "<kind>+<word>" come first, by name.
        without: names of rules that are left out: "SplitPhases".
        folder: of rule files; "word" also allows the rules of its file "word.py".

    Raises:
        SpecError: none is registered, one is not a tuple of rules, a word or a rule is not known,
            a file cannot be loaded, two rules have one name, or no rule is left.
    """
    prefix = f"{kind}+"
    names = registered()
    words = {name.removeprefix(prefix) for name in names if name.startswith(prefix)}
    files = rule_folder(folder)
    for word in sorted(words & set(files)):
        raise SpecError(
            f"cannot offer rule file {word}.py because a registered rule set has this name;"
            " expected another name of the file"
        )
    known = sorted({*words, *files})
    more: list[Rule] = []
    for word in sorted(set(allow)):
        if word not in known:
            listed = ", ".join(known) or "nothing"
            raise SpecError(
                f"cannot allow {word!r} because no rules for {kind} have this name;"
                f" expected {listed}"
            )
        more += load_rules(files[word]).of(kind) if word in files else _load(prefix + word)
    rules = (*more, *_load(kind))
    check_names(rules)
    return _left(rules, without)


def registered() -> list[str]:
    """Return the names of the registered rule sets: "cpu", "cpu+winograd2"."""
    return sorted(point.name for point in points_of(GROUP))


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
    found = points_of(GROUP).select(name=kind)
    if not found:
        known = ", ".join(registered()) or "none"
        raise SpecError(f"no rule set for target {kind!r}; there are {known}")
    rules = next(iter(found)).load()
    if not isinstance(rules, tuple) or not rules:
        raise SpecError(f"the rule set for {kind!r} is {type(rules).__name__}, not a tuple")
    return rules
