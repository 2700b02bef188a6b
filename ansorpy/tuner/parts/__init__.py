"""Replaceable parts of a tuning: measuring pools, spaces, stores, parts of other packages."""
