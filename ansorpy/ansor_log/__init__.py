"""Logs of the released Ansor: lines of its measurements, replayed on our states (ADR-0158).

A line is data: it is parsed strictly, its steps are applied to the naive state of a Dag, and the
program that they describe becomes a record, which starts a search but never answers a request.
"""

from ansorpy.ansor_log.line import LogLine, LogStep, parse_line
from ansorpy.ansor_log.nest import nest
from ansorpy.ansor_log.replay import Iterator, Replayed, check_cpu, replay
from ansorpy.ansor_log.start import Start, Starter
from ansorpy.ansor_log.workload import FUNCTIONS, dag_of, function_of, stage_order

__all__ = [
    "FUNCTIONS",
    "Iterator",
    "LogLine",
    "LogStep",
    "Replayed",
    "Start",
    "Starter",
    "check_cpu",
    "dag_of",
    "function_of",
    "nest",
    "parse_line",
    "replay",
    "stage_order",
]
