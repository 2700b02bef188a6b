"""Schedules of users: steps and sizes by hand, and templates with knobs."""

from ansorpy.schedule.builder import StagedSchedule, create_schedule
from ansorpy.schedule.schedule import Schedule, read_schedule
from ansorpy.schedule.template import Config, read_template

__all__ = [
    "Config",
    "Schedule",
    "StagedSchedule",
    "create_schedule",
    "read_schedule",
    "read_template",
]
