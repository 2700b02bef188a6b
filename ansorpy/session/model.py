"""The cost model of a tuning."""

from ansorpy.cost.gbm import GbmModel
from ansorpy.cost.model import CostModel
from ansorpy.cost.roofline import RooflineModel
from ansorpy.target import Target


def default_model(target: Target, seed: int) -> CostModel:
    """Return boosted trees that the analytic model stands in for until they are trained."""
    return GbmModel(RooflineModel(target), seed)
