"""Public calls with wrong arguments: the message names the function and the nearest argument."""

from collections.abc import Callable
from difflib import get_close_matches
from functools import cache, wraps
from inspect import Parameter, signature
from typing import Any, ParamSpec, TypeVar, cast

P = ParamSpec("P")
Answer = TypeVar("Answer")


@cache
def suggesting(function: Callable[P, Answer]) -> Callable[P, Answer]:
    """Return the function with a check of its arguments in front; equal ones for equal functions.

    Calls raise TypeError if an argument is unknown, missing, or one too many.
    """
    if getattr(function, "_suggests", False):
        return function
    shape, told = signature(function), function.__qualname__
    names = [one.name for one in shape.parameters.values() if one.kind in _BY_NAME]
    takes_all = any(one.kind is Parameter.VAR_KEYWORD for one in shape.parameters.values())

    @wraps(function)
    def called(*args: Any, **keywords: Any) -> Any:
        for name in () if takes_all else keywords:
            if name not in names:
                raise TypeError(f"{told}() has no argument {name!r}; {_hint(name, names)}")
        try:
            shape.bind(*args, **keywords)
        except TypeError as error:
            raise TypeError(f"{told}(): {error}") from None
        return function(*args, **keywords)

    called._suggests = True  # type: ignore[attr-defined]
    return cast("Callable[P, Answer]", called)


_BY_NAME = (Parameter.POSITIONAL_OR_KEYWORD, Parameter.KEYWORD_ONLY)


def _hint(name: str, names: list[str]) -> str:
    near = get_close_matches(name, names, 1)
    return f"did you mean {near[0]!r}?" if near else f"expected {', '.join(names)}"
