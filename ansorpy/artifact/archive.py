"""A finished kernel to a zip: `kernel.py`, `simd.py`, `manifest.json`; `constants.npz` if needed.

And the exported library: `libkernel.so` (`kernel.o` if no linker was found), `kernel.h`, and
`native.py`, which calls it, with `reference.py` for its self-test.
"""

import json
from collections.abc import Mapping, Sequence
from hashlib import sha256
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final

from ansorpy.artifact.harness import Raced, Test
from ansorpy.artifact.header import header_text
from ansorpy.artifact.kernel_file import (
    SPANS,
    Facts,
    constant_arrays,
    helpers_text,
    kernel_text,
    native_text,
    output_names,
    tensors,
)
from ansorpy.artifact.needs import needed_features
from ansorpy.artifact.npz import npz
from ansorpy.artifact.package import LIBRARY, box
from ansorpy.artifact.rate import EFFECTIVE, rate_of
from ansorpy.artifact.reference import REFERENCE, reference_text
from ansorpy.codegen.exported_types import Library
from ansorpy.codegen.kernel import Kernel
from ansorpy.codegen.simd_file import FILE
from ansorpy.loopir.nodes import Buffer
from ansorpy.measure.outcome import Measured
from ansorpy.records import Race, RacedOwn, Record, copies_of, items_per_s
from ansorpy.records.record import parts_to_json
from ansorpy.target import Target
from ansorpy.te.analysis import flop_count
from ansorpy.te.dag import Dag
from ansorpy.verdict import verdict_of_race

FIRST: Final = Raced(0.0, EFFECTIVE)  # the operations that a first answer executes are not known


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
        content[LIBRARY if native.linked else "kernel.o"] = native.code
        content["kernel.h"] = header_text(dag, native).encode()
        content["native.py"] = native_text().encode()
        content[REFERENCE] = reference_text(dag).encode()
    manifest = _manifest(dag, kernel, record, race, target)
    raced = _raced(dag, race)
    manifest["best_so_far"] = best_so_far
    manifest["native"] = _native(native, race.native_s, race.span, flop_count(dag), raced)
    return write(folder / f"{dag.name}-{record.id[:12]}.zip", content, manifest)


def kernel_files(
    dag: Dag, kernel: Kernel, schedule: str, race: Race, target: Target
) -> dict[str, bytes]:
    """Return `kernel.py`, `simd.py`, and `constants.npz` if the Dag has constants."""
    test = Test(*race.span, race.tolerances, race.magnitude)
    facts = _facts(dag, race, target, schedule)
    text = kernel_text(dag, kernel, facts, test)
    files = {"kernel.py": text.encode(), FILE: helpers_text().encode()}
    arrays = constant_arrays(dag)
    return {**files, "constants.npz": npz(arrays)} if arrays else files


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
    content = {
        LIBRARY: library.code,
        "kernel.h": header_text(dag, library).encode(),
        "native.py": native_text().encode(),
    }
    span = SPANS[0] if test is None else (test.low, test.high)
    if test is not None:
        content[REFERENCE] = reference_text(dag).encode()
        arrays = constant_arrays(dag)
        if arrays:
            content["constants.npz"] = npz(arrays)
    manifest = {
        **about(dag, library.buffers, record, target, library.features),
        "winner": "tuned",
        "delivered": "first answer",
        "best_so_far": best_so_far,
        "verification": {
            "reference": "float64",
            "cases": list(cases),
            "inputs": list(span),
            "tolerances": [] if test is None else list(test.tolerances),
            "exact_on_integers_up_to": 0 if test is None else test.magnitude,
            "reformulated": reformulated or None,
        },
        "latency_s": _spread(record.outcome.times_s),
        "trials": 0,
        "created_s": record.created_s,
        "native": _native(library, record.outcome.times_s, span, flop_count(dag), FIRST),
    }
    way = "-first" if best_so_far else ""
    return write(folder / f"{dag.name}{way}-{record.id[:12]}.zip", content, manifest)


def write(path: Path, content: Mapping[str, bytes], manifest: Mapping[str, Any]) -> Path:
    """Write a zip of these files and its manifest as a whole; return its path."""
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_suffix(".partial")
    partial.write_bytes(box(content, manifest))
    partial.replace(path)
    return path


def _facts(dag: Dag, race: Race, target: Target, schedule: str) -> Facts:
    rate = rate_of(dag, race)
    figure = "" if rate is None else f" {rate},"
    rivals = {"the untuned kernel": race.naive_s, "NumPy": race.numpy_s}
    told = ", ".join(f"{name} took {min(s) * 1e6:.1f} us" for name, s in rivals.items() if s)
    plural = "" if target.cores == 1 else "s"
    return Facts(
        title=f"{dag.name}: a kernel tuned by ansorpy {version('ansorpy')}.",
        lines=(
            f"Best {race.best_s * 1e6:.1f} us,{figure} with {target.cores} thread{plural};",
            f"in the same run {told or 'nothing else ran'}.",
            f"Made for {target.vector_bits}-bit vectors ({target.cpu or 'any processor'});"
            f" {race.trials} trials; winner: {race.winner}.",
        ),
        schedule=schedule,
        raced=_raced(dag, race),
    )


