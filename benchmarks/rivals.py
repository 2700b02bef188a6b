"""NumPy and torch implementations of the five subgraphs, on given arrays.

Results go into the same memory at every call if the library takes an output array.
"""

import importlib
from collections.abc import Callable, Mapping
from typing import Any, Final

import numpy as np

Array = np.ndarray[Any, Any]
Arrays = Mapping[str, Array]
Call = Callable[[], Array]
Maker = Callable[[Arrays], Call]


def numpy_matmul(given: Arrays) -> Call:
    """C = A B by BLAS."""
    a, b = given["A"], given["B"]
    out = np.empty((a.shape[0], b.shape[1]), a.dtype)
    return lambda: np.matmul(a, b, out=out)


def numpy_conv2d(given: Arrays) -> Call:
    """A 3x3 convolution with padding 1 as one matmul on gathered patches, then bias and relu."""
    x, weights, bias = given["X"], given["W"], given["bias"]
    _, channels, height, width = x.shape
    outputs = weights.shape[0]
    padded = np.zeros((channels, height + 2, width + 2), x.dtype)
    patches = np.empty((channels, 3, 3, height, width), x.dtype)
    windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), axis=(1, 2))
    out = np.empty((outputs, height * width), x.dtype)

    def call() -> Array:
        padded[:, 1:-1, 1:-1] = x[0]
        np.copyto(patches, windows.transpose(0, 3, 4, 1, 2))
        np.matmul(weights.reshape(outputs, -1), patches.reshape(-1, height * width), out=out)
        np.add(out, bias[:, None], out=out)
        np.maximum(out, 0, out=out)
        answer: Array = out.reshape(1, outputs, height, width)
        return answer

    return call


def numpy_depthwise(given: Arrays) -> Call:
    """A 3x3 depthwise convolution with padding 1: nine shifted products."""
    x, weights = given["X"], given["W"]
    _, channels, height, width = x.shape
    padded = np.zeros((channels, height + 2, width + 2), x.dtype)
    part = np.empty((channels, height, width), x.dtype)
    out = np.empty((1, channels, height, width), x.dtype)

    def call() -> Array:
        padded[:, 1:-1, 1:-1] = x[0]
        out.fill(0)
        for i in range(3):
            for j in range(3):
                np.multiply(
                    padded[:, i : i + height, j : j + width], weights[:, i, j, None, None], out=part
                )
                np.add(out, part, out=out)
        return out

    return call


def numpy_softmax(given: Arrays) -> Call:
    """Softmax of every row."""
    x = given["X"]
    out = np.empty_like(x)

    def call() -> Array:
        np.subtract(x, x.max(axis=1, keepdims=True), out=out)
        np.exp(out, out=out)
        np.divide(out, out.sum(axis=1, keepdims=True), out=out)
        return out

    return call


def numpy_norm(given: Arrays) -> Call:
    """Frobenius norms: a dot product per matrix."""
    flat = given["X"].reshape(len(given["X"]), -1)
    return lambda: np.asarray(np.sqrt(np.vecdot(flat, flat)))


NUMPY: Final[Mapping[str, Maker]] = {
    "matmul": numpy_matmul,
    "conv2d": numpy_conv2d,
    "depthwise": numpy_depthwise,
    "softmax": numpy_softmax,
    "norm": numpy_norm,
}


def torch_call(workload: str, given: Arrays, threads: int) -> Call:
    """Return torch's eager call. Needs torch."""
    torch: Any = importlib.import_module("torch")
    functional = torch.nn.functional
    torch.set_num_threads(threads)
    tensors = {name: torch.from_numpy(array) for name, array in given.items()}
    out = torch.empty(0)
    x = tensors.get("X")
    calls: dict[str, Callable[[], Any]] = {
        "matmul": lambda: torch.matmul(tensors["A"], tensors["B"], out=out),
        "conv2d": lambda: functional.conv2d(x, tensors["W"], tensors["bias"], padding=1).relu_(),
        "depthwise": lambda: functional.conv2d(
            x, tensors["W"].unsqueeze(1), padding=1, groups=len(tensors["W"])
        ),
        "softmax": lambda: torch.softmax(x, 1),
        "norm": lambda: torch.linalg.vector_norm(x, dim=(1, 2)),
    }
    timed = calls[workload]

    def call() -> Array:
        with torch.inference_mode():
            result: Array = timed()
            return result

    return call
