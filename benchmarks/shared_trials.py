"""Cache of trials for several searches: each program is measured once."""

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict
from hashlib import sha256
from pathlib import Path
from typing import Final

from ansorpy import codegen
from ansorpy.loopir.nodes import Program
from ansorpy.measure.local import LocalPool, LocalProcesses
from ansorpy.measure.outcome import Failed, Measured, Outcome
from ansorpy.measure.unbound import Unbound, bound
from ansorpy.target import Target
from ansorpy.te.dag import Dag

_KEEP: Final = 12  # characters of a digest in a file name


def identity(program: Program) -> str:
    """Return the digest of a program: equal loops of different plans and rows are one trial."""
    return sha256(repr(program).encode()).hexdigest()


def code_digest() -> str:
    """Return the digest of the code generator: times are valid for one version only."""
    digest = sha256()
    for path in sorted(Path(codegen.__path__[0]).rglob("*.py")):
        digest.update(path.read_bytes())
    return digest.hexdigest()[:_KEEP]


class TrialCache:
    """Outcomes by identity of the program, one per line of a file."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.known: dict[str, Outcome] = {}
        path.parent.mkdir(parents=True, exist_ok=True)
        text = path.read_text() if path.exists() else ""
        whole = text[: text.rfind("\n") + 1]
        if whole != text:  # an interrupt truncated the last line
            path.write_text(whole)
        for line in whole.splitlines():
            entry = json.loads(line)
            self.known[entry["program"]] = _outcome(entry)

    @property
    def best_s(self) -> float | None:
        """The least time of all trials, None before the first success."""
        costs = (o.cost_s for o in self.known.values() if isinstance(o, Measured))
        return min(costs, default=None)

    def add(self, key: str, outcome: Outcome) -> None:
        """Add an outcome."""
        self.known[key] = outcome
        kind = type(outcome).__name__
        with self.path.open("a") as file:
            file.write(json.dumps({"program": key, "type": kind, **asdict(outcome)}) + "\n")


def _outcome(entry: dict[str, object]) -> Outcome:
    fields = {name: value for name, value in entry.items() if name not in ("program", "type")}
    if entry["type"] == "Measured":
        times_s = fields.pop("times_s")
        assert isinstance(times_s, list)
        return Measured(times_s=tuple(times_s), **fields)  # type: ignore[arg-type]
    return Failed(**fields)  # type: ignore[arg-type]


class SharedPool(LocalPool):
    """A pool that looks up a program before it measures it.

    The limit for slow candidates follows from the best of all searches, so that an outcome does not
    depend on the search that requested it first.
    """

    def __init__(
        self,
        dag: Dag,
        target: Target,
        cache: TrialCache,
        shared: LocalProcesses | None = None,
    ) -> None:
        super().__init__(dag, target, shared=shared)
        self.cache = cache
        self.asked = 0

    def measure(
        self,
        candidates: Sequence[Program | Unbound],
        best_s: float | None = None,
        late: Callable[[], bool] = lambda: False,
    ) -> list[Outcome | None]:
        """Return one outcome per candidate, in order; there is no time limit."""
        programs = [bound(one, self.target) for one in candidates]
        keys = [identity(program) for program in programs]
        new = {k: p for k, p in zip(keys, programs, strict=True) if k not in self.cache.known}
        if new:
            outcomes = super().measure(list(new.values()), self.cache.best_s)
            for key, outcome in zip(new, outcomes, strict=True):
                assert outcome is not None
                self.cache.add(key, outcome)
        self.asked += len(programs)
        return [self.cache.known[key] for key in keys]
