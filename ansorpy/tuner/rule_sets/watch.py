"""Observation of a derivation rule: its contract at every call, and the time of a call."""

import signal
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import islice
from typing import Any

from ansorpy.errors import AnsorError, shown
from ansorpy.sketch import SUCCESSORS
from ansorpy.state.rule import Cursor, Rule, name_of
from ansorpy.state.state import State
from ansorpy.state.text import replay, steps_to_json
from ansorpy.te.analysis import Answer


class Violation(Exception):  # noqa: N818 - a finding, not an error of ours
    """A rule broke its contract; `state` is the state that it made, if it made one."""

    def __init__(self, why: str, state: State | None = None) -> None:
        super().__init__(why)
        self.state = state


class Endless(BaseException):
    """A call of a rule takes too long; no `except Exception` of the rule may catch it."""

    def __init__(self, rule: str, at: Cursor, why: str) -> None:
        super().__init__(why)
        self.rule, self.at = rule, at


def watched(rule: Rule, limit_s: float, successors: Counter[str]) -> Rule:
    """Return a rule under observation, which has the name of the rule.

    Args:
        limit_s: seconds that one call of the rule may take.
        successors: the numbers of successors by rule; this rule's are added.
    """
    kind: Any = type(name_of(rule), (_Watched,), {"__slots__": ()})
    observer: Rule = kind(rule, limit_s, successors)
    return observer


class _Watched(Rule):
    """A rule under observation: of a class with the same name, one per rule."""

    __slots__ = ("_limit_s", "_rule", "_successors")

    def __init__(self, rule: Rule, limit_s: float, successors: Counter[str]) -> None:
        self._rule, self._limit_s, self._successors = rule, limit_s, successors

    def explain(self, at: Cursor) -> Answer:
        with self._observed(at, "explain"):
            first, second = self._rule.explain(at), self._rule.explain(at)
        if first != second:
            raise Violation(f"explain gives two answers for one state: {first}, {second}")
        return first

    def excludes_later(self, at: Cursor) -> bool:
        with self._observed(at, "excludes_later"):
            return self._rule.excludes_later(at)

    def rewrite(self, at: Cursor) -> Iterator[Cursor]:
        with self._observed(at, "rewrite"):
            successors = list(islice(self._rule.rewrite(at), SUCCESSORS + 1))
        with self._observed(at, "rewrite"):
            again = list(islice(self._rule.rewrite(at), SUCCESSORS + 1))
        if successors != again:
            raise Violation("rewrite yields other successors when it is asked again")
        if not successors:
            raise Violation("explain holds, but rewrite yields no successor")
        if len(successors) <= SUCCESSORS:
            for successor in successors:
                if isinstance(successor, Cursor):
                    _check_successor(at, successor)
        self._successors[name_of(self._rule)] += len(successors)
        return iter(successors)

    @contextmanager
    def _observed(self, at: Cursor, part: str) -> Iterator[None]:
        """Bound the time of a call, and refuse a changed state afterwards."""
        before = _printed(at.state)
        with _limited(self._limit_s, name_of(self._rule), at, part):
            yield
        if _printed(at.state) != before:
            raise Violation(f"{part} changes the state that it is given", at.state)


def _printed(state: State) -> str:
    return repr(state)


def _check_successor(at: Cursor, successor: Cursor) -> None:
    """Refuse a state that is not the result of recorded steps on the given one."""
    state, old = successor.state, at.state
    if successor.target != at.target:
        raise Violation("a successor has another target", state)
    if state.dag != old.dag:
        raise Violation("a successor computes another Dag", state)
    if state.steps[: len(old.steps)] != old.steps:
        raise Violation("a successor lacks steps of the state that the rule was given", state)
    try:
        again = replay(state.dag, steps_to_json(state))
    except AnsorError as error:
        raise Violation(f"the steps of a successor cannot be replayed: {error}", state) from error
    if again.stages != state.stages:
        raise Violation(f"the steps of a successor give another state: {_apart(again, state)}",
                         state)  # fmt: skip


def _apart(again: State, state: State) -> str:
    """Return the first stage in which two states differ."""
    for one, other in zip(again.stages, state.stages, strict=False):
        if one != other:
            one_text, other_text = (str(State(state.dag, (stage,))) for stage in (one, other))
            if one_text == other_text:
                return f"stage {other.name} has another body"
            return f"{shown(one_text, 200)}, not {shown(other_text, 200)}"
    return f"{len(again.stages)} stages, not {len(state.stages)}"


@contextmanager
def _limited(seconds: float, rule: str, at: Cursor, part: str) -> Iterator[None]:
    """Raise Endless in the block after some seconds; without effect outside the main thread."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def late(*_: object) -> None:
        raise Endless(rule, at, f"{part} does not return within {seconds:g} s")

    before = signal.signal(signal.SIGALRM, late)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
