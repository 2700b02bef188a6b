"""The serial driver: one native call that runs phases, a task after the other.

void drive(int64_t *order)      count, then a function and its tasks per phase, then the buffers
"""

import ctypes
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, Final

import llvmlite.binding as llvm

from ansorpy.codegen.llvm_ir import parse, target_machine
from ansorpy.target import Target

NATIVE = ctypes.CFUNCTYPE(None, ctypes.c_void_p)

_IR: Final = """define void @drive(ptr %order) nounwind {
entry:
  %count = load i64, ptr %order, align 8
  %rows = getelementptr i64, ptr %order, i64 1
  %numbers = shl i64 %count, 1
  %table = getelementptr i64, ptr %rows, i64 %numbers
  br label %phases
phases:
  %row = phi ptr [ %rows, %entry ], [ %next, %done ]
  %left = icmp ult ptr %row, %table
  br i1 %left, label %phase, label %out
phase:
  %function = load ptr, ptr %row, align 8
  %tail = getelementptr i64, ptr %row, i64 1
  %count_of_tasks = load i64, ptr %tail, align 8
  %next = getelementptr i64, ptr %row, i64 2
  br label %tasks
tasks:
  %task = phi i64 [ 0, %phase ], [ %after, %do ]
  %more = icmp slt i64 %task, %count_of_tasks
  br i1 %more, label %do, label %done
do:
  call void %function(ptr %table, i64 %task)
  %after = add nuw nsw i64 %task, 1
  br label %tasks
done:
  br label %phases
out:
  ret void
}
"""


@cache
def driver() -> Any:
    """Return LLVM's engine around `drive`, made once per process."""
    engine = llvm.create_mcjit_compiler(parse(_IR), target_machine(Target()))
    engine.finalize_object()
    return engine


def driven(
    work: Sequence[tuple[int, int]], addresses: Sequence[int], alive: object
) -> Callable[[], None]:
    """Return a call without arguments that runs functions of phases, each with its tasks.

    Args:
        alive: what has to live as long as the call.
    """
    entry = int(driver().get_function_address("drive"))
    return native_call(entry, order_of(work, addresses), alive)


def order_of(work: Sequence[tuple[int, int]], addresses: Sequence[int]) -> list[int]:
    """Return the words of an order."""
    return [len(work), *(number for pair in work for number in pair), *addresses]


def native_call(entry: int, words: Sequence[int], alive: object) -> Callable[[], None]:
    """Return a call without arguments of `void entry(int64_t *words)`."""
    table, function = table_of(words), NATIVE(entry)

    def call(_alive: object = alive) -> None:
        function(table)

    return call


def table_of(words: Sequence[int]) -> Any:
    """Return the array of addresses, or other words, that native functions take."""
    return (ctypes.c_int64 * len(words))(*words)
