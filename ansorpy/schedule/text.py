"""Schedules as text: one step a line, as `state.text.history` writes steps.

    yo, yi = C.split(y, inner=[8])
    C.reorder(yo, x, k, yi)
    C.vectorize(x)
    C.unroll = 16            # a size

A line that gives the result of a step other names lets later lines use them. `C.pack(B)` packs an
operand into the order of the tiles; `#` begins a comment.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

from ansorpy.errors import SpecError, quoted
from ansorpy.state.steps.order import ANNOTATIONS

_SIZE: Final = re.compile(r"([^\s=()]+)\s*=\s*(\d{1,10})")
# Two neighbouring parts never match the same character, so that matching takes linear time.
_CALL: Final = re.compile(r"(?:([^=()]+)=\s*)?([^\s=()]+)\.([a-z_]+)\((.*)\)")
_ARGUMENT: Final = re.compile(
    r"""(?:([a-z]+)\s*=\s*)?(\[[^\[\]]*\]|'[^']*'|"[^"]*"|[^,\s\[\]'"]+)"""
)
_BETWEEN: Final = re.compile(r"\s*(?:,\s*|$)")


@dataclass(slots=True)
class Lines:
    """The steps of a text in their wire form, its sizes and packed operands."""

    steps: list[list[object]] = field(default_factory=list)
    sizes: dict[str, int] = field(default_factory=dict)
    pack: dict[str, tuple[str, ...]] = field(default_factory=dict)
    renamed: dict[tuple[str, str], str] = field(default_factory=dict)  # (stage, name) -> loop

    def loop(self, stage: str, name: str) -> str:
        """Return the loop that a line calls `name`."""
        return self.renamed.get((stage, name), name)


@dataclass(frozen=True, slots=True)
class CallLine:
    """A line `names = stage.method(arguments)`; a list or a text is one argument."""

    names: tuple[str, ...]
    stage: str
    method: str
    arguments: tuple[object, ...]
    named: dict[str, object]


def read_lines(text: str) -> Lines:
    """Return the steps and sizes of a text.

    Raises:
        SpecError: names the line.
    """
    lines = Lines()
    for number, raw in enumerate(text.splitlines(), start=1):
        line = raw.partition("#")[0].strip()
        size = _SIZE.fullmatch(line)
        if size:
            lines.sizes[size[1]] = int(size[2])
        elif line:
            _read(lines, number, _call(number, line))
    return lines


def _call(number: int, line: str) -> CallLine:
    match = _CALL.fullmatch(line)
    if match is None:
        raise _wrong(number, line, "STAGE.STEP(...), RESULTS = STAGE.STEP(...) or SIZE = NUMBER")
    results, stage, method, inside = match.groups()
    plain: list[object] = []
    named: dict[str, object] = {}
    at = 0
    while at < len(inside):
        argument = _ARGUMENT.match(inside, at)
        gap = None if argument is None else _BETWEEN.match(inside, argument.end())
        if argument is None or gap is None:
            raise _wrong(number, line, "arguments with commas between them")
        if argument[1]:
            named[argument[1]] = _value(argument[2])
        else:
            plain.append(_value(argument[2]))
        at = gap.end()
    names = tuple(name.strip() for name in results.split(",")) if results else ()
    return CallLine(names, stage, method, tuple(plain), named)


def _value(text: str) -> object:
    if text[0] == "[":
        return [_value(part.strip()) for part in text[1:-1].split(",") if part.strip()]
    if text[0] in "'\"":
        return text[1:-1]
    return int(text) if re.fullmatch(r"\d{1,10}", text) else text


def _read(lines: Lines, number: int, call: CallLine) -> None:
    """Add the step of a line."""
    if call.method == "pack":
        lines.pack[call.stage] = tuple(map(str, call.arguments))
        return
    form = ANNOTATION if call.method in ANNOTATIONS else FORMS.get(call.method)
    if form is None:
        known = (*FORMS, *ANNOTATIONS, "pack")
        raise _wrong(number, call.method, ", ".join(known))
    try:
        step, results = form.read(lines, call)
    except (LookupError, TypeError, ValueError):
        raise _wrong(number, call.method, form.usage) from None
    lines.steps.append(step)
    if len(call.names) > len(results):
        raise _wrong(number, ", ".join(call.names), f"{len(results)} results")
    lines.renamed |= {
        (call.stage, name): loop for name, loop in zip(call.names, results, strict=False)
    }


def _wrong(number: int, what: str, expected: str) -> SpecError:
    return SpecError(
        f"cannot read line {number} of the schedule because of {quoted(what)}; expected {expected}"
    )


@dataclass(frozen=True, slots=True)
class StepForm:
    """The form of a step in text: it returns the wire form of a line, and the loops it makes."""

    usage: str  # for messages
    read: Callable[[Lines, CallLine], tuple[list[object], Sequence[str]]]


def _parts(loop: str, count: int) -> list[str]:
    return [f"{loop}.{q}" for q in range(min(count, 64))]


