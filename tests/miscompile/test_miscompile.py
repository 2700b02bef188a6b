"""The check under test: every known kind of miscompile must be caught, no good program may be."""

import sys
from collections.abc import Iterator

import pytest

from tests.miscompile.bases import BASES
from tests.miscompile.checking import Checker, differs, machine_code
from tests.miscompile.machine import MACHINE
from tests.miscompile.mutant import Mutant
from tests.miscompile.places import PLACES
from tests.miscompile.sums import SUMS
from tests.miscompile.values import VALUES
from tests.miscompile.writes import WRITES

MUTANTS = (*SUMS, *PLACES, *VALUES, *WRITES, *MACHINE)

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def checker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Checker]:
    found = Checker(tmp_path_factory.mktemp("cases"))
    yield found
    found.worker.close()


@pytest.mark.parametrize("base", BASES)
def test_a_good_program_passes(base: str, checker: Checker) -> None:
    assert checker.verdict(base, machine_code(Mutant("good", base))) is None


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_a_miscompile_means_something_else(mutant: Mutant) -> None:
    assert mutant.meaning or mutant.text or differs(mutant)


def test_every_miscompile_is_caught(checker: Checker) -> None:
    missed = []
    for mutant in MUTANTS:
        failed = checker.verdict(mutant.base, machine_code(mutant))
        if failed is None or not failed.message.startswith(mutant.case):
            missed.append(mutant.name)
        said = "NOT CAUGHT" if failed is None else f"{failed.kind}: {failed.message}"
        sys.stdout.write(f"{mutant.name:46} {mutant.base:30} {said[:140]}\n")
    sys.stdout.write(f"caught {len(MUTANTS) - len(missed)} of {len(MUTANTS)}\n")
    assert not missed
