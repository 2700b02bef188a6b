"""Models made to hurt the reader, each with the text of its refusal."""

import os
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, Final

import numpy as np
import onnx
from onnx import AttributeProto, TensorProto, helper, numpy_helper

X: Final = helper.make_tensor_value_info("x", TensorProto.FLOAT, (2, 3))
Made = onnx.ModelProto | bytes


def of(
    *nodes: onnx.NodeProto,
    tensors: list[TensorProto] | None = None,
    outputs: tuple[str, ...] = ("y",),
) -> onnx.ModelProto:
    """Return a model of nodes from x to y at opset 23."""
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in outputs]
    graph = helper.make_graph(list(nodes), "g", [X], ends, tensors or [])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 23)])


def ints(name: str, *values: int) -> TensorProto:
    return numpy_helper.from_array(np.array(values, np.int64), name)


def node(op: str, inputs: str, output: str = "y", **attributes: Any) -> onnx.NodeProto:
    return helper.make_node(op, inputs.split(), [output], f"{op}_node", **attributes)


def weight(shape: tuple[int, ...], data: bytes = b"", kind: int = TensorProto.FLOAT) -> TensorProto:
    return TensorProto(name="w", dims=shape, data_type=kind, raw_data=data)


def with_weight(tensor: TensorProto) -> onnx.ModelProto:
    return of(node("Add", "x w"), tensors=[tensor])


def external(location: str, **facts: str) -> onnx.ModelProto:
    tensor = TensorProto(name="w", dims=(2, 3), data_type=TensorProto.FLOAT)
    tensor.data_location = TensorProto.EXTERNAL
    for key, value in {"location": location, **facts}.items():
        tensor.external_data.add(key=key, value=value)
    return with_weight(tensor)


def chain(depth: int) -> onnx.ModelProto:
    """Return conditions inside of the first branch of one another."""
    inner, yes = [node("Relu", "x", "t0")], numpy_helper.from_array(np.array(True), "c")
    for n in range(1, depth):
        ends = [helper.make_tensor_value_info(f"t{n - 1}", TensorProto.FLOAT, None)]
        graph = helper.make_graph(inner, "b", [], ends)
        inner = [helper.make_node("If", ["c"], [f"t{n}"], "nested", then_branch=graph)]
    return of(*inner, tensors=[yes], outputs=(f"t{depth - 1}",))


def functions(calls: int, depth: int, again: bool = False) -> onnx.ModelProto:
    """Return functions of which each calls the one below several times."""
    made = of(helper.make_node(f"f{depth}", ["x"], ["y"], "root", domain="own"))
    for n in range(depth + 1):
        body, last = [], "a"
        for call in range(calls):
            below = f"f{n - 1}" if n else (f"f{depth}" if again else "Relu")
            domain = "own" if n or again else ""
            out = "b" if call == calls - 1 else f"v{call}"
            body.append(helper.make_node(below, [last], [out], domain=domain))
            last = out
        sets = [helper.make_opsetid("", 23), helper.make_opsetid("own", 1)]
        made.functions.append(helper.make_function("own", f"f{n}", ["a"], ["b"], body, sets))
    made.opset_import.append(helper.make_opsetid("own", 1))
    return made


def endless_loop() -> onnx.ModelProto:
    body = helper.make_graph(
        [node("Identity", "go", "more"), node("Relu", "a", "b")], "body",
        [helper.make_tensor_value_info("i", TensorProto.INT64, ()),
         helper.make_tensor_value_info("go", TensorProto.BOOL, ()),
         helper.make_tensor_value_info("a", TensorProto.FLOAT, None)],
        [helper.make_tensor_value_info("more", TensorProto.BOOL, ()),
         helper.make_tensor_value_info("b", TensorProto.FLOAT, None)],
    )  # fmt: skip
    yes = numpy_helper.from_array(np.array(True), "c")
    return of(helper.make_node("Loop", ["", "c", "x"], ["y"], "endless", body=body), tensors=[yes])


