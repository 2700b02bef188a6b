"""The version of the code generators, stored with every record (ADR-0087)."""

from typing import Final

# Raise it in a commit that changes the machine code of any candidate: a pass, a printer of LLVM
# text or numba source, the options of a compilation. A commit that only moves code leaves it;
# `python -m tests.candidates.digests` tells the two apart.
# Records of another number are measured again before anything is answered from them.
CODEGEN_VERSION: Final = 6
