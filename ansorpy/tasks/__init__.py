"""Whose turn it is: several tasks share one budget of trials and seconds."""

from ansorpy.tasks.objective import (
    EarlyStopped,
    GeoMeanSpeedup,
    LatencyTargets,
    Objective,
    WeightedSum,
)
from ansorpy.tasks.scheduler import LARGE_ROUND, Settings, TaskScheduler
from ansorpy.tasks.task import Task, Turn

__all__ = [
    "LARGE_ROUND",
    "EarlyStopped",
    "GeoMeanSpeedup",
    "LatencyTargets",
    "Objective",
    "Settings",
    "Task",
    "TaskScheduler",
    "Turn",
    "WeightedSum",
]
