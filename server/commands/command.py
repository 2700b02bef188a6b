"""Typer's commands and groups with our page of help, comma lists, and loading on first use."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, ClassVar

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_command, get_group

from ansorpy.server.commands.loading import INTERRUPTED, end_loading
from ansorpy.server.commands.page import ALL, page


def parts_of(text: str) -> Iterator[str]:
    """Yield the values of a comma list: `a,b`, or `x=1,2,y=3`, where x has the value 1,2.

    If the first value is NAME=VALUE, a comma is between two values only before another NAME=.
    """
    first, *rest = text.split(",")
    for piece in rest:
        if "=" in text.partition(",")[0] and "=" not in piece:
            first = f"{first},{piece}"
            continue
        yield first
        first = piece
    yield first


class HelpPage:
    """The page of `-h`, `--help` and `--help-all` of a command or a group."""

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Write the page of `--help`."""
        formatter.write(page(self, ctx, every=False))

    def tell_all(self, ctx: Any) -> None:
        """Print the page of `--help-all`, and end."""
        typer.echo(page(self, ctx, every=True), nl=False)
        ctx.exit()


class HelpCommand(HelpPage, TyperCommand):
    """A command; each of its repeatable options also takes a comma list."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the arguments into `ctx.params`."""
        if ALL in args and not ctx.resilient_parsing:  # else a shell asks for completions
            self.tell_all(ctx)
        rest: list[str] = super().parse_args(ctx, args)
        for one in self.params:
            given = ctx.params.get(one.name) if getattr(one, "multiple", False) else None
            if given:
                ctx.params[one.name] = [part for text in given for part in _values(one, text)]
        return rest

    def invoke(self, ctx: Any) -> Any:
        """Run the command, whose modules are loaded by now."""
        end_loading()
        return super().invoke(ctx)


def _values(option: Any, text: str) -> Sequence[str]:
    """Return the values in one text of an option; the name of a file may have a comma."""
    if option.metavar == "FILE" and Path(text).exists():
        return [text]
    return list(parts_of(text))


class HelpGroup(HelpPage, TyperGroup):
    """A group of commands."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the arguments in front of the name of a command."""
        if args[:1] == [ALL] and not ctx.resilient_parsing:
            self.tell_all(ctx)
        rest: list[str] = super().parse_args(ctx, args)
        return rest


class Commands(typer.Typer):
    """Typer whose commands have our page of help."""

    def __init__(
        self,
        name: str | None = None,
        help: str | None = None,
        group: type[HelpGroup] = HelpGroup,
        completion: bool = False,
    ) -> None:
        super().__init__(
            name=name,
            help=help,
            cls=group,
            add_completion=completion,
            no_args_is_help=True,
            pretty_exceptions_enable=False,
            context_settings={"help_option_names": ["-h", "--help"]},
        )

    def command(  # type: ignore[override]
        self, name: str | None = None, **settings: Any
    ) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
        """Return the decorator of a command."""
        return super().command(name, cls=HelpCommand, **settings)


@dataclass(frozen=True, slots=True)
class Outline:
    """The line of a command on the page of its group, and the place of its code.

    Args:
        place: MODULE:NAME of a function or of `Commands`.
        line: the first line of its docstring, without the full stop.
    """

    panel: str
    place: str
    line: str


class LazyGroup(HelpGroup):
    """A group whose commands are imported when they are called.

    Its page of help, suggestions and completion of names need the outlines alone.
    """

    outlines: ClassVar[Mapping[str, Outline]] = {}

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        for name, one in self.outlines.items():
            self.add_command(HelpCommand(name, help=one.line, rich_help_panel=one.panel))

    def resolve_command(self, ctx: Any, args: list[str]) -> tuple[str | None, Any, list[str]]:
        """Return the command that the arguments name, loaded, and the rest of them."""
        name, found, rest = super().resolve_command(ctx, args)
        return name, found if name is None else self.loaded(name), rest

    def loaded(self, name: str) -> Any:
        """Import a command by its name."""
        module, _, target = self.outlines[name].place.partition(":")
        found = getattr(import_module(module), target)
        if isinstance(found, typer.Typer):
            return get_group(found)
        alone = Commands()
        alone.command(name)(found)
        return get_command(alone)

    def invoke(self, ctx: Any) -> Any:
        """Run a command; an interrupt that it does not handle ends it in one line."""
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            typer.echo("ansorpy: interrupted", err=True)
            raise typer.Exit(INTERRUPTED) from None
