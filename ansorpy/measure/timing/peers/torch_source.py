"""A graph of library operators as two functions of PyTorch.

`ahead(constants, t0, ...)` returns the values that constant inputs and constants alone decide,
`compute(ahead, t0, ...)` the outputs, contiguous.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from ansorpy.errors import GraphError
from ansorpy.graph.graph import Array, Attribute, Graph, Node
from ansorpy.measure.timing.peers.shaping import ints

Text = Callable[["Printer", Node], str]

HEAD: Final = (
    '"""The Dag in operators of PyTorch."""\n\nimport torch\nimport torch.nn.functional as F\n'
)
VIEWS: Final = frozenset({"Transpose", "Reshape", "Slice", "Expand", "Identity"})


def torch_source(graph: Graph, constant: frozenset[str]) -> tuple[str, dict[str, Array]]:
    """Return the text of both functions, and the constants by name, which `ahead` takes first.

    Args:
        constant: names of inputs whose values are known before the calls.

    Raises:
        GraphError: an operator has no form in PyTorch.
    """
    printer = Printer(graph, constant)
    return printer.text(), printer.constants()


class Printer:
    """The text of one graph. Values have the names that they have in the graph: t0, t1, ..."""

    def __init__(self, graph: Graph, constant: frozenset[str]) -> None:
        self.graph = graph
        self._ahead = {*constant, *graph.weights}  # values that are known ahead of the calls

    def text(self) -> str:
        """Return the module."""
        first, then = [], []
        first += [f"    {name} = constants[{name!r}]" for name in self.constants()]
        for node in self.graph.nodes:
            (name,) = node.outputs
            text = f"{name} = {self._call(node)}"
            if all(read in self._ahead for read in node.inputs):
                self._ahead.add(name)
                whole = self._whole(name)
                first.append(f"    {text}{whole}")
            else:
                then.append(f"    {text}")
        names = ", ".join(self.graph.inputs)
        made = [line.split(" = ")[0].strip() for line in first]
        found = [self._output(output.value) for output in self.graph.outputs]
        lines = [
            HEAD, "", f"def ahead(constants, {names}):", *first, f"    return ({_listed(made)})",
            "", "",
            f"def compute(ahead, {names}):", *([f"    ({_listed(made)}) = ahead"] if made else []),
            *then, f"    return ({_listed(found)})",
        ]  # fmt: skip
        return "\n".join(lines) + "\n"

    def shape(self, name: str) -> tuple[int, ...]:
        """Return the shape of a value."""
        return self.graph.values[name].fixed_shape

    def known(self, name: str) -> Array:
        """Return the values of a constant of the graph."""
        return self.graph.weights[name].array

    def constants(self) -> dict[str, Array]:
        """Return the constants that are operands, not numbers of the text."""
        read = {name for node in self.graph.nodes for name in self._tensors(node)}
        return {name: one.array for name, one in self.graph.weights.items() if name in read}

    def _tensors(self, node: Node) -> Sequence[str]:
        return node.inputs[:1] if node.op in ("Reshape", "Slice", "Expand", "Clip") else node.inputs

    def _call(self, node: Node) -> str:
        text = _TEXTS.get(node.op)
        if text is None:
            raise GraphError(f"no operator of PyTorch for {node.op}")
        return text(self, node) if callable(text) else text.format(*node.inputs)

    def _whole(self, name: str) -> str:
        """Return the layout of the data that a value, made ahead, is used with."""
        for node in self.graph.readers.get(name, ()):
            source = self.graph.producers.get(node.inputs[0])
            moved = source is not None and source.op == "Transpose"
            if node.op == "Conv" and moved and len(self.shape(name)) == 4:
                return ".contiguous(memory_format=torch.channels_last)"
        return ".contiguous()"

    def _output(self, name: str) -> str:
        node = self.graph.producers[name]
        view = node.op in VIEWS and node.inputs[0] in self.graph.inputs
        return f"{name}.clone(memory_format=torch.contiguous_format)" if view else (
            f"{name}.contiguous()"
        )  # fmt: skip


def _listed(names: Sequence[str]) -> str:
    return "".join(f"{name}, " for name in names).rstrip()


def _function(name: str) -> str:
    return f"{name}({{0}})"


def _reduction(name: str) -> Text:
    def text(on: Printer, node: Node) -> str:
        axes = ints(node.attrs["axes"])
        return f"{name}({node.inputs[0]}, dim={axes}, keepdim={bool(node.attrs['keepdims'])})"

    return text


def _sum(on: Printer, node: Node) -> str:
    return f"{_reduction('torch.sum')(on, node)[:-1]}, dtype={_dtype(on, node)})"


def _product_of(on: Printer, node: Node) -> str:
    text, kept, dtype = node.inputs[0], bool(node.attrs["keepdims"]), _dtype(on, node)
    for axis in sorted(ints(node.attrs["axes"]), reverse=True):
        text = f"torch.prod({text}, dim={axis}, keepdim={kept}, dtype={dtype})"
    return text


def _dtype(on: Printer, node: Node) -> str:
    """Return the dtype of a result: sums of narrow integers would be int64."""
    return f"torch.{on.graph.values[node.outputs[0]].dtype}"


def _extreme(name: str) -> Text:
    def text(on: Printer, node: Node) -> str:
        axis, kept = node.attrs["axis"], bool(node.attrs["keepdims"])
        return f"torch.{name}({node.inputs[0]}, dim={axis}, keepdim={kept})"

    return text


def _transpose(on: Printer, node: Node) -> str:
    return f"{node.inputs[0]}.permute({ints(node.attrs['perm'])})"


def _reshape(on: Printer, node: Node) -> str:
    return f"{node.inputs[0]}.reshape({on.shape(node.outputs[0])})"


def _expand(on: Printer, node: Node) -> str:
    return f"{node.inputs[0]}.expand({on.shape(node.outputs[0])})"


def _slice(on: Printer, node: Node) -> str:
    starts, stops, axes, steps = (on.known(name).tolist() for name in node.inputs[1:])
    parts = [":"] * len(on.shape(node.inputs[0]))
    for axis, start, stop, step in zip(axes, starts, stops, steps, strict=True):
        parts[axis] = f"{start}:{stop}:{step}"
    return f"{node.inputs[0]}[{', '.join(parts)}]"


def _cast(on: Printer, node: Node) -> str:
    return f"{node.inputs[0]}.to(torch.{node.attrs['to']})"


def _clip(on: Printer, node: Node) -> str:
    low, high = (on.known(name).item() for name in node.inputs[1:])
    return f"torch.clamp({node.inputs[0]}, {low!r}, {high!r})"


def _padded(on: Printer, x: str, pads: Sequence[int], value: str) -> str:
    """Return a tensor with a number around its last dimensions."""
    if not any(pads):
        return x
    rank = len(pads) // 2
    pairs = [n for at in reversed(range(rank)) for n in (pads[at], pads[rank + at])]
    return f"F.pad({x}, {tuple(pairs)}, value={value})"


def _number(value: Attribute) -> str:
    return f'float("{value}")' if value in (float("inf"), -float("inf")) else repr(value)


def _pad(on: Printer, node: Node) -> str:
    return _padded(on, node.inputs[0], ints(node.attrs["pads"]), _number(node.attrs["value"]))


def _around(on: Printer, node: Node, value: str, most: Sequence[int]) -> tuple[str, object]:
    """Return the data of a window, and the padding that its operator adds on both sides."""
    pads = ints(node.attrs["pads"])
    rank = len(pads) // 2
    before, after = pads[:rank], pads[rank:]
    if before == after and all(n <= limit for n, limit in zip(before, most, strict=True)):
        return node.inputs[0], before
    return _padded(on, node.inputs[0], pads, value), (0,) * rank


def _conv(on: Printer, node: Node) -> str:
    rank = len(on.shape(node.inputs[0])) - 2
    x, padding = _around(on, node, "0.0", on.shape(node.inputs[0])[2:])
    bias = node.inputs[2] if len(node.inputs) > 2 else "None"
    return (
        f"F.conv{rank}d({x}, {node.inputs[1]}, {bias}, {ints(node.attrs['strides'])},"
        f" {padding}, {ints(node.attrs['dilations'])}, {node.attrs['group']})"
    )


def _conv_transpose(on: Printer, node: Node) -> str:
    pads, extra = ints(node.attrs["pads"]), ints(node.attrs["output_padding"])
    rank = len(pads) // 2
    strides, dilations = ints(node.attrs["strides"]), ints(node.attrs["dilations"])
    # One padding for both sides: the rest behind is an output padding.
    rest = tuple(n + pads[d] - pads[rank + d] for d, n in enumerate(extra))
    most = [max(pair) for pair in zip(strides, dilations, strict=True)]
    if any(not 0 <= n < limit for n, limit in zip(rest, most, strict=True)):
        raise GraphError("no transposed convolution with this padding in PyTorch")
    return (
        f"F.conv_transpose{rank}d({node.inputs[0]}, {node.inputs[1]}, None, {strides},"
        f" {pads[:rank]}, {rest}, {node.attrs['group']}, {dilations})"
    )


def _pool(on: Printer, node: Node) -> str:
    kernel, strides = ints(node.attrs["kernel_shape"]), ints(node.attrs["strides"])
    half = [n // 2 for n in kernel]  # a pool of PyTorch pads no more
    dilations, rank = ints(node.attrs["dilations"]), len(kernel)
    if node.op == "MaxPool":
        x, padding = _around(on, node, 'float("-inf")', half)
        return f"F.max_pool{rank}d({x}, {kernel}, {strides}, {padding}, {dilations})"
    if set(dilations) != {1}:
        raise GraphError("no average of a dilated window in PyTorch")
    x, padding = _around(on, node, "0.0", half)
    return f"F.avg_pool{rank}d({x}, {kernel}, {strides}, {padding})"


def _layer_norm(on: Printer, node: Node) -> str:
    axis = node.attrs["axis"]
    assert isinstance(axis, int)
    shape = on.shape(node.inputs[0])[axis:]
    scale, bias = (*node.inputs[1:], "None")[:2]
    return f"F.layer_norm({node.inputs[0]}, {shape}, {scale}, {bias}, {node.attrs['epsilon']!r})"


def _gelu(on: Printer, node: Node) -> str:
    return f"F.gelu({node.inputs[0]}, approximate={str(node.attrs.get('approximate', 'none'))!r})"


def _softmax(name: str) -> Text:
    return lambda on, node: f"{name}({node.inputs[0]}, dim={node.attrs['axis']})"


def _leaky(on: Printer, node: Node) -> str:
    return f"F.leaky_relu({node.inputs[0]}, {node.attrs['alpha']!r})"


def _mod(on: Printer, node: Node) -> str:
    name = "torch.fmod" if node.attrs.get("fmod") else "torch.remainder"
    return f"{name}({node.inputs[0]}, {node.inputs[1]})"


_TEXTS: Final[Mapping[str, str | Text]] = {
    "Add": "{0} + {1}", "Sub": "{0} - {1}", "Mul": "{0} * {1}", "Div": "{0} / {1}",
    "Min": "torch.minimum({0}, {1})", "Max": "torch.maximum({0}, {1})",
    "Pow": "torch.pow({0}, {1})", "Mod": _mod,
    "Less": "{0} < {1}", "LessOrEqual": "{0} <= {1}", "Greater": "{0} > {1}",
    "GreaterOrEqual": "{0} >= {1}", "Equal": "{0} == {1}",
    "And": "{0} & {1}", "Or": "{0} | {1}", "Not": "~{0}",
    "BitwiseAnd": "{0} & {1}", "BitwiseOr": "{0} | {1}", "BitwiseXor": "{0} ^ {1}",
    "BitwiseNot": "~{0}", "Where": "torch.where({0}, {1}, {2})",
    "Neg": "-{0}", "Reciprocal": _function("torch.reciprocal"), "Relu": _function("F.relu"),
    "Swish": _function("F.silu"), "Identity": "{0}",
    **{
        op: _function(f"torch.{op.lower()}")
        for op in ("Abs", "Floor", "Ceil", "Exp", "Log", "Tanh", "Erf", "Sqrt", "Sigmoid", "Round",
                   "Sin", "Cos", "Atan")
    },
    "Cast": _cast, "Clip": _clip, "LeakyRelu": _leaky, "Gelu": _gelu,
    "MatMul": "torch.matmul({0}, {1})", "Gemm": "torch.addmm({2}, {0}, {1})",
    "MatMulInteger": "torch.matmul({0}.to(torch.int32), {1}.to(torch.int32))",
    "Conv": _conv, "ConvTranspose": _conv_transpose, "MaxPool": _pool, "AveragePool": _pool,
    "Softmax": _softmax("torch.softmax"), "LogSoftmax": _softmax("torch.log_softmax"),
    "LayerNormalization": _layer_norm,
    "ReduceSum": _sum, "ReduceMean": _reduction("torch.mean"),
    "ReduceMax": _reduction("torch.amax"), "ReduceMin": _reduction("torch.amin"),
    "ReduceL2": _reduction("torch.linalg.vector_norm"), "ReduceProd": _product_of,
    "ArgMax": _extreme("argmax"), "ArgMin": _extreme("argmin"),
    "Transpose": _transpose, "Reshape": _reshape, "Expand": _expand, "Slice": _slice, "Pad": _pad,
}  # fmt: skip
