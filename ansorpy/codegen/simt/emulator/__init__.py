"""Emulator of kernels for a GPU on this processor, as a back end of `measure`.

Every thread of a block is a fibre; the text of the kernel is compiled for this processor.
"""

from ansorpy.codegen.simt.emulator.loader import BUILT, build, build_texts, load

__all__ = ["BUILT", "build", "build_texts", "load"]
