"""Loop-invariant code motion of offsets: each sum is written in the block that knows its terms."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ansorpy.codegen.simd.kinds import whole_number

Terms = Mapping[str, int]  # coefficients by name


@dataclass(slots=True)
class HoistedSums:
    """The offsets of one function: their names, the blocks that define these, and sums of them.

    A sum that a loop does not change is written outside of the loop, once. LLVM would look for it
    in every loop, and give up if it runs out of registers.
    """

    blocks: dict[str, Any] = field(default_factory=dict)  # by name, outermost first
    known: dict[tuple[tuple[str, int], ...], Any] = field(default_factory=dict)

    def enter(self, name: str, block: Any) -> None:
        """Note the block that defines a name; names that are entered later belong further in."""
        self.blocks[name] = block

    def begin_again(self, block: Any) -> None:
        """Write the sums of all names at a later block from now on, which runs once as well.

        A sum for statements after a loop then takes no register inside of the loop.
        """
        self.blocks = dict.fromkeys(self.blocks, block)
        self.known.clear()

    def know(self, terms: Terms) -> bool:
        """Return True if the defining blocks of all names of a sum are known."""
        return bool(terms) and terms.keys() <= self.blocks.keys()

    def sum(self, builder: Any, terms: Terms, values: Mapping[str, Any]) -> Any:
        """Return the sum of coefficient * value."""
        order = [name for name in self.blocks if name in terms]
        total = None
        key: tuple[tuple[str, int], ...] = ()
        for name in order:
            key = (*key, (name, terms[name]))
            if key not in self.known:
                with builder.inside(self.blocks[name]):
                    part = values[name]
                    if terms[name] != 1:
                        part = builder.mul(part, whole_number(terms[name]), flags=("nsw",))
                    made = part if total is None else builder.add(total, part, flags=("nsw",))
                    self.known[key] = made
            total = self.known[key]
        return total
