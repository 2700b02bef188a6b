"""The child process that checks rules, and its parent.

The code of a rule file runs in the child only, which may hang or die at any point; the parent reads
lines of JSON. The child has the rights of its user: it is no sandbox.
"""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from threading import Event, Thread
from typing import Any, Final, TextIO

from ansorpy.errors import AnsorError, SpecError
from ansorpy.frontends.tc.text import parse
from ansorpy.loopir.nodes import Program
from ansorpy.measure.local import LocalBackEnd, LocalPool
from ansorpy.measure.other_work import process_s
from ansorpy.measure.outcome import Failed
from ansorpy.measure.timing.settings import MeasureSettings
from ansorpy.parent import end_with_parent
from ansorpy.state.rule import Rule, name_of
from ansorpy.target import CpuTarget, Target
from ansorpy.te.dag import Dag
from ansorpy.tuner.options.targets import named_target
from ansorpy.tuner.rule_sets.check import (
    CheckedOperator,
    CheckOperator,
    Counterexample,
    RuleWork,
    Verify,
    check_operator,
    operators,
    shape_of,
    sketch_counts,
)
from ansorpy.tuner.rule_sets.files import check_names, load_rules
from ansorpy.tuner.rule_sets.sets import find_rules, registered

Counts = tuple[int, int | None]  # sketches at a small and at a large shape

SILENCE_S: Final = 300.0  # processor time of one operator at most; ours take a tenth of it
PATIENCE: Final = 10  # times SILENCE_S until a child that sleeps, or has no processor, is ended
LOOK_S: Final = 0.5  # between two looks at the child's processor time
GPU: Final = "cuda:sm_90"  # a preset: rules for a GPU are interpreted, and none has to be present


@dataclass(frozen=True, slots=True)
class RuleRequest:
    """The rules to check, and the operators to check them on.

    Args:
        source: path of a rule file, or the name of a registered rule set.
        operators: names of operators of `rule_check`; () for all of them.
        target: a name; "" is the kind of a registered set, this machine for a file.
        text: definitions in the text notation, whose Dags are checked as well; "" for none.
        compiled: also run the programs as machine code; on a CPU only.
        golden: of a whole set, the numbers of sketches that it must have on `COUNTED_ON`: at the
            small and at the large shape, by operator.
    """

    source: str
    target: str = ""
    cores: int = 1
    operators: tuple[str, ...] = ()
    text: str = ""
    compiled: bool = True
    golden: Mapping[str, Counts] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class CheckBegun:
    """The names of the rules, and of the operators in their order."""

    rules: tuple[str, ...]
    operators: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Miscount:
    """An operator with other numbers of sketches than golden ones: at two shapes each."""

    operator: str
    counts: Counts
    golden: Counts


@dataclass(frozen=True, slots=True)
class RuleReport:
    """The end of a check: a counterexample, or none.

    Rules of a file that applied nowhere are not proved. Rules of a registered set may apply to
    other targets and attributes only.
    """

    source: str
    rules: tuple[str, ...]
    operators: tuple[str, ...]  # all that were to be checked
    checked: tuple[CheckedOperator, ...]
    counterexample: Counterexample | None
    miscounts: tuple[Miscount, ...] = ()

    @property
    def interrupted(self) -> bool:
        """True if operators are left that nothing is known about."""
        return self.counterexample is None and len(self.checked) < len(self.operators)

    @property
    def unused(self) -> tuple[str, ...]:
        """Names of the rules that applied at no stage of any operator."""
        used = {use.rule for one in self.checked for use in one.uses}
        return tuple(name for name in self.rules if name not in used)

    @property
    def passed(self) -> bool:
        """True if the rules are proved."""
        proved = not self.unused or self.source in registered()
        refuted = self.counterexample is not None or bool(self.miscounts)
        return proved and not refuted and not self.interrupted


def check_in_child(
    request: RuleRequest, silence_s: float = SILENCE_S
) -> Iterator[CheckBegun | CheckedOperator | RuleReport]:
    """Yield the begin, each operator that the rules passed, then the report.

    Args:
        silence_s: processor time of the child in seconds after which, if it has told no line, it
            is killed and its operator refused; after PATIENCE times as many seconds in any case.

    Raises:
        SpecError: no such file, no rule in it, an error while it is loaded, or a wrong operator.
    """
    path = os.pathsep.join(filter(None, sys.path))
    child = subprocess.Popen(
        [sys.executable, "-P", "-m", __name__], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": path}, start_new_session=True, text=True,
    )  # fmt: skip
    assert child.stdout is not None  # a pipe
    try:
        yield from _reports(child, request, silence_s)
    finally:
        child.kill()
        child.wait()
        child.stdout.close()


def report_of(
    request: RuleRequest,
    begun: CheckBegun,
    checked: Sequence[CheckedOperator],
    counterexample: Counterexample | None = None,
) -> RuleReport:
    """Return the report of a check that ends here, early or not."""
    miscounts = [
        Miscount(one.operator, one.counts, request.golden[one.operator])
        for one in checked
        if one.counts is not None and one.counts != request.golden[one.operator]
    ]
    return RuleReport(
        request.source, begun.rules, begun.operators, tuple(checked), counterexample,
        tuple(miscounts),
    )  # fmt: skip


