"""Own candidates of an operator as images, made here or read from a folder made beforehand."""

import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from math import inf
from pathlib import Path
from typing import Any, Final

import numpy as np

from ansorpy.codegen.simt.device.kernel import DeviceCode
from ansorpy.codegen.simt.launch import Launch, SimtCode
from ansorpy.codegen.simt.writer import simt_code
from ansorpy.cost.simt import LaunchFacts, seconds
from ansorpy.cost.simt_facts import program_facts
from ansorpy.errors import AnsorError
from ansorpy.expr.expr import Const
from ansorpy.loopir.nodes import Buffer, Scope
from ansorpy.plan.bind import bind
from ansorpy.plan.choices import plans
from ansorpy.plan.plan import Plan
from ansorpy.population import sample
from ansorpy.rules import CPU, CUDA
from ansorpy.sketch import derive
from ansorpy.target import GpuTarget
from ansorpy.te.dag import Dag

PLANS: Final = 12  # plans of a sketch
DRAWN: Final = 8  # rows drawn for each that is kept: the estimate chooses half of them
SEED: Final = 0
SLOW: Final = 30.0  # times the least estimate, from which a kernel could outlast its section
INDEX: Final = "index.json"
BuildTexts = Callable[[SimtCode, str], DeviceCode]


@dataclass(frozen=True, slots=True)
class Candidate:
    """An own kernel; `facts` of its timed launches, for the fit."""

    name: str
    code: DeviceCode
    facts: tuple[LaunchFacts, ...]


def candidates(
    name: str, dag: Dag, target: GpuTarget, count: int, build: BuildTexts
) -> tuple[Candidate, ...]:
    """Return candidates of an operator: half by the least estimate, half at random.

    Equal arguments give equal candidates.
    """
    rng = np.random.default_rng([SEED, *name.encode()])
    drawn: list[tuple[float, SimtCode, tuple[LaunchFacts, ...]]] = []
    seen: set[SimtCode] = set()
    every = _plans(dag, target)
    for turn in range(DRAWN * count):
        plan = every[turn % len(every)]
        rows = sample(plan, 1, rng)
        if not len(rows):
            continue  # the sizes leave no row
        try:
            program = bind(plan, tuple(int(value) for value in rows[0]), target)
            code = simt_code(program, target)
        except AnsorError:
            continue  # a plan that has no kernels for a GPU yet
        if code not in seen:
            seen.add(code)
            facts = program_facts(program, code.launches, (None,) * len(code.launches))
            assert target.gpu is not None
            found = seconds(facts, target.gpu)
            drawn.append((inf if found is None else found, code, facts))
    order = sorted(range(len(drawn)), key=lambda k: drawn[k][0])
    least = drawn[order[0]][0] if order else inf
    fit = [k for k in range(len(drawn)) if drawn[k][0] <= SLOW * least]
    half = [k for k in order if k in set(fit)][: -(-count // 2)]
    chosen = half + [k for k in fit if k not in set(half)][: count - len(half)]
    made: list[Candidate] = []
    for k in chosen:
        try:
            made.append(
                Candidate(f"{name}/{len(made)}", build(drawn[k][1], target.cpu), drawn[k][2])
            )
        except AnsorError:
            continue
    return tuple(made)


def _plans(dag: Dag, target: GpuTarget) -> list[Plan]:
    found: list[Plan] = []
    for rules in (CUDA, CPU):
        for sketch in derive(dag, target, rules).sketches:
            try:
                found += plans(sketch, target, PLANS)
            except AnsorError:
                continue
    return found


class Prebuilt:
    """Kernels in a folder: `index.json`, and one file per image."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._index: dict[str, Any] = {}
        path = folder / INDEX
        if path.exists():
            self._index = json.loads(path.read_text())

    def has(self, name: str) -> bool:
        """Return whether the folder has the kernels of an operator."""
        return name in self._index

    def read(self, name: str) -> tuple[Candidate, ...]:
        """Return the kernels of an operator."""
        return tuple(self._candidate(one) for one in self._index[name])

    def write(self, name: str, candidates: tuple[Candidate, ...]) -> None:
        """Store the kernels of an operator."""
        self._folder.mkdir(parents=True, exist_ok=True)
        self._index[name] = [self._stored(one) for one in candidates]
        (self._folder / INDEX).write_text(json.dumps(self._index))

    def _stored(self, candidate: Candidate) -> Mapping[str, Any]:
        names = []
        for k, image in enumerate(candidate.code.images):
            names.append(f"{candidate.name.replace('/', '-')}-{k}.image")
            (self._folder / names[-1]).write_bytes(image)
        return {
            "name": candidate.name,
            "images": names,
            "launches": [asdict(launch) for launch in candidate.code.launches],
            "buffers": [
                [b.name, b.dtype, b.extents, b.scope.value] for b in candidate.code.buffers
            ],
            "facts": [asdict(facts) for facts in candidate.facts],
        }

    def _candidate(self, entry: Mapping[str, Any]) -> Candidate:
        code = DeviceCode(
            tuple((self._folder / name).read_bytes() for name in entry["images"]),
            tuple(Launch(**launch) for launch in entry["launches"]),
            tuple(
                Buffer(name, dtype, tuple(map(Const, extents)), Scope(scope))
                for name, dtype, extents, scope in entry["buffers"]
            ),
        )
        return Candidate(
            entry["name"], code, tuple(LaunchFacts(**facts) for facts in entry["facts"])
        )
