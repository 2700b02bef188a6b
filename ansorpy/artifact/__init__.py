"""The downloadable kernel: one readable Python file and what vouches for it, in a zip."""

from ansorpy.artifact.harness import Test
from ansorpy.artifact.kernel_file import make_test
from ansorpy.artifact.load import LoadedKernel, load, load_package, unpack
from ansorpy.artifact.pack import pack
from ansorpy.artifact.package import Package, parse_digest, unbox

__all__ = [
    "LoadedKernel",
    "Package",
    "Test",
    "load",
    "load_package",
    "make_test",
    "pack",
    "parse_digest",
    "unbox",
    "unpack",
]
