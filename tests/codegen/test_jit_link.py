"""Object files are linked into this process, library by library."""

import ctypes
import gc

import pytest

from ansorpy.codegen.jit_link import jit_link
from ansorpy.codegen.llvm_ir import object_bytes
from ansorpy.errors import BuildError
from ansorpy.target import Target


def answers(number: int, name: str = "answer") -> bytes:
    return object_bytes(f"define i64 @{name}() {{\n ret i64 {number}\n}}", Target())


def asked(address: int) -> int:
    return int(ctypes.CFUNCTYPE(ctypes.c_int64)(address)())


def test_functions_of_one_name_in_two_libraries_stay_apart() -> None:
    first, second = (jit_link([answers(number)], ["answer"]) for number in (1, 2))
    assert [asked(one.entries["answer"]) for one in (first, second)] == [1, 2]
    del first
    gc.collect()
    assert asked(second.entries["answer"]) == 2
    third = jit_link([answers(3)], ["answer"])
    assert [asked(one.entries["answer"]) for one in (second, third)] == [2, 3]


def test_objects_of_a_library_call_each_other_and_the_process() -> None:
    text = """declare i64 @one()
declare i64 @labs(i64)
define i64 @both() {
 %a = call i64 @one()
 %b = call i64 @labs(i64 %a)
 ret i64 %b
}"""
    found = jit_link([answers(-5, "one"), object_bytes(text, Target())], ["both", "one"])
    assert asked(found.entries["both"]) == 5
    assert asked(found.entries["one"]) == -5


@pytest.mark.parametrize(
    ("objects", "names", "words"),
    [
        ([b"nonsense"], ["answer"], "not an object file"),
        ([answers(1)], ["question"], "question"),
        ([object_bytes("declare i64 @nowhere_else()\ndefine i64 @f() {\n"
                       " %a = call i64 @nowhere_else()\n ret i64 %a\n}", Target())],
         ["f"], "materialize symbols"),
    ],
)  # fmt: skip
def test_a_failure_to_link_raises_an_error(
    objects: list[bytes], names: list[str], words: str
) -> None:
    with pytest.raises(BuildError, match=words):
        jit_link(objects, names)
    after = jit_link([answers(1)], ["answer"])
    assert asked(after.entries["answer"]) == 1
