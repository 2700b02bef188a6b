"""The steps of a bundle: calls of kernels and of NumPy functions, and copies of rows."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class KernelStep:
    """A call of a kernel: values in the order of its arguments, as dense row-major arrays.

    Dtypes and layouts are as the arguments say; shapes may differ. The kernel's dims may have other
    names: values tell the dims of the model (`ModelPlan.sizes_of`). `nodes` names the nodes of the
    model that the step computes, for reports.
    """

    kernel: str
    reads: tuple[str, ...]
    writes: tuple[str, ...]
    nodes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class HostedStep:
    """A call of a NumPy function: `function(arrays, **attributes) -> sequence of arrays`.

    `attributes` is the text of a JSON object. Results have the shapes and dtypes of `writes`.
    """

    function: str
    reads: tuple[str, ...]
    writes: tuple[str, ...]
    attributes: str = "{}"
    nodes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Rows:
    """Rows that a step copies: of a value that it reads, from `start` on, to `goal` on.

    `start`, `goal` and `count` are numbers, or dims whose sizes a call decides.
    """

    read: int
    start: int
    goal: int
    count: int


@dataclass(frozen=True, slots=True)
class CopyStep:
    """Rows of values along an axis, copied into the only value of `writes`.

    All these values have the same other axes. Rows that lie in their place already, because the
    caller gave a value its memory, are not copied.
    """

    axis: int
    rows: tuple[Rows, ...]
    reads: tuple[str, ...]
    writes: tuple[str, ...]
    nodes: tuple[str, ...] = ()


Step = KernelStep | HostedStep | CopyStep