def _raced(dag: Dag, race: Race) -> Raced:
    rate = rate_of(dag, race)
    return Raced(race.best_s, "" if rate is None else rate.unit)


def _manifest(
    dag: Dag, kernel: Kernel, record: Record, race: Race, target: Target
) -> dict[str, Any]:
    needs = needed_features(kernel.source, target)
    raced = raced_fields(dag, record, race, target.cores)
    # A record may name the text that an earlier compiler of the same machine code headed.
    raced["verification"]["source_sha256"] = sha256(kernel.source.encode()).hexdigest()
    return {**about(dag, kernel.buffers, record, target, needs), **raced}


def raced_fields(dag: Dag, record: Record, race: Race, threads: int) -> dict[str, Any]:
    """Return the fields of the manifest of a kernel that was raced: times, checks, rivals.

    Args:
        threads: of each contestant.
    """
    return {
        "winner": race.winner,
        "delivered": race.delivered,
        "rate": _rate(dag, race),
        "verification": {
            "reference": "float64",
            "inputs": list(race.span),
            "tolerances": list(race.tolerances),
            "exact_on_integers_up_to": race.magnitude,
            "reformulated": race.reformulated or None,
            "errors_seen": list(race.errors),
            "source_sha256": record.source_sha256,
        },
        "latency_s": _spread(race.delivered_s),
        "baseline_s": race.baseline_s,
        "naive_s": _spread(race.naive_s) if race.naive_s else None,
        "numpy_s": _spread(race.numpy_s) if race.numpy_s else None,
        "numpy_note": race.numpy_note,
        **({"own": [_own(one, race.best_s) for one in race.own]} if race.own else {}),
        "verdict": verdict_of_race(race, threads).as_object(),
        **({"peers": [_own(one, race.best_s) for one in race.peers]} if race.peers else {}),
        "trials": race.trials,
        "created_s": record.created_s,
    }


def _own(one: RacedOwn, best_s: float) -> dict[str, Any]:
    """Return the fields of an own kernel or a library: its times and ratio, or a reason."""
    if one.best_s is None:
        return {"name": one.name, "latency_s": None, "ratio": None, "note": one.note}
    ratio = one.best_s / best_s
    return {"name": one.name, "latency_s": _spread(one.times_s), "ratio": ratio, "note": one.note}


def about(
    dag: Dag, buffers: Sequence[Buffer], record: Record, target: Target, needs: Sequence[str]
) -> dict[str, Any]:
    """Return the fields of every manifest: arguments, origin and target."""
    by_name = {tensor.name: tensor for tensor in tensors(dag, buffers)}
    return {
        "name": dag.name,
        "workload": record.workload,
        "record": record.id,
        "rules": record.rules,
        "plan": json.loads(record.plan),
        "row": list(record.row),
        "compile_s": record.compile_s,
        "inputs": [
            {
                "name": node.name,
                "dtype": node.dtype,
                "shape": list(node.shape),
                "constant": node.constant,
                **({"span": by_name[node.name].span} if by_name[node.name].span else {}),
            }
            for node in dag.placeholders
        ],
        "outputs": [
            {"name": name, "dtype": by_name[name].dtype, "shape": list(by_name[name].shape)}
            for name in output_names(dag)
        ],
        "target": {
            "kind": target.kind,
            "cpu": target.cpu,
            "vector_bits": target.vector_bits,
            "features": list(target.features),
            "needs": list(needs),
            "threads": target.cores,
        },
        **_throughput(record),
        "versions": dict(record.versions),
        **({"parts": parts_to_json(record.parts)} if record.parts else {}),
    }


def _throughput(record: Record) -> dict[str, Any]:
    """Return the field for copies of the kernel side by side; none if one call ran at a time."""
    copies = copies_of(record.key)
    found = items_per_s(copies, record.best_s)
    return {} if found is None else {"throughput": {"copies": copies, "items_per_s": found}}


def _rate(dag: Dag, race: Race) -> dict[str, Any]:
    """Return the fields for operations per second; a rate beyond the peak is left out."""
    rate = rate_of(dag, race)
    return {
        "flop_per_s": None if rate is None else rate.flop_per_s,
        "effective": rate is not None and rate.effective,
        "flop": flop_count(dag),
        "executed_flop": race.flop or None,
        "peak_flop_per_s": race.peak_flop_per_s or None,
    }


def _native(
    native: Library | str,
    times_s: tuple[float, ...],
    span: tuple[float, float],
    flop: int,
    raced: Raced,
) -> dict[str, Any]:
    if isinstance(native, str):
        return {"library": None, "note": native}
    return {
        "library": LIBRARY if native.linked else None,
        "note": native.note,
        "prefix": native.prefix,
        "workspace_bytes": native.workspace_bytes,
        "packed_bytes": native.packed_bytes,
        "tasks": [phase.tasks for phase in native.phases],
        "features": list(native.features),
        "object_sha256": native.object_sha256,
        "latency_s": _spread(times_s),
        "span": list(span),
        "flop": flop,
        "rate_unit": raced.unit,
    }


def _spread(times_s: tuple[float, ...]) -> dict[str, float]:
    ordered = sorted(times_s)
    middle = len(ordered) // 2
    return {
        "min": ordered[0],
        "median": ordered[middle],
        "max": ordered[-1],
        "samples": len(ordered),
    }
