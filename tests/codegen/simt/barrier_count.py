"""Count the barriers of kernels for a GPU, and those that single removal shows to be needed.

python -m tests.codegen.simt.barrier_count [candidates of each operator]
"""

import sys
from collections import Counter

from ansorpy.errors import RunError
from ansorpy.measure.verify.cases import make_cases
from ansorpy.measure.verify.guard_pages import Arena
from ansorpy.measure.verify.inputs import constants
from ansorpy.measure.verify.reformulated import reformulated
from ansorpy.te.dag import Dag
from ansorpy.topi.suites import SUITE_SMALL
from tests.codegen.simt.test_library import WHOLE, drawn, written
from tests.emulation.log import LoggedKernel


def counted(dag: Dag, seed: int) -> Counter[str]:
    """Return the numbers of barriers, of needed ones, and of races of a candidate."""
    program, target = drawn(dag, seed)
    code = written(program, target)
    if isinstance(code, str):
        return Counter(refused=1)
    if not any("call void @" in text for text in code.texts):
        return Counter(candidates=1)
    cases = make_cases(dag, seed)
    if program.meaning is not None:
        cases = reformulated(cases, program.meaning)
    arena = Arena(program.buffers, "left")
    arena.fill({**constants(dag), **cases[0].inputs}, "nan")
    try:
        log = LoggedKernel(code).log(arena.addresses, remove=True)
    except RunError as error:
        sys.stdout.write(f"{dag.name} {seed}: {error}\n")
        return Counter(long=1)
    waits = [wait for launch in log.launches for wait in launch.waits]
    spare = [wait.line for wait in waits if not wait.needed]
    if spare or log.races:
        sys.stdout.write(f"{dag.name} {seed}: spare in lines {spare}, {len(log.races)} races\n")
    needed = len(waits) - len(spare)
    return Counter(candidates=1, barriers=len(waits), needed=needed, races=len(log.races))


def main(candidates: int) -> None:
    """Print one line per operator, and the sum."""
    total: Counter[str] = Counter()
    operators = [*SUITE_SMALL.items(), *((f"{name} (rows)", make) for name, make in WHOLE.items())]
    for name, make in operators:
        found = sum((counted(make(), seed) for seed in range(candidates)), Counter[str]())
        total += found
        sys.stdout.write(f"{name:32s} {dict(found)}\n")
        sys.stdout.flush()
    ratio = total["barriers"] / max(1, total["needed"])
    sys.stdout.write(f"{dict(total)}: {ratio:.3f} barriers for each that is needed\n")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 4)
