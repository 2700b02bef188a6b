"""Deliveries of kernels: on the way and at the end, on this machine or for a GPU."""
