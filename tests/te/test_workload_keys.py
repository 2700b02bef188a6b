"""Workload keys are stored with every record: no refactoring may change them."""

from ansorpy.te.analysis import workload_key
from ansorpy.topi.suites import LIBRARY, SUITE_SMALL
from tests.conftest import Golden


def test_workload_keys_of_the_library(golden: Golden) -> None:
    suites = {"library": LIBRARY, "small": SUITE_SMALL}
    golden.check(
        "\n".join(
            f"{suite} {name} {workload_key(make())}"
            for suite, builders in suites.items()
            for name, make in builders.items()
        )
    )
