"""Populations: one plan, many rows of sizes; sampled, mutated and checked as whole matrices."""

from ansorpy.population.crossover import crossover, migrate
from ansorpy.population.legal import enumerate_all, fit, legal, nearest_legal
from ansorpy.population.mutate import Weights, mutate
from ansorpy.population.sample import sample
from ansorpy.population.unique import keys, unique, unseen

__all__ = [
    "Weights",
    "crossover",
    "enumerate_all",
    "fit",
    "keys",
    "legal",
    "migrate",
    "mutate",
    "nearest_legal",
    "sample",
    "unique",
    "unseen",
]  # fmt: skip
