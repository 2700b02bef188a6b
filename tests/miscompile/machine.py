"""What the loop IR cannot express: changes of the LLVM IR."""

from typing import Final

from tests.miscompile.mutant import Mutant, spelled

MACHINE: Final = ()
