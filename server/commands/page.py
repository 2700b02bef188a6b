"""The page of `--help`: titled panels, at most 40 lines at 80 columns; `--help-all` has the rest.

Every command and every group has this form. A panel lists its usual options first; a command with
many options shows these alone, each with the first clause of its help, and counts the others.
"""

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from inspect import cleandoc, signature
from pathlib import Path
from shutil import get_terminal_size
from textwrap import wrap
from types import UnionType
from typing import Any, Final, get_args, get_origin

import typer

MOST_COLUMNS: Final = 100  # a longer line is hard to read
LEAST_COLUMNS: Final = 40
NAME_COLUMNS: Final = 28  # width of the left column at most; a longer name has a line of its own
FEW: Final = 12  # options of a command that shows all of them, at most
ALL: Final = "--help-all"
REST: Final = "Further options"
FIRST_CLAUSE: Final = re.compile(r".{24,}?[.;:](?= )")  # shorter ones tell too little
DEFAULT: Final = re.compile(r" \[[^]]*\]$")
VALUES: Final[Mapping[Any, str]] = {int: "N", float: "X", Path: "PATH"}


@dataclass(frozen=True, slots=True)
class Panel:
    """A panel of options, by name without dashes: usual ones, and ones of `--help-all` alone."""

    title: str
    usual: tuple[str, ...]
    rare: tuple[str, ...] = ()


