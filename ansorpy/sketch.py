"""Sketch derivation: all states that the rules derive, with the verdicts and their reasons."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from typing import Final, Protocol

from ansorpy.errors import RuleError, SpecError, shown
from ansorpy.expr.bounds import bounds
from ansorpy.expr.gathers import data_parts
from ansorpy.state.rule import Cursor, Rule, Verdict, name_of
from ansorpy.state.state import State, Step
from ansorpy.target import Target
from ansorpy.te.analysis import Answer
from ansorpy.te.dag import Dag

SKETCH_LIMIT: Final = 2048  # 3 per tiled reduction: seven of them in one Dag
DEPTH_PER_STAGE: Final = 8  # visits per stage on one path; more mean that a rule does not advance
STAGES_PER_NODE: Final = 16  # stages of a state per node of its Dag; our rules make at most 4
SUCCESSORS: Final = SKETCH_LIMIT  # largest count for one rule at one stage


@dataclass(frozen=True, slots=True)
class RuleTrial:
    """The verdict of one rule at one visit; `successors` are numbers of visits or sketches."""

    rule: str
    verdict: Verdict
    answer: Answer
    successors: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Visit:
    """One step of the derivation: a stage and its rules; past the last stage, a sketch."""

    stage: str  # "" past the last stage
    trials: tuple[RuleTrial, ...] = ()
    sketch: int | None = None

    @property
    def undecided(self) -> bool:
        """True if only the last rule applied, with one successor: the visit decides nothing."""
        if not self.trials:
            return False
        *others, last = self.trials
        skipped = all(trial.verdict is Verdict.SKIP for trial in others)
        return skipped and last.verdict is Verdict.APPLY and len(last.successors) == 1


@dataclass(frozen=True)
class Derivation:
    """The sketches of a Dag in derivation order, and the tree of their derivation."""

    dag: Dag
    sketches: tuple[State, ...]
    visits: tuple[Visit, ...]  # number 0 is the root

    @property
    def root(self) -> Visit:
        """The first visit: the last stage of the Dag."""
        return self.visits[0]

    @cached_property
    def applied(self) -> Mapping[tuple[Step, ...], tuple[str, ...]]:
        """The rules that made each sketch, with their stages, by the steps of the sketch."""
        paths: dict[tuple[Step, ...], tuple[str, ...]] = {}
        work: list[tuple[int, tuple[str, ...]]] = [(0, ())]
        while work:
            number, path = work.pop()
            visit = self.visits[number]
            if visit.sketch is not None:
                paths.setdefault(self.sketches[visit.sketch].steps, path)
            for trial in visit.trials:
                rules = (*path, f"{trial.rule} at {visit.stage}")
                work += [(successor, rules) for successor in trial.successors]
        return paths

    def explain(self, full: bool = False) -> str:
        """Return the tree as text: every rule asked, with its verdict and reason.

        A visit where nothing but the last rule applied takes one line, unless `full`. Indices that
        are data come first, with the range that they are clamped to.
        """
        count = len(self.sketches)
        head = f"{self.dag.name}: {count} sketch{'' if count == 1 else 'es'}"
        return "\n".join((head, *self._clamps(), *self._lines(full)))

    def _clamps(self) -> Iterator[str]:
        for node in self.dag.computes:
            for read in dict.fromkeys(node.reads):
                for position, index in enumerate(read.indices):
                    for part in data_parts(index):
                        low, high = bounds(part, {})
                        yield (
                            f"{node.name}: index {position} of {read.tensor!r} is data, "
                            f"clamped to {low} to {high}: {shown(part)}"
                        )

    def _lines(self, full: bool) -> Iterator[str]:
        stack: list[tuple[int, int | str]] = [(0, 0)]
        while stack:
            depth, item = stack.pop()
            pad = "  " * depth
            if isinstance(item, str):
                yield pad + item
                continue
            visit = self.visits[item]
            if visit.sketch is not None:
                yield f"{pad}=> sketch {visit.sketch}"
            elif not full and visit.undecided:
                yield f"{pad}{visit.stage}: no rule but {visit.trials[-1].rule}"
                stack.append((depth, visit.trials[-1].successors[0]))
            else:
                stack += reversed(list(_rows(visit, depth)))


class SpaceGenerator(Protocol):
    """A maker of the sketches of a Dag, of which plans and rows are opened as ever.

    One object serves one task.
    """

    def sketches(
        self, dag: Dag, target: Target, rules: tuple[Rule, ...]
    ) -> Derivation | Sequence[State]:
        """Return the search space: 1 to SKETCH_LIMIT states in which sizes are open.

        Args:
            rules: the rule set of the request, for generators that call `derive`.

        Returns:
            States that `State.do` made of `State.naive(dag)` by steps of `ansorpy.state.steps`, or
            the result of `derive`, which also has reasons. Any exception ends the tuning.
        """
        ...


def derive(
    dag: Dag,
    target: Target,
    rules: tuple[Rule, ...],
    limit: int = SKETCH_LIMIT,
    check: Callable[[], object] | None = None,
) -> Derivation:
    """Return every sketch that `rules` derive from the naive state of `dag`.

    From the last stage to the first, the rules are tried in order; each successor of each rule
    that applies is a branch, which ends once its index is below 0.

    Args:
        rules: the rules in the order in which they are tried; a user's own come first.
        limit: sketches; beyond it the Dag is refused.
        check: called before each visit; an error that it raises ends the derivation.

    Raises:
        SpecError: more than `limit` sketches, or no sketch.
        RuleError: a rule raised, does not advance, or inserts stages without end.
    """
    start = State.naive(dag)
    visits: list[Visit | None] = [None]
    sketches: list[State] = []
    work = [(0, 0, Cursor(start, len(start.stages) - 1, target), "")]
    while work:
        if check is not None:
            check()
        number, depth, at, by = work.pop()
        if at.index < 0:
            visits[number] = Visit("", sketch=len(sketches))
            sketches.append(at.state)
            if len(sketches) > limit:
                raise SpecError(
                    f"{dag.name!r} has more than {limit} sketches; split it into several tasks"
                )
            continue
        _check_progress(dag, at, depth, by)
        first = len(visits)
        visit, successors = _visit(at, rules, first)
        visits[number] = visit
        visits += [None] * len(successors)
        # Pushed in reverse on a stack, so that the tree is walked in the order of the rules.
        numbered = enumerate(successors, start=first)
        work += reversed([(n, depth + 1, successor, name) for n, (successor, name) in numbered])
    if not sketches:
        raise SpecError(f"{dag.name!r}: no rule of {', '.join(map(name_of, rules))} ends it")
    done = tuple(visit for visit in visits if visit is not None)
    return Derivation(dag, tuple(sketches), done)


def _check_progress(dag: Dag, at: Cursor, depth: int, by: str) -> None:
    """Raise RuleError if the path to a cursor, whose last rule is `by`, seems to be endless."""
    name = shown(at.name)
    if depth > (most := DEPTH_PER_STAGE * len(at.state.stages)):
        why = f"does not move on from stage {name!r}; expected at most {most} visits of a path"
    elif len(at.state.stages) > (most := STAGES_PER_NODE * len(dag.nodes)):
        why = f"inserts stages without end, the last at {name!r}; expected at most {most}"
    else:
        return
    raise RuleError(
        f"cannot derive {dag.name!r} because rule {by} {why}", by, at.name, str(at.state)
    )


def _visit(
    at: Cursor, rules: tuple[Rule, ...], first: int
) -> tuple[Visit, list[tuple[Cursor, str]]]:
    """Ask the rules in order; number the successors from `first` on, each with its rule."""
    trials: list[RuleTrial] = []
    successors: list[tuple[Cursor, str]] = []
    for rule in rules:
        verdict, answer, made = _ask(rule, at)
        start = first + len(successors)
        numbers = tuple(range(start, start + len(made)))
        trials.append(RuleTrial(name_of(rule), verdict, answer, numbers))
        successors += [(cursor, name_of(rule)) for cursor in made]
        if verdict is Verdict.APPLY_ALONE:
            break
    return Visit(at.name, tuple(trials)), successors


def _ask(rule: Rule, at: Cursor) -> tuple[Verdict, Answer, list[Cursor]]:
    """Return the verdict, the reason and the successors of a rule.

    Raises:
        RuleError: the rule raised, or returned something else.
    """
    where = "explain"
    try:
        verdict = rule.condition(at)
        successors: list[Cursor] = []
        if verdict is not Verdict.SKIP:
            where = "rewrite"
            successors = list(islice(rule.rewrite(at), SUCCESSORS + 1))
            _check_successors(at, successors)
        where = "explain"
        answer = rule.explain(at)
        _check_answer(answer)
    except Exception as error:  # boundary of the code of a user: any exception is the rule's
        raise RuleError(
            f"cannot derive {at.state.dag.name!r} because rule {name_of(rule)} raised"
            f" {type(error).__name__} in {where} at stage {at.name!r}: {shown(error, 300)};"
            " expected a rule without errors, or a request without the rule",
            name_of(rule), at.name, str(at.state),
        ) from error  # fmt: skip
    return verdict, answer, successors


def _check_answer(answer: object) -> None:
    if not isinstance(answer, Answer):
        raise TypeError(f"it returned {shown(repr(answer))}, not an Answer")


def _check_successors(at: Cursor, successors: list[Cursor]) -> None:
    if len(successors) > SUCCESSORS:
        raise ValueError(f"it yielded more than {SUCCESSORS} successors")
    for successor in successors:
        if not isinstance(successor, Cursor):
            raise TypeError(f"it yielded {shown(repr(successor))}, not a Cursor")
        if successor.index >= len(successor.state.stages):
            raise IndexError(
                f"it moved to stage {successor.index} of {len(successor.state.stages)}"
            )


def _rows(visit: Visit, depth: int) -> Iterator[tuple[int, int | str]]:
    yield depth, f"{visit.stage}:"
    for trial in visit.trials:
        yield depth + 1, f"{trial.rule}: {trial.verdict.value}; {trial.answer.why}"
        for successor in trial.successors:
            yield depth + 2, successor
