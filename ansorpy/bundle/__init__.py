"""Bundles: one zip that runs a whole model with NumPy only.

plan.py         the steps of a model, its kernels, weights and views: the input of this package
layout.py       places of the elements of values with dims
arena.py        lifetimes of values, and their places in one arena
memory.py       the place of every value; packed weights, and the sizes of all areas
driver.py       the native driver, as LLVM IR; library.py: linked with the kernels' objects
tensor_file.py  files of tensors, in the layout of safetensors
container.py    the zip; format.py: the names of its files; header.py: model.h
weightless.py   a bundle without weights, and its weights put back
load.py         a bundle as a callable; runner.py: its text is the bundle's model.py
"""
