"""The parts of a tuning that the process of the administrator has installed."""

from importlib.metadata import entry_points

from ansorpy.server.schemas.service import PluginReply, Plugins
from ansorpy.tuner.options.plugins import LISTED, OURS, package_of, plugins
from ansorpy.tuner.rule_sets.sets import GROUP


def plugin_list() -> Plugins:
    """Return the parts by option; nothing of another package is imported.

    Rule sets are the spaces of a search: one registered as "cpu+word" is chosen by that word.
    """
    rows = [
        PluginReply(
            option=group.option,
            kind=group.kind,
            name=one.name,
            package=one.package,
            default=one.name == group.default,
        )
        for group in LISTED
        for one in plugins(group)
    ]
    words = {
        (point.name.partition("+")[2], package_of(point)) for point in entry_points(group=GROUP)
    }
    for word, package in sorted(words):
        if word:
            package = OURS if package.partition(" ")[0] == OURS else package
            kind = "rule set"
            rows.append(
                PluginReply(option="allow", kind=kind, name=word, package=package, default=False)
            )
    return Plugins(plugins=rows)
