"""The downloadable kernel: one readable Python file and what vouches for it, in a zip."""

from ansorpy.artifact.harness import Test
from ansorpy.artifact.kernel_file import make_test
from ansorpy.artifact.load import LoadedKernel, load, unpack
from ansorpy.artifact.pack import pack

__all__ = ["LoadedKernel", "Test", "load", "make_test", "pack", "unpack"]
