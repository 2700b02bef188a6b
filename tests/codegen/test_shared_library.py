"""Exported libraries: their own functions, from another process's point of view."""

import ctypes
import subprocess
from pathlib import Path
from typing import Any

import llvmlite.binding as llvm
import numpy as np
import numpy.typing as npt
import pytest

from ansorpy.codegen.cpuid import BITS, NAMED, required, supported_text
from ansorpy.codegen.exported_types import Export, Library
from ansorpy.codegen.jit_link import jit_link
from ansorpy.codegen.link import LINKERS, link
from ansorpy.codegen.llvm_ir import object_bytes
from ansorpy.codegen.phase_utilities import steady_names
from ansorpy.codegen.runtime.c_entry import SUFFIXES
from ansorpy.codegen.runtime.thread_pool import ThreadPool
from ansorpy.codegen.shared_library import build, load
from ansorpy.errors import BuildError
from ansorpy.expr.expr import Binary, Call, Const, Expr
from ansorpy.loopir.nodes import Phase, Program, Scope, Stmt, Tile
from ansorpy.target import Target
from tests.codegen.programs import guarded, matmul, pack
from tests.loopir.build import add, buffer, mul, parallel, program, read, store, v

Array = npt.NDArray[Any]
AT, L = v("i"), v("l")


def row(name: str) -> Expr:
    """Elements i * 8 .. i * 8 + 7 of a tensor of 64."""
    return read(name, add(mul(AT, 8), L))


def three_phases() -> Program:
    """W2 = W * W ahead (into the workspace); T = A + W2; C = T * K with a constant K."""
    at = (add(mul(AT, 8), L),)
    lanes = (("l", 8),)

    def each(name: str, value: Expr) -> Stmt:
        return parallel("i", 8, Tile((), lanes, store(name, at, value)))

    buffers = (
        buffer("A", 64),
        buffer("K", 64, scope=Scope.CONSTANT),
        buffer("T", 64, scope=Scope.GLOBAL),
        buffer("W", 64),
        buffer("W2", 64, scope=Scope.GLOBAL),
        buffer("C", 64, scope=Scope.OUTPUT),
    )
    phases = (
        Phase("squares", each("W2", mul(row("W"), row("W"))), ahead=True),
        Phase("sum", each("T", add(row("A"), row("W2")))),
        Phase("scaled", each("C", mul(row("T"), row("K")))),
    )
    return Program("three", buffers, phases)


def exported(prog: Program, constants: dict[str, bytes] | None = None, **more: Any) -> Export:
    names = {
        scope: tuple(b.name for b in prog.buffers if b.scope is scope)
        for scope in (Scope.INPUT, Scope.OUTPUT)
    }
    return Export(
        prog, names[Scope.INPUT], names[Scope.OUTPUT], constants or {}, "ansorpy_test", **more
    )


def run(built: Library, inputs: dict[str, Array], how: str = "run") -> Array:
    """Call a library on guarded arrays; return its only output."""
    loaded = load(built)
    arrays = {}
    for one in built.buffers:
        shape = [int(str(n)) for n in one.shape]
        arrays[one.name] = guarded(shape, one.dtype)
        if one.name in inputs:
            arrays[one.name][...] = inputs[one.name]
    addresses = [array.ctypes.data for array in arrays.values()]
    loaded.run_ahead(addresses)
    if how == "threads":
        loaded.bind_parallel(addresses, 3)()
    elif how == "pool":
        with ThreadPool(3) as pool:
            loaded.bind(addresses, pool.address)()
    elif how == "backwards":
        loaded.run_backwards(addresses)
    else:
        loaded.run(addresses)
    (out,) = [b.name for b in built.buffers if b.scope is Scope.OUTPUT]
    return arrays[out]


@pytest.mark.parametrize("how", ["run", "backwards", "threads", "pool"])
def test_a_library_with_phases_constants_and_workspace_equals_numpy(how: str) -> None:
    rng = np.random.default_rng(0)
    a, w, k = rng.standard_normal((3, 64)).astype(np.float32)
    built = build(exported(three_phases(), {"K": k.tobytes()}), Target())
    assert built.linked, built.note
    assert built.workspace_bytes == 2 * 64 * 4
    assert [phase.tasks for phase in built.phases] == [8, 8]
    assert built.steady == ("A", ".workspace")
    np.testing.assert_array_equal(run(built, {"A": a, "W": w}, how), (a + w * w) * k)


def test_calls_read_inputs_and_packed_weights_and_no_scratch() -> None:
    assert steady_names(three_phases()) == ("A", "W2")


@pytest.mark.parametrize("how", ["run", "backwards", "threads", "pool"])
def test_a_library_of_a_matmul_with_tails_equals_numpy(how: str) -> None:
    rng = np.random.default_rng(1)
    a = rng.integers(-8, 9, (61, 40)).astype(np.float32)
    b = rng.integers(-8, 9, (40, 100)).astype(np.float32)
    prog = matmul(61, 100, 40)
    out = run(build(exported(prog), Target()), {"A": a, "B": pack(b, 48)}, how)
    np.testing.assert_array_equal(out, np.maximum(a @ b, 0))


