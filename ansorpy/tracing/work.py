"""A traced signature that can be compiled, in this process or in a child, and its digest."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final

import numpy as np

from ansorpy.errors import RunError
from ansorpy.frontends.json.write import from_json, to_json
from ansorpy.graph.builder import GraphBuilder
from ansorpy.graph.graph import Array, Graph
from ansorpy.measure.host import local_target
from ansorpy.model.api import request_of, tuned
from ansorpy.model.options import ModelOptions
from ansorpy.progress import ignore
from ansorpy.te.dag import Dag
from ansorpy.tracing.options import JitOptions
from ansorpy.tuner.api import tune_dags
from ansorpy.tuner.options.tune_options import LocalOptions
from ansorpy.tuner.parts.stores import store_of

DOCUMENT: Final = "work.json"
WEIGHTS: Final = "work.npz"


@dataclass(frozen=True, slots=True)
class TracedWork:
    """A graph or a Dag, and the options of its kernels.

    Args:
        meaning: a graph of a model, or the Dag of a te function.
    """

    meaning: Graph | Dag
    cores: int
    allow: tuple[str, ...] = ()
    without: tuple[str, ...] = ()
    store: str | None = None

    @classmethod
    def of(cls, meaning: Graph | Dag, options: JitOptions) -> "TracedWork":
        """Return the work of a traced signature."""
        return cls(meaning, options.threads, options.allow, options.without, options.store)

    @property
    def digest(self) -> str:
        """The digest of graph, constants, machine, rules and version: the key of its answers."""
        facts = [self._document(), repr(local_target(self.cores)), version("ansorpy")]
        if isinstance(self.meaning, Graph):
            facts += [one.digest for one in self.meaning.weights.values()]
        return sha256("\n".join(facts).encode()).hexdigest()

    def compile(
        self, folder: Path, trials: int, seconds: float | None, progress: bool | None = False
    ) -> Path:
        """Write a verified bundle, or the kernel of a Dag, to a folder; return its path.

        Args:
            trials: 0: the first answer, the fastest choice of the cost model.

        Raises:
            SpecError: there is no kernel for an operator.
            RunError: no verified kernel.
        """
        shared: dict[str, Any] = {
            "trials": trials, "seconds": seconds, "cores": self.cores, "race": False,
            "allow": self.allow, "without": self.without,
        }  # fmt: skip
        if isinstance(self.meaning, Dag):
            options = LocalOptions(**shared)
            found = tune_dags((self.meaning,), options, store=self.store, out=folder,
                              progress=progress)  # fmt: skip
            if found.task.kernel is None:
                raise RunError(
                    f"cannot compile {self.meaning.name} because no candidate is verified;"
                    " expected one"
                )
            return found.task.kernel
        target = local_target(self.cores)
        request = request_of(ModelOptions(**shared), self.meaning, target, folder, {}, {})
        return tuned(request, store_of(self.store), progress, ignore).bundle

    def write(self, folder: Path) -> None:
        """Write the work for a child process."""
        weights: Mapping[str, Array] = {}
        if isinstance(self.meaning, Graph):
            weights = {f"w{n}": one.array for n, one in enumerate(self.meaning.weights.values())}
        with (folder / WEIGHTS).open("wb") as file:
            np.savez(file, **weights)  # type: ignore[arg-type]
        (folder / DOCUMENT).write_text(self._document(), encoding="utf-8")

    @classmethod
    def read(cls, folder: Path) -> "TracedWork":
        """Return the work that `write` wrote."""
        facts = json.loads((folder / DOCUMENT).read_text(encoding="utf-8"))
        with np.load(folder / WEIGHTS, allow_pickle=False) as file:
            weights = [file[f"w{n}"] for n in range(len(file.files))]
        meaning = from_json(facts["dag"]) if "dag" in facts else _graph(facts["graph"], weights)
        allow, without = tuple(facts["allow"]), tuple(facts["without"])
        return cls(meaning, facts["cores"], allow, without, facts["store"])

    def _document(self) -> str:
        facts: dict[str, Any] = {
            "cores": self.cores, "allow": self.allow, "without": self.without, "store": self.store,
        }  # fmt: skip
        if isinstance(self.meaning, Dag):
            return json.dumps({**facts, "dag": to_json(self.meaning)})
        return json.dumps({**facts, "graph": _graph_facts(self.meaning)})


def _graph_facts(graph: Graph) -> dict[str, Any]:
    values = graph.values
    return {
        "name": graph.name,
        "inputs": [[name, values[name].fixed_shape, values[name].dtype] for name in graph.inputs],
        "weights": [*graph.weights],
        "nodes": [[n.op, n.inputs, n.outputs, dict(n.attrs)] for n in graph.nodes],
        "outputs": [[one.name, one.value] for one in graph.outputs],
    }


def _graph(facts: Mapping[str, Any], weights: list[Array]) -> Graph:
    builder = GraphBuilder(facts["name"], folds=False)
    for name, shape, dtype in facts["inputs"]:
        builder.input(name, shape, dtype)
    for name, array in zip(facts["weights"], weights, strict=True):
        builder.constant(name, array)
    for op, inputs, outputs, attrs in facts["nodes"]:
        given = {k: tuple(one) if isinstance(one, list) else one for k, one in attrs.items()}
        builder.add(op, inputs, outputs, given)
    for name, value in facts["outputs"]:
        builder.output(name, value)
    return builder.graph()
