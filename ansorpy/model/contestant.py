"""A runtime in a process of its own, which runs one model when asked: a contestant of a race.

    python -m ansorpy.model.contestant RUNTIME THREADS FILE [--module FILE:NAME]

Reads one JSON object per line and answers in the same way:

    {"do": "prepare", "inputs": NPZ, "names": [NAME, ...], "outputs": NPZ, "weights": [W, ...]}
                                      load, run once, write the outputs; asked again: other inputs
    {"do": "visit", "seconds": S}     run for S seconds: times in seconds, medians of the sizes

The arrays are one of each name, in order, at each size of the dims. A time is the mean over sizes,
with these weights; without any, all sizes are equal.
"""

import argparse
import importlib.util
import json
import os
import resource
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any, Final

import numpy as np

from ansorpy.errors import SpecError
from ansorpy.graph.graph import Array
from ansorpy.measure.cores import slot_cores

WARM_CALLS: Final = 3  # untimed calls at the start of a visit
MIN_CALLS: Final = 3  # timed calls of a visit, however long one takes
MAX_TIMES: Final = 20_000  # times in an answer: lines stay short

Call = Callable[[], Sequence[Array]]
Opened = Callable[[Sequence[Mapping[str, Array]]], Sequence[Call]]  # a call for each size


def each(bind: Callable[[Mapping[str, Array]], Call]) -> Opened:
    """Return the calls of a runtime that needs not know all sizes ahead."""
    return lambda every: [bind(inputs) for inputs in every]


def ansorpy(path: Path, threads: int, _module: str) -> Opened:
    """Return our bundle."""
    from ansorpy.bundle.load import load_model

    model = load_model(path, threads=threads)
    known = {one.name for one in model.inputs}

    def bind(inputs: Mapping[str, Array]) -> Call:
        given = {name: array for name, array in inputs.items() if name in known}
        return lambda: _listed(model(given))

    return each(bind)


def ort(path: Path, threads: int, _module: str) -> Opened:
    """Return a session of ONNX Runtime with its default optimiser."""
    return _ort(path, threads, "ORT_ENABLE_ALL")


def ort_plain(path: Path, threads: int, _module: str) -> Opened:
    """Return a session of ONNX Runtime with its optimiser off: the reference of errors."""
    return _ort(path, threads, "ORT_DISABLE_ALL")


def ort_exact(path: Path, threads: int, _module: str) -> Opened:
    """Return a session of ONNX Runtime whose products of integers are exact on any processor.

    The option makes signed weights unsigned, in a step of the optimiser: sums of two products of
    uint8 and int8 saturate otherwise where there is no VNNI.
    """
    return _ort(path, threads, "ORT_ENABLE_EXTENDED", {"session.x64quantprecision": "1"})


def _ort(path: Path, threads: int, level: str, entries: Mapping[str, str] | None = None) -> Opened:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.log_severity_level = 3
    options.graph_optimization_level = getattr(onnxruntime.GraphOptimizationLevel, level)
    for name, value in (entries or {}).items():
        options.add_session_config_entry(name, value)
    session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    known = {one.name for one in session.get_inputs()}

    def bind(inputs: Mapping[str, Array]) -> Call:
        given = {name: array for name, array in inputs.items() if name in known}
        return lambda: session.run(None, given)

    return each(bind)


def onnx_reference(path: Path, _threads: int, _module: str) -> Opened:
    """Return the reference evaluator of onnx, in NumPy, at the opset of the model."""
    import onnx
    from onnx.reference import ReferenceEvaluator

    model = onnx.load_model(path)
    session = ReferenceEvaluator(model)
    known = {value.name for value in model.graph.input}

    def bind(inputs: Mapping[str, Array]) -> Call:
        given = {name: array for name, array in inputs.items() if name in known}

        def call() -> Sequence[Array]:
            with np.errstate(all="ignore"):
                return [np.asarray(one) for one in session.run(None, given)]

        return call

    return each(bind)


def openvino(path: Path, threads: int, _module: str) -> Opened:
    """Return a request of OpenVINO, compiled for latency; extents of one size are fixed."""
    import openvino as ov

    core = ov.Core()
    model = core.read_model(str(path))
    settings = {
        "INFERENCE_NUM_THREADS": threads,
        "PERFORMANCE_HINT": "LATENCY",
        "INFERENCE_PRECISION_HINT": "f32",
    }

    def bind(every: Sequence[Mapping[str, Array]]) -> Sequence[Call]:
        by_port = {port.get_any_name(): port for port in model.inputs}
        shapes = {}
        for name, port in by_port.items():
            extents = zip(*(inputs[name].shape for inputs in every), strict=True)
            shapes[port] = ov.PartialShape([ov.Dimension(min(n), max(n)) for n in extents])
        model.reshape(shapes)
        request = core.compile_model(model, "CPU", settings).create_infer_request()

        def of(inputs: Mapping[str, Array]) -> Call:
            given = {name: inputs[name] for name in by_port}

            def call() -> Sequence[Array]:
                request.infer(given, share_inputs=True, share_outputs=True)
                return [one.data for one in request.output_tensors]

            return call

        return [of(inputs) for inputs in every]

    return bind


def torch(_path: Path, threads: int, module: str) -> Opened:
    """Return a module of the user, run eagerly."""
    return _torch(threads, module, compiled=False)