def _reports(
    child: "subprocess.Popen[str]", request: RuleRequest, silence_s: float
) -> Iterator[CheckBegun | CheckedOperator | RuleReport]:
    assert child.stdin is not None  # a pipe
    child.stdin.write(json.dumps(asdict(request)))
    child.stdin.close()
    begun = CheckBegun((), ())
    at = {"operator": "", "shape": ""}
    checked: list[CheckedOperator] = []
    while line := _line(child, silence_s):
        message: dict[str, Any] = json.loads(line)
        match message.pop("is"):
            case "error":
                raise SpecError(message["message"])
            case "begin":
                begun = CheckBegun(tuple(message["rules"]), tuple(message["operators"]))
                yield begun
            case "next":
                at = message
            case "checked":
                checked.append(_read(message))
                yield checked[-1]
            case "refuted":
                yield report_of(request, begun, checked, Counterexample(**message))
                return
            case _:
                yield report_of(request, begun, checked)
                return
    code = child.wait()
    why = f"the process of the check ended with status {code}"
    if code == -signal.SIGKILL:
        why = f"the check takes more than {silence_s:g} s of processor time"
        why += f", or {PATIENCE * silence_s:g} s in all"
    rule = ", ".join(begun.rules) or Path(request.source).name
    found = Counterexample(rule, at["operator"], at["shape"], "", "", why)
    yield report_of(request, begun, checked, found)


def _read(message: Mapping[str, Any]) -> CheckedOperator:
    counts = None if message["counts"] is None else tuple(message["counts"])
    uses = tuple(RuleWork(**use) for use in message["uses"])
    return CheckedOperator(**{**message, "uses": uses, "counts": counts})


def _line(child: "subprocess.Popen[str]", silence_s: float) -> str:
    """Return the next line of the child, which is killed if it takes too long over it."""
    assert child.stdout is not None  # a pipe
    heard = Event()
    began, used = time.monotonic(), process_s(child.pid)

    def watch() -> None:
        while not heard.wait(LOOK_S):
            waited = time.monotonic() - began
            if process_s(child.pid) - used > silence_s or waited > PATIENCE * silence_s:
                child.kill()

    watching = Thread(target=watch)
    watching.start()
    try:
        return child.stdout.readline()
    finally:
        heard.set()
        watching.join()


def main() -> None:
    """Check the rules of the request on standard input; write lines of JSON."""
    end_with_parent()
    speak = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # output of a rule is no line of ours
    told = json.load(sys.stdin)
    request = RuleRequest(**{**told, "operators": tuple(told["operators"])})
    try:
        _check(request, speak)
    except AnsorError as error:
        _say(speak, "error", {"message": str(error)})


def _check(request: RuleRequest, speak: TextIO) -> None:
    target = named_target(request.target or _target(request.source), request.cores)
    library = [*operators(request.operators)] if request.operators or not request.text else []
    own = [CheckOperator(dag.name, dag) for dag in (parse(request.text) if request.text else ())]
    mine, base = _rules(request.source, target.kind)
    begin = {
        "rules": list(dict.fromkeys(map(name_of, mine))),
        "operators": [operator.name for operator in (*library, *own)],
    }
    _say(speak, "begin", begin)
    with ExitStack() as stack:
        verify = None
        if request.compiled and isinstance(target, CpuTarget):
            settings = MeasureSettings()
            verify = _verify(
                target, stack.enter_context(closing(LocalBackEnd(target, settings, LocalPool)))
            )
        for number, operator in enumerate((*library, *own)):
            at = {"operator": operator.name, "shape": shape_of(operator.small)}
            _say(speak, "next", at)
            verdict = check_operator(mine, base, operator, target, verify)
            if isinstance(verdict, Counterexample):
                _say(speak, "refuted", asdict(verdict))
                return
            if number < len(library) and operator.name in request.golden:
                verdict = replace(verdict, counts=sketch_counts(target.kind, mine, operator))
            _say(speak, "checked", asdict(verdict))
    _say(speak, "end", {})


def _target(source: str) -> str:
    kind = source.partition("+")[0] if source in registered() else "cpu"
    return GPU if kind == "cuda" else kind


def _rules(source: str, kind: str) -> tuple[tuple[Rule, ...], tuple[Rule, ...]]:
    """Return the rules to check, and those behind them."""
    if source in registered():
        own, plus, _ = source.partition("+")
        if own != kind:
            raise SpecError(
                f"cannot check the rule set {source} for {kind}; expected --target {own}"
            )
        return find_rules(source), find_rules(own) if plus else ()
    mine, base = load_rules(Path(source)).of(kind), find_rules(kind)
    check_names((*mine, *base))
    return mine, base


def _verify(target: Target, back_end: LocalBackEnd[LocalPool]) -> Verify:
    def verify(dag: Dag, programs: Sequence[Program]) -> list[Failed | None]:
        with closing(back_end.open(dag, target, 0)) as pool:
            return [pool.verify(program) for program in programs]

    return verify


def _say(speak: TextIO, what: str, message: Mapping[str, Any]) -> None:
    speak.write(json.dumps({"is": what, **message}) + "\n")
    speak.flush()


if __name__ == "__main__":
    main()
