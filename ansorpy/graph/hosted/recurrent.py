"""Recurrent layers: one step of NumPy per element of the sequence."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from ansorpy.graph.graph import Array
from ansorpy.graph.operator import Facts, Operands, hosted


def rnn(
    reads: Sequence[Array], gates: int = 1, hidden_size: int = 0, direction: str = "forward",
    layout: int = 0, linear_before_reset: int = 0, clip: float = 0.0,
    activations: Sequence[str] = (), activation_alpha: Sequence[float] = (),
    activation_beta: Sequence[float] = (), input_forget: int = 0, absent: Sequence[int] = (),
) -> tuple[Any, ...]:  # fmt: skip
    """Return all states and the last state (and the last cell of an LSTM) of a recurrent layer.

    `gates` is 1 for RNN, 3 for GRU (z, r, h), 4 for LSTM (i, o, f, c).
    """
    given: list[Any] = list(reads)
    for position in absent:
        given.insert(position, None)
    given += [None] * (8 - len(given))
    x, w, r, b, lengths, h0, c0, p = given
    x = x.swapaxes(0, 1) if layout else x
    steps, batch, _ = x.shape
    size, count = r.shape[2], w.shape[0]
    functions: dict[str, Any] = {
        "sigmoid": lambda v: 1 / (1 + np.exp(-v)), "tanh": np.tanh,
        "relu": lambda v: np.maximum(v, 0), "affine": lambda v: v, "softsign":
        lambda v: v / (1 + np.abs(v)), "softplus": lambda v: np.log1p(np.exp(v)),
    }  # fmt: skip
    usual = {1: ["tanh"], 3: ["sigmoid", "tanh"], 4: ["sigmoid", "tanh", "tanh"]}[gates]
    names = [name.lower() for name in activations] or usual * count
    every = np.zeros((steps, count, batch, size), x.dtype)
    last = np.zeros((count, batch, size), x.dtype)
    cells = np.zeros((count, batch, size), x.dtype)
    for d in range(count):
        f, g, *more = (functions[n] for n in (names[d * len(usual) : (d + 1) * len(usual)] * 2))
        bias = np.zeros(2 * gates * size, x.dtype) if b is None else b[d]
        wb, rb = bias[: gates * size], bias[gates * size :]
        h = np.zeros((batch, size), x.dtype) if h0 is None else (
            h0.swapaxes(0, 1)[d] if layout else h0[d])  # fmt: skip
        c = np.zeros((batch, size), x.dtype) if c0 is None else (
            c0.swapaxes(0, 1)[d] if layout else c0[d])  # fmt: skip
        peep = np.zeros(3 * size, x.dtype) if p is None else p[d]
        backward = direction == "reverse" or d == 1
        limit: Any = (lambda v: np.clip(v, -clip, clip)) if clip else (lambda v: v)
        for t in reversed(range(steps)) if backward else range(steps):
            xs = x[t] @ w[d].T + wb
            if gates == 1:
                new, cell = f(limit(xs + h @ r[d].T + rb)), c
            elif gates == 3:
                hs = h @ r[d].T + rb
                z = f(limit(xs[:, :size] + hs[:, :size]))
                q = f(limit(xs[:, size : 2 * size] + hs[:, size : 2 * size]))
                tail = xs[:, 2 * size :]
                if linear_before_reset:
                    inner = tail + q * hs[:, 2 * size :]
                else:
                    inner = tail + (q * h) @ r[d][2 * size :].T + rb[2 * size :]
                new, cell = (1 - z) * g(limit(inner)) + z * h, c
            else:
                a = xs + h @ r[d].T + rb
                i, o, forget, part = (a[:, k * size : (k + 1) * size] for k in range(4))
                i = f(limit(i + peep[:size] * c))
                keep = 1 - i if input_forget else f(limit(forget + peep[2 * size :] * c))
                cell = keep * c + i * g(limit(part))
                new = f(limit(o + peep[size : 2 * size] * cell)) * more[0](cell)
            alive = np.ones((batch, 1), bool) if lengths is None else (t < lengths)[:, None]
            h, c = np.where(alive, new, h), np.where(alive, cell, c)
            every[t, d] = np.where(alive, new, 0)
        last[d], cells[d] = h, c
    if layout:
        every, last = every.transpose(2, 0, 1, 3), last.swapaxes(0, 1)
        cells = cells.swapaxes(0, 1)
    found = (every, last, cells) if gates == 4 else (every, last)
    return tuple(np.ascontiguousarray(one, x.dtype) for one in found)


_ATTRIBUTES = (
    "hidden_size", "direction", "layout", "clip", "activations", "activation_alpha",
    "activation_beta",
)  # fmt: skip


def _facts(on: Operands) -> Sequence[Facts]:
    x, r, layout = on.shape(0), on.shape(2), on.attribute("layout", 0)
    if len(x) != 3 or len(r) != 3 or on.dtype(0) not in ("float32", "float64"):
        on.refuse(f"its input is {on.dtype(0)}{list(x)}", "float32 or float64 of rank 3")
    for name in ("activation_alpha", "activation_beta"):
        if on.attribute(name):
            on.refuse(f"attribute {name!r} is given", "activations without parameters")
    known = {"sigmoid", "tanh", "relu", "softsign", "softplus"}
    if not {name.lower() for name in on.attribute("activations", ())} <= known:
        on.refuse("an activation is not known", ", ".join(sorted(known)))
    steps, batch, count, size = *((x[1], x[0]) if layout else x[:2]), r[0], r[2]
    every = (batch, steps, count, size) if layout else (steps, count, batch, size)
    last = (batch, count, size) if layout else (count, batch, size)
    return [(every, on.dtype(0)), (last, on.dtype(0))]


hosted("RNN", rnn, *_ATTRIBUTES, fixed={"gates": 1})(_facts)
hosted("GRU", rnn, *_ATTRIBUTES, "linear_before_reset", fixed={"gates": 3})(_facts)


@hosted("LSTM", rnn, *_ATTRIBUTES, "input_forget", fixed={"gates": 4})
def _lstm(on: Operands) -> Sequence[Facts]:
    every, last = _facts(on)
    return [every, last, last]
