"""A compiled module of PyTorch: takes and returns tensors as its `forward` does."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from ansorpy.artifact.torch_op import check, to_array, to_tensor
from ansorpy.errors import GraphError
from ansorpy.graph import Graph

Run = Callable[..., Any]  # NumPy arrays in order -> an array, or a tuple of several
CONSTANTS: Final = (int, float, bool, str, type(None))  # types of arguments besides tensors


class CompiledModule:
    """A module whose tensors are computed by a compiled model, for the shapes of its examples.

    Args:
        program: the `torch.export.ExportedProgram` of the module.
        graph: the graph of that program.
        run: computes the outputs of the graph from its inputs.

    Raises:
        GraphError: an argument or a result is neither a tensor nor a constant.
    """

    def __init__(self, program: Any, graph: Graph, run: Run) -> None:
        self.name = graph.name
        self._run = run
        self._given = tuple(program.example_inputs[1])  # names of keyword arguments, in order
        self._in_spec, self._out_spec = program.call_spec.in_spec, program.call_spec.out_spec
        self._arguments = _leaves(program.graph_signature.input_specs, "USER_INPUT")
        self._results = _leaves(program.graph_signature.output_specs, "USER_OUTPUT")
        self._inputs = [
            {"name": leaf.name, "shape": list(value.fixed_shape), "dtype": value.dtype}
            for leaf, value in zip(
                (leaf for leaf in self._arguments if is_tensor(leaf)),
                (graph.values[name] for name in graph.inputs),
                strict=True,
            )
        ]
        self._dtypes = [graph.values[output.value].dtype for output in graph.outputs]

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Return the result of the module in its own structure; tensors in it are new.

        Raises:
            TypeError: arguments of another structure than those of the example; a tensor of
                another dtype or device; another constant.
            ValueError: a tensor of another shape.
            RuntimeError: a tensor requires a gradient while gradients are recorded.
        """
        import torch

        tensors = self._tensors(torch, args, kwargs)
        check(torch, f"module {self.name!r}", self._inputs, tensors)
        if torch.is_grad_enabled() and any(tensor.requires_grad for tensor in tensors):
            raise RuntimeError(
                f"cannot differentiate module {self.name!r} because it has no gradient; expected a"
                " call inside of torch.no_grad()"
            )
        made = self._run(*(to_array(torch, tensor) for tensor in tensors))
        arrays = made if isinstance(made, tuple) else (made,)
        results = iter(
            to_tensor(torch, array, dtype)
            for array, dtype in zip(arrays, self._dtypes, strict=True)
        )
        leaves = [next(results) if is_tensor(leaf) else leaf.value for leaf in self._results]
        return torch.utils._pytree.tree_unflatten(leaves, self._out_spec)

    def __repr__(self) -> str:
        told = ", ".join(f"{one['name']}: {one['dtype']}{one['shape']}" for one in self._inputs)
        return f"<compiled module {self.name}({told})>"

    def _tensors(self, torch: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> list[Any]:
        """Return the tensors among the arguments, in the order of the inputs."""
        named = {name: kwargs[name] for name in self._given if name in kwargs}
        named |= {name: value for name, value in kwargs.items() if name not in named}
        leaves, spec = torch.utils._pytree.tree_flatten((tuple(args), named))
        if spec != self._in_spec:
            raise TypeError(
                f"cannot call module {self.name!r} because its arguments have another structure;"
                f" expected that of the example: {' '.join(str(self._in_spec).split())}"
            )
        tensors = []
        for leaf, value in zip(self._arguments, leaves, strict=True):
            if is_tensor(leaf):
                tensors.append(value)
            elif type(value) is not type(leaf.value) or value != leaf.value:
                raise TypeError(
                    f"cannot call module {self.name!r} because argument {leaf.name!r} is"
                    f" {value!r}; expected {leaf.value!r}, for which it was compiled"
                )
        return tensors


def is_tensor(leaf: Any) -> bool:
    """Return True if an argument of an exported program is a tensor, not a constant."""
    return type(leaf).__name__ == "TensorArgument"


def _leaves(specs: Sequence[Any], kind: str) -> list[Any]:
    """Return the arguments of a kind in a signature, each a tensor or a constant."""
    found = [spec.arg for spec in specs if spec.kind.name == kind]
    for leaf in found:
        if not is_tensor(leaf) and not isinstance(getattr(leaf, "value", leaf), CONSTANTS):
            raise GraphError(
                f"cannot compile a module because {getattr(leaf, 'name', leaf)!r} is a"
                f" {type(leaf).__name__}; expected tensors and constants"
            )
    return found
