"""Helpers of the commands: settings, database, input files, error messages of one line."""

import re
import sys
import weakref
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TextIO

import typer

from ansorpy.errors import AnsorError, PluginError, RuleError, SpecError
from ansorpy.server.commands.loading import INTERRUPTED as INTERRUPTED

if TYPE_CHECKING:
    from ansorpy.server.db.records import SqlStore
    from ansorpy.server.settings import ServiceSettings
    from ansorpy.te.dag import Dag

WRONG_INPUT: Final = 2
PLACE: Final = re.compile(r"[^\n]*?:(\d+):(\d+): ")  # place of an error in a text
CONTEXT_COLUMNS: Final = 70  # columns of the line that are shown on each side of an error
# Forms of `--bind`, for messages.
FORMS: Final = "NAME=512, NAME=1..512, NAME=8..512:8@8:0.9+64..512:0.1 or NAME=past+new"
NOTHING_SURVIVED: Final = 3
NO_SERVICE: Final = 4


@contextmanager
def wrong_input() -> Iterator[None]:
    """Turn the error of a request, a rule or a plug-in into one line of stderr, exit code 2."""
    try:
        yield
    except (SpecError, RuleError, PluginError) as error:
        raise stop(error, WRONG_INPUT) from error


@contextmanager
def nothing_kept() -> Iterator[None]:
    """Tell that nothing was written if an interrupt comes before a search, which tells more."""
    try:
        yield
    except KeyboardInterrupt:
        typer.echo("ansorpy: interrupted before the search: nothing was written", err=True)
        raise typer.Exit(INTERRUPTED) from None


def stop(error: AnsorError, code: int) -> typer.Exit:
    """Print an error in one line; return the exception that ends the command."""
    typer.echo(f"ansorpy: {error}", err=True)
    return typer.Exit(code)


def read_settings() -> "ServiceSettings":
    """Return the settings of the environment.

    Raises:
        SpecError: names the invalid variable.
    """
    from pydantic import ValidationError

    from ansorpy.server.settings import ServiceSettings

    try:
        return ServiceSettings()
    except ValidationError as error:
        first = error.errors(include_input=False)[0]
        name = "_".join(map(str, first["loc"])).upper()
        raise SpecError(f"cannot use ANSORPY_{name}: {first['msg']}") from error


def database_store() -> "SqlStore":
    """Return the records of the local tenant in the database of the settings.

    The database of the data folder first takes in the file of records that Python had there. The
    connections live as long as the store.

    Raises:
        SpecError: the database cannot be opened.
    """
    from ansorpy.records import file_store_path
    from ansorpy.server.db.old_records import take_in
    from ansorpy.server.db.records import SqlStore
    from ansorpy.server.db.upgrade import local_tenant

    settings = read_settings()
    engine = database(settings)
    store = SqlStore(engine, local_tenant(engine))
    weakref.finalize(store, engine.dispose)
    if not settings.database_url:
        take_in(file_store_path(), store)
    return store


def database(settings: "ServiceSettings") -> Any:
    """Open the database of records and jobs.

    Raises:
        SpecError: the database cannot be opened.
    """
    from sqlalchemy.exc import SQLAlchemyError

    from ansorpy.server.db.upgrade import open_database

    try:
        return open_database(settings.url)
    except (OSError, SQLAlchemyError) as error:
        reason = str(error).splitlines()[0]
        raise SpecError(
            f"cannot open the database because of {reason}; expected a usable ANSORPY_DATA_DIR"
            f" ({settings.data_dir}) or ANSORPY_DATABASE_URL"
        ) from error


