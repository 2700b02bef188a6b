"""The runtime of kernels: one phase loop (`phase_loop`), printed for each of its launchers.

native_text, pool_text    LLVM IR: the loop, and a pool of threads that several kernels share
native_launcher           calls compiled phases in this process, serially or on a `thread_pool`
openmp_launcher           calls compiled phases in this process on OpenMP threads, as numba does
c_entry                   LLVM IR: the public functions of an exported library
numba_text                Python: the launchers of a delivered `kernel.py`
"""
