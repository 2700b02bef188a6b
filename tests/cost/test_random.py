import numpy as np

from ansorpy.cost.model import CostModel
from ansorpy.cost.random import RandomModel
from tests.cost.contract import CostModelContract


class TestRandomModel(CostModelContract):
    def make(self) -> CostModel:
        return RandomModel(np.random.default_rng(3))
