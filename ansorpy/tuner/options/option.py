"""The definition of an option: its name, type, default, limits and help."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, dataclass, fields
from functools import cache
from math import isfinite
from re import fullmatch
from types import MappingProxyType
from typing import Any, Final, Literal, Protocol, get_origin, get_type_hints

from ansorpy.errors import SpecError


@dataclass(frozen=True, slots=True)
class OptionLimits:
    """The values that an option may have: a number, each number of a mapping, or each name.

    least, most     inclusive bounds of a number
    above, below    exclusive ones
    items           entries of a mapping or a sequence, at most
    words           the only names, or values of a text, that are allowed
    pattern         regular expression of every name
    """

    least: float | None = None
    above: float | None = None
    most: float | None = None
    below: float | None = None
    items: int | None = None
    words: tuple[str, ...] = ()
    pattern: str = ""

    def check(self, label: str, number: float) -> None:
        """Raise SpecError if a number, which the message calls `label`, lies out of bounds."""
        bounded = (
            isfinite(number)
            and (self.least is None or number >= self.least)
            and (self.above is None or number > self.above)
            and (self.most is None or number <= self.most)
            and (self.below is None or number < self.below)
        )
        if not bounded:
            raise SpecError(f"cannot tune with {label}; expected {self}")

    def check_word(self, label: str, word: str) -> None:
        """Raise SpecError if a text, which the message calls `label`, is no word, or has no form.

        A text without words has the form of the pattern.
        """
        if not self.words:
            if not fullmatch(self.pattern, word):
                raise SpecError(f"cannot tune with {label}; expected a name like {self.pattern}")
        elif word not in self.words:
            raise SpecError(f"cannot tune with {label}; expected {' or '.join(self.words)}")

    def __str__(self) -> str:
        """Return the bounds of a number in words."""
        low = [f"at least {self.least}"] if self.least is not None else []
        low += [f"above {self.above}"] if self.above is not None else []
        high = [f"at most {self.most}"] if self.most is not None else []
        high += [f"below {self.below}"] if self.below is not None else []
        return " and ".join(low + high) or "a finite number"


class DocumentOption(Protocol):
    """A value of an option that has a JSON form, such as a schedule."""

    def to_json(self) -> dict[str, Any]:
        """Return the JSON form."""
        ...


@dataclass(frozen=True, slots=True)
class Option:
    """The rest of the definition of an option, beside its name, its type and its default.

    help       one sentence for people; it may go on over several lines of source
    limits     values that are accepted anywhere
    service    the tighter limits of a job of the service, if it has such
    budget     the option ends a search or shares its trials; it stands in the `budget` of a job
    command    the option's name on the command line, if it differs: `--weight` for `weights`
    read       makes the value of an option that is a document: an object of a job, a file of a
               command; None if the option is none
    """

    help: str
    limits: OptionLimits = OptionLimits()
    service: OptionLimits | None = None
    budget: bool = False
    command: str = ""
    read: Callable[[Any], DocumentOption] | None = None


@dataclass(frozen=True, slots=True)
class Definition:
    """An option with its name, the type that a caller sees, and its default."""

    name: str
    type: Any
    default: Any  # `MISSING` if it must be given
    keyword_only: bool
    option: Option

    @property
    def shape(self) -> Literal["value", "names", "numbers by name", "document"]:
        """The kind of value that a command or a JSON schema has to read."""
        if self.option.read is not None:
            return "document"
        origin = get_origin(self.type)
        return {Sequence: "names", Mapping: "numbers by name"}.get(origin, "value")  # type: ignore[return-value]

    def limits(self, of_service: bool) -> OptionLimits:
        """Return the limits on this machine, or the limits of a job."""
        own = self.option.service if of_service else None
        return self.option.limits if own is None else own


def _definitions(kind: Any) -> Mapping[str, Definition]:
    """Return the options of a dataclass by name, those that may be positional first."""
    types, told = get_type_hints(kind), get_type_hints(kind, include_extras=True)
    definitions = {}
    for one in sorted(fields(kind), key=lambda one: bool(one.kw_only)):
        default = one.default if one.default_factory is MISSING else one.default_factory()
        for option in getattr(told[one.name], "__metadata__", ()):
            made = Definition(one.name, types[one.name], default, bool(one.kw_only), option)
            definitions[one.name] = made
    return MappingProxyType(definitions)


# A class of values that compare by their fields is hashable, which mypy denies.
definitions: Final[Callable[[Any], Mapping[str, Definition]]] = cache(_definitions)
