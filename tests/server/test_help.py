"""Pages of help, comma lists, start-up and interrupts: the same for every command."""

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.main import get_command
from typer.testing import CliRunner, Result

from ansorpy.server.cli import app
from ansorpy.server.commands.command import Commands, parts_of
from ansorpy.server.commands.page import PANELS, first_line

MOST_LINES = 40  # lines of a page at 80 columns, which fit a screen
MOST_MODULES = 300  # modules that `--version` or `-h` loads; Python itself loads 26
ROOT: Any = get_command(app)


def commands() -> Iterator[tuple[tuple[str, ...], Any]]:
    """Yield every command and group with its path."""
    yield (), ROOT
    for name in ROOT.outlines:
        found = ROOT.loaded(name)
        yield (name,), found
        for below, one in getattr(found, "commands", {}).items():
            yield (name, below), one


EVERY = tuple(commands())
LEAVES = tuple((path, one) for path, one in EVERY if not hasattr(one, "list_commands"))


def ansorpy(*arguments: str, columns: int = 80) -> Result:
    env = {"COLUMNS": str(columns)}
    return CliRunner().invoke(app, arguments, env=env, prog_name="ansorpy")


@pytest.mark.parametrize("path", [path for path, _ in EVERY], ids=" ".join)
def test_a_page_of_help_fits_a_screen(path: tuple[str, ...]) -> None:
    for flag in ("-h", "--help"):
        found = ansorpy(*path, flag)
        lines = found.stdout.splitlines()
        assert found.exit_code == 0
        assert lines[0].startswith(f"Usage: {' '.join(('ansorpy', *path))} ")
        assert len(lines) <= MOST_LINES
        assert max(map(len, lines)) <= 80
    assert ansorpy(*path, "--help-all").exit_code == 0


@pytest.mark.parametrize(("path", "command"), LEAVES, ids=lambda one: str(one))
def test_every_option_is_in_one_panel_and_on_the_whole_page(
    path: tuple[str, ...], command: Any
) -> None:
    told = ansorpy(*path, "--help-all").stdout
    names = [name for panel in PANELS for name in (*panel.usual, *panel.rare)]
    assert len(set(names)) == len(names)
    for one in command.params:
        if one.param_type_name == "option" and not one.hidden:
            assert one.opts[0].removeprefix("--") in names
            assert f"  {one.opts[0]}" in told
            assert " ".join((one.help or "").split())[:40] in " ".join(told.split())


def test_rare_options_are_on_the_whole_page_alone() -> None:
    usual, every = ansorpy("tune", "-h").stdout, ansorpy("tune", "--help-all").stdout
    assert "--patience" not in usual
    assert "--patience" in every
    assert re.search(r"--help-all: \d+ more options", usual)
    titles = [line for line in usual.splitlines() if line.startswith("-- ")]
    assert [line.strip("- ") for line in titles] == [
        "Input", "Budget", "Search", "Machine", "Output",
    ]  # fmt: skip


@pytest.mark.parametrize("name", ROOT.outlines)
def test_an_outline_is_the_first_line_of_the_docstring(name: str) -> None:
    assert ROOT.outlines[name].line == first_line(ROOT.loaded(name).help)


def test_an_unknown_command_or_option_names_the_nearest() -> None:
    assert "Did you mean 'tune'?" in ansorpy("tunr").stderr
    assert "--trials" in ansorpy("tune", "x.te", "--trails", "3").stderr


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("winograd2", ["winograd2"]),
        ("winograd2,winograd4", ["winograd2", "winograd4"]),
        ("K=512,M=3", ["K=512", "M=3"]),
        ("x=1,3,224,224", ["x=1,3,224,224"]),
        ("x=1,3,y=2,4", ["x=1,3", "y=2,4"]),
    ],
)
def test_a_comma_list_has_these_values(text: str, values: list[str]) -> None:
    assert list(parts_of(text)) == values


def test_every_repeatable_option_takes_a_comma_list(tmp_path: Path) -> None:
    tried = Commands()
    seen: dict[str, Any] = {}

    @tried.command()
    def take(
        names: list[str] = typer.Option([], "--name"),  # noqa: B008
        own: list[str] = typer.Option([], "--own", metavar="FILE"),  # noqa: B008
    ) -> None:
        seen.update(names=list(names), own=list(own))

    odd = tmp_path / "a,b.zip"
    odd.touch()
    runner = CliRunner()
    given = ["--name", "a,b", "--name", "c", "--own", str(odd), "--own", "d.zip,e.zip"]
    assert runner.invoke(tried, given).exit_code == 0
    assert seen == {"names": ["a", "b", "c"], "own": [str(odd), "d.zip", "e.zip"]}


@pytest.mark.parametrize("flag", ["--version", "-h"])
def test_the_command_line_starts_fast(flag: str) -> None:
    command = [sys.executable, "-X", "importtime", "-m", "ansorpy", flag]
    told = subprocess.run(command, check=True, capture_output=True).stderr
    assert len(told.splitlines()) < MOST_MODULES


def test_the_table_of_commands_loads_no_heavy_package() -> None:
    code = (
        "import sys; from typer.main import get_command; from ansorpy.server.cli import app;"
        " get_command(app); heavy = {'numpy', 'numba', 'sqlalchemy', 'pydantic', 'onnx', 'httpx'};"
        " assert not heavy & set(sys.modules), heavy & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize("package", ["typer", "numpy"])  # loaded first, and by tune
def test_ctrl_c_while_modules_load_is_one_line(package: str, tmp_path: Path) -> None:
    slow = tmp_path / f"{package}.py"
    slow.write_text("import sys, time; print('loading', flush=True); time.sleep(60)")
    env = {**os.environ, "PYTHONPATH": str(tmp_path)}
    process = subprocess.Popen(
        [sys.executable, "-m", "ansorpy", "tune", "x.te"],
        env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert process.stdout is not None
    assert process.stdout.readline() == "loading\n"
    process.send_signal(signal.SIGINT)
    _, told = process.communicate(timeout=60)
    assert process.returncode == 130
    assert told == "ansorpy: interrupted\n"
