"""Template-free auto-scheduling of tensor programs.

>>> import ansorpy
>>> text = "def mm(float(64,64) A, float(64,64) B) -> (C) { C(i,j) +=! A(i,k) * B(k,j) }"
>>> result = ansorpy.tune(text)
>>> c = result.kernels["mm"](a, b)

Names load when they are first used: importing this package takes milliseconds.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ansorpy import te as te
    from ansorpy.artifact import load_native as load_native
    from ansorpy.client import Client as Client
    from ansorpy.client.load import load as load
    from ansorpy.errors import AnsorError as AnsorError
    from ansorpy.errors import SpecError as SpecError
    from ansorpy.measure.host import local_target as local_target
    from ansorpy.model.compile import ModelResult as ModelResult
    from ansorpy.model.entry import tune as tune
    from ansorpy.model.join import join_model as join_model
    from ansorpy.model.torch_compile import compile as compile
    from ansorpy.records import JsonlStore as JsonlStore
    from ansorpy.records import MemoryStore as MemoryStore
    from ansorpy.result import Result as Result
    from ansorpy.schedule import Schedule as Schedule
    from ansorpy.schedule import create_schedule as create_schedule
    from ansorpy.target import Target as Target
    from ansorpy.tracing.jit import jit as jit

    __version__: str

_HOMES = {
    "AnsorError": "ansorpy.errors",
    "Client": "ansorpy.client",
    "JsonlStore": "ansorpy.records",
    "MemoryStore": "ansorpy.records",
    "ModelResult": "ansorpy.model.compile",
    "Result": "ansorpy.result",
    "Schedule": "ansorpy.schedule",
    "SpecError": "ansorpy.errors",
    "Target": "ansorpy.target",
    "compile": "ansorpy.model.torch_compile",
    "create_schedule": "ansorpy.schedule",
    "jit": "ansorpy.tracing.jit",
    "join_model": "ansorpy.model.join",
    "load": "ansorpy.client",
    "load_native": "ansorpy.artifact",
    "local_target": "ansorpy.measure.host",
    "tune": "ansorpy.model.entry",
}

__all__ = [
    "AnsorError",
    "Client",
    "JsonlStore",
    "MemoryStore",
    "ModelResult",
    "Result",
    "Schedule",
    "SpecError",
    "Target",
    "compile",
    "create_schedule",
    "jit",
    "join_model",
    "load",
    "load_native",
    "local_target",
    "te",
    "tune",
]


def __getattr__(name: str) -> Any:
    """Load a public name on first use (PEP 562)."""
    if name == "te":
        return import_module("ansorpy.te")
    if name in _HOMES:
        found = getattr(import_module(_HOMES[name]), name)
        if isinstance(found, type):
            return found
        from ansorpy.arguments import suggesting

        return suggesting(found)
    if name == "__version__":
        from importlib.metadata import version  # it loads slowly, and is seldom asked for

        return version("ansorpy")
    raise AttributeError(f"module 'ansorpy' has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
