"""From the parts of a model and the libraries of its tasks to the plan of a bundle."""

import json
from collections.abc import Mapping
from dataclasses import dataclass

from ansorpy.bundle.arena import ArenaPlan, arena_of
from ansorpy.bundle.plan import HostedFunction, ModelKernel, ModelPlan, SelfTest
from ansorpy.bundle.steps import HostedStep, KernelStep, Step
from ansorpy.codegen.exported_types import Library
from ansorpy.errors import GraphError
from ansorpy.graph.graph import Node, ValueInfo
from ansorpy.graph.groups import Partition
from ansorpy.graph.hosted.text import function_text
from ansorpy.graph.operator import operator_of
from ansorpy.model.rows import copy_step
from ansorpy.model.tasks import ModelTasks
from ansorpy.te.analysis import workload_key
from ansorpy.te.dag import Dag
from ansorpy.te.dims import dims_of


@dataclass(frozen=True, slots=True)
class TaskLibrary:
    """The verified library of a task, and the time of one call alone."""

    library: Library
    best_s: float


@dataclass(frozen=True, slots=True)
class Origin:
    """The file that a model came from, the threads that it is tuned for, parts of its search."""

    digest: str = ""
    threads: int = 1
    parts: tuple[tuple[str, str, str], ...] = ()


def plan_of(
    partition: Partition,
    tasks: ModelTasks,
    libraries: Mapping[str, TaskLibrary],
    origin: Origin,
    self_test: SelfTest | None = None,
) -> ModelPlan:
    """Return the plan of a bundle.

    Args:
        libraries: by task; every task has one.
    """
    graph = partition.graph
    steps, values, functions = _steps(partition, tasks)
    read = {partition.root(name) for step in steps for name in step.reads}
    read |= {partition.root(output.value) for output in graph.outputs}
    return ModelPlan(
        name=graph.name,
        values=values,
        inputs=graph.inputs,
        outputs=graph.outputs,
        weights={name: weight for name, weight in graph.weights.items() if name in read},
        views=partition.views,
        steps=steps,
        kernels=tuple(
            model_kernel(dag, libraries[dag.name].library, libraries[dag.name].best_s)
            for dag in tasks.dags
        ),
        source_digest=origin.digest,
        threads=origin.threads,
        hosted=functions,
        self_test=self_test,
        bound=graph.bound,
        parts=origin.parts,
    )


def check_dims(partition: Partition, tasks: ModelTasks) -> ArenaPlan:
    """Refuse a model with dims that no bundle can run, before its tasks are tuned.

    Returns:
        its arena, which does not depend on kernels.

    Raises:
        GraphError: a step reads sizes of a call as elements of a tensor.
        SpecError: the largest sizes need too much memory.
    """
    graph = partition.graph
    steps, values, _ = _steps(partition, tasks)
    read = [(f"node {(*one.nodes, '')[0][:80]!r}", name) for one in steps for name in one.reads]
    read += [(f"output {one.name[:80]!r}", one.value) for one in graph.outputs]
    for reader, name in read:
        weight = graph.weights.get(partition.root(name))
        if weight is not None and weight.sizes:
            raise GraphError(
                f"cannot tune {graph.name!r} because {reader} has {name[:80]!r}, whose elements are"
                f" sizes of a call; expected numbers, as in --bind {weight.dims[0].name}=1"
            )
    draft = HostedFunction("draft", "")
    return arena_of(
        ModelPlan(
            name=graph.name,
            values=values,
            inputs=graph.inputs,
            outputs=graph.outputs,
            weights=graph.weights,
            views=partition.views,
            steps=tuple(HostedStep(draft.name, one.reads, one.writes) for one in steps),
            kernels=(),
            hosted=(draft,),
        )
    )


def _steps(
    partition: Partition, tasks: ModelTasks
) -> tuple[tuple[Step, ...], dict[str, ValueInfo], tuple[HostedFunction, ...]]:
    """Return the steps, all values that they read and write, and the hosted functions."""
    graph = partition.graph
    values = dict(graph.values)
    steps: list[Step] = []
    functions: dict[str, HostedFunction] = {}
    for number, part in enumerate(tasks.parts):
        nodes = tuple(node.name or next(iter(node.outputs), "") for node in part.group.nodes)
        if part.lowered is None:
            (node,) = part.group.nodes
            if part.group.copied:
                steps.append(copy_step(graph, node, nodes))
                continue
            functions |= {(made := _function(node)).name: made}
            steps.append(_hosted_step(node, made.name, nodes))
            continue
        writes = []
        for place, value in enumerate(part.lowered.writes):
            if not value:  # the kernel computes more than the model needs
                value = f"{number}.{place}"
                while value in values:
                    value += "~"
                values[value] = _unread(part.lowered.dag, place, value)
            writes.append(value)
        steps.append(KernelStep(part.task, part.lowered.reads, tuple(writes), nodes))
    return tuple(steps), values, tuple(functions.values())


def model_kernel(dag: Dag, library: Library, best_s: float) -> ModelKernel:
    """Return the library of a Dag as a kernel of a model."""
    constant = [n for n, one in enumerate(dag.placeholders) if one.constant]
    packed = tuple(constant) if library.packed_bytes else ()
    shapes = [node.shape for node in dag.placeholders] + [shape for shape, _ in _made(dag)]
    dims = dims_of(dag)
    return ModelKernel(
        dag.name, library, packed, best_s, workload_key(dag), dims, tuple(shapes) if dims else ()
    )


def _made(dag: Dag) -> list[tuple[tuple[int, ...], str]]:
    """Return shape and dtype of each output of a Dag, in order."""
    nodes = {node.name: node for node in dag.computes}
    return [(nodes[name].shape, dtype) for name in dag.outputs for dtype in nodes[name].dtypes]


def _function(node: Node) -> HostedFunction:
    """Return the NumPy function of a node, with its text."""
    twin = operator_of(node).hosted
    assert twin is not None  # else the node has a kernel
    return HostedFunction(twin.function.__name__, function_text(twin.function))


def _hosted_step(node: Node, function: str, nodes: tuple[str, ...]) -> HostedStep:
    twin = operator_of(node).hosted
    assert twin is not None  # else the node has a kernel
    reads = tuple(name for name in node.inputs if name)
    return HostedStep(function, reads, node.outputs, json.dumps(twin.arguments(node)), nodes)


def _unread(dag: Dag, place: int, name: str) -> ValueInfo:
    """Return the value of an output of a Dag that the graph has no name for."""
    shape, dtype = _made(dag)[place]
    return ValueInfo(name, shape, dtype)
