"""Sizes of dims that the user of a bundle gives: the option `--dim` of its commands."""

from collections.abc import Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from ansorpy.errors import SpecError

if TYPE_CHECKING:
    from ansorpy.artifact.harness import DimSpec
    from ansorpy.bundle.load import LoadedModel
    from ansorpy.model.race import Standing

MOST: Final = 64  # sizes of a race: each is called in each turn
OPTION: Final = "--dim"

Sizes = Annotated[
    list[str] | None,
    typer.Option(
        OPTION, metavar="NAME=N,...", help="Sizes of a dim; may be given for several dims."
    ),
]


def asked(
    model: "LoadedModel", texts: Sequence[str] | None, inputs: Path | None
) -> list[dict[str, int]]:
    """Return the sizes of all dims that options ask for; [] without the option.

    Raises:
        SpecError: as `sizes_of`; or arrays are given, which have sizes.
    """
    if texts is not None and inputs is not None:
        raise SpecError(
            f"cannot take {OPTION} beside --inputs because the arrays decide the sizes;"
            " expected one of both"
        )
    return [] if texts is None else sizes_of(model, texts)


def sizes_of(model: "LoadedModel", texts: Sequence[str]) -> list[dict[str, int]]:
    """Return the sizes of all dims that options ask for: every pair of sizes of two dims.

    A dim that no option names has its largest size; a sum of dims follows from its terms.

    Raises:
        SpecError: an option names no dim, or a size that no call may have.
    """
    free = {dim.name: dim for dim in model.dims if not dim.terms}
    given: dict[str, list[int]] = {}
    for text in texts:
        name, _, values = text.partition("=")
        if name not in free:
            raise SpecError(
                f"cannot take {OPTION} {text} because {model.name} has no dim {name!r};"
                f" expected {_names(free)}"
            )
        given[name] = [_size(free[name], text, value) for value in values.split(",")]
    every = [given.get(name, [dim.high]) for name, dim in free.items()]
    found = [dict(zip(free, sizes, strict=True)) for sizes in product(*every)]
    if len(found) > MOST:
        raise SpecError(
            f"cannot take {len(found)} sizes because each is timed; expected at most {MOST}"
        )
    return [_whole(model.dims, sizes) for sizes in found]


def _names(free: Mapping[str, "DimSpec"]) -> str:
    return ", ".join(map(str, free.values())) or "a bundle with dims"


def _size(dim: "DimSpec", text: str, value: str) -> int:
    size = int(value) if value.isascii() and value.isdigit() else None
    if size is None or not dim.has(size):
        raise SpecError(f"cannot take {OPTION} {text} because of {value!r}; expected {dim}")
    return size


def _whole(dims: Sequence["DimSpec"], sizes: Mapping[str, int]) -> dict[str, int]:
    """Return sizes, and the sizes of sums.

    Raises:
        SpecError: a sum is out of its range.
    """
    found = dict(sizes)
    for dim in dims:
        if dim.terms:
            found[dim.name] = sum(one if isinstance(one, int) else found[one] for one in dim.terms)
            if not dim.has(found[dim.name]):
                told = " + ".join(map(str, dim.terms))
                raise SpecError(
                    f"cannot take {shown(sizes)} because {told} is {found[dim.name]}; expected"
                    f" {dim}"
                )
    return {dim.name: found[dim.name] for dim in dims}


def shown(sizes: Mapping[str, int]) -> str:
    """Return sizes for people."""
    return ", ".join(f"{name} {size}" for name, size in sizes.items())


def as_objects(
    every: Sequence[Mapping[str, int]], standings: "Sequence[Standing]"
) -> list[dict[str, Any]]:
    """Return the seconds of each runtime at each size, for `--json`."""
    return [
        {"sizes": dict(sizes), "median_s": {s.runtime: s.of_sizes_s[k] for s in _timed(standings)}}
        for k, sizes in enumerate(every)
    ]


def as_table(every: Sequence[Mapping[str, int]], standings: "Sequence[Standing]") -> str:
    """Return the milliseconds of each runtime at each size for people, with ratios to ours."""
    timed = _timed(standings)
    first = ["", *map(shown, every)]
    width = max(map(len, first))
    heads = [f"{s.runtime:>10}" + (f" {'x ours':>6}" if k else "") for k, s in enumerate(timed)]
    lines = [" ".join([first[0].ljust(width), *heads])]
    for k, name in enumerate(first[1:]):
        own_s = timed[0].of_sizes_s[k]
        cells = [
            f"{s.of_sizes_s[k] * 1e3:10.3f}" + (f" {s.of_sizes_s[k] / own_s:6.2f}" if n else "")
            for n, s in enumerate(timed)
        ]
        lines.append(" ".join([name.ljust(width), *cells]))
    return "\n".join(lines)


def _timed(standings: "Sequence[Standing]") -> list["Standing"]:
    return [one for one in standings if not one.failed]
