"""Models in other formats become graphs; the only package that imports onnx.

model_file.py   the entry: a file becomes a graph
suffixes.py     names of files that are models
limits.py       a file is read in a child process first, with bounded memory and time
onnx_file.py    a file or a model in memory: opset, inputs, weights, external data
onnx_nodes.py   the nodes of a graph, of inlined functions and of branches that are taken
onnx_functions.py  functions are inlined, or converted from another opset
onnx_bodies.py  graphs and nodes inside a model: branches, loops, functions
onnx_loops.py   loops with a known number of steps are written out
onnx_empty.py   nodes with tensors without elements
onnx_old.py     a model of an older opset: the version converter, and meanings that it loses
onnx_write.py   a graph becomes a model of ONNX
onnx_run.py     a model file is run by the reference implementation of ONNX
onnx_values.py  tensors, attributes and dtypes of ONNX in the types of ansorpy
torch_program.py  a module of PyTorch, exported to ONNX in memory
"""
