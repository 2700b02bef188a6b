"""What every command needs: settings, the database, and mistakes told in one line."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import typer
from pydantic import ValidationError

from ansorpy.errors import AnsorError, SpecError
from ansorpy.server.settings import ServiceSettings

if TYPE_CHECKING:
    from ansorpy.te.dag import Dag

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


def read_settings() -> ServiceSettings:
    """Return what the environment sets; SpecError names the variable that is wrong."""
    try:
        return ServiceSettings()
    except ValidationError as error:
        first = error.errors(include_input=False)[0]
        name = "_".join(map(str, first["loc"])).upper()
        raise SpecError(f"ANSORPY_{name}: {first['msg']}") from error


def database(settings: ServiceSettings) -> Any:
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


def read_source(file: str) -> tuple[str, "Dag | None"]:
    """Return the text of a file (`-`: of standard input), and its DAG if the text is JSON.

    Raises:
        SpecError: names the file, which cannot be read or holds no DAG.
    """
    from ansorpy.frontends.json.write import loads

    try:
        text = sys.stdin.read() if file == "-" else Path(file).read_text(encoding="utf-8")
    except OSError as error:
        raise SpecError(f"{file}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise SpecError(f"{file}: {error}") from error
    if not text.lstrip().startswith("{"):
        return text, None
    try:
        return text, loads(text)
    except SpecError as error:
        raise SpecError(f"{file}: {error}") from error


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
