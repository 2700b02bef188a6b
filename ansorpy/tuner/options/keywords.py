"""Give a function the keywords of a dataclass: one definition for the reader and the type checker.

    @keywords_of(TuneCall)
    def tune(call: TuneCall) -> Result: ...

    tune(dag, trials=64)      # is tune(TuneCall(dag, trials=64))

A type checker sees the parameters of `TuneCall.__init__`, and so do `help` and an editor; the
docstring gets a paragraph per field whose type is annotated with an `Option` (ADR-0105).
"""

from collections.abc import Callable, Mapping
from dataclasses import MISSING
from functools import update_wrapper, wraps
from inspect import Parameter, Signature, cleandoc
from textwrap import fill
from types import MappingProxyType
from typing import Any, Concatenate, ParamSpec, TypeVar, cast, get_type_hints

from ansorpy.arguments import suggesting
from ansorpy.tuner.options.option import Definition, definitions
from ansorpy.tuner.options.removed import check_removed
from ansorpy.tuner.options.tune_options import TuneOptions

P = ParamSpec("P")
Call = TypeVar("Call")
Owner = TypeVar("Owner")
Answer = TypeVar("Answer")

WIDTH = 96  # columns of the docstring


def keywords_of(
    kind: Callable[P, Call],
) -> Callable[[Callable[[Call], Answer]], Callable[P, Answer]]:
    """Return a decorator: the function takes the arguments of `kind`, and gets the value."""

    def decorate(function: Callable[[Call], Answer]) -> Callable[P, Answer]:
        def called(*args: P.args, **keywords: P.kwargs) -> Answer:
            return function(kind(*args, **keywords))

        return _checked(_told(called, function, cast(type[TuneOptions], kind), []))

    return decorate


def method_keywords_of(
    kind: Callable[P, Call],
) -> Callable[[Callable[[Owner, Call], Answer]], Callable[Concatenate[Owner, P], Answer]]:
    """Return a decorator of a method: as `keywords_of`, after `self`."""

    def decorate(
        method: Callable[[Owner, Call], Answer],
    ) -> Callable[Concatenate[Owner, P], Answer]:
        def called(self: Owner, /, *args: P.args, **keywords: P.kwargs) -> Answer:
            return method(self, kind(*args, **keywords))

        first = [Parameter("self", Parameter.POSITIONAL_ONLY)]
        return _checked(_told(called, method, cast(type[TuneOptions], kind), first))

    return decorate


def keywords_after(
    name: str, help: str, kind: Callable[P, Call]
) -> Callable[[Callable[[Any, Call], Answer]], Callable[Concatenate[Any, P], Answer]]:
    """Return a decorator: as `keywords_of`, after a first argument, which has this help."""

    def decorate(
        function: Callable[[Any, Call], Answer],
    ) -> Callable[Concatenate[Any, P], Answer]:
        def called(first: Any, /, *args: P.args, **keywords: P.kwargs) -> Answer:
            return function(first, kind(*args, **keywords))

        parameters = [Parameter(name, Parameter.POSITIONAL_ONLY)]
        told = _told(called, function, cast(type[TuneOptions], kind), parameters, {name: help})
        return _checked(told)

    return decorate


def _checked(function: Callable[P, Answer]) -> Callable[P, Answer]:
    """Return the function with checks of its arguments in front.

    Calls raise SpecError for an option that was removed, and TypeError for other wrong arguments.
    """
    known = suggesting(function)

    @wraps(known)
    def called(*args: P.args, **keywords: P.kwargs) -> Answer:
        check_removed(keywords)
        answer: Answer = known(*args, **keywords)
        return answer

    return called


Wrapped = TypeVar("Wrapped", bound=Callable[..., Any])


def _told(
    called: Wrapped,
    function: Callable[..., Any],
    kind: type[TuneOptions],
    first: list[Parameter],
    helps: Mapping[str, str] = MappingProxyType({}),
) -> Wrapped:
    """Return the wrapper with the name, the signature and the docstring that `help` shows."""
    update_wrapper(called, function)
    answer = get_type_hints(function).get("return", Signature.empty)
    known = definitions(kind).values()
    parameters = [*first, *map(_parameter, known)]
    called.__signature__ = Signature(parameters, return_annotation=answer)  # type: ignore[attr-defined]
    purpose, raises, errors = cleandoc(function.__doc__ or "").partition("Raises:")
    texts = {**helps, **{one.name: one.option.help for one in known}}
    told = "\n".join(_paragraph(name, text) for name, text in texts.items())
    called.__doc__ = f"{purpose.rstrip()}\n\nArgs:\n{told}\n\n{raises}{errors}".rstrip()
    return called


def _parameter(definition: Definition) -> Parameter:
    how = Parameter.KEYWORD_ONLY if definition.keyword_only else Parameter.POSITIONAL_OR_KEYWORD
    default = Parameter.empty if definition.default is MISSING else definition.default
    return Parameter(definition.name, how, default=default, annotation=definition.type)


def _paragraph(name: str, text: str) -> str:
    return fill(f"{name}: {text}", WIDTH, initial_indent=" " * 4, subsequent_indent=" " * 8)
