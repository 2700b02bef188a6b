"""Definitions in the text notation as others published them: parsed, tuned, verified, or refused.

    python -m benchmarks.published_text FILE [--set NAME=VALUE ...] [--trials 4] [--only NAME ...]

FILE is a list in YAML whose entries have `name`, `lang` and perhaps `grad`, or any other text with
indented definitions, such as a page of documentation. An entry with `{{` has placeholders, which
are filled as `str.format` does. Sizes and placeholders are `DEFAULTS`, those that `--set` gives,
and 16 for every other size. The command prints one row per definition and the counts.
"""

import argparse
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from textwrap import dedent
from typing import Final

import ansorpy
from ansorpy.errors import AnsorError, SpecError
from ansorpy.frontends.tc.ast import Name, all_terms
from ansorpy.frontends.tc.parser import definitions
from ansorpy.frontends.tc.text import parse
from ansorpy.records import MemoryStore
from ansorpy.te.dag import Dag
from benchmarks.common import Cell, say, table

DEFAULTS: Final[Mapping[str, str]] = {
    "H": "14", "W": "14", "KH": "3", "KW": "3", "KH1": "3", "KW1": "3",
    "kH": "3", "kW": "3", "sH": "2", "sW": "2", "sh": "2", "sw": "2",
    "s": "2", "constant": "1", "eps": "1e-5", "momentum": "0.1",
    "dimParams": "M, N", "dimIndices": "m, n",
}  # fmt: skip
SIZE: Final = 16


@dataclass(frozen=True, slots=True)
class Entry:
    """A published definition: its name, its kind (`lang` or `grad`) and its text."""

    name: str
    kind: str
    text: str


@dataclass(frozen=True, slots=True)
class Outcome:
    """The stages that an entry has passed, and the reason if it has not passed all."""

    entry: Entry
    parsed: bool
    tuned: bool = False
    verified: bool = False
    reason: str = ""


def entries(path: Path) -> Iterator[Entry]:
    """Yield the definitions of a file.

    Raises:
        SpecError: a YAML file is not a list of entries with `name` and `lang`.
    """
    text = path.read_text()
    if path.suffix not in (".yaml", ".yml"):
        for block in _blocks(text):
            yield Entry(block.removeprefix("def ").partition("(")[0].strip(), "lang", block)
        return
    import yaml  # here, because only this file format needs it

    listed = yaml.safe_load(text)
    for item in listed if isinstance(listed, list) else (listed,):
        if not isinstance(item, dict) or not {"name", "lang"} <= item.keys():
            raise SpecError(f"{path}: cannot read an entry; expected a name and a lang in each")
        for kind in ("lang", "grad"):
            if kind in item:
                yield Entry(str(item["name"]), kind, str(item[kind]))


def _blocks(text: str) -> Iterator[str]:
    """Yield every indented run of lines that begins with `def`; blank lines belong to a run."""
    lines: list[str] = []
    for line in [*text.splitlines(), "end"]:
        if lines and (line[:1].isspace() or not line):
            lines.append(line)
            continue
        if lines:
            yield dedent("\n".join(lines)).strip()
        lines = []
        if line[:1].isspace() and line.strip().startswith("def "):
            lines = [line]


def dag_of(entry: Entry, given: Mapping[str, str]) -> Dag:
    """Return the Dag of an entry, with its placeholders filled and its sizes bound.

    Raises:
        SpecError: a placeholder has no value, or the text is refused.
    """
    values = {**DEFAULTS, **given}
    text = entry.text
    if "{{" in text:
        values = {"L": str(SIZE), **values}
        try:
            text = text.format(**values)
        except KeyError as error:
            raise SpecError(
                f"{entry.name}: placeholder {error} has no value; expected --set NAME=VALUE"
            ) from None
    names = {
        term.name: int(values.get(term.name, SIZE))
        for definition in definitions(text, entry.name)
        for parameter in definition.parameters
        for dim in parameter.dims
        for term in all_terms(dim)
        if isinstance(term, Name)
    }
    (dag,) = parse(text, names, entry.name)
    return dag


def outcome(entry: Entry, given: Mapping[str, str], trials: int) -> Outcome:
    """Parse, tune and verify one entry."""
    try:
        dag = dag_of(entry, given)
    except SpecError as error:
        return Outcome(entry, parsed=False, reason=str(error))
    with TemporaryDirectory(prefix="ansorpy-published-") as folder:
        try:
            (task,) = ansorpy.tune(
                dag, trials=trials, cores=1, store=MemoryStore(), out=Path(folder), progress=False
            ).tasks
        except AnsorError as error:
            return Outcome(entry, parsed=True, reason=str(error))
    reason = "" if task.verified else f"failures: {dict(task.failures)}"
    return Outcome(entry, True, task.kernel is not None, task.verified, reason)


def _given(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals:
        raise argparse.ArgumentTypeError(f"{text!r}; expected NAME=VALUE")
    return name, value


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the table; return 1 if an entry that parses is not verified."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("file", type=Path, metavar="FILE")
    parser.add_argument("--set", type=_given, nargs="+", default=[], metavar="NAME=VALUE")
    parser.add_argument("--trials", type=int, default=4, help="trials per entry; default 4")
    parser.add_argument("--only", nargs="+", metavar="NAME", help="these entries only")
    args = parser.parse_args(arguments)
    given = dict(args.set)
    found = []
    for entry in entries(args.file):
        if args.only and entry.name not in args.only:
            continue
        begin_s = time.perf_counter()
        found.append(outcome(entry, given, args.trials))
        say(f"{entry.name} ({entry.kind}): {time.perf_counter() - begin_s:.1f} s")
    rows = [{"outcome": one} for one in found]
    print(table(rows, COLUMNS))
    for kind in ("lang", "grad"):
        of = [one for one in found if one.entry.kind == kind]
        print(
            f"{kind}: {len(of)} entries, {sum(one.parsed for one in of)} parsed, "
            f"{sum(one.tuned for one in of)} tuned, {sum(one.verified for one in of)} verified"
        )
    return int(any(one.parsed and not one.verified for one in found))


def _yes(value: bool) -> str:
    return "yes" if value else "no"


COLUMNS: Final[Mapping[str, Cell]] = {
    "entry": lambda row: row["outcome"].entry.name,
    "kind": lambda row: row["outcome"].entry.kind,
    "parsed": lambda row: _yes(row["outcome"].parsed),
    "tuned": lambda row: _yes(row["outcome"].tuned),
    "verified": lambda row: _yes(row["outcome"].verified),
    "reason": lambda row: row["outcome"].reason,
}


if __name__ == "__main__":
    sys.exit(main())
