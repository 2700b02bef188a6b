"""Recurrent layers: one step of NumPy per element of the sequence."""

from collections.abc import Sequence
from typing import Any, Final

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

    `gates` is 1 for RNN, 3 for GRU (z, r, h), 4 for LSTM (i, o, f, c). Numbers of float16 are
    computed in float32. Activations that take a number get the numbers of `activation_alpha` in
    order, and of `activation_beta`, as in ONNX Runtime; defaults are the operators' defaults.
    """
    kind = reads[0].dtype
    wide = np.dtype(np.float32) if kind == np.float16 else kind
    given: list[Any] = [one.astype(wide) if one.dtype == kind else one for one in reads]
    for position in absent:
        given.insert(position, None)
    given += [None] * (8 - len(given))
    x, w, r, b, lengths, h0, c0, p = given
    x = x.swapaxes(0, 1) if layout else x
    steps, batch, _ = x.shape
    size, count = r.shape[2], w.shape[0]
    functions: dict[str, Any] = {
        "sigmoid": lambda v, a, b: 1 / (1 + np.exp(-v)),
        "tanh": lambda v, a, b: np.tanh(v),
        "relu": lambda v, a, b: np.maximum(v, 0),
        "softsign": lambda v, a, b: v / (1 + np.abs(v)),
        "softplus": lambda v, a, b: np.logaddexp(0, v),
        "affine": lambda v, a, b: a * v + b,
        "elu": lambda v, a, b: np.where(v > 0, v, a * np.expm1(np.minimum(v, 0))),
        "hardsigmoid": lambda v, a, b: np.clip(a * v + b, 0, 1),
        "leakyrelu": lambda v, a, b: np.where(v >= 0, v, a * v),
        "scaledtanh": lambda v, a, b: a * np.tanh(b * v),
        "thresholdedrelu": lambda v, a, b: np.where(v > a, v, 0),
    }
    alphas = {"affine": 1.0, "elu": 1.0, "hardsigmoid": 0.2, "leakyrelu": 0.01,
              "scaledtanh": 1.0, "thresholdedrelu": 1.0}  # fmt: skip
    betas = {"affine": 0.0, "hardsigmoid": 0.5, "scaledtanh": 1.0}
    usual = {1: ["tanh"], 3: ["sigmoid", "tanh"], 4: ["sigmoid", "tanh", "tanh"]}[gates]
    names = [name.lower() for name in activations] or usual * count
    options = []
    for values, defaults in ((activation_alpha, alphas), (activation_beta, betas)):
        left = [*values]
        options.append(
            [
                wide.type(left.pop(0) if left and name in defaults else defaults.get(name, 0))
                for name in names
            ]
        )
    chosen: list[Any] = [
        (lambda v, f=functions[name], a=a, b=b: f(v, a, b))
        for name, a, b in zip(names, *options, strict=True)
    ]
    every = np.zeros((steps, count, batch, size), x.dtype)
    last = np.zeros((count, batch, size), x.dtype)
    cells = np.zeros((count, batch, size), x.dtype)
    for d in range(count):
        f, g, *more = chosen[d * len(usual) : (d + 1) * len(usual)] * 2
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
    return tuple(np.ascontiguousarray(one, kind) for one in found)


_ATTRIBUTES = (
    "hidden_size", "direction", "layout", "clip", "activations", "activation_alpha",
    "activation_beta",
)  # fmt: skip


PLAIN: Final = ("relu", "sigmoid", "softplus", "softsign", "tanh")  # take no numbers
BETA: Final = ("affine", "hardsigmoid", "scaledtanh")
ALPHA: Final = (*BETA, "elu", "leakyrelu", "thresholdedrelu")


def _facts(on: Operands, per: int) -> Sequence[Facts]:
    """Return the facts of all states and the last one; `per` is the activations of a direction."""
    x, r, layout = on.shape(0), on.shape(2), on.attribute("layout", 0)
    if len(x) != 3 or len(r) != 3 or on.dtype(0) not in ("float16", "float32", "float64"):
        on.refuse(f"its input is {on.dtype(0)}{list(x)}", "float16, float32 or float64 of rank 3")
    names = [name.lower() for name in on.attribute("activations", ())]
    if not set(names) <= {*PLAIN, *ALPHA}:
        on.refuse("an activation is not known", ", ".join(sorted((*PLAIN, *ALPHA))))
    if len(names) not in (0, r[0] * per):
        on.refuse(f"it has {len(names)} activations", f"{r[0] * per}")
    for attribute, takers, needed in (
        ("activation_alpha", ALPHA, ("affine", "scaledtanh")),
        ("activation_beta", BETA, ("scaledtanh",)),
    ):
        count, users = len(on.attribute(attribute, ())), [n for n in names if n in takers]
        least = max((n + 1 for n, name in enumerate(users) if name in needed), default=0)
        if not least <= count <= len(names):
            on.refuse(
                f"{attribute} has {count} numbers for {', '.join(names)[:80]}",
                f"{len(users)}, one for each activation that takes one",
            )
    steps, batch, count, size = *((x[1], x[0]) if layout else x[:2]), r[0], r[2]
    every = (batch, steps, count, size) if layout else (steps, count, batch, size)
    last = (batch, count, size) if layout else (count, batch, size)
    return [(every, on.dtype(0)), (last, on.dtype(0))]


@hosted("RNN", rnn, *_ATTRIBUTES, fixed={"gates": 1})
def _rnn(on: Operands) -> Sequence[Facts]:
    return _facts(on, 1)


@hosted("GRU", rnn, *_ATTRIBUTES, "linear_before_reset", fixed={"gates": 3})
def _gru(on: Operands) -> Sequence[Facts]:
    return _facts(on, 2)


@hosted("LSTM", rnn, *_ATTRIBUTES, "input_forget", fixed={"gates": 4})
def _lstm(on: Operands) -> Sequence[Facts]:
    every, last = _facts(on, 3)
    return [every, last, last]
