"""AllowRounding: let tensor cores multiply float32, rounded to a shorter format."""

from collections.abc import Iterator
from dataclasses import dataclass

from ansorpy.rewrites.warp_products import rounded_operands
from ansorpy.state.rule import Cursor, Rule
from ansorpy.state.state import Root
from ansorpy.state.steps import RoundOperands
from ansorpy.te.analysis import Answer, no


@dataclass(frozen=True, slots=True)
class AllowRounding(Rule):
    """Let the operands of a product be rounded to the format of a matrix instruction: "tf32".

    Condition   the stage is a sum of one product of two reads, in float32; its loops are not split
    Rewrite     (S, i)  ->  (S', i): sum a[..] * b[..]  ->  sum tf32(a[..]) * tf32(b[..]); no later
                rule is tried before. Rows of a plan whose tile sizes do not fit the instruction
                do not round, and are the kernels of the stage without the step
    Not handled products of more than two factors; operands that are computed in the product
    Source      ours; as `torch.backends.cuda.matmul.allow_tf32`
    """

    form: str

    def explain(self, at: Cursor) -> Answer:
        """Name the operands, or the obstacle."""
        name, stage = at.name, at.stage
        if at.facts.divided(name) or stage.role is not None or stage.location != Root():
            return no(f"cannot round the operands of {name}: its loops are split, or attached")
        return rounded_operands(stage.node, self.form)[1]

    def excludes_later(self, at: Cursor) -> bool:
        """Try no later rule: always."""
        return True

    def rewrite(self, at: Cursor) -> Iterator[Cursor]:
        """Yield the one successor, at the same stage."""
        yield at.moved(at.state.do(RoundOperands(at.name, self.form)), at.index)
