"""Matrix instructions of the threads of a warp, as LLVM text: fragments and their products.

All 32 threads meet at one instruction. A thread writes its words, meets its warp, and reads the
words of the others. `simt_ldmatrix` reads the row of a thread before they meet. Fragments lie in
the registers as the PTX manual says for `mma` and `ldmatrix`. Sums are in f32, each rounded, k
rising: the order and the rounding of the hardware are not documented.
"""

from typing import Final

from ansorpy.codegen.simt.emulator.limits import MOST_THREADS, WARP

FOUR_WORDS: Final = "{ i32, i32, i32, i32 }"
FOUR_FLOATS: Final = "{ float, float, float, float }"
_WORDS: Final = 8  # in the slot of a thread: its turn, its site, its words
_SLOT: Final = f"[{_WORDS} x i32]"
_GIVEN: Final = 6  # the words of A, then the words of B
_TAKEN: Final = ", ".join(f"i32 %w{k}" for k in range(_GIVEN))

_ELEMENT: Final = "ptr %slots, i32 %row, i32 %high, i32 %column, float %c"


def _slot_word(base: str, lane: str, word: str, name: str) -> str:
    """Return lines that load a word of the slot of a lane."""
    return (
        f"  %{name}_at = getelementptr {_SLOT}, ptr {base}, i32 {lane}, i32 {word}\n"
        f"  %{name} = load i32, ptr %{name}_at\n"
    )


def _returned(kind: str, element: str, names: list[str]) -> str:
    """Return lines that return values together."""
    lines, before = "", "undef"
    for k, name in enumerate(names):
        lines += f"  %r{k} = insertvalue {kind} {before}, {element} {name}, {k}\n"
        before = f"%r{k}"
    return f"{lines}  ret {kind} {before}\n"


# Slots of odd and even turns lie apart, like slots of shuffles, and share their turns.
_MEET: Final = (
    f"""\
@matrix_slots = internal global [{2 * MOST_THREADS} x {_SLOT}] zeroinitializer

define internal void @begin_matrices(i32 %thread) nounwind {{
  %even = getelementptr {_SLOT}, ptr @matrix_slots, i32 %thread
  store i32 0, ptr %even
  %odd = getelementptr {_SLOT}, ptr %even, i32 {MOST_THREADS}
  store i32 0, ptr %odd
  ret void
}}

define internal ptr @meet(i32 %site, {_TAKEN}) nounwind {{
entry:
  %me = load i32, ptr @current
  %place = getelementptr i32, ptr @turns, i32 %me
  %turn = load i32, ptr %place
  %next = add i32 %turn, 1
  store i32 %next, ptr %place
  %odd = and i32 %turn, 1
  %base = mul i32 %odd, {MOST_THREADS}
  %mine = add i32 %base, %me
  %slot = getelementptr {_SLOT}, ptr @matrix_slots, i32 %mine
  store i32 %next, ptr %slot
  %site_at = getelementptr i32, ptr %slot, i32 1
  store i32 %site, ptr %site_at
"""
    + "".join(
        f"  %w{k}_at = getelementptr i32, ptr %slot, i32 {2 + k}\n  store i32 %w{k}, ptr %w{k}_at\n"
        for k in range(_GIVEN)
    )
    + f"""\
  call void @simt_warp_barrier(i32 -1)
  %lane = and i32 %me, {WARP - 1}
  %first = sub i32 %mine, %lane
  %slots = getelementptr {_SLOT}, ptr @matrix_slots, i32 %first
  %thread = sub i32 %me, %lane
  %end = add i32 %thread, {WARP}
  %threads = load i32, ptr @threads
  %whole = icmp sle i32 %end, %threads
  br i1 %whole, label %look, label %bad
look:
  %k = phi i32 [ 0, %entry ], [ %more, %same ]
"""
    + _slot_word("%slots", "%k", "0", "its_turn")
    + _slot_word("%slots", "%k", "1", "its_site")
    + f"""\
  %turn_same = icmp eq i32 %its_turn, %next
  %site_same = icmp eq i32 %its_site, %site
  %both = and i1 %turn_same, %site_same
  br i1 %both, label %same, label %bad
same:
  %more = add i32 %k, 1
  %all = icmp eq i32 %more, {WARP}
  br i1 %all, label %done, label %look
bad:
  call void @simt_fail(i32 8)
  unreachable
done:
  ret ptr %slots
}}
"""
)


