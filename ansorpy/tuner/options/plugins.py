"""Replaceable parts of a tuning: built in, or of an installed package, chosen by name (ADR-0156).

A request has names only. A name is looked up in a group of entry points, so that only code that
the administrator has installed beside ansorpy can be chosen. The names that are built in need no
look-up and cannot be replaced.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Annotated, Any, Final

from ansorpy.errors import PluginError, SpecError, shown
from ansorpy.tuner.options.entry_points import points_of
from ansorpy.tuner.options.option import Option, OptionLimits

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

NAME_PATTERN: Final = "^[A-Za-z0-9][A-Za-z0-9_-]{0,39}$"  # the form of a name in a request
OURS: Final = "ansorpy"  # the package of the built-in parts
ESTIMATES: Final = "estimates"  # the measuring back end for a GPU that is absent, or not asked for

CostModelName = Annotated[
    str,
    Option(
        "Cost model that ranks candidates before they are measured. trees: learned from the trials;"
        " analytic: estimates alone; or the name of an installed plug-in (`ansorpy plugins`).",
        OptionLimits(pattern=NAME_PATTERN),
    ),
]
SearchName = Annotated[
    str,
    Option(
        "Strategy that chooses the candidates of mode auto. evolution: by the cost model; random;"
        " or the name of an installed plug-in (`ansorpy plugins`).",
        OptionLimits(pattern=NAME_PATTERN),
    ),
]
MeasurerName = Annotated[
    str,
    Option(
        "Measuring back end of the trials. auto: this processor, the GPU that is present, or else"
        " estimates; estimates: also where the GPU is present; or the name of an installed plug-in"
        " (`ansorpy plugins`).",
        OptionLimits(pattern=NAME_PATTERN),
    ),
]
SpaceName = Annotated[
    str,
    Option(
        "Space generator, which makes the sketches of mode auto. rules: derived by the rule set; or"
        " the name of an installed plug-in (`ansorpy plugins`).",
        OptionLimits(pattern=NAME_PATTERN),
    ),
]


@dataclass(frozen=True, slots=True)
class PartGroup:
    """The parts of one kind, of which a request chooses one by name.

    option   the keyword of a request
    kind     the kind in words
    points   the group of entry points
    ours     the factories of the built-in parts as "module:function", by name
    default  the part without a choice
    use      the purpose, for messages: "tune"
    """

    option: str
    kind: str
    points: str
    ours: Mapping[str, str]
    default: str
    use: str = "tune"


COST_MODELS: Final = PartGroup(
    "cost_model",
    "cost model",
    "ansorpy.cost_models",
    {
        "trees": "ansorpy.tuner.parts.plugged:default_model",
        "analytic": "ansorpy.tuner.parts.plugged:analytic",
    },
    "trees",
)
SEARCHES: Final = PartGroup(
    "search",
    "search strategy",
    "ansorpy.searches",
    {
        "evolution": "ansorpy.tuner.parts.plugged:evolution",
        "random": "ansorpy.tuner.parts.plugged:random",
    },
    "evolution",
)
MEASURERS: Final = PartGroup(
    "measurer",
    "measuring back end",
    "ansorpy.measurers",
    {
        "auto": "ansorpy.tuner.parts.pools:own_processes",
        ESTIMATES: "ansorpy.tuner.parts.pools:estimates",
    },
    "auto",
)
SPACES: Final = PartGroup(
    "space",
    "space generator",
    "ansorpy.spaces",
    {"rules": "ansorpy.tuner.parts.plugged:RuleSpace"},
    "rules",
)
# A store serves commands and Python. A service keeps records with its jobs (ADR-0156).
STORES: Final = PartGroup(
    "store",
    "record store",
    "ansorpy.stores",
    {
        "database": "ansorpy.server.commands.common:database_store",
        "file": "ansorpy.records:file_store",
        "memory": "ansorpy.records:MemoryStore",
    },
    "database",
    "keep records",
)
GROUPS: Final = (COST_MODELS, SEARCHES, SPACES, MEASURERS)  # chosen by a request
LISTED: Final = (*GROUPS, STORES)


@dataclass(frozen=True, slots=True)
class Plugin:
    """A part that a request may choose.

    place    its factory as "module:attribute"; the factory takes a `Target` and the seed
    package  the distribution that offers it, with its version; "ansorpy" for a built-in part
    """

    group: PartGroup
    name: str
    place: str
    package: str

    @property
    def is_ours(self) -> bool:
        """True for a built-in part."""
        return self.package == OURS

    @property
    def full_name(self) -> str:
        """The name with the package, which identifies the part."""
        return f"{self.name} of {self.package}"

    def __str__(self) -> str:
        """Return the part in words, for messages."""
        return f"{self.group.kind} {self.full_name}"

    def make(self, *arguments: Any) -> Any:
        """Import the factory and call it.

        Raises:
            PluginError: the import or the call of a part of another package raised.
        """
        module, _, attribute = self.place.partition(":")
        if self.is_ours:
            return self._found(module, attribute)(*arguments)
        factory: Callable[..., Any] = guarded(self, "its import", self._found, module, attribute)
        return guarded(self, "its factory", factory, *arguments)

    @staticmethod
    def _found(module: str, attribute: str) -> Any:
        found: Any = import_module(module)
        for name in attribute.split("."):
            found = getattr(found, name)
        return found


def guarded(plugin: Plugin, stage: str, function: Callable[..., Any], *arguments: Any) -> Any:
    """Call a function of a plug-in.

    Args:
        stage: the subject of a message: "predict".

    Raises:
        PluginError: the function raised.
    """
    try:
        return function(*arguments)
    except PluginError:  # an inner plug-in has named itself
        raise
    except (Exception, SystemExit) as error:  # boundary of the code of another package
        raise failed(
            plugin, stage, f"raised {type(error).__name__}: {shown(error, 300)}"
        ) from error


def failed(plugin: Plugin, stage: str, why: str) -> PluginError:
    """Return the error of a plug-in whose stage `why`: "raised KeyError: 3"."""
    return PluginError(
        f"cannot {plugin.group.use} with {plugin} because {stage} {why}; expected a plug-in without"
        f" errors, or {plugin.group.option} {plugin.group.default}"
    )


def plugins(group: PartGroup) -> tuple[Plugin, ...]:
    """Return the parts of a group, built-in ones first; nothing of another package is imported."""
    ours = [Plugin(group, name, place, OURS) for name, place in group.ours.items()]
    by_name = {}  # a package may be found twice on the module path
    for point in points_of(group.points):
        if point.name not in group.ours:
            place = point.value.partition("[")[0].strip()
            package = package_of(point)
            by_name[point.name, package] = Plugin(group, point.name, place, package)
    return (*ours, *(by_name[key] for key in sorted(by_name)))


def package_of(point: "EntryPoint") -> str:
    """Return the distribution of an entry point, with its version."""
    dist = point.dist
    return "an unknown package" if dist is None else f"{dist.name} {dist.version}"


def chosen(group: PartGroup, name: str) -> Plugin:
    """Return the part of a group with a name.

    Raises:
        SpecError: there is none, or several packages offer the name.
    """
    if name in group.ours:
        return Plugin(group, name, group.ours[name], OURS)
    every = plugins(group)
    named = [one for one in every if one.name == name]
    if not named:
        known = ", ".join(dict.fromkeys(one.name for one in every))
        raise SpecError(
            f"cannot {group.use} with {group.option} {name!r} because no {group.kind} of this"
            f" name is installed; expected {known}"
        )
    if len(named) > 1:
        packages = " and ".join(one.package for one in named)
        raise SpecError(
            f"cannot {group.use} with {group.option} {name!r} because {packages} offer this name;"
            " expected a name of one package"
        )
    return named[0]


def chosen_part(group: PartGroup, options: object) -> Plugin:
    """Return the part of a group that a request chooses.

    Raises:
        SpecError: there is none, or several packages offer the name.
    """
    return chosen(group, getattr(options, group.option))
