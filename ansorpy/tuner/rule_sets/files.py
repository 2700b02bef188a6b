"""Rules in Python files of the user or of the administrator: load one file, list a folder.

A rule file is code that runs with all rights of the process that loads it. Files therefore come
from a command line or from a folder that an administrator names, never out of a request.
"""

import ast
import re
import sys
import traceback
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256
from importlib.abc import InspectLoader
from importlib.util import module_from_spec, spec_from_loader
from inspect import isabstract, isclass
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any, Final

from ansorpy.errors import SpecError, shown
from ansorpy.state.rule import Rule, name_of
from ansorpy.target import KINDS
from ansorpy.tuner.options.tune_options import ALLOW_PATTERN

MODULES: Final = "ansorpy_rule_file."  # begin of the names of modules that are rule files
OTHERS_WRITE: Final = 0o002  # mode bit
EXAMPLE: Final = "expected a class derived from ansorpy.state.rule.Rule, or RULES = (MyRule(...),)"


@dataclass(frozen=True, slots=True)
class RuleFile:
    """The rules of a file in their order, and the kinds of targets that they are for."""

    name: str  # name of the file without ".py": the word that a request allows
    rules: tuple[Rule, ...]
    kinds: tuple[str, ...]

    def of(self, kind: str) -> tuple[Rule, ...]:
        """Return the rules.

        Raises:
            SpecError: they are for other kinds of targets.
        """
        if kind not in self.kinds:
            raise SpecError(
                f"cannot use the rules of {self.name} for {kind} because its KINDS are"
                f" {', '.join(self.kinds)}; expected one of those"
            )
        return self.rules


class _Source(InspectLoader):
    """Runs the text of a rule file; it writes no byte code into the folder."""

    def __init__(self, text: bytes, path: Path) -> None:
        self._text, self._path = text, path

    def get_source(self, fullname: str) -> str:
        return self._text.decode(errors="replace")

    def get_code(self, fullname: str) -> CodeType:
        return self.source_to_code(self._text, str(self._path))


def load_rules(path: Path) -> RuleFile:
    """Return the rules of a Python file; the same content is run once per process.

    `RULES`, a tuple of rules, has priority; without it, each class of the file that derives from
    `Rule` is called without arguments. `KINDS` names the kinds of targets, ("cpu",) by default.

    Raises:
        SpecError: no such file, an error while it runs, no rule, or two rules of one name.
    """
    try:
        text = path.read_bytes()
    except OSError as error:
        raise SpecError(
            f"cannot read rule file {path.name} because of {error.strerror!r}; expected a Python"
            " file"
        ) from error
    module = _module(path, text)
    rules, kinds = _rules(path, module), getattr(module, "KINDS", ("cpu",))
    if not isinstance(kinds, tuple) or not kinds or not set(kinds) <= set(KINDS):
        raise SpecError(
            f"cannot use rule file {path.name} because its KINDS are {shown(repr(kinds))};"
            f" expected a tuple of {' and '.join(KINDS)}"
        )
    return RuleFile(path.stem, rules, kinds)


def rule_folder(folder: Path | None) -> Mapping[str, Path]:
    """Return the rule files of a folder by name; files whose names begin with "_" are left out.

    Raises:
        SpecError: no such folder, every user of the machine may write there, or a file has a
            name that no request can contain.
    """
    if folder is None:
        return {}
    try:
        files = sorted(path for path in folder.iterdir() if path.match("[!_.]*.py"))
        open_to_all = [path for path in (folder, *files) if path.stat().st_mode & OTHERS_WRITE]
    except OSError as error:
        raise SpecError(
            f"cannot read ANSORPY_RULES_DIR because of {error.strerror!r}; expected a folder of"
            " rule files"
        ) from error
    if open_to_all:
        raise SpecError(
            f"cannot run code of ANSORPY_RULES_DIR because every user may write to"
            f" {open_to_all[0].name}; expected no write permission for others (chmod o-w)"
        )
    for path in files:
        if not re.fullmatch(ALLOW_PATTERN, path.stem):
            raise SpecError(
                f"cannot offer rule file {shown(path.name)} because of its name; expected at most"
                " 40 letters, digits, _ and -"
            )
    return {path.stem: path for path in files}


