"""The fields of the manifest of a kernel: origin, race, verification, library."""

import json
from collections.abc import Sequence
from dataclasses import asdict
from statistics import median_high
from typing import Any

from ansorpy.artifact.harness import Test
from ansorpy.artifact.kernel_file import dim_specs, output_names, tensors
from ansorpy.artifact.manifest import DimEntry, InputEntry, TensorEntry, entry, picked
from ansorpy.artifact.package import LIBRARY
from ansorpy.artifact.rate import rate_of
from ansorpy.codegen.exported_types import Library
from ansorpy.loopir.nodes import Buffer
from ansorpy.records import Race, RacedOwn, Record, copies_of, items_per_s
from ansorpy.records.record import parts_to_json
from ansorpy.target import Target
from ansorpy.te.analysis import flop_count
from ansorpy.te.dag import Dag
from ansorpy.te.dims import dims_of
from ansorpy.verdict import verdict_of_race

Fields = dict[str, Any]


def about(
    dag: Dag, buffers: Sequence[Buffer], record: Record, target: Target, needs: Sequence[str]
) -> Fields:
    """Return the fields of every manifest: arguments, origin and target."""
    specs = {tensor.name: tensor for tensor in tensors(dag, buffers)}
    copies = copies_of(record.key)
    rate = items_per_s(copies, record.best_s)
    return {
        "name": dag.name,
        "workload": record.workload,
        "record": record.id,
        "rules": record.rules,
        "plan": json.loads(record.plan),
        **picked(record, "row", "compile_s"),
        "inputs": [entry(InputEntry, node, specs[node.name]) for node in dag.placeholders],
        "outputs": [entry(TensorEntry, specs[name]) for name in output_names(dag)],
        **({"dims": [entry(DimEntry, one) for one in dim_specs(dag)]} if dims_of(dag) else {}),
        "target": {
            **{name: target.facts()[name] for name in ("kind", "cpu", "vector_bits", "features")},
            "needs": list(needs),
            "threads": target.cores,
        },
        **({} if rate is None else {"throughput": {"copies": copies, "items_per_s": rate}}),
        "versions": dict(record.versions),
        **({"parts": parts_to_json(record.parts)} if record.parts else {}),
    }


def raced(dag: Dag, race: Race, threads: int, source_sha256: str) -> Fields:
    """Return the fields of a kernel that was raced: times, checks, rivals.

    Args:
        threads: of each contestant.
        source_sha256: of the source, hex. A record may name the text that an earlier compiler of
            the same machine code headed.
    """
    rate = rate_of(dag, race)
    test = Test(*race.span, race.tolerances, race.magnitude)
    return {
        "winner": race.winner,
        "delivered": race.delivered,
        "rate": {  # a rate beyond the peak is left out
            "flop_per_s": None if rate is None else rate.flop_per_s,
            "effective": rate is not None and rate.effective,
            "flop": flop_count(dag),
            "executed_flop": race.flop or None,
            "peak_flop_per_s": race.peak_flop_per_s or None,
        },
        "verification": verification(test, race.reformulated)
        | {"errors_seen": list(race.errors), "source_sha256": source_sha256},
        "latency_s": spread(race.delivered_s),
        "baseline_s": race.baseline_s,
        "naive_s": spread(race.naive_s) if race.naive_s else None,
        "numpy_s": spread(race.numpy_s) if race.numpy_s else None,
        "numpy_note": race.numpy_note,
        **_rivals("own", race.own, race.best_s),
        "verdict": verdict_of_race(race, threads).as_object(),
        **_rivals("peers", race.peers, race.best_s),
        **({"by_size": [asdict(one) for one in race.by_size]} if race.by_size else {}),
        "trials": race.trials,
    }


def _rivals(field: str, rivals: Sequence[RacedOwn], best_s: float) -> Fields:
    """Return the field of own kernels or of libraries: their times and ratios, or reasons."""
    listed = [
        {
            "name": one.name,
            "latency_s": None if one.best_s is None else spread(one.times_s),
            "ratio": None if one.best_s is None else one.best_s / best_s,
            "note": one.note,
        }
        for one in rivals
    ]
    return {field: listed} if listed else {}


def verification(test: Test, reformulated: str, cases: Sequence[str] = ()) -> Fields:
    """Return the field of the checks that a kernel passed, by which its self-test is made.

    Args:
        reformulated: the parts computed by another algorithm (ADR-0035), for people; "": none.
        cases: of a library that was not raced.
    """
    return {
        "reference": "float64",
        **({"cases": list(cases)} if cases else {}),
        "inputs": [test.low, test.high],
        "tolerances": list(test.tolerances),
        "exact_on_integers_up_to": test.magnitude,
        "reformulated": reformulated or None,
    }


def exported(
    native: Library | str, times_s: Sequence[float], span: Sequence[float], flop: int, unit: str
) -> Fields:
    """Return the field of an exported library, or of the reason for its absence.

    Args:
        unit: of operations per second; "" if the rate is beyond the machine's peak.
    """
    if isinstance(native, str):
        return {"library": None, "note": native}
    return {
        "library": LIBRARY if native.linked else None,
        **picked(native, "note", "prefix", "workspace_bytes", "packed_bytes"),
        "tasks": [phase.tasks for phase in native.phases],
        **picked(native, "features", "object_sha256"),
        "latency_s": spread(times_s),
        "span": list(span),
        "flop": flop,
        "rate_unit": unit,
    }


def spread(times_s: Sequence[float]) -> Fields:
    """Return the field of times of calls in seconds."""
    middle_s, count = median_high(times_s), len(times_s)
    return {"min": min(times_s), "median": middle_s, "max": max(times_s), "samples": count}
