"""Features: 186 numbers per store statement, for a whole population in one pass."""

from ansorpy.features.extract import NAMES, extract, named
from ansorpy.features.version import version

__all__ = ["NAMES", "extract", "named", "version"]
