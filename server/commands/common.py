"""What every command needs: settings, the database, and mistakes told in one line."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

import typer
from pydantic import ValidationError

from ansorpy.errors import AnsorError, SpecError
from ansorpy.server.settings import Settings

WRONG_INPUT: Final = 2
NOTHING_SURVIVED: Final = 3
NO_SERVICE: Final = 4
INTERRUPTED: Final = 130


@contextmanager
def wrong_input() -> Iterator[None]:
    """Turn a SpecError into one line on standard error and exit code 2."""
    try:
        yield
    except SpecError as error:
        raise stop(error, WRONG_INPUT) from error


def stop(error: AnsorError, code: int) -> typer.Exit:
    """Tell a mistake in one line; return what ends the command."""
    typer.echo(f"ansorpy: {error}", err=True)
    return typer.Exit(code)


def read_settings() -> Settings:
    """Return what the environment sets; SpecError names the variable that is wrong."""
    try:
        return Settings()
    except ValidationError as error:
        first = error.errors(include_input=False)[0]
        name = "_".join(map(str, first["loc"])).upper()
        raise SpecError(f"ANSORPY_{name}: {first['msg']}") from error


def database(settings: Settings) -> Any:
    """Return the open database of records and jobs; SpecError where there is none to open."""
    from sqlalchemy.exc import SQLAlchemyError

    from ansorpy.server.db.upgrade import open_database

    try:
        return open_database(settings.url)
    except (OSError, SQLAlchemyError) as error:
        reason = str(error).splitlines()[0]
        raise SpecError(
            f"the database under {settings.data_dir} does not open: {reason}"
        ) from error


def pairs(texts: list[str] | None, option: str, kind: type) -> dict[str, Any]:
    """Return NAME=VALUE options as a mapping; SpecError names the one that is wrong."""
    found: dict[str, Any] = {}
    for text in texts or ():
        name, equals, value = text.partition("=")
        try:
            found[name] = kind(value)
        except ValueError:
            equals = ""
        if not name or not equals:
            raise SpecError(f"{option} {text}: expected NAME={kind.__name__}")
    return found
