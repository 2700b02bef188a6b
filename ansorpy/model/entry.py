"""`ansorpy.tune`: a text, Dags, a file, a graph or a module, each by the tuning of its kind."""

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from os import PathLike
from pathlib import Path
from stat import S_ISDIR
from typing import Annotated, Any, Concatenate, Final, ParamSpec, Protocol, cast, overload

from ansorpy.errors import SpecError, shown
from ansorpy.frontends.source import dags_of
from ansorpy.graph.graph import Graph
from ansorpy.importers.suffixes import is_model
from ansorpy.model.api import request_of, tuned
from ansorpy.model.compile import ModelResult
from ansorpy.model.options import ModelOptions
from ansorpy.progress import ignore
from ansorpy.result import Result
from ansorpy.te.dag import Dag
from ansorpy.tuner.api import tune_dags
from ansorpy.tuner.options.conflicts import RequestKind, check_conflicts
from ansorpy.tuner.options.keywords import keywords_after
from ansorpy.tuner.options.option import Option
from ansorpy.tuner.options.targets import target_for
from ansorpy.tuner.options.tune_options import LocalOptions, values
from ansorpy.tuner.parts.stores import store_of
from ansorpy.tuner.requests.call_options import (
    EXAMPLES,
    BindOption,
    DynamicOption,
    OutOption,
    OwnOption,
    ProgressOption,
    RulesOption,
    ShapesOption,
    StoreOption,
    TargetOption,
)
from ansorpy.tuner.requests.request import read_dags

__all__ = ["tune"]  # `help(ansorpy.tune)` shows it

KINDS: Final = (
    "a Dag, several Dags, a text of definitions, the path of such a text, of an ONNX model or of a"
    " .graph.json, a graph, or a module of PyTorch"
)
WHAT: Final = (
    "A Dag (`te.dag(...)`), several Dags, definitions in the text notation, the path of a file of"
    " these, of JSON, of ONNX or of a .graph.json, a graph, or a `torch.nn.Module` in evaluation"
    " mode, or its `torch.export.ExportedProgram`."
)
# Arguments that one kind of tuning alone has.
OF_DAGS: Final = ("rules",)
OF_MODELS: Final = ("shapes", "hosted")
OF_MODULES: Final = ("args", "kwargs", "dynamic_shapes")


@dataclass(frozen=True, slots=True)
class TuneCall(ModelOptions):
    """The arguments of `ansorpy.tune`."""

    target: TargetOption = None
    bind: BindOption = field(default_factory=dict, kw_only=True)
    shapes: ShapesOption = field(default_factory=dict, kw_only=True)
    args: Annotated[Any, Option(f"Of a module: {EXAMPLES}")] = field(default=(), kw_only=True)
    kwargs: Annotated[Mapping[str, Any], Option("Of a module: example keyword arguments.")] = field(
        default_factory=dict, kw_only=True
    )
    dynamic_shapes: DynamicOption = field(default=None, kw_only=True)
    rules: RulesOption = field(default=None, kw_only=True)
    store: StoreOption = field(default=None, kw_only=True)
    out: OutOption = field(default=None, kw_only=True)
    own: OwnOption = field(default=(), kw_only=True)
    progress: ProgressOption = field(default=None, kw_only=True)
    on_event: Annotated[
        Callable[[Any], object],
        Option("Called with every event (`ansorpy.events`, of models `ansorpy.model.events`)."),
    ] = field(default=ignore, kw_only=True)


P = ParamSpec("P")


class Tune(Protocol[P]):
    """The types of `tune`; a text may be a path, so that its result is known when it runs."""

    @overload
    def __call__(
        self, what: Dag | Sequence[Dag], /, *args: P.args, **options: P.kwargs
    ) -> Result: ...

    @overload
    def __call__(self, what: Graph, /, *args: P.args, **options: P.kwargs) -> ModelResult: ...

    @overload
    def __call__(self, what: object, /, *args: P.args, **options: P.kwargs) -> Any: ...


def by_kind(function: Callable[Concatenate[Any, P], Result | ModelResult]) -> Tune[P]:
    """Return the function with the types of `Tune`."""
    return cast("Tune[P]", function)


