"""Verification of kernels against the oracle: cases, guard pages, poison, accept intervals."""