def _product(name: str, depth: int, half: int, lane: str, value: str) -> str:
    """Return the text of a matrix instruction: rows of A by columns of B, plus C.

    Args:
        depth: the extent of k.
        half: the extent of k in one word of A or B of each thread of a group of four.
        lane: lines that set `%rest`, the thread of its group of four that holds k.
        value: lines that make the float `%NAME_f` of `%NAME`, the word that holds k.
    """
    dot = f"""\
define internal float @dot_{name}({_ELEMENT}) nounwind {{
entry:
  br label %loop
loop:
  %k = phi i32 [ 0, %entry ], [ %more, %loop ]
  %sum = phi float [ %c, %entry ], [ %next, %loop ]
  %upper = udiv i32 %k, {half}
  %inner = urem i32 %k, {half}
{lane}\
  %row4 = mul i32 %row, 4
  %row_lane = add i32 %row4, %rest
  %column4 = mul i32 %column, 4
  %column_lane = add i32 %column4, %rest
  %upper2 = mul i32 %upper, 2
  %a_word = add i32 %upper2, %high
  %a_in = add i32 %a_word, 2
  %b_in = add i32 %upper, 6
{_slot_word("%slots", "%row_lane", "%a_in", "a")}\
{_slot_word("%slots", "%column_lane", "%b_in", "b")}\
{value.replace("NAME", "a")}\
{value.replace("NAME", "b")}\
  %product = fmul float %a_f, %b_f
  %next = fadd float %sum, %product
  %more = add i32 %k, 1
  %last = icmp eq i32 %more, {depth}
  br i1 %last, label %done, label %loop
done:
  ret float %next
}}
"""
    taken = ", ".join(f"float %c{k}" for k in range(4))
    calls = "".join(
        f"  %d{k} = call float @dot_{name}(ptr %slots, i32 %row, i32 {k >> 1}, i32 %column{k & 1},"
        f" float %c{k})\n"
        for k in range(4)
    )
    results = _returned(FOUR_FLOATS, "float", [f"%d{k}" for k in range(4)])
    return f"""\
{dot}
define {FOUR_FLOATS} @simt_mma_{name}(i32 %site, {_TAKEN}, {taken}) nounwind {{
  %slots = call ptr @meet(i32 %site, {_TAKEN})
  %me = load i32, ptr @current
  %lane = and i32 %me, {WARP - 1}
  %row = lshr i32 %lane, 2
  %quarter = and i32 %lane, 3
  %column0 = mul i32 %quarter, 2
  %column1 = add i32 %column0, 1
{calls}{results}}}
"""


_BF16: Final = _product(
    "bf16",
    16,
    8,
    "  %rest = lshr i32 %inner, 1\n  %lower = sub i32 1, %k\n  %low = and i32 %lower, 1\n"
    "  %shift = mul i32 %low, 16\n",
    "  %NAME_s = shl i32 %NAME, %shift\n  %NAME_m = and i32 %NAME_s, -65536\n"
    "  %NAME_f = bitcast i32 %NAME_m to float\n",
)
_TF32: Final = _product(
    "tf32",
    8,
    4,
    "  %rest = add i32 %inner, 0\n",
    "  %NAME_m = and i32 %NAME, -8192\n  %NAME_f = bitcast i32 %NAME_m to float\n",
)

# Eight threads give the rows of one matrix, 8 elements of 16 bits each.
_ROW: Final = "".join(
    f"  %p{k} = getelementptr i32, ptr %row, i32 {k}\n  %v{k} = load i32, ptr %p{k}\n"
    for k in range(4)
) + (
    "  %slots = call ptr @meet(i32 %site, "
    + "".join(f"i32 %v{k}, " for k in range(4))
    + f"""i32 0, i32 0)
  %me = load i32, ptr @current
  %lane = and i32 %me, {WARP - 1}
  %eighth = lshr i32 %lane, 2
  %quarter = and i32 %lane, 3
"""
)
_PLAIN_ROWS: Final = "  %word = add i32 %quarter, 2\n" + "".join(
    f"  %from{k} = add i32 %eighth, {8 * k}\n" + _slot_word("%slots", f"%from{k}", "%word", f"d{k}")
    for k in range(4)
)
_TURNED_ROWS: Final = """\
  %word_of = lshr i32 %eighth, 1
  %word = add i32 %word_of, 2
  %odd = and i32 %eighth, 1
  %shift = mul i32 %odd, 16
  %pair = mul i32 %quarter, 2
""" + "".join(
    f"  %low_at{k} = add i32 %pair, {8 * k}\n  %high_at{k} = add i32 %pair, {8 * k + 1}\n"
    + _slot_word("%slots", f"%low_at{k}", "%word", f"low{k}")
    + _slot_word("%slots", f"%high_at{k}", "%word", f"high{k}")
    + f"""\
  %low_s{k} = lshr i32 %low{k}, %shift
  %low_m{k} = and i32 %low_s{k}, 65535
  %high_s{k} = lshr i32 %high{k}, %shift
  %high_m{k} = shl i32 %high_s{k}, 16
  %d{k} = or i32 %low_m{k}, %high_m{k}
"""
    for k in range(4)
)
_LDMATRIX: Final = "".join(
    f"define {FOUR_WORDS} @simt_{name}(i32 %site, ptr %row) nounwind {{\n{_ROW}{lines}"
    + _returned(FOUR_WORDS, "i32", [f"%d{k}" for k in range(4)])
    + "}\n\n"
    for name, lines in (("ldmatrix", _PLAIN_ROWS), ("ldmatrix_trans", _TURNED_ROWS))
)

MATRICES: Final = "\n".join([_MEET, _BF16, _TF32, _LDMATRIX])
