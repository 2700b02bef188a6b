"""One statement to compute nodes: its axes, their extents, its body, its start value."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Final

from ansorpy.errors import SpecError
from ansorpy.expr.expr import Binary, Const, Expr, Read, Var, substitute, variables, walk
from ansorpy.frontends.tc.ast import Apply, Hint, Name, Statement, Term, Where, written
from ansorpy.frontends.tc.range_inference import infer_extents
from ansorpy.frontends.tc.terms import ARGS, RESERVED, NameScope, Source
from ansorpy.frontends.tc.updates import UPDATES
from ansorpy.te.check_basics import Tensors
from ansorpy.te.dag import Attrs, Axis, Compute
from ansorpy.te.dims import Dim

COMBINERS: Final[Mapping[str, str]] = {"+": "sum", "*": "prod", "max": "max", "min": "min"}
COMBINE: Final[Mapping[str, str]] = {"sum": "add", "prod": "mul", "max": "max", "min": "min"}
AXIS_HINTS: Final = ("unroll", "no_split_inner", "const_axes")


@dataclass(frozen=True)
class Meaning:
    """The meaning of a statement among the definitions before it.

    `held` is the value of the target before the statement, whose shape it keeps and which `+=`
    accumulates into; `init` is the statement that gives the start value, or None. `declared` is the
    dtype of a typed output.
    """

    statement: Statement
    scope: NameScope
    shapes: Tensors
    name: str
    held: Source | None = None
    init: Statement | None = None
    declared: str | None = None

    def nodes(self) -> tuple[Compute, ...]:
        """Return the node of the statement, after the node of its start value if it needs one.

        Raises:
            SpecError: names the place and the expected form.
        """
        statement = self.statement
        self._names()
        start = self._start()
        if isinstance(statement.value, Apply) and statement.value.name in ARGS:
            return (self._arg(statement.value),)
        if len(statement.targets) > 1:
            raise statement.at.error("two targets are for (V, I)(i) = argmax(k, A(i, k))")
        want = None
        if self._scope.is_weak(statement.value):
            want = self._dtype()
        body = self._scope.typed(statement.value, want)
        if self.init is not None:
            start = self._init(self.init, body.dtype)
        if start is not None and start.dtype != body.dtype:
            raise statement.at.error(
                f"{self.name!r} starts as {start.dtype}, but {body.dtype} is combined "
                "into it: write a cast"
            )
        return self._combined(body, start)

    @property
    def _scope(self) -> NameScope:
        local = {name.name for name in self.statement.indices}
        local |= {where.name.name for where in self.statement.wheres}
        return replace(self.scope, indices=frozenset(local))

    @property
    def _axes(self) -> tuple[str, ...]:
        return tuple(name.name for name in self.statement.indices)

    def _names(self) -> None:
        for names in (
            self.statement.indices,
            tuple(where.name for where in self.statement.wheres),
        ):
            seen: set[str] = set()
            for name in names:
                if name.name in seen:
                    raise name.at.error(f"index {name.name!r} is there twice")
                seen.add(name.name)
                if name.name in self.scope.tensors or name.name in RESERVED:
                    raise name.at.error(f"{name.name!r} is taken: choose another index name")
                if name.name in self.scope.sizes:
                    raise name.at.error(f"{name.name!r} is a size: choose another index name")

    def _dtype(self) -> str:
        """Return the dtype of the target if the value has literals and sizes only."""
        if self.held is not None:
            return self.held.dtype
        if self.init is not None and not self.scope.is_weak(self.init.value):
            return self._init(self.init, "").dtype
        return self.declared or "float32"

    def _start(self) -> Expr | None:
        if self.held is None:
            return None
        rank = len(self.held.shape)
        if rank != len(self._axes):
            raise self.statement.at.error(
                f"{self.statement.targets[0].name!r} has rank {rank}, but {len(self._axes)} indices"
            )
        if self.statement.op not in UPDATES:
            return None
        return Read(self.held.node, tuple(map(Var, self._axes)), self.held.dtype, self.held.output)

    def _init(self, init: Statement, dtype: str) -> Expr:
        if len(init.indices) != len(self._axes):
            raise self.statement.at.error(
                f"{self.name!r} has {len(init.indices)} indices at line {init.at.line}, "
                f"here {len(self._axes)}"
            )
        local = {name.name: Var(axis) for name, axis in zip(init.indices, self._axes, strict=True)}
        scope = replace(self.scope, indices=frozenset(local))
        expr = scope.typed(init.value, dtype if scope.is_weak(init.value) else None)
        for name in sorted(variables(expr) - local.keys()):
            raise init.at.error(_reduced(name))
        return substitute(expr, local)

    def _combined(self, body: Expr, start: Expr | None) -> tuple[Compute, ...]:
        op = self.statement.op
        reduced = tuple(
            dict.fromkeys(
                part.name
                for part in walk(body)
                if isinstance(part, Var) and part.name not in self._axes
            )
        )
        if op == "=" and reduced:
            raise self.statement.at.error(_reduced(reduced[0]))
        extents = self._extents(reduced, (body,) if start is None else (body, start))
        combiner = COMBINERS[op.removesuffix("!").removesuffix("=")] if op != "=" else None
        if combiner is not None and not reduced:
            if start is not None:
                body = Binary(COMBINE[combiner], start, body)
            combiner = start = None
        node = self._node((body,), reduced, extents, combiner)
        if start is None or isinstance(start, Const | Read):
            return (replace(node, start=start),)
        first = Compute(f"{self.name}_init", node.axes, (start,), node.dtypes)
        read = Read(first.name, tuple(map(Var, self._axes)), node.dtype)
        return (first, replace(node, start=read))

    def _arg(self, value: Apply) -> Compute:
        statement = self.statement
        usage = f"(V, I)(i) = {value.name}(k, A(i, k))"
        if len(statement.targets) != 2 or statement.op != "=":
            raise statement.at.error(f"{value.name} gives a value and an index: {usage}")
        if len(value.args) < 2:
            raise value.at.error(f"{value.name} takes the axes, then the value: {usage}")
        *axes, term = value.args
        reduced = tuple(self._arg_axis(axis, usage) for axis in axes)
        scope = replace(self._scope, indices=self._scope.indices | set(reduced))
        body = scope.typed(term)
        for name in sorted(variables(body) - {*reduced, *self._axes}):
            raise value.at.error(f"{name!r} is neither on the left nor an axis of {value.name}")
        extents = self._extents(reduced, (body,))
        index: Expr = Var(reduced[0])
        for name in reduced[1:]:
            inner = extents[name]
            if isinstance(inner, Dim):
                raise value.at.error(
                    f"cannot number the elements along {name!r} because its extent is {inner!r};"
                    f" expected it as the first axis of {value.name}"
                )
            index = Binary("add", Binary("mul", index, Const(extents[name])), Var(name))
        return self._node((body, index), reduced, extents, value.name)

    def _arg_axis(self, axis: Term, usage: str) -> str:
        if not isinstance(axis, Name) or axis.name in self._axes:
            raise axis.at.error(f"{written(axis)} is not an index to reduce over: {usage}")
        if axis.name in self.scope.sizes or axis.name in self.scope.tensors:
            raise axis.at.error(f"{axis.name!r} is taken: choose another index name")
        return axis.name

    def _extents(self, reduced: tuple[str, ...], exprs: tuple[Expr, ...]) -> Mapping[str, int]:
        names = (*self._axes, *reduced)
        known = self._wheres(names)
        if self.held is not None:
            for name, extent in zip(self._axes, self.held.shape, strict=True):
                if known.setdefault(name, extent) != extent:
                    raise self.statement.at.error(
                        f"cannot give {name!r} the range 0:{known[name]} because "
                        f"{self.statement.targets[0].name!r} keeps its shape; expected 0:{extent}"
                    )
        try:
            extents = infer_extents(exprs, known, self.shapes)
        except SpecError as error:
            raise self.statement.at.error(str(error)) from None
        for name in names:
            if name not in extents:
                raise self.statement.at.error(
                    f"the range of {name!r} does not follow from what is read: "
                    f"add 'where {name} in 0:N'"
                )
        return extents

    def _wheres(self, names: tuple[str, ...]) -> dict[str, int]:
        known = {w.name.name: self._extent(w) for w in self.statement.wheres}
        for where in self.statement.wheres:
            if where.name.name not in names:
                raise where.name.at.error(f"index {where.name.name!r} is not used")
        if self.init is not None:
            places = {name.name: i for i, name in enumerate(self.init.indices)}
            for where in self.init.wheres:
                if where.name.name not in places:
                    raise where.name.at.error(f"index {where.name.name!r} is not used")
                known[self._axes[places[where.name.name]]] = self._extent(where)
        return known

    def _extent(self, where: Where) -> int:
        low, high = self.scope.number(where.low), self.scope.number(where.high)
        if low != 0 or high < 1:
            raise where.name.at.error(
                f"range {low}:{high} of {where.name.name!r}: ranges start at 0 and are not empty"
            )
        return high

    def _node(
        self,
        body: tuple[Expr, ...],
        reduced: tuple[str, ...],
        extents: Mapping[str, int],
        combiner: str | None,
    ) -> Compute:
        return Compute(
            self.name,
            tuple(Axis(name, extents[name]) for name in self._axes),
            body,
            tuple(one.dtype for one in body),
            tuple(Axis(name, extents[name]) for name in reduced),
            combiner,
            attrs=self._attrs(),
        )

    def _attrs(self) -> Attrs:
        attrs = Attrs()
        for hint in self.statement.hints:
            names = tuple(self._hint_name(arg, hint) for arg in hint.args if hint.kind != "flop")
            if hint.kind in AXIS_HINTS:
                attrs = replace(attrs, **{hint.kind: names})  # type: ignore[arg-type]
            elif hint.kind == "layout_free":
                attrs = replace(attrs, layout_free=tuple(map(self._tensor(hint), names)))
            elif hint.kind == "flop" and len(hint.args) == 1:
                attrs = replace(attrs, flop=self.scope.number(hint.args[0]))
            else:
                raise hint.at.error(
                    f"hint {hint.kind!r}: there are {', '.join(AXIS_HINTS)}, layout_free(A, ...) "
                    "and flop(N)"
                )
        return attrs

    def _hint_name(self, arg: Term, hint: Hint) -> str:
        if not isinstance(arg, Name):
            raise hint.at.error(f"{hint.kind} takes names, not {written(arg)}")
        return arg.name

    def _tensor(self, hint: Hint) -> Callable[[str], str]:
        def node(name: str) -> str:
            if name not in self.scope.tensors:
                raise hint.at.error(f"layout_free names {name!r}, which is not a tensor")
            return self.scope.tensors[name].node

        return node


def _reduced(name: str) -> str:
    return (
        f"{name!r} is on the right only: to reduce over it write +=!, *=!, max=! or min=!; "
        "to keep it, add it on the left"
    )