@contextmanager
def opened(file: str) -> Iterator[TextIO]:
    """Open a text file, or standard input for `-`.

    Raises:
        SpecError: the file cannot be read, or is not UTF-8.
    """
    try:
        if file == "-":
            yield sys.stdin
            return
        with Path(file).open(encoding="utf-8") as lines:
            yield lines
    except OSError as error:
        raise SpecError(f"{file}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise SpecError(f"{file}: {error}") from error


def read_text(file: str) -> str:
    """Return the text of a file, `-` for standard input; SpecError if it is unreadable."""
    with opened(file) as lines:
        return lines.read()


def read_source(file: str) -> tuple[str, "Dag | None"]:
    """Return the text of a file (`-` for standard input), and its Dag if the text is JSON.

    Raises:
        SpecError: names the file, which is unreadable or contains no valid Dag.
    """
    from ansorpy.frontends.source import dags_of, is_json

    text = read_text(file)
    return text, dags_of(text, {}, file)[0] if is_json(text) else None


def read_file(file: str, bind: Mapping[str, int]) -> tuple["Dag", ...]:
    """Return the Dags of a text or JSON file.

    Raises:
        SpecError: the file is unreadable, or its content is invalid.
    """
    from ansorpy.frontends.source import dags_of

    text = read_text(file)
    try:
        return dags_of(text, bind, file)
    except SpecError as error:
        raise SpecError(pointed(str(error), text)) from error


def pointed(message: str, text: str) -> str:
    """Return a message that begins with NAME:LINE:COLUMN with that line and a caret below."""
    place = PLACE.match(message)
    lines = text.splitlines()
    if place is None or not 1 <= int(place[1]) <= len(lines):
        return message
    column = int(place[2]) - 1
    begin = max(0, column - CONTEXT_COLUMNS)
    line = lines[int(place[1]) - 1][begin : column + CONTEXT_COLUMNS].replace("\t", " ")
    return f"{message}\n  {line}\n  {'^':>{column - begin + 1}}"


def pairs(
    texts: list[str] | None, option: str, kind: Callable[[str], object], values: str = ""
) -> dict[str, Any]:
    """Return NAME=VALUE options as a mapping.

    Args:
        values: forms of an option, for messages; NAME and the name of the kind unless given.

    Raises:
        SpecError: names the invalid option.
    """
    numbers: dict[str, Any] = {}
    for text in texts or ():
        name, equals, value = text.partition("=")
        try:
            numbers[name] = kind(value)
        except ValueError:
            equals = ""
        if not name or not equals:
            raise SpecError(
                f"cannot read {option} {text} because of its form; expected"
                f" {values or f'NAME={kind.__name__}'}"
            )
    return numbers


def extents(texts: list[str] | None) -> dict[str, int]:
    """Return NAME=512 and NAME=1..512 options of `--bind` as a mapping; a range makes a dim.

    NAME=8..512:8 has the multiples of 8 only; NAME=1..512@1:0.9+512:0.1 has weights of sizes.

    Raises:
        SpecError: names the invalid option.
    """
    return _bound(pairs(texts, "--bind", whole, FORMS))


def bindings(texts: list[str] | None) -> dict[str, float]:
    """Return the options of `--bind` of a model as a mapping: a number, or a dim for a range.

    Raises:
        SpecError: names the invalid option.
    """
    return _bound(pairs(texts, "--bind", _number_or_range, FORMS))


def _bound(values: Mapping[str, Any]) -> dict[str, Any]:
    from ansorpy.te.bindings import bound

    return bound(values)


def _number_or_range(text: str) -> float | str:
    try:
        return number(text)
    except ValueError:
        return whole(text)


def whole(text: str) -> int | str:
    """Return an integer, or the text of a range or of symbols, such as 1..512 and past+new.

    Raises:
        ValueError: the text is none of these.
    """
    from ansorpy.te.bindings import range_parts

    if ".." in text:
        range_parts(text)
    elif not text[:1].isalpha() and text[:1] != "_":
        return int(text)
    return text


def number(text: str) -> float:
    """Return a finite number, an int if it is whole.

    Raises:
        ValueError: the text is none.
    """
    value = float(text)
    if not isfinite(value):
        raise ValueError(text)
    return int(value) if value.is_integer() else value


def shapes_of(texts: list[str] | None) -> dict[str, tuple[int, ...]]:
    """Return NAME=1,3,224,224 options of `--shape` as a mapping.

    Raises:
        SpecError: names the invalid option.
    """
    shapes: dict[str, tuple[int, ...]] = {}
    for text in texts or ():
        name, _, extents = text.rpartition("=")
        try:
            shapes[name] = tuple(int(extent) for extent in extents.split(",") if extents)
        except ValueError:
            name = ""
        if not name:
            raise SpecError(
                f"cannot read --shape {text} because of its form; expected NAME=1,3,224,224"
            )
    return shapes
