"""Search: one round of evolution, and the choice of candidates to measure."""

from ansorpy.search.candidate import Candidate, Scored, best_of_plans
from ansorpy.search.evolve import EvolutionSettings, evolve
from ansorpy.search.pick import eps_greedy, random_search

__all__ = [
    "Candidate", "EvolutionSettings", "Scored", "best_of_plans", "eps_greedy", "evolve",
    "random_search",
]  # fmt: skip
