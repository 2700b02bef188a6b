"""A graph as a JSON document without the values of its weights; documented in docs/graph.md.

document.py   the parts of a document, its text, and its graph
write.py      from a graph to a document: finds the weights whose values decide expressions
read.py       from parsed JSON to a document: everything that comes in is distrusted
draw.py       stand-ins for the absent values
"""
