"""Cases that only `make test-all` runs: whole products of parameters, long sweeps, storms."""

from collections.abc import Container, Iterable
from typing import Any, Final

import pytest

NIGHT: Final = pytest.mark.night


def night(every: Iterable[Any], day: Container[Any]) -> list[Any]:
    """Return the cases of a test: `make test` runs those in `day`, `make test-all` every case.

    A tuple has the values of several parameters.
    """
    return [
        pytest.param(
            *(case if isinstance(case, tuple) else [case]), marks=() if case in day else NIGHT
        )
        for case in every
    ]
