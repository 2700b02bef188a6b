"""The entry of a signature: its trace, its answer, and the bundle that calls run."""

import threading
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ansorpy.artifact.arrays import to_numpy
from ansorpy.errors import AnsorError, RunError
from ansorpy.graph.graph import Array, Graph
from ansorpy.model.check_bounds import is_near, least_bound
from ansorpy.tracing.answers import FIRST, KeptAnswer, compiled, folder_of, known, pinned
from ansorpy.tracing.background import BACKGROUND
from ansorpy.tracing.options import JitOptions, Mode
from ansorpy.tracing.trace import OutputPlace, Traced
from ansorpy.tracing.trees import mapped
from ansorpy.tracing.work import TracedWork


class SignatureEntry:
    """A signature of a traced function.

    `call` is the loaded bundle; one assignment replaces it between calls. `idle` is set unless a
    background tuning is under way.
    """

    def __init__(self, traced: Traced, options: JitOptions) -> None:
        self.traced, self.options = traced, options
        self.work = TracedWork.of(traced.meaning, options)
        self.folder = folder_of(self.work)
        self.answer: KeptAnswer | None = None
        self.call: Callable[..., Any] | None = None
        self.idle = threading.Event()
        self.idle.set()

    def run(self, *arrays: Any) -> tuple[Array, ...]:
        """Return the outputs of the bundle."""
        assert self.call is not None
        made = self.call(*(to_numpy(a, n) for n, a in zip(self.traced.inputs, arrays, strict=True)))
        return made if isinstance(made, tuple) else (made,)

    def answered(self) -> KeptAnswer:
        """Return the answer, the first one if there is none."""
        if self.answer is None:
            self.answer_for(Mode("first"))
        assert self.answer is not None
        return self.answer

    def answer_for(self, mode: Mode) -> None:
        """Open the answer of the folder, or make one; start the tuning of a mode.

        Raises:
            PackageError: the pinned digest has no bundle.
            SpecError: there is no kernel for an operator.
            RunError: no verified kernel.
        """
        if self.options.config is not None:
            self._use(pinned(self.work, self.options.config))
            return
        found = known(self.folder)
        if found is not None:
            try:
                self._use(found)
            except AnsorError:  # damaged: it is made again
                found = None
        if mode.kind == "now" and (found is None or found.state == FIRST):
            self.tune(self.options.trials, mode.seconds, False)
            return
        if found is None:
            found = compiled(self.work, self.folder, 0, None)
            self._use(found)
        if mode.kind == "background" and found.state == FIRST and self.options.trials:
            self.idle.clear()
            self.work.write(self.folder)
            BACKGROUND.add(self.folder, self.options.trials, self._swap)

    def tune(self, trials: int, seconds: float | None, progress: bool | None) -> None:
        """Tune now, and use the result."""
        self._use(compiled(self.work, self.folder, trials, seconds, progress))

    def verify(self, run: Callable[[Sequence[Array]], Any], arrays: Sequence[Array]) -> None:
        """Compare the outputs for arrays with the result of the function itself.

        NumPy rounds, too: where they differ, the function is run in float64, and an output may be
        as far from that as NumPy's own is.

        Args:
            run: calls the function with arrays in place of its own.

        Raises:
            RunError: they differ by more than rounding explains.
        """
        outputs, wanted = self.run(*arrays), self._outputs(run(arrays))
        graph = self.traced.meaning
        share = least_bound(graph) if isinstance(graph, Graph) else 0.0
        wide: list[Any] = []
        for number, (output, right) in enumerate(zip(outputs, wanted, strict=True)):
            because = difference(output, right, share)
            if because and output.dtype.kind == "f":
                wide = wide or self._outputs(run([_widened(one) for one in arrays]))
                because = difference(output, right, share, np.asarray(wide[number]))
            if because:
                self.call = None
                raise RunError(
                    f"cannot use the kernels of {self.traced.name} because output {number}"
                    f" {because}; expected the values of NumPy, or verify=False"
                )

    @property
    def manifest(self) -> dict[str, Any]:
        """The name of the function; name, shape and dtype of its arrays and its outputs."""
        meaning = self.traced.meaning
        if isinstance(meaning, Graph):
            given = [meaning.values[name] for name in meaning.inputs]
            made = [meaning.values[one.value] for one in meaning.outputs]
            parts = [[(v.name, v.fixed_shape, v.dtype) for v in part] for part in (given, made)]
        else:
            nodes = (meaning.placeholders, [meaning.node(name) for name in meaning.outputs])
            parts = [[(one.name, one.shape, one.dtype) for one in part] for part in nodes]
        inputs, outputs = (
            [{"name": name, "shape": list(shape), "dtype": kind} for name, shape, kind in part]
            for part in parts
        )
        return {"name": self.traced.name, "inputs": inputs, "outputs": outputs}

    def row(self) -> dict[str, Any]:
        """Return the facts of the signature for `status`."""
        answer = self.answer
        arrays = [f"{t['name']}: {t['dtype']}{t['shape']}" for t in self.manifest["inputs"]]
        state = "traced" if answer is None else answer.state
        return {
            "arrays": ", ".join(arrays),
            "state": state if self.idle.is_set() else f"{state}, tuning",
            "trials": 0 if answer is None else answer.trials,
            "gain": 1.0 if answer is None else answer.gain,
            "digest": "" if answer is None else answer.digest,
        }

    def __str__(self) -> str:
        row = self.row()
        return f"{row['state']} for {row['arrays']}"

    def _use(self, answer: KeptAnswer) -> None:
        self.call, self.answer = answer.open(), answer

    def _swap(self, answer: KeptAnswer | None) -> None:
        """Use a verified and faster bundle from the next call on."""
        try:
            if answer is not None:
                self._use(answer)
        except AnsorError:  # damaged: the first answer stays
            pass
        finally:
            self.idle.set()

    def _outputs(self, expected: Any) -> list[Any]:
        """Return the arrays of a result of the function in the order of the outputs."""
        found: dict[str, Any] = {}
        mapped(expected, "", lambda value, place: found.update({place: value}))
        outputs: list[Any] = []

        def leaf(value: Any, place: str) -> None:
            if isinstance(value, OutputPlace):
                outputs.append(found.get(place))

        mapped(self.traced.result, "", leaf)
        return outputs


def _widened(array: Array) -> Array:
    return array.astype(np.float64) if array.dtype.kind == "f" else array


def difference(output: Array, wanted: Any, share: float, wide: Array | None = None) -> str:
    """Return how an output is wrong, "" if it is not.

    Args:
        wanted: NumPy's.
        share: of the largest element, the largest difference.
        wide: the result in float64, from which the output may be as far as `wanted` is.
    """
    right = np.asarray(wanted)
    if (output.shape, output.dtype) != (right.shape, right.dtype):
        return f"is {output.dtype}{list(output.shape)}, not {right.dtype}{list(right.shape)}"
    finite = np.abs(right[np.isfinite(right)].astype(np.float64))
    bound = np.asarray(share * finite.max() if finite.size and right.dtype.kind == "f" else 0.0)
    wrong = ~is_near(output, right, bound, right.dtype.name)
    if wide is not None and wide.shape == right.shape:
        with np.errstate(invalid="ignore"):
            error = np.abs(right.astype(np.float64) - wide)
        wrong &= ~is_near(output, wide, np.nan_to_num(error) + bound, right.dtype.name)
    if not wrong.any():
        return ""
    at = tuple(int(n) for n in np.unravel_index(int(np.argmax(wrong)), wrong.shape))
    return f"is {output[at]:.7g} at {list(at)}, not {right[at]:.7g}"
