"""Two threads beside processes that keep processors busy: kernels, bundles, and ONNX Runtime.

    python -m benchmarks.crowded [--bundles FOLDER] [--rounds 3] [--only ROW ...]

Six operators are tuned with few trials. Each form (`kernel.py` of numba on OpenMP, the library on
its pool, a kernel for one thread, ONNX Runtime) is called back to back in a process of its own, in
turns with the others: threads of two forms never wait awake beside each other. FOLDER has
`NAME.zip`, bundles for two threads, each beside `NAME.onnx`. Needs onnxruntime.
"""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Final

import numpy as np

import ansorpy
from benchmarks.common import RAW, Results, Row, arguments, chosen, looping, publish, say, table
from benchmarks.machine import run_facts

KEYS: Final = ("row", "beside", "form")
FORMS: Final = ("numba", "library", "one thread", "onnxruntime")
BUNDLE_FORMS: Final = ("bundle", "onnxruntime")
PINNED: Final = "pinned"  # all threads on one processor
PLACES: Final = ("0", "1", "2", PINNED)
SECONDS: Final = 1.5  # each process calls for so long
TRIALS: Final = 24

CONV: Final = (
    "def k(float(1,{c},{s},{s}) X, const float({o},{c},{r},{r}) W, const float({o}) B) -> (Z) {{"
    " Y(n,o,h,w) +=! X(n,c,h+r,w+s) * W(o,c,r,s)\n Z(n,o,h,w) = fmax(Y(n,o,h,w) + B(o), 0) }}"
)
PRODUCT: Final = (
    "def k(float({m},{k}) A, const float({k},{n}) B) -> (Z) {{ Z(i,j) +=! A(i,r) * B(r,j) }}"
)
SOFTMAX: Final = (
    "def k(float(1536,1024) X) -> (Z) { M(i) max=! X(i,j)\n"
    " S(i) +=! exp(X(i,j) - M(i))\n Z(i,j) = exp(X(i,j) - M(i)) / S(i) }"
)
NORM: Final = (
    "def k(float(1024,768) X, const float(768) G, const float(768) B) -> (Z) {\n"
    " S(i) +=! X(i,j)\n Q(i) +=! X(i,j) * X(i,j)\n Z(i,j) = (X(i,j) - S(i) / 768.0) * rsqrt("
    "Q(i) / 768.0 - (S(i) / 768.0) * (S(i) / 768.0) + 0.00001) * G(j) + B(j) }"
)
# text, operator of ONNX, shapes of its inputs: all but the first are constants
ROWS: Final[dict[str, tuple[str, str, list[tuple[int, ...]]]]] = {
    "product 512": (PRODUCT.format(m=512, k=512, n=512), "MatMul", [(512, 512)] * 2),
    "product 128x768x3072": (
        PRODUCT.format(m=128, k=768, n=3072), "MatMul", [(128, 768), (768, 3072)],
    ),
    "3x3 of 64 at 56": (
        CONV.format(c=64, o=64, s=58, r=3), "Conv", [(1, 64, 58, 58), (64, 64, 3, 3), (64,)],
    ),
    "1x1 of 256 at 28": (
        CONV.format(c=256, o=128, s=28, r=1), "Conv", [(1, 256, 28, 28), (128, 256, 1, 1), (128,)],
    ),
    "softmax 1536x1024": (SOFTMAX, "Softmax", [(1536, 1024)]),
    "norm 1024x768": (NORM, "LayerNormalization", [(1024, 768), (768,), (768,)]),
}  # fmt: skip
Arrays = list[np.ndarray[Any, Any]]


def kernel(row: str, threads: int) -> Path:
    """Return the zip of a row for a number of threads; tune it unless it is there."""
    folder = RAW / "crowded" / f"{row.replace(' ', '_')}-{threads}"
    if not any(folder.glob("k-*.zip")):
        ansorpy.tune(
            ROWS[row][0], trials=TRIALS, cores=threads, store="memory", race=False, out=folder,
            progress=False,
        )  # fmt: skip
        say(f"{row} tuned for {threads} thread(s)")
    return next(folder.glob("k-*.zip"))


