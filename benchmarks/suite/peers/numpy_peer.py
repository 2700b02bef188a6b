"""NumPy, for formulas that are natural in it; results go into the same array at every call."""

from collections.abc import Callable

import numpy as np

from benchmarks.suite import forms
from benchmarks.suite.peers.common import Job, Ready, Unfit
from benchmarks.suite.reference import Array

Call = Callable[[], object]


def prepare(job: Job) -> Ready:
    """Return the call.

    Raises:
        Unfit: the formula has no natural form in NumPy.
    """
    out = np.empty(job.form.output, np.float32)
    return Ready(_call(job.form, job.arrays, out), lambda: out)


def _call(form: forms.Form, arrays: list[Array], out: Array) -> Call:
    x = arrays[0]
    match form:
        case forms.Matmul() | forms.BatchMatmul():
            return lambda: np.matmul(x, arrays[1], out=out)
        case forms.TransposedBatchMatmul():
            query, value = x.transpose(0, 2, 1, 3), arrays[1].transpose(0, 2, 3, 1)
            return lambda: np.matmul(query, value, out=out)
        case forms.Norm():
            flat = x.reshape(form.batch, -1)
            return lambda: np.sqrt(np.vecdot(flat, flat), out=out)
        case forms.Softmax():
            return lambda: _softmax(x, out)
        case forms.LayerNorm():
            return lambda: _layer_norm(x, arrays[1], arrays[2], out)
        case forms.Attention():
            return _attention(form, arrays, out)
        case forms.Elementwise():
            return lambda: _elementwise(x, arrays[1], arrays[2], out)
        case forms.SumOf():
            return lambda: x.sum(form.axis, out=out)
        case forms.MaxPool():
            half = form.size // 2
            pairs = x.reshape(form.batch, form.channels, half, 2, half, 2)
            return lambda: pairs.max(axis=(3, 5), out=out)
        case _:
            raise Unfit("not natural in NumPy")


def _softmax(x: Array, out: Array) -> None:
    np.subtract(x, x.max(1, keepdims=True), out=out)
    np.exp(out, out=out)
    np.divide(out, out.sum(1, keepdims=True), out=out)


def _layer_norm(x: Array, scale: Array, shift: Array, out: Array) -> None:
    np.subtract(x, x.mean(1, keepdims=True), out=out)
    share = 1 / np.sqrt((out * out).mean(1, keepdims=True) + np.float32(forms.EPSILON))
    np.multiply(out, share, out=out)
    np.multiply(out, scale, out=out)
    np.add(out, shift, out=out)


def _attention(form: forms.Attention, arrays: list[Array], out: Array) -> Call:
    q, k, v = arrays
    factor = np.float32(form.width**-0.5)
    scores = np.empty((form.queries, form.keys), np.float32)

    def call() -> None:
        np.matmul(q, k.T, out=scores)
        np.multiply(scores, factor, out=scores)
        _softmax(scores, scores)
        np.matmul(scores, v, out=out)

    return call


def _elementwise(a: Array, b: Array, c: Array, out: Array) -> None:
    np.add(a, b, out=out)
    np.maximum(out, 0, out=out)
    np.multiply(out, c, out=out)
