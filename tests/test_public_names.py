import inspect
import os
import pydoc
import subprocess
import sys
from collections.abc import Callable
from importlib import import_module
from importlib.metadata import version
from pathlib import Path

import pytest

import ansorpy
from ansorpy.model.entry import tune as tune_function

PUBLIC = [
    "AnsorError", "Client", "JsonlStore", "MemoryStore", "ModelResult", "Result", "Schedule",
    "SpecError", "Target", "compile", "create_schedule", "jit", "join_model", "load", "load_native",
    "local_target", "te", "tune",
]  # fmt: skip


def test_the_public_names_are_these() -> None:
    assert sorted(ansorpy.__all__) == sorted(PUBLIC)
    assert sorted(dir(ansorpy)) == sorted(PUBLIC)


@pytest.mark.parametrize("name", PUBLIC)
def test_every_public_name_is_there_and_documented(name: str) -> None:
    assert getattr(ansorpy, name).__doc__


def test_the_version_is_that_of_the_package() -> None:
    assert ansorpy.__version__ == version("ansorpy")


def test_help_of_tune_explains_every_argument() -> None:
    text = pydoc.plain(pydoc.render_doc(ansorpy.tune))
    assert "class Means" not in text
    told = inspect.getdoc(tune_function) or ""
    for name in inspect.signature(tune_function).parameters:
        assert f"    {name}: " in told, name


def modules() -> list[str]:
    """Return the modules below `ansorpy` that have an `__all__`, rules and service among them."""
    root = Path(ansorpy.__file__).parent
    files = [
        Path(folder) / name
        for folder, _, names in os.walk(root, followlinks=True)
        for name in names
        if name.endswith(".py")
    ]
    own = [path.relative_to(root.parent) for path in files if "\n__all__ = " in path.read_text()]
    return [".".join(path.with_suffix("").parts).removesuffix(".__init__") for path in own]


@pytest.mark.parametrize("module", modules())
def test_every_name_of_a_list_of_public_names_exists(module: str) -> None:
    made = import_module(module)
    assert [name for name in made.__all__ if not hasattr(made, name)] == []


def test_rules_and_service_are_among_the_modules() -> None:
    assert {"ansorpy", "ansorpy.rules", "ansorpy.te", "ansorpy.server.worker"} <= set(modules())


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = ansorpy.nothing


@pytest.mark.parametrize(
    "first", ["", "import ansorpy.tuner.tune;", "from ansorpy.result import Result;"]
)
def test_tune_can_be_called_after_any_first_import(first: str) -> None:
    code = f"{first}import ansorpy; assert callable(ansorpy.tune), ansorpy.tune"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


def test_importing_loads_no_numeric_floor() -> None:
    code = (
        "import sys, ansorpy;"
        "heavy = {'numpy', 'numba', 'llvmlite', 'lightgbm', 'fastapi', 'sqlalchemy'};"
        "assert not heavy & set(sys.modules), heavy & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


# A function, arguments by position and by name, and the message.
WRONG_CALLS: list[tuple[Callable[..., object], tuple[object, ...], dict[str, object], str]] = [
    (ansorpy.tune, ("",), {"trails": 3}, "tune() has no argument 'trails'; did you mean 'trials'?"),
    (ansorpy.tune, (), {}, "tune(): missing a required argument: 'what'"),
    (ansorpy.compile, (), {}, "compile(): missing a required argument: 'module'"),
    (
        ansorpy.Client.submit, (0,), {"second": 1},
        "Client.submit() has no argument 'second'; did you mean 'seconds'?",
    ),
    (
        ansorpy.load, ("x.zip",), {"thread": 2},
        "load() has no argument 'thread'; did you mean 'threads'?",
    ),
    (ansorpy.local_target, (1, 2, 3), {}, "local_target(): too many positional arguments"),
    (
        ansorpy.local_target, (), {"blocks": 1},
        "local_target() has no argument 'blocks'; expected cores, host",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("function", "args", "names", "message"), WRONG_CALLS)
def test_a_wrong_argument_names_the_function_and_the_nearest(
    function: Callable[..., object],
    args: tuple[object, ...],
    names: dict[str, object],
    message: str,
) -> None:
    with pytest.raises(TypeError) as found:
        function(*args, **names)
    assert str(found.value) == message


def test_public_functions_keep_name_help_and_identity() -> None:
    assert ansorpy.load is ansorpy.load
    assert ansorpy.load.__name__ == "load"
    assert "threads" in inspect.signature(ansorpy.load).parameters
