"""Messages for wrong texts: each names place, value and limit.

Each row is a text, `bind`, and the whole message. Line and column count from 1.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

import pytest

from ansorpy.errors import SpecError
from ansorpy.frontends.tc.text import parse


@dataclass(frozen=True)
class Wrong:
    """A wrong text and its message."""

    name: str
    text: str
    message: str
    bind: Mapping[str, int] = field(default_factory=dict)


WRONG = (
    Wrong(
        "unbound symbol",
        "def f(float(N) A) -> (C) { C(i) = A(i) }",
        "f.te:1:13: size 'N' has no value; expected a binding, such as N=512, or a"
        " range, such as N in 1..512",
    ),
    Wrong(
        "unbound symbol in a range",
        "def f(float(4, 8) A, float(8) B) -> (C) { C(i) = 1 where i in 0:N }",
        "f.te:1:65: size 'N' has no value; expected a binding, such as N=512, or a"
        " range, such as N in 1..512",
    ),
    Wrong(
        "bind of an unknown symbol",
        "def f(float(4, 8) A, float(8) B) -> (C) { C(i) +=! A(i, k) }",
        "f.te: bind N=4: no definition mentions N",
        {"N": 4},
    ),
    Wrong(
        "bind of zero",
        "def f(float(N) A) -> (C) { C(i) = A(i) }",
        "bind: N is 0, not an integer 1 to 2147483647",
        {"N": 0},
    ),
    Wrong(
        "bind too large",
        "def f(float(N) A) -> (C) { C(i) = A(i) }",
        "bind: N is 2147483648, not an integer 1 to 2147483647",
        {"N": 2147483648},
    ),
    Wrong(
        "rank mismatch",
        "def f(float(4, 8) A, float(8) B) -> (C) { C(i) +=! A(i, k) * B(k, i) }",
        "f.te:1:62: B(k, i) has 2 indices, but 'B' has rank 1",
    ),
    Wrong(
        "scalar read of a matrix",
        "def f(float(4, 8) A, float(8) B) -> (C) { C(i) = A }",
        "f.te:1:50: A() has 0 indices, but 'A' has rank 2",
    ),
    Wrong(
        "index out of range",
        "def f(float(4, 8) A, float(8) B) -> (C) { C(i) = A(i, 0) + B(i + 6)\n where i in 0:4 }",
        "f.te:1:43: node 'C': B[(i + 6)] reads out of range: index 0, (i + 6), runs from 6 "
        "to 9, but 'B' has 0 to 7 there; guard the read with a condition",
    ),
    Wrong(
        "negative index",
        "def f(float(4, 8) A, float(8) B) -> (C) { C(i) = B(i - 1) }",
        "f.te:1:43: cannot read B[(i - 1)] because its index 0, (i - 1), runs from -1 to -1 at "
        "i = 0, and every range starts at 0; expected 0 to 7: guard the read with a condition, or "
        "shift the index",
    ),
    Wrong(
        "window that begins before the tensor",
        "def f(float(4, 8) A, float(3) B) -> (C) { C(i, j) +=! A(i, 2 * j - k) * B(k) }",
        "f.te:1:43: cannot read A[i, ((2 * j) - k)] because its index 1, ((2 * j) - k), runs from "
        "-2 to 0 at j = 0, and every range starts at 0; expected 0 to 7: guard the read with a "
        "condition, or shift the index",
    ),
    Wrong(
        "parameter without a name",
        "def f(float(4) A, float(4, 8), float(8) B) -> (C) { C(i) = A(i) }",
        "f.te:1:30: ',' instead of the name of a parameter",
    ),
    Wrong(
        "padding one too far",
        "def f(float(4, 8) A, float(8) B) -> (C) { C(i) = i >= 1 && i <= 9 ? B(i - 1) : 0 "
        "where i in 0:10 }",
        "f.te:1:43: node 'C': B[(i - 1)] reads out of range: index 0, (i - 1), runs from 0 "
        "to 8, but 'B' has 0 to 7 there; guard the read with a condition",
    ),
    Wrong(
        "guard on the wrong side",
        "def f(float(4, 8) A, float(8) B) -> (C) { C(i) = i < 8 ? 0 : B(i) where i in 0:9 }",
        "f.te:1:43: node 'C': B[i] reads out of range: index 0, i, runs from 8 to 8, but 'B' "
        "has 0 to 7 there; guard the read with a condition",
    ),
    Wrong(
        "recursion",
        "def f(float(4, 8) A, float(8) B) -> (C) { C(i) = C(i) + B(i) }",
        "f.te:1:50: 'C' is read before it is computed: no recursion, producers come first",
    ),
    Wrong(
        "mutual recursion",
        "def f(float(4, 8) A, float(8) B) -> (C) { C(i) = D(i) + B(i)  D(i) = C(i) }",
        "f.te:1:50: 'D' is read before it is computed: no recursion, producers come first",
    ),
    Wrong(
        "value that nothing reads",
        "def f(float(4, 8) A, float(8) B) -> (C) { C(i) = B(i)\nC(i) = B(i) }",
        "f.te:1:43: cannot assign 'C' again below because nothing reads this value; expected a "
        "statement that reads it, or no statement here",
    ),
    Wrong(
        "second assignment of another dtype",
        "def f(float(4, 8) A, float(8) B) -> (C) { C(i) = B(i)\nC(i) = double(C(i)) }",
        "f.te:2:1: cannot assign float64(8) to 'C' again because a tensor keeps its type; "
        "expected float32(8)",
    ),
    Wrong(
        "second assignment of a part",
        "def f(float(4, 8) A, float(8) B) -> (C) { C(i) = B(i)\nC(i) = C(i) + 1 where i in 0:4 }",
        "f.te:2:1: cannot give 'i' the range 0:4 because 'C' keeps its shape; expected 0:8",
    ),
    Wrong(
        "second assignment of another rank",
        "def f(float(4, 8) A, float(8) B) -> (C) { C(i) = B(i)\nC(i, j) = C(i) + A(i, j) }",
        "f.te:2:1: 'C' has rank 1, but 2 indices",
    ),
    Wrong(
        "second assignment from a shorter tensor",
        "def f(float(4, 8) A, float(8) B) -> (C) { C(i) = B(i)\nC(i) = C(i) + A(i, 0) }",
        "f.te:2:1: node 'C': A[i, 0] reads out of range: index 0, i, runs from 0 to 7, but 'A' "
        "has 0 to 3 there; guard the read with a condition",
    ),
    Wrong(
        "start value of an input",
        "def f(float(4, 8) A, float(4) B) -> (B) { B(i) = 0\nB(i) += A(i, k) }",
        "f.te:1:43: 'B' is an input: only +=, *=, max=, min= fit",
    ),
    Wrong(
        "output of another dtype",
        "def f(float(4, 8) A) -> (int32(4) C) { C(i) +=! A(i, k) }",
        "f.te:1:35: cannot declare 'C' as int32(4) because the statements give float32(4); "
        "expected this type, or a cast",
    ),
    Wrong(
        "output of another shape",
        "def f(float(4, 8) A) -> (float(8) C) { C(i) +=! A(i, k) }",
        "f.te:1:35: cannot declare 'C' as float32(8) because the statements give float32(4); "
        "expected this type, or a cast",
    ),
    Wrong(
        "input assigned",
        "def f(float(4, 8) A, float(8) B) -> (C) { B(i) = A(i, 0) }",
        "f.te:1:43: 'B' is an input: only +=, *=, max=, min= fit",
    ),
    Wrong(
        "duplicate axis",
        "def f(float(4, 8) A, float(8) B) -> (C) { C(i, i) = A(i, i) }",
        "f.te:1:48: index 'i' is there twice",
    ),
    Wrong(
        "duplicate input",
        "def f(float(4) A, float(4) A) -> (C) { C(i) = A(i) }",
        "f.te:1:28: 'A' is already a tensor",
    ),
    Wrong(
        "duplicate definition",
        "def f() -> (C) { C() = 1 } def f() -> (C) { C() = 1 }",
        "f.te:1:32: 'f' is defined twice",
    ),
    Wrong(
        "unsupported dtype",
        "def f(complex64(4) A) -> (C) { C(i) = A(i) }",
        "f.te:1:7: dtype 'complex64' is not supported; there are float, double, half, int, "
        "float16, bfloat16, float32, float64, int8, uint8, int16, uint16, int32, uint32, int64, "
        "uint64, bool",
    ),
    Wrong(
        "mixed dtypes",
        "def f(float(4) A, double(4) B) -> (C) { C(i) = A(i) * B(i) }",
        "f.te:1:53: A(i) is float32, but B(i) is float64: write a cast, such as float(B(i))",
    ),
    Wrong(
        "float index",
        "def f(float(4, 8) A, float(8) B) -> (C) { C(i) = B(A(i, 0)) }",
        "f.te:1:52: index 0 of 'B' is A(i, 0) of dtype float32, not an index",
    ),
    Wrong(
        "clamp beyond the tensor",
        "def f(int64(4) I, float(9) T) -> (C) { C(i) = T(min(max(I(i), 0), 9)) }",
        "f.te:1:40: node 'C': T[min(max(I[i], 0), 9)] reads out of range: index 0, "
        "min(max(I[i], 0), 9), runs from 0 to 9, but 'T' has 0 to 8 there; guard the read with a "
        "condition",
    ),
    Wrong(
        "axis as value",
        "def f(float(4, 8) A, float(8) B) -> (C) { C(i) = B(i) * i }",
        "f.te:1:55: B(i) is float32, but i is int64: write a cast, such as float(i)",
    ),
    Wrong(
        "float literal as index",
        "def f(float(4, 8) A, float(8) B) -> (C) { C(i) = B(i + 0.5) }",
        "f.te:1:56: 0.5 stands where int64 is wanted",
    ),
    Wrong(
        "float modulo",
        "def f(float(4, 8) A, float(8) B) -> (C) { C(i) = B(i) % 2 }",
        "f.te:1:43: node 'C': (B[i] % 2.0): % does not take float32",
    ),
    Wrong(
        "literal beyond dtype",
        "def f(int8(4) A) -> (C) { C(i) = A(i) + 300 }",
        "f.te:1:27: node 'C': constant 300 is not a value of int8",
    ),
    Wrong(
        "condition that is a number",
        "def f(float(4, 8) A, float(8) B) -> (C) { C(i) = B(i) ? 1 : 0 }",
        "f.te:1:50: B(i) is float32, not a condition: compare it",
    ),
    Wrong(
        "reduction without +=!",
        "def f(float(4, 8) A, float(8) B) -> (C) { C(i) = A(i, k) }",
        "f.te:1:43: 'k' is on the right only: to reduce over it write +=!, *=!, max=! or "
        "min=!; to keep it, add it on the left",
    ),
    Wrong(
        "ambiguous range",
        "def f(float(4, 8) A, float(8) B) -> (C) { C(i, j) = B(i) }",
        "f.te:1:43: the range of 'j' does not follow from what is read: add 'where j in 0:N'",
    ),
    Wrong(
        "range from 1",
        "def f(float(4, 8) A, float(8) B) -> (C) { C(i) = B(i) where i in 1:8 }",
        "f.te:1:61: range 1:8 of 'i': ranges start at 0 and are not empty",
    ),
    Wrong(
        "empty range",
        "def f(float(4, 8) A, float(8) B) -> (C) { C(i) = B(i) where i in 0:0 }",
        "f.te:1:61: range 0:0 of 'i': ranges start at 0 and are not empty",
    ),
    Wrong(
        "window larger than the input",
        "def f(float(2) A, float(3) W) -> (C) { C(i) +=! A(i + k) * W(k) }",
        "f.te:1:40: A[(i + k)]: index 0, (i + k), leaves no value for i: 'A' has only 0 to 1 there",
    ),
    Wrong(
        "unused range",
        "def f(float(4, 8) A, float(8) B) -> (C) { C(i) = B(i) where j in 0:8 }",
        "f.te:1:61: index 'j' is not used",
    ),
    Wrong(
        "size overflow",
        "def f(float(65536, 65536) A) -> (C) { C(i) +=! A(i, k) }",
        "f.te:1:27: node 'A': 4294967296 elements, limit 2147483648",
    ),
    Wrong(
        "extent overflow",
        "def f(float(4294967296) A) -> (C) { C(i) = A(i) }",
        "f.te:1:25: node 'A': extent 0 is 4294967296, not an integer 1 to 2147483647",
    ),
    Wrong(
        "extent zero",
        "def f(float(4 - 4) A) -> (C) { C(i) = A(i) }",
        "f.te:1:20: node 'A': extent 0 is 0, not an integer 1 to 2147483647",
    ),
    Wrong(
        "iterations",
        "def f(float(1048576) A) -> (C) { C() +=! A(i) * A(j) * A(k) }",
        "f.te:1:34: node 'C': 1152921504606846976 iterations, limit 1099511627776",
    ),
    Wrong(
        "rank nine",
        "def f(float(1,1,1,1,1,1,1,1,1) A) -> (C) { C() = 1 }",
        "f.te:1:32: node 'A': rank 9, limit 8",
    ),
    Wrong(
        "output never computed",
        "def f(float(4) A) -> (Z) { C(i) = A(i) }",
        "f.te:1:23: output 'Z' is never computed",
    ),
    Wrong(
        "input as output",
        "def f(float(4) A) -> (A, C) { C(i) = A(i) }",
        "f.te:1:23: output 'A' is never computed",
    ),
    Wrong(
        "computed in vain",
        "def f(float(4, 8) A, float(8) B) -> (C) { C(i) = B(i)  D(i) = B(i) }",
        "f.te:1:5: node 'D': nothing reads it and it is not an output",
    ),
    Wrong(
        "unknown function",
        "def f(float(4, 8) A, float(8) B) -> (C) { C(i) = gam(B(i)) }",
        "f.te:1:50: 'gam' is not a tensor, a function or a dtype",
    ),
    Wrong(
        "too few arguments",
        "def f(float(4, 8) A, float(8) B) -> (C) { C(i) = pow(B(i)) }",
        "f.te:1:50: pow takes 2, not 1 arguments",
    ),
    Wrong(
        "argmax with one target",
        "def f(float(4, 8) A, float(8) B) -> (C) { C(i) = argmax(k, A(i, k)) }",
        "f.te:1:43: argmax gives a value and an index: (V, I)(i) = argmax(k, A(i, k))",
    ),
    Wrong(
        "argmax inside a term",
        "def f(float(4, 8) A, float(8) B) -> (C) { C(i) = 1 + argmax(k, A(i, k)) }",
        "f.te:1:54: argmax stands alone: (V, I)(i) = argmax(k, A(i, k))",
    ),
    Wrong(
        "size as index",
        "def f(float(N) A) -> (C) { C(N) = A(N) }",
        "f.te:1:30: 'N' is a size: choose another index name",
        {"N": 4},
    ),
    Wrong(
        "tensor as index",
        "def f(float(4, 8) A, float(8) B) -> (C) { C(B) = B(B) }",
        "f.te:1:45: 'B' is taken: choose another index name",
    ),
    Wrong(
        "function name as tensor",
        "def f(float(4) exp) -> (C) { C(i) = exp(i) }",
        "f.te:1:16: 'exp' is a function or a dtype: choose another name",
    ),
    Wrong(
        "number on the left",
        "def f(float(4, 8) A, float(8) B) -> (C) { C(0) = 1 }",
        "f.te:1:45: '0' instead of an index: only names stand on the left",
    ),
    Wrong(
        "missing bracket",
        "def f(float(4) A) -> (C) {\n  C(i) = (A(i) + 1\n}",
        "f.te:3:1: '}' here: ')' closes the parenthesis",
    ),
    Wrong(
        "missing brace",
        "def f(float(4) A) -> (C) {\n  C(i) = A(i)\n",
        "f.te:3:1: '}' is missing: def f is not closed",
    ),
    Wrong(
        "bad character",
        "def f(float(4) Ä) -> (C) { C(i) = 1 }",
        "f.te:1:16: '\\xc4' has no meaning here",
    ),
    Wrong(
        "assignment operator",
        "def f(float(4, 8) A, float(8) B) -> (C) { C(i) -= B(i) }",
        "f.te:1:48: '-' instead of an assignment: =, +=!, *=!, max=!, min=!, +=, *=, max=, min=",
    ),
    Wrong(
        "number glued to a name",
        "def f(float(4, 8) A, float(8) B) -> (C) { C(i) = 2x }",
        "f.te:1:50: '2x' is neither a number nor a name",
    ),
    Wrong(
        "name of 64 characters",
        "def f(float(4) aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa) -> "
        "(C) { C(i) = 1 }",
        "f.te:1:16: name 'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa' "
        "is longer than 63 characters",
    ),
    Wrong(
        "nothing",
        "# only a comment",
        "f.te:1:17: no definition: write 'def NAME(...) -> (...) { ... }'",
    ),
    Wrong(
        "hint",
        "def f(float(4, 8) A, float(8) B) -> (C) { C(i) = B(i) with vectorize(i) }",
        "f.te:1:60: hint 'vectorize': there are unroll, no_split_inner, const_axes, "
        "layout_free(A, ...) and flop(N)",
    ),
    Wrong(
        "hint of an unknown axis",
        "def f(float(4, 8) A, float(8) B) -> (C) { C(i) = B(i) with unroll(j) }",
        "f.te:1:43: node 'C': unroll names 'j', not an axis",
    ),
    Wrong(
        "division by zero in a size",
        "def f(float(4 / 0) A) -> (C) { C(i) = A(i) }",
        "f.te:1:15: division by 0",
    ),
    Wrong(
        "conv range with no where",
        "def f(float(9) X, float(3) W) -> (Y) { Y(h) +=! (h + k >= 1 && h + k < 10 ? X(h + k "
        "- 1) : 0) * W(k) }",
        "f.te:1:40: the range of 'h' does not follow from what is read: add 'where h in 0:N'",
    ),
)


@pytest.mark.parametrize("wrong", WRONG, ids=lambda wrong: wrong.name)
def test_the_message_for_a_wrong_text_names_place_and_cause(wrong: Wrong) -> None:
    with pytest.raises(SpecError) as error:
        parse(wrong.text, wrong.bind, "f.te")
    assert str(error.value) == wrong.message


def f(body: str) -> str:
    return f"def f(float(8) B) -> (C) {{ C(i) = {body} }}"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (f("(" * 100_000), "nest deeper than 48"),
        (f("-" * 100_000 + "1"), "nest deeper than 48"),
        (f("B(i)" + " + B(i)" * 30_000), "limits are 2048 parts, 64 levels"),
        (f("B(i) ? 1 : " * 20_000), "nest deeper than 48"),
        (f("max(" * 20_000), "nest deeper than 48"),
        (f("1" * 100_000), "number of 100000 characters, limit 40"),
        (" " * 2**19, "524288 characters, limit 262144 bytes"),
        ("def f() -> (C) {" + "C() = 1 " * 20_000, "more than 512 statements in one def"),
        ("def f(" + "float A," * 20_000, "more than 512 items in one list"),
        ("def f() -> (C) { C() = 1 }" * 5_000, "more than 128 definitions"),
        ("\0" * 1000, "has no meaning here"),
        ("\ud800", "has no meaning here"),
    ],
    ids=lambda value: value[:30] if value.isprintable() else "unprintable",
)
def test_a_resource_bomb_is_refused(text: str, message: str) -> None:
    with pytest.raises(SpecError, match=message) as error:
        parse(text)
    assert len(str(error.value)) < 300
