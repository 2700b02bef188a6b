"""Exports of the modules of this folder, stored for tests without torch.

    python -m tests.torch.exports

writes `exports/NAME.onnx` (weights included) and `exports/NAME.npz` (inputs x0, x1 ...; result y).
"""

from pathlib import Path
from typing import Any, Final

import numpy as np

FOLDER: Final = Path(__file__).parent / "exports"


def exported(name: str) -> Any:
    """Return the ONNX model of a module, without paths and stack traces."""
    import torch

    from ansorpy.importers.onnx_file import OPSET
    from ansorpy.importers.torch_program import quiet
    from tests.torch.modules import made

    module, args = made(name)
    with torch.no_grad(), quiet():
        program = torch.onnx.export(module, args, dynamo=True, opset_version=OPSET, verbose=False)
    model = program.model_proto
    graph = model.graph
    for part in (model, graph, *graph.node, *graph.input, *graph.output, *graph.value_info):
        part.ClearField("metadata_props")
        part.ClearField("doc_string")
    for tensor in graph.initializer:
        tensor.ClearField("metadata_props")
    return model


def main() -> None:
    """Write every export."""
    from tests.torch.modules import MODULES, made

    FOLDER.mkdir(exist_ok=True)
    for name in MODULES:
        (FOLDER / f"{name}.onnx").write_bytes(exported(name).SerializeToString())
        module, args = made(name)
        given = {f"x{i}": arg.numpy() for i, arg in enumerate(args)}
        np.savez(FOLDER / f"{name}.npz", y=module(*args).detach().numpy(), **given)


if __name__ == "__main__":
    main()
