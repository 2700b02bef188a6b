"""`ansorpy.jit`: functions of NumPy names become verified kernels.

jit         the decorator, and the function that it makes
trace       one call with tracers: a graph, or a Dag of a te function
tracer      the array that stands for an argument; ufuncs, functions, moves, indexing: its rules
work        a traced signature that can be compiled, here or in a child process
answers     the folder of bundles by digest of the work
background  one tuning at a time, in a child process of low priority
"""
