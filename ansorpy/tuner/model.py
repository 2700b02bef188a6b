"""The cost model of a tuning."""

from ansorpy.cost.gbm import GbmModel
from ansorpy.cost.model import CostModel
from ansorpy.cost.roofline import RooflineModel
from ansorpy.target import Target


def default_model(target: Target, seed: int, prior: CostModel | None = None) -> CostModel:
    """Return boosted trees that the prior stands in for until they are trained.

    Args:
        prior: the analytic model unless given.
    """
    return GbmModel(RooflineModel(target) if prior is None else prior, seed)
