"""Trials as rows, for tables of other programs."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from ansorpy.errors import PackageError
from ansorpy.measure.outcome import Failed
from ansorpy.records.record import Record

COLUMNS: Final = (
    "task", "trial", "best_s", "failed", "message", "rules", "plan", "row", "origin", "created_s",
)  # fmt: skip

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


def columns(rows: Sequence[Mapping[str, Any]]) -> dict[str, npt.NDArray[Any]]:
    """Return rows as an array per column: numbers with NaN and texts with "" for None.

    `row`, which has another length in each plan, is an array of tuples.
    """
    numbers = {"trial": np.int64, "best_s": np.float64, "created_s": np.float64}
    tables: dict[str, npt.NDArray[Any]] = {}
    for name in COLUMNS:
        values = [row[name] for row in rows]
        if name in numbers:
            tables[name] = np.array(values, np.float64).astype(numbers[name])
        elif name == "row":
            tables[name] = np.empty(len(rows), object)
            tables[name][:] = values
        else:
            tables[name] = np.array([value or "" for value in values], np.str_)
    return tables


def dataframe(rows: Sequence[Mapping[str, Any]]) -> Any:
    """Return rows as a DataFrame; PackageError if pandas is not installed."""
    try:
        import pandas
    except ImportError as error:
        raise PackageError(
            "cannot make a DataFrame because pandas is not installed; expected pip install pandas"
        ) from error
    return pandas.DataFrame(rows)
