"""Read tensor expressions in the notation of Tensor Comprehensions; see docs/text.md.

def matmul(float(M, K) A, float(K, N) B) -> (C) {
    C(i, j) +=! A(i, k) * B(k, j)
}
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Final

from ansorpy.errors import SpecError, quoted
from ansorpy.expr.expr import Read, Var
from ansorpy.frontends.tc.ast import Def, Name, Parameter, Statement, Term, all_terms
from ansorpy.frontends.tc.lexer import At
from ansorpy.frontends.tc.lower import Meaning
from ansorpy.frontends.tc.parser import definitions
from ansorpy.frontends.tc.terms import DTYPE_NAMES, RESERVED, NameScope, Source
from ansorpy.te.check import check, check_node, signature
from ansorpy.te.dag import Axis, Compute, Dag, Node, Placeholder
from ansorpy.te.limits import LIMITS, NAME

UPDATES: Final = ("+=", "*=", "max=", "min=")


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
    sizes = dict(bind or {})
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


def _check_bind(sizes: Mapping[str, int]) -> None:
    for name, value in sizes.items():
        if not NAME.fullmatch(name) or name in RESERVED:
            raise SpecError(f"bind: {quoted(name)} is not a name for a size")
        if type(value) is not int or not 1 <= value <= LIMITS.extent:
            raise SpecError(f"bind: {name} is {quoted(value)}, not an integer 1 to {LIMITS.extent}")


def _terms(definition: Def) -> Iterator[Term]:
    for parameter in definition.parameters:
        for dim in parameter.dims:
            yield from all_terms(dim)
    for statement in definition.statements:
        yield from all_terms(statement.value)
        for where in statement.wheres:
            yield from all_terms(where.low)
            yield from all_terms(where.high)
        for hint in statement.hints:
            for arg in hint.args:
                yield from all_terms(arg)


def _at(place: At, step: Callable[[], object]) -> None:
    """Run a check; its error names the place."""
    try:
        step()
    except SpecError as error:
        raise place.error(str(error)) from None


@dataclass
class _Definition:
    """Works through one definition, top to bottom."""

    definition: Def
    bind: Mapping[str, int]
    nodes: list[Node] = field(default_factory=list)
    tensors: dict[str, Source] = field(default_factory=dict)  # by name in the text
    shapes: dict[str, tuple[tuple[int, ...], tuple[str, ...]]] = field(default_factory=dict)
    pairs: dict[str, tuple[str, str]] = field(default_factory=dict)  # argmax: targets by node

    def dag(self) -> Dag:
        """Return the checked Dag."""
        for parameter in self.definition.parameters:
            self.parameter(parameter)
        inits = self.initialisations()
        waiting = [name.name for s in self.definition.statements for name in s.targets]
        for statement in self.definition.statements:
            if statement not in inits.values():
                self.statement(statement, inits, frozenset(waiting))
            for name in statement.targets:
                waiting.remove(name.name)
        outputs = self.outputs()
        dag = Dag(tuple(self.nodes), outputs, self.definition.name.name)
        _at(self.definition.name.at, lambda: check(dag))
        return dag

    def parameter(self, parameter: Parameter) -> None:
        """Add an input."""
        name, dtype = parameter.name, parameter.dtype
        if dtype.name not in DTYPE_NAMES:
            raise dtype.at.error(
                f"dtype {quoted(dtype.name)} is not supported; there are {', '.join(DTYPE_NAMES)}"
            )
        self.fresh(name)
        scope = NameScope({}, self.bind, frozenset(), frozenset())
        shape = tuple(scope.number(dim) for dim in parameter.dims)
        node = Placeholder(name.name, shape, DTYPE_NAMES[dtype.name], parameter.constant)
        self.add(node, name.at)
        self.tensors[name.name] = Source(name.name, shape, node.dtype)

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

    def initialisations(self) -> Mapping[str, Statement]:
        """Return the first statement of each tensor that has two, an init and an update."""
        seen: dict[str, list[Statement]] = {}
        for statement in self.definition.statements:
            for name in statement.targets:
                seen.setdefault(name.name, []).append(statement)
        for twice, statements in seen.items():
            ops = [statement.op for statement in statements]
            update = len(ops) == 2 and ops[0] == "=" and ops[1] in UPDATES
            if len(ops) > 1 and not update:
                raise statements[1].at.error(
                    f"{twice!r} is already computed at line {statements[0].at.line}: only "
                    "'C(i) = start' then 'C(i) += ...' may name a tensor twice"
                )
        return {name: statements[0] for name, statements in seen.items() if len(statements) == 2}

    def statement(
        self, statement: Statement, inits: Mapping[str, Statement], waiting: frozenset[str]
    ) -> None:
        """Add the node or nodes of a statement."""
        target = statement.targets[0]
        given = self.given(statement, inits)
        if given is None:
            for name in statement.targets:
                self.fresh(name)
        later = waiting - self.tensors.keys()
        scope = NameScope(self.tensors, self.bind, frozenset(), later)
        node_name = self.node_name(statement, given)
        init = inits.get(target.name)
        meaning = Meaning(statement, scope, self.shapes, node_name, given, init)
        for node in meaning.nodes():
            self.add(node, statement.at)
        made = self.nodes[-1]
        assert isinstance(made, Compute)
        for output, name in enumerate(statement.targets):
            self.tensors[name.name] = Source(made.name, made.shape, made.dtypes[output], output)

    def given(self, statement: Statement, inits: Mapping[str, Statement]) -> Read | None:
        """Return a read of the input that a statement accumulates into, None if it does not."""
        target = statement.targets[0]
        update = statement.op in UPDATES
        if target.name in self.tensors:
            if not update:
                raise target.at.error(f"{target.name!r} is an input: only +=, *=, max=, min= fit")
            source = self.tensors[target.name]
            return Read(source.node, (), source.dtype)
        if update and target.name not in inits:
            raise target.at.error(
                f"{target.name!r} has no value yet: write {statement.op}! to start afresh, or "
                "give it as an input"
            )
        return None

    def node_name(self, statement: Statement, given: Read | None) -> str:
        """Return the name of the node; that of the target, where it can be."""
        target = statement.targets[0].name
        if given is not None:
            return self.free(f"{target}_out")
        if len(statement.targets) == 1:
            return target
        wanted = [name.name for name in self.definition.outputs]
        first, second = (name.name for name in statement.targets)
        pair = (first, second)
        joined = pair in pairwise(wanted)
        node = target if joined or not {first, second} & set(wanted) else f"{target}_{second}"
        node = node if node == target else self.free(node)
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
        wanted = self.definition.outputs
        for position, name in enumerate(wanted):
            if skip:
                skip = False
                continue
            source = self.tensors.get(name.name)
            if source is None or isinstance(self.node(source), Placeholder):
                raise name.at.error(f"output {name.name!r} is never computed")
            following = wanted[position + 1].name if position + 1 < len(wanted) else ""
            if source.node in self.pairs and self.pairs[source.node] != (name.name, following):
                names.append(self.copied(name, source))
            else:
                skip = source.node in self.pairs
                names.append(source.node)
        return tuple(names)

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