def model_of(row: str) -> tuple[bytes, Arrays]:
    """Return an ONNX model of a row's operator (a convolution has a Relu), and its arrays."""
    from onnx import TensorProto, helper, numpy_helper  # an optional package

    _, operator, shapes = ROWS[row]
    arrays = random(shapes)
    names, end = [f"x{k}" for k in range(len(arrays))], "y" if operator == "Conv" else "z"
    nodes = [helper.make_node(operator, names, [end])]
    nodes += [helper.make_node("Relu", ["y"], ["z"])] if end == "y" else []
    graph = helper.make_graph(
        nodes, "row",
        [helper.make_tensor_value_info("x0", TensorProto.FLOAT, shapes[0])],
        [helper.make_tensor_value_info("z", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(a, n) for a, n in zip(arrays[1:], names[1:], strict=True)],
    )  # fmt: skip
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    return model.SerializeToString(), arrays


def random(shapes: Sequence[Sequence[int]]) -> Arrays:
    """Return normal float32 values."""
    rng = np.random.default_rng(0)
    return [rng.standard_normal(tuple(shape)).astype(np.float32) for shape in shapes]


def call_of(row: str, form: str, bundles: Path | None) -> Callable[[], Any]:
    """Return a call of a form; exit unless its result equals the result of ONNX Runtime."""
    import onnxruntime  # an optional package

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 2
    given: tuple[str | bytes, Arrays] = (
        model_of(row) if bundles is None else (str(bundles / f"{row}.onnx"), [])
    )
    session = onnxruntime.InferenceSession(given[0], options, providers=["CPUExecutionProvider"])
    arrays = given[1] or random([one.shape for one in session.get_inputs()])
    feed = {one.name: a for one, a in zip(session.get_inputs(), arrays, strict=False)}
    if form == "onnxruntime":
        return partial(session.run, None, feed)
    right = session.run(None, feed)[0]
    del session  # its threads end
    if bundles is not None:
        model = ansorpy.load(bundles / f"{row}.zip")
        call: Callable[[], Any] = lambda: model(*arrays)  # noqa: E731
    else:
        path = kernel(row, 1 if form == "one thread" else 2)
        loaded = ansorpy.load(path) if form == "numba" else ansorpy.load_native(path)
        call = loaded.prepare(*arrays)
    if not np.allclose(call(), right, rtol=1e-3, atol=1e-3 * float(np.abs(right).max())):
        raise SystemExit(f"{row}, {form}: the result differs from the result of ONNX Runtime")
    return call


def timed(row: str, form: str, bundles: Path | None) -> None:
    """Print the seconds of each call, as JSON."""
    call = call_of(row, form, bundles)
    call()
    taken, end_s = [], time.perf_counter() + SECONDS
    while time.perf_counter() < end_s:
        begin_s = time.perf_counter()
        call()
        taken.append(time.perf_counter() - begin_s)
    print(json.dumps(taken))


@contextmanager
def crowd(place: str) -> Iterator[None]:
    """Keep as many processors busy as a place says, or hold children to one processor."""
    if place != PINNED:
        with looping(int(place)):
            yield
        return
    mine = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(mine)})
    try:
        yield
    finally:
        os.sched_setaffinity(0, mine)


def measured(row: str, place: str, forms: Sequence[str], args: Any, bundled: bool) -> list[Row]:
    """Return a row per form, from processes in turns."""
    taken: dict[str, list[float]] = {form: [] for form in forms}
    with crowd(place):
        for _ in range(args.rounds):
            for form in forms:
                command = [sys.executable, "-m", "benchmarks.crowded", "--child", row, form]
                command += ["--bundles", str(args.bundles)] if bundled else []
                done = subprocess.run(command, capture_output=True, text=True, check=False)
                if done.returncode:
                    raise SystemExit(done.stderr)
                taken[form] += json.loads(done.stdout.splitlines()[-1])
    return [
        {
            "row": row, "beside": place, "form": form, "mean_s": float(np.mean(found)),
            **{f"p{q}_s": float(np.percentile(found, q)) for q in (50, 90, 99)},
        }
        for form, found in taken.items()
    ]  # fmt: skip


def page(rows: Sequence[Row], machine: Row) -> str:
    """Return the Markdown page: a line per row, form and place."""
    quiet = {(one["row"], one["form"]): one["mean_s"] for one in rows if one["beside"] == "0"}

    def ms(key: str) -> Callable[[Row], object]:
        return lambda one: f"{one[key] * 1e3:.3g}"

    body = table(
        rows,
        {
            "row": lambda one: one["row"],
            "form": lambda one: one["form"],
            "busy processes": lambda one: one["beside"],
            "median": ms("p50_s"), "90 %": ms("p90_s"), "99 %": ms("p99_s"), "mean": ms("mean_s"),
            "mean / quiet": lambda one: f"{one['mean_s'] / quiet[one['row'], one['form']]:.3g}",
        },
    )  # fmt: skip
    return (
        f"# Two threads beside busy processes\n\n{machine['model']}, two processors; ms per call,"
        " each call timed; the forms in turns, each in a process of its own. `pinned`: all threads"
        f" on one processor, nothing beside.\n\n{body}"
    )


def main() -> None:
    """Measure the missing rows; write JSON and table."""
    parser = arguments(__doc__, "crowded")
    parser.add_argument("--rounds", type=int, default=3, help="processes of each form")
    parser.add_argument("--bundles", type=Path, help="folder of NAME.zip beside NAME.onnx")
    parser.add_argument("--child", nargs=2, help="a row and a form, for a process of calls")
    args = parser.parse_args()
    if args.child:
        row, form = args.child
        timed(row, form, args.bundles)
        return
    facts = run_facts(2, 0, trials=TRIALS)
    results = Results(args.out, KEYS, facts, args.fresh)
    models = sorted(path.stem for path in args.bundles.glob("*.zip")) if args.bundles else []
    for name in chosen([*ROWS, *models], args.only):
        forms = FORMS if name in ROWS else BUNDLE_FORMS
        for threads in (1, 2) if name in ROWS else ():
            kernel(name, threads)
        for place in PLACES:
            if results.find(row=name, beside=place, form=forms[0]) is None:
                for one in measured(name, place, forms, args, name not in ROWS):
                    results.add(one)
                say(f"{name} beside {place}")
    publish(args.out, page(results.rows, facts["machine"]))
    print(page(results.rows, facts["machine"]))


if __name__ == "__main__":
    main()
