"""Conversions of f32 to the inputs of matrix instructions, as LLVM text."""

from typing import Final

# bf16: to nearest, ties to even; tf32: to nearest, ties away from zero. A NaN has one form.
CONVERSIONS: Final = """\
define internal i32 @bf16(float %x) nounwind {
  %word = bitcast float %x to i32
  %upper = lshr i32 %word, 16
  %odd = and i32 %upper, 1
  %bias = add i32 %odd, 32767
  %near = add i32 %word, %bias
  %short = lshr i32 %near, 16
  %nan = fcmp uno float %x, %x
  %result = select i1 %nan, i32 32767, i32 %short
  ret i32 %result
}

define <2 x bfloat> @simt_bf16x2(float %high, float %low) nounwind {
  %upper = call i32 @bf16(float %high)
  %lower = call i32 @bf16(float %low)
  %shifted = shl i32 %upper, 16
  %word = or i32 %shifted, %lower
  %result = bitcast i32 %word to <2 x bfloat>
  ret <2 x bfloat> %result
}

define i32 @simt_tf32(float %x) nounwind {
  %word = bitcast float %x to i32
  %near = add i32 %word, 4096
  %short = and i32 %near, -8192
  %nan = fcmp uno float %x, %x
  %result = select i1 %nan, i32 2147483647, i32 %short
  ret i32 %result
}
"""
