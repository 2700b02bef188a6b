"""CUDA kernels: the LLVM text of a program for a GPU, its emulation, PTX, cubins and launches."""
