"""Populations: one plan, many rows of sizes; sampled, mutated and checked as whole matrices."""

from ansorpy.population.cross import carry, cross
from ansorpy.population.legal import enumerate_all, fit, legal
from ansorpy.population.mutate import Weights, mutate
from ansorpy.population.sample import sample
from ansorpy.population.unique import keys, unique, unseen

__all__ = [
    "Weights", "carry", "cross", "enumerate_all", "fit", "keys", "legal", "mutate", "sample",
    "unique", "unseen",
]  # fmt: skip
