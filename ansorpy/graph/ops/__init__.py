"""Operators of ONNX, opset 23, by family; importing this package enters them into the table.

Each maps its operands and attributes to operators of `ansorpy.topi`, and builds no expressions
itself.
"""

from ansorpy.graph.ops import elementwise as elementwise