@by_kind
@keywords_after("what", WHAT, TuneCall)
def tune(what: Any, call: TuneCall) -> Result | ModelResult:
    """Tune Dags and return their verified kernels, or tune a model and write a verified bundle.

    Dags and texts give a `Result` with `kernels`; models and modules give a `ModelResult` with the
    path of the `bundle`, which `ansorpy.load` opens.

    A KeyboardInterrupt ends the search: the best so far is verified and returned, with
    `stopped == "interrupted"`. It is raised if there is nothing to return, and in the final race.

    Raises:
        SpecError: the request is wrong, or a node of the model cannot be compiled.
        RunError: the outputs of the bundle are wrong.
        KeyboardInterrupt: there was one, and there is nothing to return.
    """
    if _is_module(what):
        return _tune_module(call, what)
    if isinstance(what, str | PathLike) and not _is_text(what):
        path = Path(what)
        _check_file(path)
        if not is_model(path.name):
            return _tune_dags(call, dags_of(_text_of(path), whole(call.bind), str(path)))
        return _tune_model(call, path)
    if isinstance(what, Graph):
        return _tune_model(call, what)
    return _tune_dags(call, read_dags(what, whole(call.bind)))


def _tune_dags(call: TuneCall, dags: tuple[Dag, ...]) -> Result:
    _refuse(call, "Dags", (*OF_MODELS, *OF_MODULES))
    options = {**values(call, LocalOptions), "trials": call.trials_of(len(dags))}
    return tune_dags(
        dags, LocalOptions(**options), call.target, rules=call.rules, store=call.store,
        out=call.out, own=call.own, progress=call.progress, on_event=call.on_event,
    )  # fmt: skip


def _tune_model(call: TuneCall, model: Path | Graph) -> ModelResult:
    _check_model(call)
    _refuse(call, "a model", (*OF_DAGS, *OF_MODULES))
    machine = target_for(call.target, call.cores)
    request = request_of(call, model, machine, call.out, call.bind, call.shapes)
    return tuned(request, store_of(call.store), call.progress, call.on_event)


def _tune_module(call: TuneCall, module: Any) -> ModelResult:
    from ansorpy.model.torch_compile import tune_module

    _check_model(call)
    _refuse(call, "a module", (*OF_DAGS, "shapes"))
    return tune_module(
        module, call.args, call.kwargs, call.dynamic_shapes, call.bind, call, call.target,
        store=call.store, out=call.out, progress=call.progress, on_event=call.on_event,
    )  # fmt: skip


def _check_model(call: TuneCall) -> None:
    check_conflicts(call, RequestKind(model=True, own=_is_given(call.own)))


def _refuse(call: TuneCall, kind: str, names: Sequence[str]) -> None:
    """Raise SpecError if a call has arguments that its kind of tuning does not take."""
    given = [name for name in names if _is_given(getattr(call, name))]
    if given:
        raise SpecError(
            f"cannot tune {kind} with {given[0]} because {_owner(given[0])} alone take it;"
            f" expected a call without {given[0]}"
        )


def _is_given(value: object) -> bool:
    """Return True unless a value is a default; arrays have no truth value."""
    empty = isinstance(value, tuple | Mapping) and not value
    return value is not None and value is not False and not empty


def _owner(name: str) -> str:
    return "Dags" if name in OF_DAGS else "modules" if name in OF_MODULES else "models"


def _is_module(what: object) -> bool:
    """Return True for a module or an exported program; torch is loaded if there is one."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(what, torch.nn.Module | torch.export.ExportedProgram)


def _is_text(what: object) -> bool:
    """Return True for a text of definitions, which has a brace; paths have none."""
    return isinstance(what, str) and ("{" in what or "\n" in what)


def whole(bind: Mapping[str, float]) -> Mapping[str, int]:
    """Return the values of symbols; the reader of texts refuses those that are no integers."""
    return bind  # type: ignore[return-value]


def _check_file(path: Path) -> None:
    """Raise SpecError unless a path may lead to a file that can be tuned."""
    if path.suffix == ".zip":
        raise SpecError(
            f"cannot tune {path} because it is tuned already; expected ansorpy.load({str(path)!r})"
        )
    try:
        reason = "it is a folder" if S_ISDIR(path.stat().st_mode) else ""
    except (OSError, ValueError):  # a name that is too long, or has a null byte
        reason = "there is no such file"
    if reason:
        raise SpecError(f"cannot tune {shown(str(path))} because {reason}; expected {KINDS}")


def _text_of(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise SpecError(f"{path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise SpecError(f"cannot tune {path} because it is no text; expected {KINDS}") from error
