"""`ansorpy.jit`: a decorator for functions of NumPy names and te functions."""

import functools
import inspect
import os
import sys
import threading
import time
from collections.abc import Callable, Hashable, Mapping, Sequence
from pathlib import Path
from shutil import copyfile
from typing import Any, Final, ParamSpec, TypeVar, overload

from ansorpy.artifact.arrays import importer_of, to_numpy
from ansorpy.artifact.torch_op import torch_op
from ansorpy.errors import SpecError, TraceError, shown
from ansorpy.tracing.entry import SignatureEntry
from ansorpy.tracing.options import JitOptions, Mode
from ansorpy.tracing.trace import Traced, is_te, trace, trace_te
from ansorpy.tracing.trees import arrays_of, key_of, mapped

P = ParamSpec("P")
Returned = TypeVar("Returned")

TOLD_S: Final = 0.5  # seconds of a first call from which on a line on stderr tells about it


class Jitted:
    """A function whose calls run verified kernels, one bundle for each signature.

    A signature is the shapes and dtypes of the arrays, and the values of the static arguments.
    """

    def __init__(self, function: Callable[..., Any], options: JitOptions) -> None:
        if not inspect.isfunction(function):
            raise TraceError(
                f"cannot trace {shown(repr(function))} because it is no function of Python;"
                " expected a def or a lambda"
            )
        functools.update_wrapper(self, function)
        self.function, self.options = function, options
        self.name: str = function.__name__.strip("<>")
        self._signature = inspect.signature(function)
        self._names = _positional(self._signature, self.name)
        self._is_te = is_te(function)
        self._globals = tuple(n for n in _names_in(function) if n in function.__globals__)
        self._captured: tuple[Any, ...] = self._reads()
        self._entries: dict[Hashable, SignatureEntry] = {}
        self._lock = threading.RLock()

    def __call__(self, /, *args: Any, **keywords: Any) -> Any:
        """Return the result of the function, by the kernels of the signature.

        Raises:
            TraceError: the function cannot be traced: names file and line.
            SpecError: a part of it has no kernels.
            RunError: no verified kernel, or the first result differs from the function's own.
        """
        arguments = self._bound(args, keywords)
        entry = self._entries.get(self._key(arguments))
        if entry is None or entry.call is None:
            mode = self.options.mode(os.environ)
            if mode.kind == "off" and not self.options.config:
                return self._plain(arguments)
            entry = self._ready(arguments, mode)
        arrays = list(arrays_of(arguments).values())
        return self._result(entry, arrays)

    def lower(self, /, *args: Any, **keywords: Any) -> Traced:
        """Return the trace of a signature: printed, its nodes; `evaluate` interprets it."""
        return self._entry(self._bound(args, keywords)).traced

    def tune(
        self, /, *args: Any, trials: int | None = None, progress: bool | None = None,
        **keywords: Any,
    ) -> "Jitted":  # fmt: skip
        """Tune the signature of arguments now; return the function."""
        entry = self._entry(self._bound(args, keywords))
        entry.tune(self.options.trials if trials is None else trials, None, progress)
        return self

    def kernel(self, /, *args: Any, **keywords: Any) -> Any:
        """Return the loaded bundle of a signature, which takes its arrays in order."""
        entry = self._entry(self._bound(args, keywords))
        entry.answered()
        return entry.call

    def as_torch_op(self, /, *args: Any, **keywords: Any) -> Callable[..., Any]:
        """Return the signature of arguments as an operator of PyTorch, for use in `torch.compile`.

        It takes the arrays of the signature as tensors, in order, and returns the outputs, one
        tensor or a tuple. A background tuning replaces its kernels between calls, too.

        Raises:
            PackageError: torch is not installed.
        """
        arguments, mode = self._bound(args, keywords), self.options.mode(os.environ)
        entry = self._ready(arguments, Mode("first") if mode.kind == "off" else mode)
        return torch_op(entry, f"ansorpy::jit_{entry.work.digest}")

    def explain(self, /, *args: Any, **keywords: Any) -> str:
        """Return the nodes of a signature, and the state of its bundle."""
        entry = self._entry(self._bound(args, keywords))
        return f"{entry.traced}\n{entry}"

    def status(self) -> list[dict[str, Any]]:
        """Return a row per signature: arrays, state, trials, gain and digest of its bundle."""
        return [entry.row() for entry in self._entries.values()]

    def wait(self, timeout_s: float | None = None) -> bool:
        """Wait for the background tunings; return True if all have ended."""
        end_s = None if timeout_s is None else time.monotonic() + timeout_s
        for entry in list(self._entries.values()):
            left_s = None if end_s is None else max(0.0, end_s - time.monotonic())
            if not entry.idle.wait(left_s):
                return False
        return True

    def save(self, path: str | os.PathLike[str], /, *args: Any, **keywords: Any) -> Path:
        """Copy the bundle of a signature; `ansorpy.load` opens it without the function.

        Args:
            args, keywords: arguments of the signature; of no need if there is one.

        Raises:
            SpecError: there are several signatures, or none.
        """
        entries = list(self._entries.values())
        if args or keywords:
            entries = [self._entry(self._bound(args, keywords))]
        if len(entries) != 1:
            raise SpecError(
                f"cannot save {self.name} because it has {len(entries)} signatures; expected the"
                " arguments of one after the path"
            )
        answer = entries[0].answered()
        copyfile(answer.path, path)
        return Path(path)

    def __get__(self, owner: Any, kind: Any = None) -> Any:
        if owner is None:
            return self
        raise TraceError(
            f"cannot trace the method {self.name} because its object is no array; expected a"
            " function of arrays"
        )

    def __repr__(self) -> str:
        return f"<ansorpy.jit {self.name}: {len(self._entries)} signatures>"

    def _bound(self, args: tuple[Any, ...], keywords: Mapping[str, Any]) -> dict[str, Any]:
        """Return the arguments by name, in the order of the parameters."""
        if not keywords and len(args) == len(self._names):
            return dict(zip(self._names, args, strict=True))
        bound = self._signature.bind(*args, **keywords)
        bound.apply_defaults()
        return bound.arguments

    def _key(self, arguments: Mapping[str, Any]) -> Hashable:
        """Return the signature; constants of the user that were replaced end all signatures."""
        reads = self._reads()
        if not all(map(_is_same, reads, self._captured)):
            with self._lock:
                self._captured, self._entries = reads, {}
        try:
            key = tuple(key_of(value, name, self.name) for name, value in arguments.items())
            hash(key)
        except TypeError as error:
            raise TraceError(
                f"cannot trace {self.name} because {error}; expected arrays"
            ) from error
        return key

    def _reads(self) -> tuple[Any, ...]:
        """Return the objects that the function reads beside its arguments."""
        scope = self.function.__globals__
        cells = self.function.__closure__ or ()
        return (*[scope.get(n) for n in self._globals], *[_content(cell) for cell in cells])

    def _entry(self, arguments: Mapping[str, Any]) -> SignatureEntry:
        """Return the entry of a signature, traced at its first call."""
        key = self._key(arguments)
        with self._lock:
            if key not in self._entries:
                tracing = trace_te if self._is_te else trace
                traced = tracing(self.function, self.name, arguments)
                self._entries[key] = SignatureEntry(traced, self.options)
            return self._entries[key]

    def _ready(self, arguments: Mapping[str, Any], mode: Mode) -> SignatureEntry:
        """Return the entry of a signature with a loaded bundle."""
        begin_s = time.monotonic()
        with self._lock:
            entry = self._entry(arguments)
            if entry.call is not None:
                return entry
            entry.answer_for(mode)
        if self.options.verify and not self._is_te:
            found = {n: to_numpy(a, n) for n, a in arrays_of(arguments).items()}

            def run(arrays: Sequence[Any]) -> Any:
                """Call the function with other arrays."""
                named = dict(zip(found, arrays, strict=True))
                given = {
                    key: mapped(value, key, lambda one, place: named.get(place, one))
                    for key, value in arguments.items()
                }
                return self.function(**given)

            entry.verify(run, list(found.values()))
        seconds = time.monotonic() - begin_s
        if seconds > TOLD_S:
            sys.stderr.write(f"first call of {self.name}: {entry} in {seconds:.1f} s\n")
        return entry

    def _result(self, entry: SignatureEntry, arrays: list[Any]) -> Any:
        found = entry.run(*arrays)
        imported = importer_of(tuple(arrays))
        return entry.traced.filled([imported(one) for one in found])

    def _plain(self, arguments: Mapping[str, Any]) -> Any:
        """Return the result of the function itself, or of the interpreter of a te function."""
        if not self._is_te:
            return self.function(**arguments)
        arrays = arrays_of(arguments)
        traced = self._entry(arguments).traced
        return traced.evaluate([to_numpy(arrays[name], name) for name in traced.inputs])


