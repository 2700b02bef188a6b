"""Graphs of whole models: operators, their meaning as tensor expressions, their interpreter.

    graph.py        values, weights, nodes, graphs: frozen
    operator.py     the table of operators, and the operands of a node as an operator sees them
    ops/            operators of ONNX (opset 23), each a composition of `ansorpy.topi`
    builder.py      constructs a graph node by node: infers shapes, folds constants
    passes/         passes over graphs, each one file, and their manager
    facts.py        facts about a node from its tensor expressions, by the predicates of the rules
    partition.py    divides a graph into groups, each of which one kernel computes (groups.py)
    chains.py       groups that one kernel may compute in blocks of rows: attention
    lower.py        the Dag of a group, whose operands have canonical names
    merge.py        graphs of one model at several sizes become one graph with dims
    unjoin.py       axes that join a dim with other extents are axes of their own
    sizes.py        a graph with dims at given sizes
    wire/           a graph as a document without the values of its weights
    interp.py       runs a graph by the meaning of its operators: the oracle of every pass

A node means tensor expressions, from which shape and dtype of its outputs follow.
"""

from ansorpy.graph.graph import Extent, Graph, Node, Output, Symbol, ValueInfo, View, Weight

__all__ = ["Extent", "Graph", "Node", "Output", "Symbol", "ValueInfo", "View", "Weight"]
