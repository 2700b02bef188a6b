"""Passes over graphs: each one file, from a graph to a graph that computes the same.

manager.py      the order of the passes, the fixpoint, the report of the passes that fired
rewriter.py     the walk that keeps or replaces node by node
"""

from ansorpy.graph.passes.manager import PASSES, Firing, Pass, Simplified, simplify

__all__ = ["PASSES", "Firing", "Pass", "Simplified", "simplify"]