def test_a_library_needs_libc_only(tmp_path: Path) -> None:
    built = build(exported(matmul(16, 48, 8)), Target())
    path = tmp_path / "libkernel.so"
    path.write_bytes(built.code)
    words = subprocess.run(
        ["nm", "-D", "--undefined-only", path], capture_output=True, text=True, check=True
    ).stdout.split()
    undefined = {word.partition("@")[0] for word in words if len(word) > 1}
    threads = {word for word in undefined if word.startswith("pthread_")}
    allocating = {"aligned_alloc", "free", "memcpy", "memset", "memmove"}
    assert undefined - threads <= {*allocating, "sched_yield"}
    words = subprocess.run(
        ["nm", "-D", "--defined-only", path], capture_output=True, text=True, check=True
    ).stdout.split()
    assert {word for word in words if word.startswith("ansorpy_")} == {
        f"ansorpy_test_{name}" for name in (*SUFFIXES, "supported", "phases", "task0")
    }
    assert "phase0" not in words


def test_without_a_linker_the_object_code_is_kept_and_runs() -> None:
    rng = np.random.default_rng(2)
    a, w, k = rng.standard_normal((3, 64)).astype(np.float32)
    none = (("no-such-linker", "-shared"),)
    built = build(exported(three_phases(), {"K": k.tobytes()}, linkers=none), Target())
    assert not built.linked
    assert built.note == (
        "no linker on this machine (looked for no-such-linker);"
        " link it with: cc -shared -o libkernel.so kernel.o -lm"
    )
    np.testing.assert_array_equal(run(built, {"A": a, "W": w}, "threads"), (a + w * w) * k)
    linked = build(exported(three_phases(), {"K": k.tobytes()}), Target())
    assert built.object_sha256 == linked.object_sha256


@pytest.mark.parametrize("linker", LINKERS, ids=lambda line: line[0])
def test_every_installed_linker_links_a_library(linker: tuple[str, ...]) -> None:
    built = build(exported(matmul(16, 48, 8), linkers=(linker,)), Target())
    if built.note.startswith("no linker"):
        pytest.skip(built.note)
    a, b = np.ones((16, 8), np.float32), np.ones((8, 48), np.float32)
    np.testing.assert_array_equal(run(built, {"A": a, "B": pack(b, 48)}), a @ b)


@pytest.mark.parametrize("linker", LINKERS, ids=lambda line: line[0])
def test_only_a_kernel_with_functions_of_libm_depends_on_it(linker: tuple[str, ...]) -> None:
    at = (add(mul(AT, 8), L),)
    value = Binary("pow", Call("cos", row("A")), Const(3.0, "float32"))
    body = parallel("i", 8, Tile((), (("l", 8),), store("C", at, value)))
    buffers = [buffer("A", 64), buffer("C", 64, scope=Scope.OUTPUT)]
    built = build(exported(program(buffers, body), linkers=(linker,)), Target())
    if built.note.startswith("no linker"):
        pytest.skip(built.note)
    assert built.linked, built.note
    a = np.append(np.linspace(-3, 3, 63), 1e20).astype(np.float32)
    np.testing.assert_allclose(run(built, {"A": a}), np.cos(a.astype(float)) ** 3, rtol=1e-5)
    plain = build(exported(matmul(16, 48, 8), linkers=(linker,)), Target())
    assert [b"libm.so" in one.code for one in (built, plain)] == [linker[0] != "ld", False]


def test_the_error_for_a_damaged_object_quotes_the_linker() -> None:
    found = link([b"nonsense"])
    assert isinstance(found, str)
    assert "did not link it" in found


def asks(features: tuple[str, ...]) -> int:
    found = jit_link([object_bytes(supported_text("asks", features, True), Target())], ["asks"])
    return int(ctypes.CFUNCTYPE(ctypes.c_int32)(found.entries["asks"])())


@pytest.mark.skipif(not llvm.get_process_triple().startswith("x86_64"), reason="asks CPUID")
def test_a_library_checks_the_processor_for_every_feature() -> None:
    host = llvm.get_host_cpu_features()
    present = tuple(name for name, on in host.items() if on)
    everything = " ".join(word for words in NAMED.values() for word in words)
    assert asks(required(present, everything)) == 1
    assert not set(required(present, "no matrices")) & set(NAMED)
    for name in BITS:
        assert asks((name,)) == int(host.get(name, False)), name


@pytest.mark.skipif(not llvm.get_process_triple().startswith("x86_64"), reason="x86 features")
def test_a_library_for_another_processor_is_refused() -> None:
    host = llvm.get_host_cpu_features()
    lacking = next((name for name in ("avx512fp16", "avxvnni", "amx-tile") if not host[name]), None)
    if lacking is None:
        pytest.skip("this processor has everything")
    target = Target(vector_bits=256, cpu="x86-64-v3", features=("avx2", "fma", lacking))
    built = build(exported(matmul(16, 48, 8)), target)
    assert built.features == tuple(sorted(("avx2", "fma", lacking)))
    with pytest.raises(BuildError, match=f"this processor lacks one of .*{lacking}"):
        load(built)


def test_a_scalar_program_is_refused_as_a_library() -> None:
    prog = program(
        [buffer("A", 4), buffer("C", 4, scope=Scope.OUTPUT)],
        store("C", (AT,), read("A", AT)),
    )
    with pytest.raises(BuildError, match="not tiled"):
        build(exported(prog), Target())