def _positional(signature: inspect.Signature, name: str) -> tuple[str, ...]:
    """Return the names of the parameters.

    Raises:
        TraceError: there are parameters without a name of their own.
    """
    for one in signature.parameters.values():
        if one.kind in (one.VAR_POSITIONAL, one.VAR_KEYWORD, one.POSITIONAL_ONLY):
            raise TraceError(
                f"cannot trace {name} because of its parameter {one}; expected parameters with"
                " names, and a tuple, list or dict of arrays for several"
            )
    return tuple(signature.parameters)


def _is_same(value: Any, before: Any) -> bool:
    """Return True for one object, and for equal numbers and texts."""
    return value is before or (
        type(value) is type(before) and isinstance(value, int | float | str) and value == before
    )


def _names_in(function: Callable[..., Any]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(function.__code__.co_names))


def _content(cell: Any) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # the function names itself, and is not bound yet
        return None


@overload
def jit(function: Callable[P, Returned], /) -> Jitted: ...


@overload
def jit(function: None = None, /, **options: Any) -> Callable[[Callable[..., Any]], Jitted]: ...


def jit(function: Any = None, /, **options: Any) -> Any:
    """Return a function that runs verified kernels in place of NumPy; also a decorator.

        @ansorpy.jit
        def norm(x, g):
            centred = x - x.mean(axis=-1, keepdims=True)
            return centred / np.sqrt((centred**2).mean(axis=-1, keepdims=True) + 1e-5) * g

    At the first call with a signature it is traced, the folder of answers is asked, and otherwise a
    first answer is made in seconds; a better kernel is tuned in the background and replaces it
    between calls. Options are the fields of `ansorpy.tracing.options.JitOptions`; docs/jit.md tells
    more.

    Raises:
        TraceError: the parameters have no names, or it is no function.
        SpecError: an option is unknown.
    """
    try:
        chosen = JitOptions(**options)
    except TypeError as error:
        names = ", ".join(JitOptions.__dataclass_fields__)
        text = str(error).rpartition("() ")[2]
        raise SpecError(f"cannot use jit because it {text}; expected {names}") from error
    if function is None:
        return lambda given: Jitted(given, chosen)
    return Jitted(function, chosen)
