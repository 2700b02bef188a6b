"""Mutants to verdicts: built, and checked in a child as every candidate is."""

from functools import cache
from pathlib import Path
from tempfile import mkdtemp
from typing import Final

import numpy as np

from ansorpy.codegen.llvm_ir import module_text, object_bytes
from ansorpy.codegen.loader import Built, build
from ansorpy.codegen.phase_utilities import phase_infos
from ansorpy.errors import LoweringError
from ansorpy.loopir.interp import run
from ansorpy.loopir.nodes import Program
from ansorpy.measure.backend import CODEGEN
from ansorpy.measure.outcome import Failed
from ansorpy.measure.protocols import Checked
from ansorpy.measure.timing.local_slot import TRIAL
from ansorpy.measure.timing.sampling import SamplingOptions
from ansorpy.measure.timing.trial import Trial
from ansorpy.measure.verify.cases import Case, make_cases, save_cases
from ansorpy.measure.verify.inputs import constants
from ansorpy.measure.workers.failure_kinds import failed_run
from ansorpy.measure.workers.pool import WARM
from ansorpy.measure.workers.replies import Returned
from ansorpy.measure.workers.spec import WorkerSpec
from ansorpy.measure.workers.worker import Worker
from tests.miscompile.bases import TARGET, dag_of, program_of
from tests.miscompile.mutant import Mutant

TIMEOUT_S: Final = 20.0
SEED: Final = 0


class Checker:
    """One checking process, and the cases of every base in a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.worker = Worker(
            WorkerSpec(
                frozenset({0}),
                preload=(CODEGEN,),
                warm=WARM,
                folder=mkdtemp(dir=folder),
                reads=(str(folder),),
            )
        )

    def verdict(self, base: str, built: Built) -> Failed | None:
        """Return the failure that the check reports for machine code of a base, or None."""
        folder = self.folder / base
        if not folder.exists():
            folder.mkdir()
            save_cases(cases_of(base), constants(dag_of(base)), folder)
        job = Trial(CODEGEN, built, str(folder), SamplingOptions())
        reply = self.worker.call(f"{TRIAL}:check", job, TIMEOUT_S)
        if isinstance(reply, Returned) and isinstance(reply.value, Checked):
            return None
        return failed_run(reply, 0.0)


@cache
def cases_of(base: str) -> tuple[Case, ...]:
    """Return the cases of a base, as a measurement makes them."""
    return make_cases(dag_of(base), SEED)


def machine_code(mutant: Mutant) -> Built:
    """Build a mutant without the checks of the program."""
    program = mutant.edit(program_of(mutant.base))
    if mutant.text is None:
        return build(program, TARGET)
    text = module_text(program, TARGET)
    changed = mutant.text(text)
    assert changed != text
    return Built((object_bytes(changed, TARGET),), phase_infos(program), program.buffers)


def differs(mutant: Mutant) -> bool:
    """Return True if the interpreter finds another meaning: a different bit, or a wrong access."""
    program = mutant.edit(program_of(mutant.base))
    return any(
        outputs(program, mutant.base, case) != right(mutant.base, case.name)
        for case in cases_of(mutant.base)
    )


@cache
def right(base: str, name: str) -> dict[str, bytes] | str:
    """Return the outputs of the unchanged program."""
    (case,) = (case for case in cases_of(base) if case.name == name)
    found = outputs(program_of(base), base, case)
    assert not isinstance(found, str)
    return found


def outputs(program: Program, base: str, case: Case) -> dict[str, bytes] | str:
    """Return the bytes of every output and input after a run, or the error that ended it."""
    given = {**case.inputs, **constants(dag_of(base))}
    try:
        with np.errstate(all="ignore"):
            found = run(program, given, strict=True)
    except LoweringError as error:
        return str(error)
    return {name: array.tobytes() for name, array in found.items()}
