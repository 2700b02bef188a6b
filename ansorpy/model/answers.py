"""Answers of runtimes to inputs of a model, each from a process of its own."""

import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Self

import numpy as np

from ansorpy.artifact.harness import narrowed, widened
from ansorpy.errors import RunError
from ansorpy.expr.dtypes import NARROW
from ansorpy.graph.graph import Array, Graph
from ansorpy.importers.child import PER_FILE, ReadLimits
from ansorpy.measure.timing.turn_process import TurnProcess
from ansorpy.model.check_bounds import Opinion, dtypes_of
from ansorpy.model.check_inputs import Inputs
from ansorpy.model.oracles import Oracle
from ansorpy.model.race import PREPARE_S, Entry, command_of, to_prepare


class Answers:
    """A runtime in a process of its own, which turns inputs into outputs.

    Args:
        memory_bytes: address space of the process; 0: any.
    """

    def __init__(self, entry: Entry, threads: int, memory_bytes: int = 0) -> None:
        self._entry = entry
        self._folder = tempfile.TemporaryDirectory(prefix="ansorpy-verify-")
        command = [*command_of(entry, threads), "--memory", str(memory_bytes)]
        with (Path(self._folder.name) / "log").open("wb") as log:
            self._process = TurnProcess(command, log)

    def outputs(self, inputs: Mapping[str, Array], timeout_s: float = PREPARE_S) -> list[Array]:
        """Return the outputs of the model.

        Raises:
            RunError: the runtime fails, does not take these inputs, or takes too long.
        """
        folder = Path(self._folder.name)
        (folder / "inputs.npz").unlink(missing_ok=True)  # the inputs of the question before
        answer = self._process.ask(to_prepare([inputs], folder, "outputs.npz"), timeout_s)
        if "failed" in answer:
            raise RunError(f"cannot run the model by {self._entry.runtime}: {answer['failed']}")
        with np.load(folder / "outputs.npz", allow_pickle=False) as file:
            return [file[key] for key in file.files]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.close()
        self._folder.cleanup()


def outputs_of(entry: Entry, inputs: Mapping[str, Array], threads: int) -> list[Array]:
    """Return the outputs of one runtime, with the errors of `Answers.outputs`."""
    with Answers(entry, threads) as answers:
        return answers.outputs(inputs)


class Opinions:
    """The processes of an oracle, which get inputs of a graph and return outputs in its dtypes."""

    def __init__(self, graph: Graph, oracle: Oracle) -> None:
        self._graph, self._oracle = graph, oracle
        limit = ReadLimits().memory_bytes
        self._asked = [
            Answers(entry, 1, limit + PER_FILE * entry.file.stat().st_size)
            for entry in oracle.entries
        ]

    def __call__(self, inputs: Inputs, timeout_s: float) -> list[Opinion]:
        """Return the outputs of each process of the oracle; `Answers.outputs` has the errors."""
        given = dict(inputs)
        if self._oracle.wide:
            for name, array in inputs.items():
                dtype = self._graph.values[name].dtype
                if dtype in NARROW:
                    given[name] = widened(array, dtype).astype(np.float32)
        given |= {name: weight.array for name, weight in self._graph.bound.items()}
        dtypes = dtypes_of(self._graph)
        return [
            [
                stored(one, dtype)
                for one, dtype in zip(answers.outputs(given, timeout_s), dtypes, strict=True)
            ]
            for answers in self._asked
        ]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for answers in self._asked:
            answers.__exit__()


def stored(array: Array, dtype: str) -> Array:
    """Return an output of a runtime as our arrays of a dtype; floats may be wider.

    The bits of some NaNs would overflow when they are rounded to bfloat16.
    """
    if array.dtype.kind != "f":
        return array
    return np.asarray(narrowed(np.where(np.isnan(array), np.float32(np.nan), array), dtype))
