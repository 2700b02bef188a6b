"""Facts of a model file as declared there: inputs, outputs, operators; nothing is computed."""

import json
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import onnx
from google.protobuf.message import DecodeError
from onnx.defs import onnx_opset_version

from ansorpy.errors import GraphError
from ansorpy.importers.onnx_nodes import DOMAINS
from ansorpy.importers.onnx_values import KINDS

MOST_NAMED: Final = 32  # inputs, outputs, kinds of operators and axes that are listed
MOST_VERSION: Final = 1000  # version of a domain that ONNX does not define
MOST_DECLARED: Final = 1 << 14  # inputs, or outputs; a graph without weights has no more either
CHARACTERS: Final = 40  # length of a name; names of strangers are cut
FACTS_BYTES: Final = 8 << 10  # size of the JSON of all facts, so that replies stay small


def file_facts(path: Path) -> dict[str, Any]:
    """Return the facts of a model file, as JSON of bounded size.

    Keys: `node_count`; `operators`, the number of nodes of the most frequent operators, bodies of
    branches left out; `inputs` and `outputs`, the first ones as objects with `name`, `dtype` and
    `shape` of numbers and names; `input_count` and `output_count`.

    Raises:
        GraphError: the file is no model, or `check_declared` refuses it.
    """
    try:
        model = onnx.load_model(path, load_external_data=False)
    except (DecodeError, OSError, ValueError) as error:
        raise GraphError(f"cannot read {path} because {error}; expected an ONNX model") from error
    graph = model.graph
    check_declared(model)
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


def check_declared(model: onnx.ModelProto) -> None:
    """Refuse versions that no ONNX has, and inputs or outputs of one name, or very many of them.

    Raises:
        GraphError: names the version, or the first name.
    """
    for where in (model, *model.functions):
        domains = Counter(_domain(one.domain) for one in where.opset_import)
        for one in where.opset_import:
            domain = _domain(one.domain)
            most = MOST_VERSION if domain else onnx_opset_version()
            if not 1 <= one.version <= most or domains[domain] > 1:
                raise GraphError(
                    f"cannot read the model because it imports version {one.version} of"
                    f" {domain[:CHARACTERS] or 'ai.onnx'!r}; expected one of 1 to {most}"
                )
    for kind, values in (("input", model.graph.input), ("output", model.graph.output)):
        if len(values) > MOST_DECLARED:
            raise GraphError(
                f"cannot read the model because it has {len(values)} {kind}s; expected at most"
                f" {MOST_DECLARED}"
            )
        for name, count in Counter(value.name for value in values).most_common(1):
            if count > 1:
                raise GraphError(
                    f"cannot read the model because it has {count} {kind}s of the name"
                    f" {name[:CHARACTERS]!r}; expected each name once"
                )


def _domain(name: str) -> str:
    """Return the name of a domain, "" for the domain of ONNX."""
    return "" if name in DOMAINS else name


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
