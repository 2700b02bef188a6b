"""The downloadable kernel, a zip: two readable Python files, a library, and their manifest.

The modules that write zips are imported on first use: to load an exported library takes no numba.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from ansorpy.artifact.load import LoadedKernel, load, load_native, load_package, unpack
from ansorpy.artifact.package import Package, parse_digest, unbox

if TYPE_CHECKING:
    from ansorpy.artifact.archive import pack as pack
    from ansorpy.artifact.harness import Test as Test
    from ansorpy.artifact.kernel_file import make_test as make_test

_HOMES = {"Test": "harness", "make_test": "kernel_file", "pack": "archive"}

__all__ = [
    "LoadedKernel",
    "Package",
    "Test",
    "load",
    "load_native",
    "load_package",
    "make_test",
    "pack",
    "parse_digest",
    "unbox",
    "unpack",
]


def __getattr__(name: str) -> Any:
    """Load a name on first use (PEP 562)."""
    if name in _HOMES:
        return getattr(import_module(f"ansorpy.artifact.{_HOMES[name]}"), name)
    raise AttributeError(f"module 'ansorpy.artifact' has no attribute {name!r}")
