"""Shuffles of the threads of a warp, and special registers, as LLVM text."""

from typing import Final

from ansorpy.codegen.simt.emulator.limits import MOST_THREADS, WARP

# A thread writes its word, meets its warp, and reads the word of its partner. Words of odd and
# even turns lie apart: a thread may be at its next shuffle before its partner has read. A partner
# thread that ended before this turn gives all ones; if it ended later, its word is still valid.
SHUFFLES: Final = f"""\
define internal i32 @exchange(i32 %mask, i32 %word, i32 %source) nounwind {{
  %me = load i32, ptr @current
  %place = getelementptr i32, ptr @turns, i32 %me
  %turn = load i32, ptr %place
  %next = add i32 %turn, 1
  store i32 %next, ptr %place
  %odd = and i32 %turn, 1
  %base = mul i32 %odd, {MOST_THREADS}
  %mine = add i32 %base, %me
  %slot = getelementptr i32, ptr @slots, i32 %mine
  store i32 %word, ptr %slot
  call void @simt_warp_barrier(i32 %mask)
  %warp = and i32 %me, -{WARP}
  %other = add i32 %warp, %source
  %place3 = getelementptr i32, ptr @turns, i32 %other
  %turns = load i32, ptr %place3
  %there = add i32 %base, %other
  %place2 = getelementptr i32, ptr @slots, i32 %there
  %found = load i32, ptr %place2
  %ended = icmp ult i32 %turns, %next
  %result = select i1 %ended, i32 -1, i32 %found
  ret i32 %result
}}
""" + "".join(
    f"""
define i32 @simt_shuffle_{mode}(i32 %mask, i32 %word, i32 %distance, i32 %clamp) nounwind {{
  %me = load i32, ptr @current
  %lane = and i32 %me, {WARP - 1}
  %shifted = lshr i32 %clamp, 8
  %segment = and i32 %shifted, {WARP - 1}
  %end = and i32 %clamp, {WARP - 1}
  %low = and i32 %lane, %segment
  %apart = xor i32 %segment, {WARP - 1}
  %high = and i32 %end, %apart
  %most = or i32 %low, %high
  %near = and i32 %distance, {WARP - 1}
  %inner = and i32 %near, %apart
  %partner = {partner}
  %outside = icmp {outside}
  %source = select i1 %outside, i32 %lane, i32 %partner
  %result = call i32 @exchange(i32 %mask, i32 %word, i32 %source)
  ret i32 %result
}}
"""
    for mode, partner, outside in (
        ("idx", "or i32 %low, %inner", "sgt i32 %partner, %most"),
        ("up", "sub i32 %lane, %near", "slt i32 %partner, %low"),
        ("down", "add i32 %lane, %near", "sgt i32 %partner, %most"),
        ("bfly", "xor i32 %lane, %near", "sgt i32 %partner, %most"),
    )
)

SPECIAL: Final = "".join(
    f"""
define i32 @simt_{name}() nounwind {{
  %value = load i32, ptr @{state}
  ret i32 %value
}}
"""
    for name, state in (
        ("tid", "current"), ("ctaid", "block"), ("ntid", "threads"), ("nctaid", "blocks")
    )
) + f"""
define i32 @simt_laneid() nounwind {{
  %value = load i32, ptr @current
  %lane = and i32 %value, {WARP - 1}
  ret i32 %lane
}}
"""  # fmt: skip
