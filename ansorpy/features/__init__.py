"""Features: 186 numbers per store statement, for a whole population in one pass."""

from ansorpy.features.extract import NAMES, Prepared, extract, named, prepare
from ansorpy.features.version import version

__all__ = ["NAMES", "Prepared", "extract", "named", "prepare", "version"]