def check_names(rules: tuple[Rule, ...]) -> None:
    """Refuse two classes of one name: requests and derivations name rules by their classes.

    Raises:
        SpecError: names the rule and its two modules.
    """
    known: dict[str, type[Rule]] = {}
    for rule in rules:
        other = known.setdefault(name_of(rule), type(rule))
        if other is not type(rule):
            raise SpecError(
                f"cannot use two rules named {name_of(rule)}, of {_place(other)} and"
                f" {_place(type(rule))}; expected another name of one class"
            )


def identity(rule: Rule) -> str:
    """Return the text that tells a rule from others: its parameters, and the digest of its file."""
    kind = type(rule)
    # The default `repr` has an address in it.
    text = f"{kind.__name__}()" if kind.__repr__ is object.__repr__ else repr(rule)
    return f"{kind.__module__}:{text}" if kind.__module__.startswith(MODULES) else text


def _place(kind: type[Rule]) -> str:
    if kind.__module__.startswith(MODULES):
        return f"{kind.__module__.split('.')[1]}.py"
    return kind.__module__


def _module(path: Path, text: bytes) -> ModuleType:
    """Return the module of a rule file, named after file and content."""
    name = f"{MODULES}{path.stem}.{sha256(text).hexdigest()[:12]}"
    if name in sys.modules:
        return sys.modules[name]
    source = _Source(text, path)
    spec = spec_from_loader(name, source, origin=str(path))
    assert spec is not None  # a loader was given
    module = module_from_spec(spec)
    sys.modules[name] = module  # dataclasses look their module up
    try:
        _check_classes(path, text)
        source.exec_module(module)
    except SpecError:
        del sys.modules[name]
        raise
    except (Exception, SystemExit) as error:  # boundary of the code of a user
        del sys.modules[name]
        line = _line(error, path)
        why = error.msg if isinstance(error, SyntaxError) else shown(error, 300)
        raise SpecError(
            f"cannot load rule file {path.name} because{line} raised {type(error).__name__}:"
            f" {why}; expected a Python file that defines rules"
        ) from error
    return module


def _check_classes(path: Path, text: bytes) -> None:
    """Refuse two classes of one name: the later one would hide the earlier one."""
    seen: set[str] = set()
    for node in ast.parse(text).body:
        if isinstance(node, ast.ClassDef):
            if node.name in seen:
                raise SpecError(
                    f"cannot use two rules named {node.name}, both of {path.name}; expected"
                    " another name of one class"
                )
            seen.add(node.name)


def _line(error: BaseException, path: Path) -> str:
    if isinstance(error, SyntaxError):
        return f" line {error.lineno}"
    frames = traceback.extract_tb(error.__traceback__)
    lines = [frame.lineno for frame in frames if frame.filename == str(path)]
    return f" line {lines[-1]}" if lines else " it"


def _rules(path: Path, module: ModuleType) -> tuple[Rule, ...]:
    given = getattr(module, "RULES", None)
    if given is not None:
        if not isinstance(given, tuple) or not all(isinstance(rule, Rule) for rule in given):
            raise SpecError(
                f"cannot use RULES of {path.name} because it is {shown(repr(given))}; expected a"
                " tuple of rules"
            )
        rules = given
    else:
        own = [one for one in vars(module).values() if _is_own(one, module)]
        rules = tuple(_made(path, kind) for kind in own)
    if not rules:
        raise SpecError(f"cannot use rule file {path.name} because it has no rule; {EXAMPLE}")
    check_names(rules)
    return rules


def _is_own(value: Any, module: ModuleType) -> bool:
    return isclass(value) and issubclass(value, Rule) and value.__module__ == module.__name__


def _made(path: Path, kind: type[Rule]) -> Rule:
    if isabstract(kind):
        lacking = " and ".join(sorted(kind.__abstractmethods__))
        raise SpecError(
            f"cannot use rule {kind.__name__} of {path.name} because it does not define {lacking};"
            " expected explain and rewrite"
        )
    try:
        return kind()
    except Exception as error:  # boundary of the code of a user
        raise SpecError(
            f"cannot make rule {kind.__name__} of {path.name} because {kind.__name__}() raised"
            f" {type(error).__name__}: {shown(error, 300)}; expected a class that takes no"
            f" arguments, or RULES = ({kind.__name__}(...),)"
        ) from error
