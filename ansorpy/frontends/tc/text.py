"""Read tensor expressions in the notation of Tensor Comprehensions; see docs/text.md.

def matmul(float(M, K) A, float(K, N) B) -> (C) {
    C(i, j) +=! A(i, k) * B(k, j)
}
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import pairwise

from ansorpy.errors import SpecError, quoted
from ansorpy.expr.expr import Read, Var
from ansorpy.frontends.tc.ast import (
    Declared,
    Def,
    Name,
    Parameter,
    Ranged,
    Statement,
    Term,
    all_terms,
)
from ansorpy.frontends.tc.lexer import At
from ansorpy.frontends.tc.lower import Meaning
from ansorpy.frontends.tc.parser import definitions
from ansorpy.frontends.tc.terms import DTYPE_NAMES, RESERVED, NameScope, Source
from ansorpy.frontends.tc.updates import UPDATES, start_values
from ansorpy.te.check import check, check_node, signature
from ansorpy.te.dag import Axis, Compute, Dag, Node, Placeholder
from ansorpy.te.dims import Dim, plain
from ansorpy.te.limits import LIMITS, NAME


def parse(
    text: str, bind: Mapping[str, int] | None = None, source: str = "text"
) -> tuple[Dag, ...]:
    """Return one checked Dag per definition.

    Args:
        bind: the values of sizes that the text leaves as symbols.
        source: the name of the text in messages; a file name.

    Raises:
        SpecError: `source:line:column: ` and the mistake.
    """
    sizes = {n: plain(size) if isinstance(size, Dim) else size for n, size in (bind or {}).items()}
    _check_bind(sizes)
    defs = definitions(text, source)
    seen: set[str] = set()
    used: set[str] = set()
    for definition in defs:
        if definition.name.name in seen:
            raise definition.name.at.error(f"{definition.name.name!r} is defined twice")
        seen.add(definition.name.name)
        used |= {term.name for term in _terms(definition) if isinstance(term, Name)}
    for name in sizes:
        if name not in used:
            raise SpecError(f"{source}: bind {name}={sizes[name]}: no definition mentions {name}")
    return tuple(_Definition(definition, sizes).dag() for definition in defs)


def symbols(text: str, source: str = "text") -> tuple[str, ...]:
    """Return the sizes that a text leaves open, in the order of their first use.

    Raises:
        SpecError: `source:line:column: ` and the mistake.
    """
    found: dict[str, None] = {}
    for definition in definitions(text, source):
        ranged = {one.name.name for each in definition.parameters for one in each.ranges}
        dims = (dim for each in definition.parameters for dim in each.dims)
        terms = (term for dim in dims for term in all_terms(dim))
        names = (term.name for term in terms if isinstance(term, Name))
        found |= dict.fromkeys(name for name in names if name not in ranged)
    return tuple(found)


def _check_bind(sizes: Mapping[str, int]) -> None:
    for name, value in sizes.items():
        if not NAME.fullmatch(name) or name in RESERVED:
            raise SpecError(f"bind: {quoted(name)} is not a name for a size")
        if isinstance(value, Dim):
            continue
        if type(value) is not int or not 1 <= value <= LIMITS.extent:
            raise SpecError(f"bind: {name} is {quoted(value)}, not an integer 1 to {LIMITS.extent}")


def _terms(definition: Def) -> Iterator[Term]:
    for parameter in definition.parameters:
        numbers = (number for ranged in parameter.ranges for number in _numbers(ranged))
        for term in (*parameter.dims, *numbers):
            yield from all_terms(term)
    for output in definition.outputs:
        for dim in output.dims:
            yield from all_terms(dim)
    for statement in definition.statements:
        yield from all_terms(statement.value)
        for where in statement.wheres:
            yield from all_terms(where.low)
            yield from all_terms(where.high)
        for hint in statement.hints:
            for arg in hint.args:
                yield from all_terms(arg)


def _numbers(ranged: Ranged) -> Iterator[Term]:
    yield from ranged.numbers
    for sizes in ranged.weights:
        yield from (sizes.low, sizes.high)


def _at(place: At, step: Callable[[], object]) -> None:
    """Run a check; its error names the place."""
    try:
        step()
    except SpecError as error:
        raise place.error(str(error)) from None


def _typed(dtype: str, shape: tuple[int, ...]) -> str:
    return f"{dtype}({', '.join(map(str, shape))})"


@dataclass
class _Definition:
    """Works through one definition, top to bottom."""

    definition: Def
    bind: dict[str, int]  # sizes; ranges in the text add dims
    nodes: list[Node] = field(default_factory=list)
    tensors: dict[str, Source] = field(default_factory=dict)  # by name in the text
    shapes: dict[str, tuple[tuple[int, ...], tuple[str, ...]]] = field(default_factory=dict)
    pairs: dict[str, tuple[str, str]] = field(default_factory=dict)  # argmax: targets by node
    values: dict[str, Name] = field(default_factory=dict)  # target of a statement by node
    declared: dict[str, tuple[str, tuple[int, ...]]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.given, self.bind = frozenset(self.bind), dict(self.bind)

    def dag(self) -> Dag:
        """Return the checked Dag."""
        for parameter in self.definition.parameters:
            self.parameter(parameter)
        for output in self.definition.outputs:
            if output.dtype is not None:
                self.declared[output.name.name] = self.type(output.dtype, output.dims)
        statements = self.definition.statements
        starts = {
            name: at for name, at in start_values(statements).items() if name not in self.tensors
        }
        for place in range(len(statements)):
            if place not in starts.values():
                self.statement(place, starts)
        outputs = self.outputs()
        self.no_value_is_lost(outputs)
        dag = Dag(tuple(self.nodes), outputs, self.definition.name.name)
        _at(self.definition.name.at, lambda: check(dag))
        return dag

    def parameter(self, parameter: Parameter) -> None:
        """Add an input."""
        name = parameter.name
        for ranged in parameter.ranges:
            self.range(ranged)
        dtype, shape = self.type(parameter.dtype, parameter.dims)
        self.fresh(name)
        node = Placeholder(name.name, shape, dtype, parameter.constant)
        self.add(node, name.at)
        self.tensors[name.name] = Source(name.name, shape, node.dtype)

    def range(self, ranged: Ranged) -> None:
        """Make a size that each call decides known; a binding is a value or another range of it."""
        name, at = ranged.name.name, ranged.name.at
        if name in self.bind:
            held = self.bind[name]
            if isinstance(held, Dim) and name not in self.given:
                raise at.error(f"{name!r} has a range already; expected its name alone")
            return
        scope = NameScope({}, self.bind, frozenset(), frozenset())
        low, high, step = map(scope.number, ranged.numbers)
        parts = [(scope.number(w.low), scope.number(w.high), w.weight) for w in ranged.weights]
        _at(at, lambda: self.bind.update({name: Dim(name, low, high, step, parts)}))

    def type(self, dtype: Name, dims: tuple[Term, ...]) -> tuple[str, tuple[int, ...]]:
        """Return the dtype and the shape that `dtype(dims)` says."""
        if dtype.name not in DTYPE_NAMES:
            raise dtype.at.error(
                f"dtype {quoted(dtype.name)} is not supported; there are {', '.join(DTYPE_NAMES)}"
            )
        scope = NameScope({}, self.bind, frozenset(), frozenset())
        return DTYPE_NAMES[dtype.name], tuple(scope.number(dim) for dim in dims)

    def fresh(self, name: Name) -> None:
        """Refuse a tensor name that means something else."""
        if name.name in RESERVED:
            raise name.at.error(f"{name.name!r} is a function or a dtype: choose another name")
        if name.name in self.tensors:
            raise name.at.error(f"{name.name!r} is already a tensor")
        if name.name in self.bind:
            raise name.at.error(f"{name.name!r} is a size: choose another name for the tensor")

    def add(self, node: Node, at: At) -> None:
        """Append a node, checked at once so that the message knows the place."""
        _at(at, lambda: check_node(node, self.shapes))
        self.nodes.append(node)
        self.shapes[node.name] = signature(node)

    def statement(self, place: int, starts: Mapping[str, int]) -> None:
        """Add the node or nodes of a statement.

        Args:
            starts: places of the start values that updates absorb, by name of the tensor.
        """
        statements = self.definition.statements
        statement = statements[place]
        target = statement.targets[0].name
        held = {name.name: self.held(name, statement) for name in statement.targets}
        waiting = frozenset(n.name for later in statements[place:] for n in later.targets)
        scope = NameScope(self.tensors, self.bind, frozenset(), waiting - self.tensors.keys())
        meaning = Meaning(
            statement, scope, self.shapes, self.node_name(place), held[target],
            statements[starts[target]] if target in starts and held[target] is None else None,
            self.declared[target][0] if target in self.declared else None,
        )  # fmt: skip
        for node in meaning.nodes():
            self.add(node, statement.at)
        last = self.nodes[-1]
        assert isinstance(last, Compute)
        for output, name in enumerate(statement.targets):
            source = Source(last.name, last.shape, last.dtypes[output], output)
            self.same_type(name, held[name.name], source)
            self.tensors[name.name] = source
            self.values[last.name] = name

    def held(self, name: Name, statement: Statement) -> Source | None:
        """Return the value of a target before a statement, None if the target is new."""
        source = self.tensors.get(name.name)
        if source is None:
            self.fresh(name)
        elif isinstance(self.node(source), Placeholder) and statement.op not in UPDATES:
            raise name.at.error(f"{name.name!r} is an input: only +=, *=, max=, min= fit")
        return source

    def same_type(self, name: Name, held: Source | None, source: Source) -> None:
        """Refuse a statement that changes the dtype or the shape of a tensor."""
        if held is not None and (held.shape, held.dtype) != (source.shape, source.dtype):
            raise name.at.error(
                f"cannot assign {_typed(source.dtype, source.shape)} to {name.name!r} again "
                f"because a tensor keeps its type; expected {_typed(held.dtype, held.shape)}"
            )

    def node_name(self, place: int) -> str:
        """Return the name of the node: the target's name unless another node needs it."""
        statement = self.definition.statements[place]
        again = {name.name for later in self.definition.statements[place + 1 :]
                 for name in later.targets}  # fmt: skip
        target = statement.targets[0].name
        if len(statement.targets) > 1:
            return self.pair_name(statement, again)
        if target in again:
            return self.free(f"{target}_{place + 1}")
        held = self.tensors.get(target)
        return target if held is None or target not in self.shapes else self.free(f"{target}_out")

    def pair_name(self, statement: Statement, again: set[str]) -> str:
        """Return the name of the node of an argmax, and remember its targets."""
        wanted = [output.name.name for output in self.definition.outputs]
        first, second = (name.name for name in statement.targets)
        pair = (first, second)
        alone = pair in pairwise(wanted) or not set(pair) & set(wanted)
        free = not set(pair) & again and first not in self.shapes
        node = first if alone and free else self.free(f"{first}_{second}")
        self.pairs[node] = pair
        return node

    def free(self, wish: str) -> str:
        """Return a node name that nothing in the text uses."""
        taken = {name.name for s in self.definition.statements for name in s.targets}
        taken |= {parameter.name.name for parameter in self.definition.parameters}
        while wish in taken or wish in self.shapes:
            wish += "_"
        return wish

    def outputs(self) -> tuple[str, ...]:
        """Return the output nodes; an argmax of which one part is wanted is copied out."""
        names: list[str] = []
        skip = False
        wanted = [output.name for output in self.definition.outputs]
        for output in self.definition.outputs:
            self.is_as_declared(output)
        for position, name in enumerate(wanted):
            if skip:
                skip = False
                continue
            source = self.tensors[name.name]
            following = wanted[position + 1].name if position + 1 < len(wanted) else ""
            pair = self.pairs.get(source.node)
            whole = pair == (name.name, following) and self.tensors[following].node == source.node
            if pair is not None and not whole:
                names.append(self.copied(name, source))
            else:
                skip = whole
                names.append(source.node)
        return tuple(names)

    def is_as_declared(self, output: Declared) -> None:
        """Refuse an output that is never computed, or of another type than the text declares."""
        name = output.name
        source = self.tensors.get(name.name)
        if source is None or isinstance(self.node(source), Placeholder):
            raise name.at.error(f"output {name.name!r} is never computed")
        declared = self.declared.get(name.name)
        if declared is not None and (source.dtype, source.shape) != declared:
            raise name.at.error(
                f"cannot declare {name.name!r} as {_typed(*declared)} because the statements give "
                f"{_typed(source.dtype, source.shape)}; expected this type, or a cast"
            )

    def no_value_is_lost(self, outputs: tuple[str, ...]) -> None:
        """Refuse a tensor that is assigned again before any statement reads its value."""
        computes = [node for node in self.nodes if isinstance(node, Compute)]
        used = {read.tensor for node in computes for read in node.reads} | set(outputs)
        for node, name in self.values.items():
            if node not in used and self.tensors[name.name].node != node:
                raise name.at.error(
                    f"cannot assign {name.name!r} again below because nothing reads this value; "
                    "expected a statement that reads it, or no statement here"
                )

    def node(self, source: Source) -> Node:
        """Return the node behind a tensor name."""
        return next(node for node in self.nodes if node.name == source.node)

    def copied(self, name: Name, source: Source) -> str:
        """Add a node that is one output of an argmax."""
        axes = tuple(Axis(f"i{n}", extent) for n, extent in enumerate(source.shape))
        indices = tuple(Var(axis.name) for axis in axes)
        body = Read(source.node, indices, source.dtype, source.output)
        node = Compute(self.free_output(name.name), axes, (body,), (source.dtype,))
        self.add(node, name.at)
        return node.name

    def free_output(self, name: str) -> str:
        """Return the name itself unless a node has it."""
        return name if name not in self.shapes else self.free(f"{name}_out")
