"""Convolutions with fewer multiplications: Winograd's minimal filtering, as a rewrite of a node."""

from ansorpy.te.winograd.matrices import Matrix, Transforms, known, transforms
from ansorpy.te.winograd.recognise import Convolution, recognise
from ansorpy.te.winograd.rewrite import rewrite

__all__ = ["Convolution", "Matrix", "Transforms", "known", "recognise", "rewrite", "transforms"]
