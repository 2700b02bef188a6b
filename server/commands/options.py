"""The options of a tuning as options of a command, made from their definitions (ADR-0105)."""

from collections.abc import Callable
from functools import wraps
from inspect import Parameter, Signature, signature
from typing import Annotated, Any, TypeVar, get_args

import typer

from ansorpy.server.commands.common import pairs, read_text, wrong_input
from ansorpy.tuner.options.option import Definition, definitions
from ansorpy.tuner.options.removed import REMOVED, check_removed
from ansorpy.tuner.options.tune_options import TuneOptions

Options = TypeVar("Options", bound=TuneOptions)


def takes_options(
    kind: type[Options], of_service: bool = False
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Return a decorator: the command has an option for each of `kind`, in place of `options`.

    Its parameter `options` gets them as one value of `kind`. Options that were removed are hidden,
    and refused.

    Args:
        of_service: apply the limits of a job.
    """
    known = definitions(kind)

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        @wraps(command)
        def called(**given: Any) -> None:
            with wrong_input():
                check_removed([name for name in REMOVED if given.pop(name) is not None])
                told = {name: _value(one, given.pop(name)) for name, one in known.items()}
                options = kind(**told)
            command(options=options, **given)

        own = list(signature(command).parameters.values())
        at = [one.name for one in own].index("options")
        made = [_parameter(one, of_service) for one in known.values()]
        made += map(_removed_parameter, REMOVED)
        shown = Signature([*own[:at], *made, *own[at + 1 :]])
        called.__signature__ = shown  # type: ignore[attr-defined]
        called.__annotations__ = {n: one.annotation for n, one in shown.parameters.items()}
        return called

    return decorate


def _flag(definition: Definition) -> str:
    return "--" + (definition.option.command or definition.name.replace("_", "-"))


def _value(definition: Definition, given: Any) -> Any:
    if definition.shape == "numbers by name":
        return pairs(given, _flag(definition), float)
    if definition.shape == "document" and given is not None:
        return read_text(given)
    return definition.default if given is None else given


def _parameter(definition: Definition, of_service: bool) -> Parameter:
    """Return the parameter of a command; the parser checks the inclusive bounds of a number."""
    shape, default = definition.type, definition.default
    bounds: dict[str, Any] = {}
    if definition.shape == "document":
        shape = str | None
    elif definition.shape != "value":
        shape, default = list[str] | None, None
    elif {int, float} & {definition.type, *get_args(definition.type)}:
        limits = definition.limits(of_service)
        bounds = {"min": limits.least, "max": limits.most}
    flags = _flag(definition) + (f"/--no-{definition.name}" if shape is bool else "")
    if definition.shape == "document":
        bounds = {"metavar": "FILE"}
    told = typer.Option(flags, help=definition.option.help, **bounds)
    return Parameter(
        definition.name,
        Parameter.POSITIONAL_OR_KEYWORD,
        default=default,
        annotation=Annotated[shape, told],
    )


def _removed_parameter(name: str) -> Parameter:
    """Return the hidden parameter of a switch that was removed."""
    told = typer.Option(f"--{name}/--no-{name}", hidden=True)
    return Parameter(
        name,
        Parameter.POSITIONAL_OR_KEYWORD,
        default=None,
        annotation=Annotated[bool | None, told],
    )
