"""JoinAxes: make one axis of neighbours that all nodes walk together."""

from collections.abc import Iterator
from dataclasses import dataclass

from ansorpy.rewrites.joined_axes import joined
from ansorpy.state import steps
from ansorpy.state.rule import Cursor, Rule
from ansorpy.te.analysis import Answer, no, yes


@dataclass(frozen=True, slots=True)
class JoinAxes(Rule):
    """Make one axis of neighbouring axes that all nodes walk together.

    Condition   the stage is the last one, and no step was done; wherever nodes have one of two
                neighbouring axes, they index neighbouring dimensions by both, over their whole
                extents
    Rewrite     (S, i)  ->  (S', i); no later rule is tried. Rows and columns of a 1x1
                convolution become a row of pixels, heads and batch of an attention one axis.
                Tiles and vectors then run over ends of rows: 14 pixels waste two of 16 lanes
    Not handled axes of a window, which move by another axis as well; dims; hinted axes
    Source      ours; MLIR's collapsing of dimensions (linalg) has a similar condition.
    """

    def explain(self, at: Cursor) -> Answer:
        """Name the joined extents, or the obstacle."""
        if at.state.steps or at.index != len(at.state.stages) - 1:
            return no(f"cannot join axes at {at.name}: a step was done, or other stages follow")
        made = joined(at.state.dag)
        if made == at.state.dag:
            return no(f"cannot join axes of {at.name}: nodes walk no two neighbours together")
        pairs = zip(at.state.dag.nodes, made.nodes, strict=True)
        told = (f"{a.name} {_shape(a.shape)} to {_shape(b.shape)}" for a, b in pairs if a != b)
        return yes(f"all nodes walk neighbouring axes together: {', '.join(told)}")

    def excludes_later(self, at: Cursor) -> bool:
        """Try no later rule: always."""
        return True

    def rewrite(self, at: Cursor) -> Iterator[Cursor]:
        """Yield the one successor, at the same stage."""
        yield at.moved(at.state.do(steps.Join(at.name)), at.index)


def _shape(shape: tuple[int, ...]) -> str:
    return "x".join(map(str, shape)) or "scalar"