def nested_bytes(depth: int) -> bytes:
    """Return a message of graphs in attributes of nodes of graphs, as deep as asked."""
    data = b""
    for _ in range(depth):
        attribute = b"\x0a\x01b" + b"\x32" + _length(data) + data  # AttributeProto.g = 6
        held = b"\x2a" + _length(attribute) + attribute  # NodeProto.attribute = 5
        data = b"\x0a" + _length(held) + held  # GraphProto.node = 1
    return b"\x08\x0a" + b"\x3a" + _length(data) + data  # ModelProto.graph = 7


def _length(data: bytes) -> bytes:
    size, out = len(data), b""
    while size > 127:
        out, size = out + bytes([size & 127 | 128]), size >> 7
    return out + bytes([size])


def giant_attribute() -> onnx.ModelProto:
    one = node("Transpose", "x")
    one.attribute.append(
        AttributeProto(name="perm", type=AttributeProto.INTS, ints=[1] * 2_000_000)
    )
    return of(one)


VALID: Final = of(node("Relu", "x")).SerializeToString()


def at_opset(version: int, domain: str = "") -> onnx.ModelProto:
    made = of(node("Relu", "x"))
    made.opset_import[0].CopyFrom(helper.make_opsetid(domain, version))
    return made


def named_often(count: int, field: str) -> onnx.ModelProto:
    """Return a model that declares its input, or its output, many times."""
    made = of(node("Relu", "x"))
    values = getattr(made.graph, field)
    values.extend([values[0]] * (count - 1))
    return made


