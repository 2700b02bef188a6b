"""Searches with few candidates, for tests that assert nothing of how good a candidate is."""

from dataclasses import replace
from functools import partial

import pytest

from ansorpy.search import EvolutionSettings, evolve, strategy
from ansorpy.tuner import first_answer

FEW = 256  # candidates of an iteration; tests/test_tune.py and tests/model search with all 2,048


@pytest.fixture
def few_candidates(monkeypatch: pytest.MonkeyPatch) -> None:
    small = EvolutionSettings(population=FEW)
    monkeypatch.setattr(strategy, "evolve", partial(evolve, settings=small))
    monkeypatch.setattr(first_answer, "SETTINGS", replace(first_answer.SETTINGS, population=FEW))