def inductor(_path: Path, threads: int, module: str) -> Opened:
    """Return a module of the user through torch.compile, with frozen weights."""
    return _torch(threads, module, compiled=True)


def _torch(threads: int, module: str, compiled: bool) -> Opened:
    import torch as peer

    peer.set_num_threads(threads)
    file, colon, name = module.rpartition(":")
    if not colon:
        raise SpecError(
            f"cannot race torch because --module is {module!r}; expected FILE:NAME, a function"
            " without arguments that returns the module"
        )
    spec = importlib.util.spec_from_file_location("raced_module", file)
    if spec is None or spec.loader is None:
        raise SpecError(f"cannot race torch because {file} is no Python file; expected FILE:NAME")
    place = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(place)
    peer.manual_seed(0)
    net = getattr(place, name)().eval()
    if compiled:
        import torch._inductor.config as settings

        settings.freezing = True
        net = peer.compile(net)

    def bind(inputs: Mapping[str, Array]) -> Call:
        given = [peer.from_numpy(array) for array in inputs.values()]

        def call() -> Sequence[Array]:
            with peer.no_grad():
                found = net(*given)
            return [one.numpy() for one in (found if isinstance(found, tuple | list) else [found])]

        return call

    return each(bind)


RUNTIMES: Final[Mapping[str, Callable[[Path, int, str], Opened]]] = {
    "ansorpy": ansorpy,
    "ort": ort,
    "ort_plain": ort_plain,
    "ort_exact": ort_exact,
    "onnx_reference": onnx_reference,
    "openvino": openvino,
    "torch": torch,
    "inductor": inductor,
}


def _listed(results: Any) -> Sequence[Array]:
    if isinstance(results, np.ndarray):
        return [results]
    return list(results.values()) if isinstance(results, Mapping) else list(results)


def visit(calls: Sequence[Call], seconds: float) -> list[list[float]]:
    """Return the seconds of the calls during a visit: rows of a call at each size."""
    for _ in range(WARM_CALLS):
        for call in calls:
            call()
    rows: list[list[float]] = []
    end = time.perf_counter() + seconds
    while (time.perf_counter() < end or len(rows) < MIN_CALLS) and len(rows) < MAX_TIMES:
        rows.append([])
        for call in calls:
            begin = time.perf_counter()
            call()
            rows[-1].append(time.perf_counter() - begin)
    return rows


def told_times(rows: Sequence[Sequence[float]], weights: Sequence[float]) -> dict[str, Any]:
    """Return the answer to a visit: mean times over the sizes, and the median at each size."""
    shares = [one / sum(weights) for one in weights] or [1.0 / len(rows[0])] * len(rows[0])
    means = [sum(share * one for share, one in zip(shares, row, strict=True)) for row in rows]
    return {"times_s": means, "of_sizes_s": [median(one) for one in zip(*rows, strict=True)]}


class RacedModel:
    """A model that answers the questions of a race.

    Args:
        open_model: called once, at the first question.
    """

    def __init__(self, open_model: Callable[[], Opened]) -> None:
        self._open_model = open_model
        self._opened: Opened | None = None
        self._calls: Sequence[Call] = ()
        self._weights: Sequence[float] = ()

    def answer(self, asked: Mapping[str, Any]) -> dict[str, Any]:
        """Return the answer to a question; {"failed": reason} if the runtime raises an error."""
        try:
            if asked["do"] == "visit":
                assert self._calls, "a contestant prepares before its first visit"
                return told_times(visit(self._calls, asked["seconds"]), self._weights)
            begin = time.perf_counter()
            if self._opened is None:
                self._opened = self._open_model()
            with np.load(asked["inputs"], allow_pickle=False) as file:
                arrays = [file[name] for name in file.files]
            names = asked["names"]
            every = [
                dict(zip(names, arrays[begin : begin + len(names)], strict=True))
                for begin in range(0, len(arrays) or 1, len(names) or 1)
            ]
            self._calls, self._weights = self._opened(every), asked.get("weights", ())
            # Outputs of a call may lie in memory of the next call.
            made = [np.array(one) for call in self._calls for one in call()]
            np.savez(asked["outputs"], *made)
            return {"open_s": time.perf_counter() - begin}
        except Exception as error:  # noqa: BLE001  a runtime raises any kind: its reason is the answer
            return {"failed": f"{type(error).__name__}: {str(error)[:300]}"}


def main() -> None:
    """Answer questions until standard input ends."""
    parser = argparse.ArgumentParser()
    parser.add_argument("runtime", choices=RUNTIMES)
    parser.add_argument("threads", type=int)
    parser.add_argument("file", type=Path)
    parser.add_argument("--module", default="")
    parser.add_argument("--memory", type=int, default=0, help="bytes of address space; 0: any")
    args = parser.parse_args()
    if args.memory:
        resource.setrlimit(resource.RLIMIT_AS, (args.memory, args.memory))
    os.sched_setaffinity(0, slot_cores(args.threads))  # before a runtime starts its threads
    # Libraries print to standard output: answers have a descriptor of their own.
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "w")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    runtime = RUNTIMES[args.runtime]
    contestant = RacedModel(lambda: runtime(args.file, args.threads, args.module))
    for line in sys.stdin:
        print(json.dumps(contestant.answer(json.loads(line))), file=answers, flush=True)


if __name__ == "__main__":
    main()