CASES: Final[dict[str, tuple[Callable[[], Made], str]]] = {
    **{
        f"version {version} of {domain or 'ai.onnx'}": (
            partial(at_opset, version, domain),
            rf"imports version {version} of '{domain or 'ai.onnx'}'; expected one of 1 to",
        )
        for version, domain in ((10**9, ""), (-1, ""), (0, "ai.onnx"), (1 << 62, "com.example"))
    },
    "outputs of one name": (
        lambda: named_often(10_000, "output"),
        "has 10000 outputs of the name 'y'; expected each name once",
    ),
    "very many outputs": (
        lambda: named_often(100_000, "output"),
        "has 100000 outputs; expected at most 16384",
    ),
    "inputs of one name": (
        lambda: named_often(2, "input"),
        "has 2 inputs of the name 'x'; expected each name once",
    ),
    "empty file": (lambda: b"", "no outputs"),
    "random bytes": (lambda: np.random.default_rng(0).bytes(4096), "expected an ONNX model"),
    "truncated": (lambda: VALID[: len(VALID) // 2], "expected an ONNX model"),
    "deep message": (lambda: nested_bytes(5000), "expected an ONNX model|no outputs"),
    "nested branches": (lambda: chain(20), r"\(Relu\).*bodies inside one another|\(If\).*bodies"),
    "huge extents": (lambda: with_weight(weight((1 << 40, 1 << 20))), "initializer 'w'.*at most"),
    "extents that wrap": (
        lambda: with_weight(weight((1 << 32, 1 << 32))),
        "initializer 'w'.*shape",
    ),
    "negative extents": (
        lambda: with_weight(weight((-2, -3), bytes(24))),
        "initializer 'w'.*from 0",
    ),
    "short data": (lambda: with_weight(weight((2, 3), bytes(8))), "'w' because it has 8 bytes"),
    "unknown dtype": (lambda: with_weight(weight((2, 3), bytes(24), 999)), "'w'.*dtype is 999"),
    "text tensor": (lambda: with_weight(weight((2,), b"", TensorProto.STRING)), "dtype is STRING"),
    "cycle": (
        lambda: of(node("Relu", "t"), node("Abs", "y", "t")),
        r"\(Relu\).*'t' is not defined",
    ),
    "own operand": (lambda: of(node("Relu", "y")), r"\(Relu\).*'y' is not defined"),
    "twice defined": (
        lambda: of(node("Relu", "x"), node("Abs", "x")),
        r"\(Abs\).*'y' is defined twice",
    ),
    "no output": (lambda: of(node("Relu", "x"), outputs=("z",)), "output 'z' is not defined"),
    "absolute path": (lambda: external("/etc/passwd"), "'/etc/passwd'.*below the model's folder"),
    "path upwards": (
        lambda: external("../secret.bin"),
        r"'../secret.bin'.*below the model's folder",
    ),
    "link": (lambda: external("link.bin"), "'link.bin'.*below the model's folder"),
    "pipe": (lambda: external("pipe"), "'pipe'.*no file below"),
    "offset": (lambda: external("w.bin", offset="-8"), "'w.bin'.*offset -8"),
    "long read": (lambda: external("w.bin", offset="1000000"), "'w.bin'.*do not fit"),
    "no number": (lambda: external("w.bin", length="9" * 5000), "'w.bin'"),
    "huge constant": (
        lambda: of(node("ConstantOfShape", "n"), tensors=[ints("n", 1 << 20, 1 << 20)]),
        r"'ConstantOfShape_node' \(ConstantOfShape\).*at most",
    ),
    "huge range": (
        lambda: of(node("Range", "a b a"), tensors=[ints("a", 1), ints("b", 1 << 60)]),
        r"\(Range\).*at most",
    ),
    "huge expand": (
        lambda: of(node("Expand", "x n"), tensors=[ints("n", 1 << 40, 2, 3)]),
        r"'Expand_node' \(Expand\).*at most",
    ),
    "huge tile": (
        lambda: of(node("Tile", "x n"), tensors=[ints("n", 1 << 40, 1)]), r"\(Tile\).*at most",
    ),
    "huge pad": (
        lambda: of(node("Pad", "x n"), tensors=[ints("n", 0, 0, 1 << 50, 0)]), r"\(Pad\).*at most",
    ),
    "huge resize": (
        lambda: of(node("Resize", "x e e n", mode="linear"),
                   tensors=[numpy_helper.from_array(np.zeros(0, np.float32), "e"),
                            ints("n", 1 << 50, 3)]),
        r"\(Resize\).*extents from 1",
    ),
    "many parts": (
        lambda: of(node("Split", "x", num_outputs=1 << 40)), r"\(Split\).*'num_outputs' is",
    ),
    "giant attribute": (giant_attribute, r"\(Transpose\) because.*'perm' has 2000000 parts"),
    "endless loop": (endless_loop, r"'endless' \(Loop\)"),
    "recursion": (lambda: functions(1, 2, again=True), "function 'f.'.*no recursion"),
    "billion laughs": (lambda: functions(10, 9), "bodies are .* nodes"),
    "name of code": (
        lambda: of(helper.make_node("Relu\n__import__('os')", ["x"], ["y"], "n'\"\0\n" * 9999)),
        r"because operator",
    ),
    "foreign domain": (
        lambda: of(helper.make_node("Relu", ["x"], ["y"], domain="a" * 100_000)),
        r"\(Relu\).*domain",
    ),
    "unknown operator": (lambda: of(node("Frob", "x")), r"'Frob_node' \(Frob\).*no kernel"),
}  # fmt: skip


def files(folder: Path) -> Iterator[tuple[str, Path, str]]:
    """Write the hostile files below a folder; yield name, path and the text of the refusal."""
    home = folder / "model"
    home.mkdir()
    (folder / "secret.bin").write_bytes(bytes(64))
    (home / "w.bin").write_bytes(bytes(64))
    (home / "link.bin").symlink_to(folder / "secret.bin")
    os.mkfifo(home / "pipe")
    for number, (name, (make, text)) in enumerate(CASES.items()):
        made = make()
        path = home / f"{number}.onnx"
        path.write_bytes(made if isinstance(made, bytes) else made.SerializeToString())
        yield name, path, text