def _split(lines: Lines, call: CallLine) -> tuple[list[object], Sequence[str]]:
    (name,) = call.arguments
    loop = lines.loop(call.stage, str(name))
    inner = call.named.get("inner", [])
    parts = len(inner) + 1 if isinstance(inner, list) and inner else call.named["parts"]
    if not isinstance(parts, int):
        raise TypeError
    return ["SP", call.stage, loop, parts, inner], _parts(loop, parts)


def _source(lines: Lines, text: object) -> tuple[str, str]:
    stage, dot, name = str(text).rpartition(".")
    if not dot:
        raise ValueError
    return stage, lines.loop(stage, name)


def _follow_split(lines: Lines, call: CallLine) -> tuple[list[object], Sequence[str]]:
    name, source = call.arguments
    loop, levels = lines.loop(call.stage, str(name)), call.named["levels"]
    if not isinstance(levels, int):
        raise TypeError
    return ["FSP", call.stage, loop, *_source(lines, source), levels], _parts(loop, levels + 1)


def _follow_fused_split(lines: Lines, call: CallLine) -> tuple[list[object], Sequence[str]]:
    name, sources = call.arguments
    if not isinstance(sources, list):
        raise TypeError
    loop = lines.loop(call.stage, str(name))
    pairs = [_source(lines, one) for one in sources]
    names = [loop_name for _, loop_name in pairs]
    step = ["FFSP", call.stage, loop, pairs[0][0], names, call.named["level"]]
    return step, _parts(loop, 2)


def _loops(lines: Lines, call: CallLine) -> list[str]:
    return [lines.loop(call.stage, str(name)) for name in call.arguments]


def _fuse(lines: Lines, call: CallLine) -> tuple[list[object], Sequence[str]]:
    loops = _loops(lines, call)
    return ["FU", call.stage, loops], ["@".join(loops)]


def _annotation(lines: Lines, call: CallLine) -> tuple[list[object], Sequence[str]]:
    (loop,) = _loops(lines, call)
    return ["AN", call.stage, loop, call.method], ()


def _compute_at(lines: Lines, call: CallLine) -> tuple[list[object], Sequence[str]]:
    host, name = map(str, call.arguments)
    return ["CA", call.stage, host, lines.loop(host, name)], ()


def _cache_read(lines: Lines, call: CallLine) -> tuple[list[object], Sequence[str]]:
    scope, readers = call.arguments
    return ["CHR", call.stage, readers, scope], [f"{call.stage}.{scope}"]


def _rfactor(lines: Lines, call: CallLine) -> tuple[list[object], Sequence[str]]:
    (loop,) = _loops(lines, call)
    return ["RF", call.stage, loop], [f"{call.stage}.rf"]


def _plain(
    code: str, result: str = ""
) -> Callable[[Lines, CallLine], tuple[list[object], Sequence[str]]]:
    """Return the form of a step whose operands are the arguments as they are."""

    def read(lines: Lines, call: CallLine) -> tuple[list[object], Sequence[str]]:
        operands = [*call.arguments, *call.named.values()]
        results = [f"{call.stage}{result}".format(*operands)] if result else []
        return [code, call.stage, *operands], results

    return read


ANNOTATION: Final = StepForm("one loop", _annotation)
FORMS: Final = {
    "split": StepForm("split(LOOP, inner=[LENGTH, ...])", _split),
    "follow_split": StepForm("follow_split(LOOP, STAGE.LOOP, levels=N)", _follow_split),
    "follow_fused_split": StepForm(
        "follow_fused_split(LOOP, [STAGE.LOOP, ...], level=N)", _follow_fused_split
    ),
    "reorder": StepForm(
        "reorder(LOOP, ...)", lambda lines, call: (["RE", call.stage, _loops(lines, call)], ())
    ),
    "fuse": StepForm("fuse(LOOP, ...)", _fuse),
    "compute_at": StepForm("compute_at(STAGE, LOOP)", _compute_at),
    "compute_inline": StepForm("compute_inline()", _plain("CI")),
    "compute_root": StepForm("compute_root()", _plain("CR")),
    "cache_read": StepForm("cache_read('SCOPE', [STAGE, ...])", _cache_read),
    "cache_write": StepForm("cache_write('SCOPE')", _plain("CHW", ".{}")),
    "rfactor": StepForm("rfactor(LOOP)", _rfactor),
    "join_axes": StepForm("join_axes()", _plain("JA")),
    "split_groups": StepForm("split_groups()", _plain("SG")),
    "pad_rows": StepForm("pad_rows()", _plain("ROWS")),
    "split_phases": StepForm("split_phases(STAGE)", _plain("PH")),
    "skip_padding": StepForm("skip_padding(STAGE)", _plain("PAD")),
    "winograd": StepForm("winograd(outputs=N)", _plain("WG")),
    "tensorize": StepForm("tensorize('INSTRUCTION')", _plain("TZ")),
}
# Words of schedules, beside the names of a user.
SCHEDULE_WORDS: Final = (
    "steps", "sizes", "choices", "pack", "inner", "parts", "levels", *FORMS, *ANNOTATIONS,
)  # fmt: skip
