"""Features: 181 numbers per store statement, for a whole population in one pass."""

from ansorpy.features.extract import NAMES, extract, named

__all__ = ["NAMES", "extract", "named"]
