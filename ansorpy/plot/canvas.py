"""The door to matplotlib: figures that no window shows, and labels that do not overlap."""

from collections.abc import Mapping
from functools import cache
from io import BytesIO
from typing import Any, Final

from ansorpy.errors import PackageError
from ansorpy.plot.labels import apart

OURS, BEST, THEIRS, GREY = "#0072b2", "#d55e00", "#7a5195", "#8c8c8c"  # for colour-blind readers
SIZE_INCHES: Final = (7.0, 4.2)
DPI: Final = 110  # dots per inch in a notebook
GAP: Final = 0.05  # least distance of two labels, as a share of the height of the axes
UNITS: Final = (("us", 1e-6), ("ms", 1e-3), ("s", 1.0))


def axes_of(ax: Any) -> Any:
    """Return the axes to draw in: `ax`, or new axes of a figure of their own.

    Raises:
        PackageError: matplotlib is not installed.
    """
    if ax is not None:
        return ax
    return _figure_type()(figsize=SIZE_INCHES, layout="constrained").subplots()


@cache
def _figure_type() -> Any:
    """Return a type of figures that notebooks show without pyplot, which opens windows."""
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise PackageError(
            "cannot plot because matplotlib is not installed; expected pip install 'ansorpy[plot]'"
        ) from error

    def png(figure: Any) -> bytes:
        picture = BytesIO()
        figure.savefig(picture, format="png", dpi=DPI)
        return picture.getvalue()

    return type("NotebookFigure", (Figure,), {"_repr_png_": png})


def unit_of(seconds: float) -> tuple[str, float]:
    """Return the unit in which a time reads best, and its seconds."""
    return next((unit for unit in UNITS if seconds < 1000 * unit[1]), UNITS[-1])


def plain_ticks(axis: Any) -> None:
    """Write the ticks of a logarithmic axis as plain numbers: 20, not 2 x 10^1."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    axis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axis.set_minor_formatter(NullFormatter())


def label_lines(ax: Any, labels: Mapping[str, float]) -> None:
    """Write labels at the right of the axes, beside their heights, apart from one another.

    Args:
        labels: heights in data coordinates; the limits of the axes are final.
    """
    to_axes, x = ax.transData + ax.transAxes.inverted(), ax.get_xlim()[1]
    heights = {text: float(to_axes.transform((x, y))[1]) for text, y in labels.items()}
    for text, height in apart(heights, GAP).items():
        ax.annotate(
            text, (1.0, heights[text]), (1.03, height), xycoords="axes fraction", fontsize=8,
            va="center", annotation_clip=False,
            arrowprops={"arrowstyle": "-", "color": GREY, "linewidth": 0.6, "shrinkB": 0},
        )  # fmt: skip
