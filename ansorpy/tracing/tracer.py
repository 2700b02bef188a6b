"""The array of a trace: it records the calls of NumPy, and refuses to tell its elements."""

from collections.abc import Callable, Iterator
from inspect import signature
from math import prod
from typing import TYPE_CHECKING, Any, Final, NoReturn, TypeVar

import numpy as np
from numpy.lib.mixins import NDArrayOperatorsMixin

from ansorpy.errors import SpecError, TraceError, shown
from ansorpy.tracing.places import Unsupported, refuse

if TYPE_CHECKING:
    from ansorpy.tracing.recorder import TraceRecorder

Entered = TypeVar("Entered", bound="Rule")
Rule = Callable[..., Any]  # takes the recorder, and the arguments of the function

FUNCTIONS: Final[dict[Any, Rule]] = {}  # by function of NumPy
UFUNCS: Final[dict[str, Rule]] = {}  # by name of the ufunc; SciPy's are no objects of NumPy
METHODS: Final[dict[str, Any]] = {}  # function of NumPy by method of arrays
WHERE: Final = "np.where, or a static argument: a number, a string, a tuple of them"
MOST_ROWS: Final = 64  # rows of a loop over an array, which is unrolled


class Tracer(NDArrayOperatorsMixin):
    """A value of a trace, with the shape and dtype that NumPy's array would have."""

    __slots__ = ("dtype", "recorder", "shape", "value")
    __hash__ = object.__hash__

    def __init__(
        self, recorder: "TraceRecorder", value: str, shape: tuple[int, ...], dtype: np.dtype[Any]
    ) -> None:
        self.recorder, self.value, self.shape, self.dtype = recorder, value, shape, dtype

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """The number of elements."""
        return prod(self.shape)

    @property
    def T(self) -> Any:  # noqa: N802  NumPy's name
        """The array with its axes reversed."""
        return self._call("T", np.transpose, self)

    @property
    def mT(self) -> Any:  # noqa: N802  NumPy's name
        """The array with its last two axes exchanged."""
        return self._call("mT", np.swapaxes, self, -1, -2)

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **keywords: Any) -> Any:
        name = f"np.{ufunc.__name__}" + ("" if method == "__call__" else f".{method}")
        if any(one is not None for one in keywords.get("out", ())):
            self._refuse(name, "it writes to an array in place", "a new name, as in y = x + 1")
        if method == "reduce" and ufunc in REDUCED:
            return self._call(name, REDUCED[ufunc], *inputs, **{"axis": 0, **keywords})
        rule = UFUNCS.get(ufunc.__name__)
        if method != "__call__" or rule is None:
            self._refuse(name, "there is no rule for it", "functions of the list in docs/jit.md")
        return self._recorded(name, lambda *a, **k: rule(self.recorder, ufunc, *a, **k),
                              inputs, keywords)  # fmt: skip

    def __array_function__(self, function: Any, types: Any, args: Any, keywords: Any) -> Any:
        module = function.__module__.removeprefix("numpy").lstrip(".")
        name = ".".join(filter(None, ["np", module, function.__name__]))
        return self._call(name, function, *args, **keywords)

    def __getitem__(self, key: Any) -> Any:
        return self._call("an index", Tracer.__getitem__, self, key)

    def __iter__(self) -> Iterator[Any]:
        if not self.shape or self.shape[0] > MOST_ROWS:
            self._refuse(
                "a loop over an array", f"it has the shape {list(self.shape)}",
                f"at most {MOST_ROWS} rows, which are unrolled, or operations on whole arrays",
            )  # fmt: skip
        return (self[n] for n in range(self.shape[0]))

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("len() of unsized object")
        return self.shape[0]

    def __setitem__(self, key: Any, value: Any) -> NoReturn:
        self._refuse("a write to elements", "kernels do not change their inputs", "np.where")

    def __bool__(self) -> NoReturn:
        self._refuse("a condition", "it depends on data", WHERE)

    def __int__(self) -> NoReturn:
        self._refuse("int(...)", "the value depends on data", WHERE)

    def __float__(self) -> NoReturn:
        self._refuse("float(...)", "the value depends on data", "x.astype, or the array itself")

    def __index__(self) -> NoReturn:
        self._refuse("an index or a size", "it depends on data", "np.take, or a static argument")

    def __complex__(self) -> NoReturn:
        self._refuse("complex(...)", "dtype complex128 has no kernels", "real numbers")

    def __array__(self, *_: Any, **__: Any) -> NoReturn:
        self._refuse(
            "a conversion to an array of NumPy", "the elements are known at a call only",
            "functions of NumPy on the array itself",
        )  # fmt: skip

    def __str__(self) -> NoReturn:
        self._refuse(
            "a text of an array", "the elements are known at a call only",
            "a print outside of the function, or repr(x), which tells shape and dtype",
        )  # fmt: skip

    def __format__(self, spec: str) -> NoReturn:
        self.__str__()

    def __repr__(self) -> str:
        return f"<traced {self.dtype.name}{list(self.shape)}>"

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        if name not in METHODS:
            self._refuse(
                f"x.{shown(name)}", "there is no rule for it", "methods of the list in docs/jit.md"
            )
        return lambda *args, **keywords: self._call(
            f"x.{name}", METHODS[name], self, *args, **keywords
        )

    def _call(self, name: str, function: Any, *args: Any, **keywords: Any) -> Any:
        """Apply the rule of a function of NumPy."""
        rule = FUNCTIONS.get(function)
        if rule is None:
            self._refuse(name, "there is no rule for it", "functions of the list in docs/jit.md")
        try:
            signature(rule).bind(self.recorder, *args, **keywords)
        except TypeError as error:
            self._refuse(name, f"of its arguments: {error}", "arguments of the list in docs/jit.md")
        return self._recorded(name, lambda *a, **k: rule(self.recorder, *a, **k), args, keywords)

    def _recorded(self, name: str, rule: Rule, args: Any, keywords: Any) -> Any:
        try:
            return rule(*args, **keywords)
        except TraceError:
            raise
        except Unsupported as error:
            refuse(name, self.recorder.function, error.because, error.expected, error)
        except (SpecError, TypeError, ValueError, OverflowError, IndexError) as error:
            text = str(error).strip(".")
            refuse(name, self.recorder.function, text, "arguments that NumPy takes", error)

    def _refuse(self, subject: str, because: str, expected: str) -> NoReturn:
        refuse(subject, self.recorder.function, because, expected)


REDUCED: Final[dict[np.ufunc, Any]] = {
    np.add: np.sum, np.multiply: np.prod, np.maximum: np.max, np.minimum: np.min,
    np.logical_and: np.all, np.logical_or: np.any,
}  # fmt: skip


def rule_of(*functions: Any, method: str = "") -> Callable[[Entered], Entered]:
    """Return a decorator that enters the rule of functions, and of a method, into the tables."""

    def enter(rule: Entered) -> Entered:
        for function in functions:
            FUNCTIONS[function] = rule
        if method:
            METHODS[method] = functions[0]
        return rule

    return enter
