import subprocess
import sys

import pytest

import ansorpy

PUBLIC = [
    "AnsorError", "Client", "JsonlStore", "MemoryStore", "Result", "SpecError", "Target", "load",
    "load_native", "local_target", "te", "tune",
]  # fmt: skip


def test_the_public_names_are_these() -> None:
    assert sorted(ansorpy.__all__) == sorted(PUBLIC)
    assert sorted(dir(ansorpy)) == sorted(PUBLIC)


@pytest.mark.parametrize("name", PUBLIC)
def test_every_public_name_is_there_and_documented(name: str) -> None:
    assert getattr(ansorpy, name).__doc__


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = ansorpy.nothing


@pytest.mark.parametrize("first", ["", "import ansorpy.tune;", "from ansorpy.tune import Result;"])
def test_tune_can_be_called_whatever_was_imported_first(first: str) -> None:
    code = f"{first}import ansorpy; assert callable(ansorpy.tune), ansorpy.tune"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


def test_importing_loads_no_numeric_floor() -> None:
    code = (
        "import sys, ansorpy;"
        "heavy = {'numpy', 'numba', 'llvmlite', 'lightgbm', 'fastapi', 'sqlalchemy'};"
        "assert not heavy & set(sys.modules), heavy & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
