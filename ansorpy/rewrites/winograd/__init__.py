"""Convolutions with fewer multiplications: Winograd's minimal filtering, as a rewrite of a node."""

from ansorpy.rewrites.winograd.matrices import Matrix, Transforms, known, transforms
from ansorpy.rewrites.winograd.recognise import Convolution, recognise
from ansorpy.rewrites.winograd.rewrite import rewrite

__all__ = ["Convolution", "Matrix", "Transforms", "known", "recognise", "rewrite", "transforms"]
