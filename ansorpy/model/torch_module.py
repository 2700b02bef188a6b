"""A compiled module of PyTorch: takes and returns tensors as its `forward` does."""

import shutil
from collections.abc import Mapping, Sequence
from math import inf
from os import PathLike
from pathlib import Path
from typing import Any, Final

from ansorpy.artifact.torch_op import check, to_array, to_tensor
from ansorpy.bundle.load import load_model
from ansorpy.bundle.state import LoadedState
from ansorpy.errors import GraphError
from ansorpy.graph import Graph
from ansorpy.graph.graph import Array
from ansorpy.model.api import bundle_path
from ansorpy.model.compile import ModelResult
from ansorpy.model.contestant import Call, each
from ansorpy.model.judge import Rivals, judged, name_of
from ansorpy.model.race import Entry
from ansorpy.units import counted, duration
from ansorpy.verdict import Judgment

CONSTANTS: Final = (int, float, bool, str, type(None))  # types of arguments besides tensors


class CompiledModule:
    """A module whose tensors are computed by a compiled model, for the shapes of its examples, or
    for each size of its dims.

    Args:
        program: the `torch.export.ExportedProgram` of the module.
        graph: the graph of that program.
        result: its bundle computes the outputs of the graph from its inputs.
        module: the module that was compiled, the rival of `bench`.

    Raises:
        GraphError: an argument or a result is neither a tensor nor a constant.
    """

    def __init__(self, program: Any, graph: Graph, result: ModelResult, module: Any) -> None:
        self.name, self.result = graph.name, result
        self._model, self._module = load_model(result.bundle), module
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
        self._outputs = [graph.values[output.value] for output in graph.outputs]

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Return the result of the module in its own structure; tensors in it are new.

        Raises:
            TypeError: arguments of another structure than the example; a tensor of another dtype
                or device; another constant.
            ValueError: a tensor of another shape, or a size out of its range.
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
        made = self._model(*(to_array(torch, tensor) for tensor in tensors))
        arrays = made if isinstance(made, tuple) else (made,)
        results = iter(
            to_tensor(torch, array, value.dtype)
            for array, value in zip(arrays, self._outputs, strict=True)
        )
        leaves = [next(results) if is_tensor(leaf) else leaf.value for leaf in self._results]
        return torch.utils._pytree.tree_unflatten(leaves, self._out_spec)

    def state(self) -> LoadedState:
        """Return memory for tensors that the module gives back with more rows, such as a cache.

        Calls of it take the other tensors, in order or by the names of `inputs`.

        Raises:
            ValueError: the module has no such tensors.
        """
        return self._model.state()

    def save(self, path: PathLike[str] | str) -> Path:
        """Copy the bundle, and return the path of the copy; `ansorpy.load` opens it.

        Args:
            path: of the copy if it ends in .zip, else of its folder.
        """
        goal = bundle_path(path, self.name)
        if not (goal.exists() and goal.samefile(self.result.bundle)):
            shutil.copyfile(self.result.bundle, goal)
        return goal

    def bench(self) -> Judgment:
        """Race the bundle with eager PyTorch on the inputs of its self-test; takes some 10 s.

        The two run in turns on as many threads: the bundle in a process of its own, the module in
        this one, which must be idle.
        """
        import torch

        threads, before = self._model.threads, torch.get_num_threads()
        rivals = Rivals(
            (Entry("torch", self.result.bundle, opened=each(self._eager)),), (name_of("torch"),)
        )
        told = self.result.verdict
        oracle, remedies = (told.oracle, told.remedies) if told else ("eager PyTorch", ())
        torch.set_num_threads(threads)
        try:
            return judged(
                self.result.bundle, rivals, threads, oracle, self.result.model_s, inf, remedies
            )
        finally:
            torch.set_num_threads(before)

    def _eager(self, inputs: Mapping[str, Array]) -> Call:
        """Return a call of the module on these arrays."""
        import torch

        tensors = iter(
            to_tensor(torch, array, told["dtype"])
            for array, told in zip(inputs.values(), self._inputs, strict=True)
        )
        given = [next(tensors) if is_tensor(one) else one.value for one in self._arguments]
        args, kwargs = torch.utils._pytree.tree_unflatten(given, self._in_spec)

        def call() -> Sequence[Array]:
            with torch.no_grad():
                leaves = torch.utils._pytree.tree_leaves(self._module(*args, **kwargs))
            return [to_array(torch, one) for one in leaves if isinstance(one, torch.Tensor)]

        return call

    def __repr__(self) -> str:
        given = ", ".join(f"{one['name']}: {one['dtype']}{one['shape']}" for one in self._inputs)
        made = ", ".join(f"{one.dtype}{list(one.shape)}" for one in self._outputs)
        calls = f"{counted(self.result.parts, 'kernel call')} in {duration(self.result.model_s)}"
        return f"<compiled module {self.name}({given}) -> {made}, {calls}>"

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
    leaves = [spec.arg for spec in specs if spec.kind.name == kind]
    for leaf in leaves:
        if not is_tensor(leaf) and not isinstance(getattr(leaf, "value", leaf), CONSTANTS):
            raise GraphError(
                f"cannot compile a module because {getattr(leaf, 'name', leaf)!r} is a"
                f" {type(leaf).__name__}; expected tensors and constants"
            )
    return leaves
