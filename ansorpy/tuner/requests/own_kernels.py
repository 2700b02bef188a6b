"""Kernels of the user's own for the final races of a request: functions and delivered files.

Code never comes from a job of the service: only Python hands over functions, and only Python and
the command line name files.
"""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from ansorpy.artifact.load import DRIVER, NATIVE, check_machine
from ansorpy.artifact.package import Package, read_bytes, unbox
from ansorpy.errors import PackageError, SpecError
from ansorpy.measure.timing.own_kernel import OwnKernel, of_function
from ansorpy.te.dag import Dag
from ansorpy.tuner.tasks.twins import leaders

Own = Callable[..., Any] | Path | str  # a function, or the path of a delivered zip
Given = Own | Sequence[Own] | Mapping[str, Own | Sequence[Own]]
OwnByTask = Mapping[str, tuple[OwnKernel, ...]]

MAX_OWN: Final = 16  # kernels in the race of one task
MAX_NAME: Final = 60  # characters


def own_kernels(given: Given, dags: Sequence[Dag]) -> dict[str, tuple[OwnKernel, ...]]:
    """Return the kernels of the user's own by the task whose race they join.

    Args:
        given: by the name of a task, or without names: then files go to the task that their
            manifest names, and everything goes to the only task if there is one.

    Raises:
        SpecError: a value is neither a function nor a file of ours, or its task is not known.
    """
    firsts = leaders(dags)
    kernels_of: dict[str, list[OwnKernel]] = {}
    named = given if isinstance(given, Mapping) else {"": given}
    for task, ones in named.items():
        if task and task not in firsts:
            raise SpecError(
                f"cannot race kernels for {task!r} because no task has that name; expected"
                f" {' or '.join(firsts)}"
            )
        for one in _listed(ones):
            kernel, told = _own_kernel(one)
            name = firsts.get(task or (told if len(firsts) > 1 else next(iter(firsts))))
            if name is None:
                raise SpecError(
                    f"cannot race {kernel.name} because it could be for any of"
                    f" {', '.join(firsts)}; expected a mapping from the name of a task"
                )
            taken = kernels_of.setdefault(name, [])
            taken.append(_renamed(kernel, {other.name for other in taken}))
            if len(taken) > MAX_OWN:
                raise SpecError(f"cannot race {len(taken)} own kernels; expected at most {MAX_OWN}")
    return {name: tuple(ones) for name, ones in kernels_of.items()}


def _listed(given: object) -> list[object]:
    return list(given) if isinstance(given, Sequence) and not isinstance(given, str) else [given]


def _own_kernel(kernel: object) -> tuple[OwnKernel, str]:
    """Return a kernel, and the name of its task where a manifest tells it, else ""."""
    if isinstance(kernel, str | Path):
        return _of_file(Path(kernel))
    if callable(kernel):
        name = getattr(kernel, "__name__", type(kernel).__name__)
        return of_function(kernel, _plain(str(name))), ""
    raise SpecError(
        f"cannot race {type(kernel).__name__} {str(kernel)[:40]!r}; expected a function of arrays"
        " or the path of a delivered zip"
    )


def _of_file(path: Path) -> tuple[OwnKernel, str]:
    try:
        package = _package(path)
        check_machine(package, package.place)
    except PackageError as error:
        raise SpecError(
            f"cannot race {path} because of {str(error)!r}; expected a delivered zip or its folder"
        ) from error
    if DRIVER in package.files:
        raise SpecError(f"cannot race {path} because it is for a GPU; expected a kernel for a CPU")
    main = "kernel.py" if "kernel.py" in package.files else NATIVE
    return OwnKernel(_plain(path.name), main, package.files), str(package.manifest.get("name", ""))


def _package(path: Path) -> Package:
    if path.is_dir():
        zips = sorted(path.glob("*.zip"))
        if len(zips) != 1:
            raise PackageError(f"{len(zips)} zips in the folder")
        path = zips[0]
    return unbox(read_bytes(path), path.name)


def _renamed(kernel: OwnKernel, taken: set[str]) -> OwnKernel:
    """Return a kernel under a name that no other one has."""
    number, name = 2, kernel.name
    while name in taken:
        number, name = number + 1, f"{kernel.name} {number}"
    return OwnKernel(name, kernel.main, kernel.files)


def _plain(name: str) -> str:
    """Return a name in at most MAX_NAME printable ASCII characters, as records hold it."""
    ascii_name = name.encode("ascii", "backslashreplace").decode()
    return "".join(c if c.isprintable() else "?" for c in ascii_name)[:MAX_NAME] or "function"