PANELS: Final = (
    Panel(
        "Input",
        ("bind", "shape", "inputs", "dim", "model", "against", "module", "dag", "workload", "from",
         "operator", "on"),
    ),
    Panel(
        "Budget",
        ("trials", "seconds", "trials-per-task", "rounds"),
        ("target-latency", "stop-if-gain-below", "patience", "max-trials-per-task"),
    ),
    Panel(
        "Search",
        ("allow", "fresh", "hosted"),
        ("without", "mode", "schedule", "template", "tuner", "cost-model", "search", "space",
         "measurer", "seed", "deterministic", "own", "race", "store", "program-weights",
         "kernels-per-dim"),
    ),
    Panel(
        "Several tasks",
        (),
        ("task", "weight", "objective", "strategy", "network-target", "task-target"),
    ),
    Panel("Machine", ("cores", "target")),
    Panel(
        "Service",
        ("watch", "keep-weights-home", "state", "limit", "remote", "job", "host", "port", "tenant",
         "cluster", "address", "hours", "scope", "days", "label", "overlap-hours"),
        ("priority", "idempotency-key"),
    ),
    Panel(
        "Output",
        ("out", "outputs", "explain", "stage", "print-after", "untuned", "print", "exact", "json",
         "verbose", "version"),
        ("profile", "install-completion", "show-completion"),
    ),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class HelpLine:
    """A line of a panel."""

    name: str
    text: str
    rare: bool = False


def page(command: Any, context: Any, every: bool) -> str:
    """Return the help of a command or a group.

    Args:
        every: whole sentences, and the rare options as well.
    """
    width = max(LEAST_COLUMNS, min(get_terminal_size().columns, MOST_COLUMNS))
    lines = [f"Usage: {context.command_path} {' '.join(_usage(command, context))}", ""]
    lines += _prose(command.help or "", width)
    panels = [*_groups(command, context), *_options(command, context)]
    few = not _is_group(command) and len(command.params) <= FEW
    left_out = 0
    for title, rows in panels:
        shown = [one for one in rows if every or few or not one.rare]
        left_out += len(rows) - len(shown)
        if shown:
            lines += [_heading(title, width), *_table(shown, width, every or few)]
    more = f"; {ALL}: {left_out} more options, and all they do" if left_out else ""
    lines += ["", f"-h, --help: this page{more}"] if not every else []
    return "\n".join(lines) + "\n"


def _usage(command: Any, context: Any) -> Iterator[str]:
    yield "[OPTIONS]"
    for one in command.params:
        if _is_argument(one):
            name = _argument(one)
            yield name if one.required else f"[{name}]"
    if _is_group(command):
        yield "COMMAND [ARGS]..."


def _prose(text: str, width: int) -> Iterator[str]:
    """Yield the paragraphs of a docstring; after a backspace its lines stay as they are."""
    for paragraph in cleandoc(text).split("\n\n"):
        lines = [line for line in paragraph.splitlines() if line.strip("\b ")]
        if not lines:
            continue
        yield from lines if paragraph.startswith("\b") else wrap(" ".join(lines), width)
        yield ""


def _groups(command: Any, context: Any) -> Iterator[tuple[str, Sequence[HelpLine]]]:
    """Yield the commands of a group by panel."""
    found: dict[str, list[HelpLine]] = {}
    for name in command.list_commands(context) if _is_group(command) else ():
        one = command.get_command(context, name)
        rows = found.setdefault(getattr(one, "rich_help_panel", None) or "Commands", [])
        rows.append(HelpLine(name, first_line(one.help or "")))
    yield from found.items()


def _options(command: Any, context: Any) -> Iterator[tuple[str, Sequence[HelpLine]]]:
    """Yield the arguments, and the options by panel."""
    callback = command.callback or (lambda: None)
    types = {name: one.annotation for name, one in signature(callback).parameters.items()}
    arguments = [HelpLine(_argument(o), o.help or "") for o in command.params if _is_argument(o)]
    options = {
        one.opts[0].lstrip("-"): one
        for one in command.params
        if not _is_argument(one) and not one.hidden
    }
    rest = list(options)
    for panel in PANELS:
        names = [name for name in (*panel.usual, *panel.rare) if name in options]
        rest = [name for name in rest if name not in names]
        rows = [_line(options[name], types, context, name in panel.rare) for name in names]
        yield panel.title, [*(arguments if panel is PANELS[0] else ()), *rows]
    yield REST, [_line(options[name], types, context, False) for name in rest]


def _is_group(command: Any) -> bool:
    return hasattr(command, "list_commands")


def _is_argument(param: Any) -> bool:
    return getattr(param, "param_type_name", "") == "argument"


def _argument(param: Any) -> str:
    return str(param.metavar or param.name.upper())


def _line(param: Any, types: Mapping[str, Any], context: Any, rare: bool) -> HelpLine:
    value = "" if getattr(param, "is_flag", False) else _value(param, types.get(param.name))
    default = param.get_default(context, call=False)
    shown = not (value == "" or default in (None, "", 0) or callable(default))
    text = f"{param.help or ''} [{default}]" if shown else param.help or ""
    return HelpLine(
        f"{'/'.join([*param.opts, *param.secondary_opts])} {value}".strip(), text.strip(), rare
    )


def _value(param: Any, annotation: Any) -> str:
    """Return the word for the value of an option; repeatable ones take several."""
    kinds = [part for part in _parts(annotation) if part is not type(None)]
    word = param.metavar or next((VALUES[kind] for kind in kinds if kind in VALUES), "TEXT")
    return f"{word},..." if getattr(param, "multiple", False) else str(word)


def _parts(annotation: Any) -> Sequence[Any]:
    """Return the types of an annotation: of a union, its members."""
    if hasattr(annotation, "__metadata__"):
        annotation = get_args(annotation)[0]
    parts: Sequence[Any] = get_args(annotation)
    return parts if get_origin(annotation) is UnionType else (annotation,)


def _heading(title: str, width: int) -> str:
    line = f"-- {title} ".ljust(width, "-")
    return line if os.environ.get("NO_COLOR") else typer.style(line, bold=True)


def _table(rows: Sequence[HelpLine], width: int, every: bool) -> Iterator[str]:
    """Yield the rows of a panel in two columns."""
    left = min(max(len(one.name) for one in rows), NAME_COLUMNS) + 4
    for row in rows:
        text = row.text if every else _short(row.text)
        lines = wrap(text, width - left) or [""]
        if len(row.name) + 4 > left:
            yield f"  {row.name}"
        else:
            yield f"  {row.name}".ljust(left) + lines.pop(0)
        yield from (" " * left + line for line in lines)


def first_line(text: str) -> str:
    """Return the first line of a docstring without its full stop."""
    return cleandoc(text).partition("\n")[0].rstrip(".")


def _short(text: str) -> str:
    """Return the first clause, and the default at the end of the text."""
    clause = FIRST_CLAUSE.match(text)
    if clause is None:
        return text
    rest = text[clause.end() :]
    return clause[0].rstrip(".;:") + "." + (DEFAULT.search(rest) or [""])[0]
