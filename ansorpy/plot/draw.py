"""The choice of a picture by its kind."""

from collections.abc import Callable, Mapping
from typing import Any, Final

from ansorpy.errors import SpecError, quoted
from ansorpy.plot.canvas import axes_of
from ansorpy.plot.history import draw_history
from ansorpy.plot.importance import draw_importance
from ansorpy.plot.parallel import draw_parallel
from ansorpy.plot.roofline import draw_roofline
from ansorpy.plot.subject import Subject

KINDS: Final[Mapping[str, Callable[[Subject, Any], None]]] = {
    "history": draw_history,
    "roofline": draw_roofline,
    "importance": draw_importance,
    "parallel": draw_parallel,
}


def plot(kind: str, subject: Subject, ax: Any = None) -> Any:
    """Draw a picture and return its figure; no window shows it.

    Args:
        ax: axes of matplotlib to draw in; of a new figure unless given.

    Raises:
        SpecError: there is no such kind, or the task lacks the data of the picture.
        PackageError: matplotlib is not installed.
    """
    if kind not in KINDS:
        raise SpecError(
            f"cannot plot {quoted(kind)} because there is no such picture; expected one of"
            f" {', '.join(KINDS)}"
        )
    axes = axes_of(ax)
    KINDS[kind](subject, axes)
    return axes.figure
