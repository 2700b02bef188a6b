"""A finished kernel to a zip: `kernel.py`, `simd.py`, `manifest.json`; `constants.npz` if needed.

And the exported library: `libkernel.so` (`kernel.o` if no linker was found), `kernel.h`, and
`native.py`, which calls it, with `reference.py` for its self-test.
"""

from collections.abc import Mapping, Sequence
from hashlib import sha256
from importlib.metadata import version
from pathlib import Path
from typing import Any

from ansorpy.artifact.harness import Raced, Test
from ansorpy.artifact.header import header_text
from ansorpy.artifact.kernel_file import (
    SPANS,
    Facts,
    constants_file,
    helpers_text,
    kernel_text,
    native_text,
)
from ansorpy.artifact.kernel_manifest import about, exported, raced, spread, verification
from ansorpy.artifact.needs import needed_features
from ansorpy.artifact.package import KERNEL, LIBRARY
from ansorpy.artifact.rate import EFFECTIVE, rate_of
from ansorpy.artifact.reference import REFERENCE, reference_text
from ansorpy.artifact.stored_zip import write_zip
from ansorpy.codegen.exported_types import Library
from ansorpy.codegen.kernel import Kernel
from ansorpy.codegen.simd_file import FILE
from ansorpy.measure.outcome import Measured
from ansorpy.records import Race, Record
from ansorpy.target import CpuTarget, Target, expected
from ansorpy.te.analysis import flop_count
from ansorpy.te.dag import Dag


def pack(
    folder: Path,
    dag: Dag,
    kernel: Kernel,
    schedule: str,
    record: Record,
    target: Target,
    native: Library | str,
    best_so_far: bool = False,
) -> Path:
    """Write the zip of a record with its race, mostly the last of a tuning; return its path.

    Args:
        kernel: the source of the winner of the race.
        schedule: the loops for people, for the header of the file.
        record: with its race; its id names the zip.
        native: the verified library, or the reason for its absence.
        best_so_far: the search goes on; the manifest says so.
    """
    race = record.race
    assert race is not None, "only a raced record is delivered"
    content = kernel_files(dag, kernel, schedule, race, target)
    if isinstance(native, Library):
        content |= library_files(dag, native) | {REFERENCE: reference_text(dag).encode()}
    digest = sha256(kernel.source.encode()).hexdigest()
    manifest = {
        **about(dag, kernel.buffers, record, target, needed_features(kernel.source, target)),
        **raced(dag, race, target.cores, digest),
        "created_s": record.created_s,
        "best_so_far": best_so_far,
        "native": exported(
            native, race.native_s, race.span, flop_count(dag), _raced(dag, race).unit
        ),
    }
    return write(folder, dag, record, content, manifest)


def kernel_files(
    dag: Dag, kernel: Kernel, schedule: str, race: Race, target: Target
) -> dict[str, bytes]:
    """Return `kernel.py`, `simd.py`, and `constants.npz` if the Dag has constants."""
    test = Test(*race.span, race.tolerances, race.magnitude)
    facts = _facts(dag, race, target, schedule)
    text = kernel_text(dag, kernel, facts, test)
    files = {"kernel.py": text.encode(), FILE: helpers_text().encode()}
    return files | constants_file(dag)


def library_files(dag: Dag, library: Library) -> dict[str, bytes]:
    """Return the library, `libkernel.so` or `kernel.o`, with `kernel.h` and `native.py`."""
    return {
        LIBRARY if library.linked else "kernel.o": library.code,
        "kernel.h": header_text(dag, library).encode(),
        "native.py": native_text().encode(),
    }


def pack_native(
    folder: Path,
    dag: Dag,
    library: Library,
    record: Record,
    target: Target,
    cases: Sequence[str],
    reformulated: str,
    test: Test | None,
    best_so_far: bool,
) -> Path:
    """Write the zip of a library that was not raced, without `kernel.py`; return its path.

    Args:
        library: the linked library, which passed the `cases`.
        reformulated: the parts computed by another algorithm (ADR-0035), for people; "": none.
        test: the self-test of the library, whose reference is in the zip; None: a part
            of a model, whose bundle has a test of its own.
        record: the record of its one measurement, whose id names the zip.
        best_so_far: the search goes on; the manifest and the name of the zip say so.
    """
    assert isinstance(record.outcome, Measured), "only what passed is delivered"
    content = library_files(dag, library)
    if test is not None:
        content |= {REFERENCE: reference_text(dag).encode(), **constants_file(dag)}
    passed = Test(*SPANS[0], (), 0) if test is None else test
    span, times_s = (passed.low, passed.high), record.outcome.times_s
    manifest = {
        **about(dag, library.buffers, record, target, library.features),
        "winner": "tuned",
        "delivered": "first answer",
        "best_so_far": best_so_far,
        "verification": verification(passed, reformulated, cases),
        "latency_s": spread(times_s),
        "trials": 0,
        "created_s": record.created_s,
        # The operations that a first answer executes are not known.
        "native": exported(library, times_s, span, flop_count(dag), EFFECTIVE),
    }
    return write(folder, dag, record, content, manifest, "-first" if best_so_far else "")


def write(
    folder: Path, dag: Dag, record: Record, content: Mapping[str, bytes],
    manifest: Mapping[str, Any], way: str = "",
) -> Path:  # fmt: skip
    """Write the zip of a record as a whole, with `way` in its name; return its path."""
    path = folder / f"{dag.name}{way}-{record.id[:12]}.zip"
    return write_zip(path, {name: [data] for name, data in content.items()}, manifest, KERNEL)


def _facts(dag: Dag, race: Race, target: Target, schedule: str) -> Facts:
    rate = rate_of(dag, race)
    figure = "" if rate is None else f" {rate},"
    rivals = {"the untuned kernel": race.naive_s, "NumPy": race.numpy_s}
    ran = ", ".join(f"{name} took {min(s) * 1e6:.1f} us" for name, s in rivals.items() if s)
    plural, bits = "" if target.cores == 1 else "s", expected(target, CpuTarget).vector_bits
    return Facts(
        title=f"{dag.name}: a kernel tuned by ansorpy {version('ansorpy')}.",
        lines=(
            f"Best {race.best_s * 1e6:.1f} us,{figure} with {target.cores} thread{plural};",
            f"in the same run {ran or 'nothing else ran'}.",
            f"Made for {bits}-bit vectors ({target.cpu or 'any processor'});"
            f" {race.trials} trials; winner: {race.winner}.",
        ),
        schedule=schedule,
        raced=_raced(dag, race),
    )


def _raced(dag: Dag, race: Race) -> Raced:
    rate = rate_of(dag, race)
    return Raced(race.best_s, "" if rate is None else rate.unit)
