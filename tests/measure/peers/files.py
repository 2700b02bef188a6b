"""The files of a peer, run in this process."""

from pathlib import Path
from tempfile import TemporaryDirectory

from ansorpy.measure.timing.delivered import imported, unequal
from ansorpy.measure.timing.own_kernel import OwnKernel, arguments
from ansorpy.measure.timing.peers import guest
from ansorpy.measure.timing.peers.translate import translated
from ansorpy.measure.verify.cases import Case, make_cases
from ansorpy.te.dag import Dag

ORT, TORCH = guest.LIBRARIES


def kernel_of(dag: Dag, library: guest.InstalledLibrary = ORT) -> OwnKernel | str:
    """Return a library as a kernel for the race of a Dag, or why it has none."""
    found = guest.kernel_of("peer", library, translated(dag), dag, 1)
    return found if isinstance(found, OwnKernel) else found.reason


def wrong(dag: Dag, library: guest.InstalledLibrary = ORT, seed: int = 0) -> list[str]:
    """Return how the outputs of a library differ from the float64 reference, over all cases."""
    kernel = kernel_of(dag, library)
    assert isinstance(kernel, OwnKernel), kernel
    names = [node.name for node in dag.placeholders]
    with TemporaryDirectory() as folder:
        for name, data in kernel.files.items():
            (Path(folder) / name).write_bytes(data)
        module = imported(Path(folder) / kernel.main)
        cases = [case for case in make_cases(dag, seed) if not case.nans]
        module.prepare(*arguments(cases[0].inputs, names))()
        told = [(case, module.run(*arguments(case.inputs, names))) for case in cases]
    return [f"{case.name}: {text}" for case, found in told if (text := _unequal(case, found))]


def _unequal(case: Case, found: tuple[object, ...]) -> str | None:
    return unequal(case, [one.name for one in case.expected], found)  # type: ignore[arg-type]
