"""Operators of ONNX, opset 23, by family; importing this package enters them into the table.

Each maps its operands and attributes to operators of `ansorpy.topi`, and builds no expressions
itself.
"""

from ansorpy.graph.ops import activations as activations
from ansorpy.graph.ops import conv as conv
from ansorpy.graph.ops import elementwise as elementwise
from ansorpy.graph.ops import index as index
from ansorpy.graph.ops import linear as linear
from ansorpy.graph.ops import moves as moves
from ansorpy.graph.ops import normal as normal
from ansorpy.graph.ops import pool as pool
from ansorpy.graph.ops import quant as quant
from ansorpy.graph.ops import reduce as reduce
from ansorpy.graph.ops import resize as resize
from ansorpy.graph.ops import sample as sample
from ansorpy.graph.ops import spectrum as spectrum
