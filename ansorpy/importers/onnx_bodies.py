"""The graphs inside a model of ONNX: branches, loops, and the bodies of functions."""

from collections.abc import Iterator

import onnx


def graphs_of(graph: onnx.GraphProto) -> Iterator[onnx.GraphProto]:
    """Yield a graph and the graphs of its branches and loops, at any depth.

    Each graph comes before its inner graphs, so that a caller may replace its nodes.
    """
    yield graph
    for node in graph.node:
        for body in bodies_of(node):
            yield from graphs_of(body)


def bodies_of(node: onnx.NodeProto) -> Iterator[onnx.GraphProto]:
    """Yield the branches or the loop body of a node."""
    for one in node.attribute:
        if one.HasField("g"):
            yield one.g
        yield from one.graphs


def nodes_of(model: onnx.ModelProto) -> Iterator[onnx.NodeProto]:
    """Yield the nodes of a model, of its functions and of all bodies inside."""
    for graph in graphs_of(model.graph):
        yield from graph.node
    for function in model.functions:
        for node in function.node:
            yield node
            for body in bodies_of(node):
                for graph in graphs_of(body):
                    yield from graph.node
