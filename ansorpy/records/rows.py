"""Trials as rows, for tables of other programs."""

from collections.abc import Mapping, Sequence
from typing import Any

from ansorpy.errors import PackageError
from ansorpy.measure.outcome import Failed
from ansorpy.records.record import Record

Trials = Mapping[str, tuple[Record, ...]]  # all records of each task, also of earlier tunings


def trial_rows(records: Trials) -> list[dict[str, Any]]:
    """Return a row per trial, by column; races are no trials.

    Columns: task, trial (from 1), best_s (None without a time), failed (the kind of failure, or
    None), message, rules, plan and row of the candidate, origin, created_s (since the epoch).
    """
    rows = []
    for task, found in records.items():
        for number, record in enumerate((one for one in found if one.race is None), 1):
            failed = record.outcome if isinstance(record.outcome, Failed) else None
            rows.append(
                {
                    "task": task,
                    "trial": number,
                    "best_s": record.best_s,
                    "failed": failed and failed.kind,
                    "message": failed and failed.message,
                    "rules": record.rules,
                    "plan": record.plan,
                    "row": record.row,
                    "origin": record.origin,
                    "created_s": record.created_s,
                }
            )
    return rows


def dataframe(rows: Sequence[Mapping[str, Any]]) -> Any:
    """Return rows as a DataFrame; PackageError if pandas is not installed."""
    try:
        import pandas
    except ImportError as error:
        raise PackageError(
            "cannot make a DataFrame because pandas is not installed; expected pip install pandas"
        ) from error
    return pandas.DataFrame(rows)
