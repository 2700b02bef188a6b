"""Operators without a kernel: NumPy functions, which run only if a caller allows them.

A function takes the given inputs of a node in order, and its attributes by keyword; `absent` lists
the positions of inputs that are not there. It returns all outputs. Elements of bfloat16 are
float32 in it, unless it only moves them. Its text is copied into bundles: it uses `np` and `math`
only, and stands by itself.
"""

from ansorpy.graph.hosted import boxes as boxes
from ansorpy.graph.hosted import choose as choose
from ansorpy.graph.hosted import deform as deform
from ansorpy.graph.hosted import recurrent as recurrent
from ansorpy.graph.hosted import rows as rows
from ansorpy.graph.hosted import scatter as scatter
