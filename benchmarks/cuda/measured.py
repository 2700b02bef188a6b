"""Sections `matmul`, `rows`, `convolutions`: own candidates beside peers, each checked."""

import time
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any, Final

from ansorpy.errors import AnsorError, DeviceFault
from ansorpy.loopir.nodes import Scope
from ansorpy.measure.verify.cases import Case, make_cases
from ansorpy.measure.verify.check import glance
from ansorpy.measure.verify.guard_pages import size_bytes
from ansorpy.measure.verify.inputs import constants
from ansorpy.te.analysis.flops import flop_count
from ansorpy.te.dag import Dag
from benchmarks.cuda.bench import Bench
from benchmarks.cuda.kernels import Candidate
from benchmarks.cuda.operators import MINUTES, Operator, operators_of
from benchmarks.cuda.peers import peers_of

CHECKED_FLOP: Final = 5e8  # operations up to which the float64 reference takes below a second
SHARE: Final = 0.9  # part of the limit of a section that its operators share
LARGE: Final = "too large for the reference: section answers checks the operator at a small size"


def run(bench: Bench) -> None:
    """Time every operator of the section: peers first, then own candidates, in equal times."""
    limit_s = 60.0 * MINUTES[bench.section]
    every = operators_of(bench.section, bench.emulated)
    for number, operator in enumerate(every, 1):
        dag = operator.dag(bench.emulated)
        for peer in peers_of(operator.name, dag, bench.emulated):
            if peer.call is None:
                bench.add(operator.name, {"who": peer.name, "missing": peer.missing})
            else:
                bench.time(operator.name, peer.call, {"flop": flop_count(dag)}, who=peer.name)
        _own(bench, operator, dag, end_s=bench.start_s + number / len(every) * SHARE * limit_s)


def _own(bench: Bench, operator: Operator, dag: Dag, end_s: float) -> None:
    small = flop_count(dag) <= CHECKED_FLOP
    case = next(iter(make_cases(dag, 0, edges=False))) if small else None
    best_s: float | None = None
    every = bench.candidates(operator)
    if not every:
        bench.add(operator.name, {"who": "own", "error": "no plan has kernels for a GPU"})
    for one in every:
        if best_s is not None and time.monotonic() > end_s and not bench.emulated:
            bench.add(operator.name, {"who": "own", "error": "the time of the operator is over"})
            return
        try:
            found = _timed(bench, operator, dag, one, case, best_s)
        except DeviceFault:
            bench.add(
                operator.name, {"who": "own", "candidate": one.name, "error": bench.driver.fault}
            )
            raise  # the context is lost: the section ends, and the harness goes on
        except AnsorError as error:
            bench.add(operator.name, {"who": "own", "candidate": one.name, "error": str(error)})
        else:
            best_s = found if best_s is None else min(best_s, found or best_s)


def _timed(
    bench: Bench, operator: Operator, dag: Dag, candidate: Candidate, case: Case | None,
    best_s: float | None,
) -> float | None:  # fmt: skip
    """Check and time a candidate; return its median, None if it is wrong."""
    told: dict[str, Any] = {"who": "own", "candidate": candidate.name}
    kernel = bench.module.load(candidate.code)
    if case is not None:
        failed = glance(
            kernel, candidate.code.buffers, case, constants(dag), lambda phase, layout: None
        )
        if failed is not None:
            bench.add(operator.name, {**told, "error": f"{failed.kind}: {failed.message}"})
            return None
    told["checked"] = "first case" if case is not None else LARGE
    resources = [
        {
            "registers": at.function.registers,
            "local_bytes": at.function.local_bytes,
            "threads": at.launch.threads,
            "blocks": at.launch.blocks,
            "shared_bytes": at.function.shared_bytes,
        }
        for at in kernel.launches
    ]
    facts = [asdict(at) for at in candidate.facts]
    call = bench.bound(candidate.code)
    return bench.time(
        operator.name, call, _work(dag, candidate), best_s, **told, launches=resources, facts=facts
    )


def _work(dag: Dag, candidate: Candidate) -> Mapping[str, float]:
    """Return operations, and the bytes of inputs and outputs: the least traffic."""
    ends = (Scope.INPUT, Scope.CONSTANT, Scope.OUTPUT)
    traffic = sum(size_bytes(buffer) for buffer in candidate.code.buffers if buffer.scope in ends)
    return {"flop": float(flop_count(dag)), "memory_bytes": float(traffic)}
