"""Facts of a model file as declared there: inputs, outputs, operators; nothing is computed."""

import json
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import onnx
from google.protobuf.message import DecodeError

from ansorpy.errors import GraphError
from ansorpy.importers.onnx_values import KINDS

MOST_NAMED: Final = 32  # inputs, outputs, kinds of operators and axes that are listed
CHARACTERS: Final = 40  # length of a name; names of strangers are cut
FACTS_BYTES: Final = 8 << 10  # size of the JSON of all facts, so that replies stay small


def file_facts(path: Path) -> dict[str, Any]:
    """Return the facts of a model file, as JSON of bounded size.

    Keys: `node_count`; `operators`, the number of nodes of the most frequent operators, bodies of
    branches left out; `inputs` and `outputs`, the first ones as objects with `name`, `dtype` and
    `shape` of numbers and names; `input_count` and `output_count`.

    Raises:
        GraphError: the file is no model.
    """
    try:
        graph = onnx.load_model(path, load_external_data=False).graph
    except (DecodeError, OSError, ValueError) as error:
        raise GraphError(f"cannot read {path} because {error}; expected an ONNX model") from error
    if not graph.node and not graph.output:
        raise GraphError(
            f"cannot read {path} because it has no nodes and no outputs; expected an ONNX model"
        )
    weights = {one.name for one in graph.initializer}
    weights |= {one.values.name for one in graph.sparse_initializer}
    inputs = [value for value in graph.input if value.name not in weights]
    operators: Counter[str] = Counter(node.op_type[:CHARACTERS] for node in graph.node)
    facts: dict[str, Any] = {}
    listed = MOST_NAMED
    while not facts or len(json.dumps(facts)) > FACTS_BYTES:
        facts = {
            "node_count": len(graph.node),
            "operators": dict(operators.most_common(listed)),
            "inputs": [_tensor(value, listed) for value in inputs[:listed]],
            "outputs": [_tensor(value, listed) for value in graph.output[:listed]],
            "input_count": len(inputs),
            "output_count": len(graph.output),
        }
        listed //= 2
    return facts


def _tensor(value: onnx.ValueInfoProto, listed: int) -> Mapping[str, Any]:
    kind = value.type.tensor_type
    dims = kind.shape.dim[:listed]
    return {
        "name": value.name[:CHARACTERS],
        "dtype": KINDS.get(kind.elem_type, "other"),
        "shape": [
            dim.dim_value if dim.HasField("dim_value") else dim.dim_param[:CHARACTERS]
            for dim in dims
        ],
    }
