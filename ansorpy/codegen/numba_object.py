"""The object file of generated Python, compiled by numba."""

import importlib
import sys
import tempfile
from pathlib import Path
from types import ModuleType
from typing import Any, Final, cast

import numba
from llvmlite import binding as llvm
from llvmlite import ir
from numba.core.compiler import Flags, compile_extra
from numba.core.compiler_lock import global_compiler_lock
from numba.core.errors import NumbaError

from ansorpy.codegen.kernel import Kernel
from ansorpy.codegen.llvm_ir import EXCERPT, PLAIN, parse, target_machine
from ansorpy.codegen.simd.kinds import I8, I32, I64, POINTER
from ansorpy.codegen.simd_file import FILE, simd_text
from ansorpy.codegen.text_builder import TextBuilder
from ansorpy.errors import BuildError
from ansorpy.loopir.nodes import Scope
from ansorpy.target import Target

BLAS: Final = "scipy.linalg"
ARRAYS: Final = "numba.np.arraymath"


def warm(_box: object = None) -> None:
    """Compile an empty function: numba registers its types and operators at the first one."""
    _register_without_blas()
    numba.njit(nogil=True)(_nothing)()


def _nothing() -> None:
    """Do nothing."""


def _register_without_blas() -> None:
    """Load numba's array functions, but not scipy's BLAS, which takes as long as all the others.

    Kernels call no BLAS. From then on numba refuses `np.dot` in this process, which runs kernels
    of ours only; a process that has loaded `scipy.linalg` keeps it.
    """
    if BLAS not in sys.modules and ARRAYS not in sys.modules:
        sys.modules[BLAS] = cast(ModuleType, None)  # the import raises ImportError
        try:
            importlib.import_module(ARRAYS)
        finally:
            del sys.modules[BLAS]


def source_object(kernel: Kernel, target: Target) -> bytes:
    """Return the object file of a kernel's source: its phases, by name.

    Raises:
        BuildError: the source is not Python, numba cannot compile it, or it needs the
            interpreter at run time.
    """
    _register_without_blas()
    scope = _execute(kernel)
    machine = target_machine(target)
    dims = next((b.extents[0] for b in kernel.buffers if b.scope is Scope.SIZES), 0)
    words = len(kernel.buffers) + max(0, dims - 1)  # addresses, and sizes for the last of them
    counters = [phase.counter for phase in kernel.phases if phase.sized]
    compiled = {p.name: _compiled(scope[p.name], words + 1) for p in kernel.phases}
    compiled |= {name: _compiled(scope[name], dims) for name in counters}
    declarations = ir.Module()
    declarations.triple = llvm.get_process_triple()
    entries = [
        _entry(declarations, name, symbol, words, dims, name in counters)
        for name, (symbol, _) in compiled.items()
    ]
    linked = parse("\n".join([str(declarations), *entries]))
    for _, text in compiled.values():
        linked.link_in(parse(text))
    public = compiled.keys()
    for part in (*linked.functions, *linked.global_variables):
        if not part.is_declaration and part.name not in public:
            part.linkage = "internal"
    linked.data_layout = str(machine.target_data)
    _drop_unused(linked, machine)
    return bytes(machine.emit_object(linked))


def _execute(kernel: Kernel) -> dict[str, Any]:
    """Run the source from a real file, so that tracebacks show its lines."""
    with tempfile.TemporaryDirectory(prefix="ansorpy-") as folder:
        path = Path(folder) / "kernel.py"
        path.write_text(kernel.source, encoding="utf-8")
        path.with_name(FILE).write_text(simd_text(), encoding="utf-8")
        scope: dict[str, Any] = {"__name__": "ansorpy_kernel", "__file__": str(path)}
        try:
            code = compile(kernel.source, str(path), "exec")
            exec(code, scope)  # noqa: S102  # our own text: no user string is in it
        except (SyntaxError, NameError, TypeError, ValueError, RuntimeError) as error:
            raise BuildError(f"{type(error).__name__}: {str(error)[:EXCERPT]}") from error
    return scope


def _compiled(phase: Any, words: int) -> tuple[str, str]:
    """Return the symbol of a phase and numba's optimised LLVM IR around it.

    Without the wrappers for the interpreter and for ctypes, which take as long to compile.
    """
    flags: Any = Flags()  # type: ignore[no-untyped-call]
    phase.targetdescr.options.parse_as_flags(flags, phase.targetoptions)
    flags.no_compile = flags.no_cpython_wrapper = flags.no_cfunc_wrapper = True
    typing, target = phase.targetdescr.typing_context, phase.targetdescr.target_context
    signature = (numba.int64,) * words
    try:
        with global_compiler_lock:
            result = compile_extra(  # type: ignore[no-untyped-call]
                typing, target, phase.py_func, signature, None, flags, {}
            )
            result.library.finalize()
    except (NumbaError, TypeError, ValueError) as error:
        raise BuildError(f"{type(error).__name__}: {str(error)[:EXCERPT]}") from error
    return result.fndesc.llvm_func_name, result.library.get_llvm_str()


def _entry(declarations: Any, name: str, symbol: str, words: int, dims: int, counts: bool) -> str:
    """Return `void name(int64_t *buffers, int64_t task)` around numba's calling convention.

    The sizes of dims are loaded from the last buffer.
    That is `int32_t symbol(result *, error **, arguments...)`; our phases answer and raise nothing.

    Args:
        counts: return `int64_t name(int64_t *buffers)` of a number of tasks, which takes the sizes.
    """
    kind = ir.FunctionType(I32, [POINTER, POINTER, *([I64] * (dims if counts else words + 1))])
    parameters = [POINTER] if counts else [POINTER, I64]
    builder = TextBuilder(declarations, name, parameters, result="i64" if counts else "void")
    table, *task = builder.args
    unused = [builder.alloca(ir.ArrayType(I8, 8)) for _ in range(2)]

    def word(base: Any, number: int, typ: Any = I64) -> Any:
        slot = builder.gep(base, [ir.Constant(I64, number)], source_etype=I64)
        return builder.load(slot, typ=typ)

    given = [] if counts else [word(table, k) for k in range(words - dims)]
    if dims:
        sizes = word(table, words - dims, POINTER)
        given += [word(sizes, k) for k in range(dims)]
    builder.call(ir.Function(declarations, kind, symbol), [*unused, *given, *task])
    if counts:
        builder.ret(word(unused[0], 0))
    else:
        builder.ret_void()
    return builder.text(PLAIN)


def _drop_unused(module: Any, machine: Any) -> None:
    """Remove the wrappers that only the interpreter would call."""
    manager = llvm.create_new_module_pass_manager()
    manager.add_global_dead_code_eliminate_pass()
    options = llvm.create_pipeline_tuning_options(speed_level=1)
    manager.run(module, llvm.create_pass_builder(machine, options))
    left = [f.name for f in module.functions if f.is_declaration and "Py" in f.name]
    if left:
        raise BuildError(f"the kernel would call the interpreter: {', '.join(sorted(left))}")
