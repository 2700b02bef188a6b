"""The manager of passes: runs them to a fixpoint and reports the passes that fired."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from ansorpy.graph.graph import Graph
from ansorpy.graph.passes.activations import activations
from ansorpy.graph.passes.arith import arith
from ansorpy.graph.passes.batch_norm import batch_norm
from ansorpy.graph.passes.dead import dead
from ansorpy.graph.passes.equal import equal
from ansorpy.graph.passes.fold import fold
from ansorpy.graph.passes.gathers import gathers
from ansorpy.graph.passes.identity import identity
from ansorpy.graph.passes.joins import joins
from ansorpy.graph.passes.normalizations import normalizations
from ansorpy.graph.passes.products import products
from ansorpy.graph.passes.rewriter import Rewritten
from ansorpy.graph.passes.transposes import transposes
from ansorpy.graph.passes.unit_axes import unit_axes
from ansorpy.graph.passes.views import views

ROUNDS: Final = 32  # rounds of all passes; a graph of the ladder settles within 5


@dataclass(frozen=True, slots=True)
class Pass:
    """A pass: a function from a graph to a graph of the same meaning.

    `exact`: every value that the graph computes stays the same to the bit; otherwise roundings
    change, within the bound that the docstring of the pass tells.
    """

    name: str
    apply: Callable[[Graph], Rewritten]
    exact: bool = True


PASSES: Final[tuple[Pass, ...]] = (
    Pass("dead", dead),  # first: later passes look at less
    Pass("fold", fold),  # constants are conditions of the passes behind it
    Pass("identity", identity),
    Pass("gathers", gathers),  # before views: it makes some
    Pass("views", views),
    Pass("joins", joins),  # after identity: no Concat has one operand
    Pass("unit_axes", unit_axes),  # its reshapes meet those around it in the next round
    Pass("transposes", transposes),  # after views: reshapes are the only views
    Pass("products", products, exact=False),  # takes transposes that no other pass merged
    Pass("batch_norm", batch_norm, exact=False),  # products have a bias now
    Pass("arith", arith, exact=False),  # one form for the two passes behind it
    Pass("activations", activations, exact=False),
    Pass("normalizations", normalizations, exact=False),
    Pass("equal", equal),  # last: operands are in their final form
)


@dataclass(frozen=True, slots=True)
class Firing:
    """A pass that changed the graph at some sites, with the numbers of nodes."""

    name: str
    sites: int
    nodes_before: int
    nodes_after: int

    def __str__(self) -> str:
        return f"{self.name}: {self.sites} sites, {self.nodes_before} -> {self.nodes_after} nodes"


@dataclass(frozen=True, slots=True)
class Simplified:
    """A graph after the passes, and the report of the passes that fired, in order.

    `settled`: no pass would fire again. It is False if ROUNDS were not enough.
    """

    graph: Graph
    fired: tuple[Firing, ...]
    settled: bool

    @property
    def sites(self) -> dict[str, int]:
        """The sites at which each pass fired, over all rounds."""
        found: dict[str, int] = {}
        for one in self.fired:
            found[one.name] = found.get(one.name, 0) + one.sites
        return found


def simplify(graph: Graph, passes: Sequence[Pass] = PASSES) -> Simplified:
    """Run passes in order, again and again, until none of them fires.

    Dead nodes are removed after each pass that fired, so that the numbers of nodes are its own.
    """
    fired: list[Firing] = []
    for _ in range(ROUNDS):
        count = len(fired)
        for one in passes:
            made = one.apply(graph)
            if not made.sites:
                continue
            swept = dead(made.graph).graph
            fired.append(Firing(one.name, made.sites, len(graph.nodes), len(swept.nodes)))
            graph = swept
        if len(fired) == count:
            return Simplified(graph, tuple(fired), True)
    return Simplified(graph, tuple(fired), False)
