"""Functions of mathematics on LLVM values."""

import math
from collections.abc import Callable
from typing import Any

from llvmlite import ir

from ansorpy.codegen.simd.arithmetic import Arithmetic
from ansorpy.codegen.simd.kinds import F64, I32, declared, reshaped

EXP = (1.9875691500e-4, 1.3981999507e-3, 8.3334519073e-3, 4.1665795894e-2, 1.6666665459e-1,
       5.0000001201e-1)  # fmt: skip
LOG = (7.0376836292e-2, -1.1514610310e-1, 1.1676998740e-1, -1.2420140846e-1, 1.4249322787e-1,
       -1.6668057665e-1, 2.0000714765e-1, -2.4999993993e-1, 3.3333331174e-1)  # fmt: skip
TANH = (-5.70498872745e-3, 2.06390887954e-2, -5.37397155531e-2, 1.33314422036e-1,
        -3.33332819422e-1)  # fmt: skip
ERF_SMALL = (-5.96761703e-4, 4.99119423e-3, -2.67681349e-2, 1.12819925e-1, -3.76125336e-1,
             1.28379166e-1)  # fmt: skip


class Functions(Arithmetic):
    """Polynomials for float32, within 4 units in the last place; libm, lane by lane, for float64.

    exp, log, tanh: the Cephes library (S. Moshier); erf: N. Juffa's two-interval minimax.
    """

    def function(self, op: str, dtype: str, x: Any) -> Any:
        """Return op(x) for exp, log, tanh, erf or sigmoid."""
        if dtype == "float64":
            return self.from_libm(op, x)
        table = {"exp": self.exp, "log": self.log, "tanh": self.tanh, "erf": self.erf}
        return self.sigmoid(x, self.exp) if op == "sigmoid" else table[op](x)

    def from_libm(self, op: str, x: Any) -> Any:
        """Return a float64 function; LLVM calls the C library for every lane."""
        if op == "erf":
            return self.each_lane("erf", x)
        if op == "sigmoid":
            return self.sigmoid(x, lambda y: self.call("exp", y.type, y))
        return self.call(op, x.type, x)

    def poly(self, x: Any, coefficients: tuple[float, ...]) -> Any:
        """Return the polynomial in x, highest power first."""
        result = self.like(x, coefficients[0])
        for number in coefficients[1:]:
            result = self.fma(result, x, self.like(x, number))
        return result

    def exp(self, x: Any) -> Any:
        """Return e**x: 2**n * e**r with |r| <= log(2) / 2; 2**n in two steps, for denormals."""
        b, like, fma = self.b, self.like, self.fma
        for sign, limit in ((">", -105.0), ("<", 89.5)):
            edge = like(x, limit)
            x = b.select(b.fcmp_ordered(sign, edge, x), edge, x)  # NaN stays
        magic = like(x, 12582912.0)  # 1.5 * 2**23: adding it rounds to an integer in the low bits
        shifted = fma(x, like(x, 1.44269504088896341), magic)
        n = b.fsub(shifted, magic)
        r = fma(n, like(x, 2.12194440e-4), fma(n, like(x, -0.693359375), x))
        y = b.fadd(fma(b.fmul(r, r), self.poly(r, EXP), r), like(x, 1.0))
        bits = reshaped(x.type, I32)
        whole = b.sub(b.bitcast(shifted, bits), b.bitcast(magic, bits))
        half = b.ashr(whole, like(whole, 1))
        for part in (half, b.sub(whole, half)):
            y = b.fmul(y, self.power(part, x.type))
        return y

    def power(self, n: Any, kind: Any) -> Any:
        """Return 2**n for integers -126 <= n <= 127."""
        biased = self.b.add(n, self.like(n, 127))
        return self.b.bitcast(self.b.shl(biased, self.like(n, 23)), kind)

    def log(self, x: Any) -> Any:
        """Return the natural logarithm; x = m * 2**e with sqrt(1/2) <= m < sqrt(2)."""
        b, like, fma = self.b, self.like, self.fma
        bits_type = reshaped(x.type, I32)
        tiny = b.fcmp_ordered("<", x, like(x, 1.1754943508222875e-38))
        scaled = b.select(tiny, b.fmul(x, like(x, 8388608.0)), x)
        bits = b.bitcast(scaled, bits_type)
        shifted = b.sub(bits, self.like(bits, 0x3F3504F3))  # the bits of sqrt(1/2)
        e = b.sitofp(b.ashr(shifted, self.like(bits, 23)), x.type)
        e = b.fadd(e, b.select(tiny, like(x, -23.0), like(x, 0.0)))
        m = b.add(b.and_(shifted, self.like(bits, 0x7FFFFF)), self.like(bits, 0x3F3504F3))
        f = b.fsub(b.bitcast(m, x.type), like(x, 1.0))
        square = b.fmul(f, f)
        y = b.fmul(b.fmul(self.poly(f, LOG), f), square)
        y = fma(e, like(x, -2.12194440e-4), y)
        y = b.fadd(f, fma(square, like(x, -0.5), y))
        y = fma(e, like(x, 0.693359375), y)
        y = b.select(b.fcmp_ordered("<", x, like(x, math.inf)), y, x)  # inf, NaN
        y = b.select(b.fcmp_ordered("==", x, like(x, 0.0)), like(x, -math.inf), y)
        return b.select(b.fcmp_ordered("<", x, like(x, 0.0)), like(x, math.nan), y)

    def tanh(self, x: Any) -> Any:
        """Return tanh: an odd polynomial near 0, else 1 - 2 / (e**2|x| + 1)."""
        b, like = self.b, self.like
        size, square = self.call("fabs", x.type, x), b.fmul(x, x)
        small = self.fma(b.fmul(self.poly(square, TANH), square), x, x)
        power = b.fadd(self.exp(b.fadd(size, size)), like(x, 1.0))
        large = b.fsub(like(x, 1.0), b.fdiv(like(x, 2.0), power))
        large = self.call("copysign", x.type, large, x)
        return b.select(b.fcmp_ordered("<", size, like(x, 0.625)), small, large)

    def sigmoid(self, x: Any, exp: Callable[[Any], Any]) -> Any:
        """Return 1 / (1 + e**-x), with e**-|x| so that small results keep their digits."""
        b, one = self.b, self.like(x, 1.0)
        power = exp(b.fneg(self.call("fabs", x.type, x)))
        negative = b.fcmp_ordered("<", x, self.like(x, 0.0))
        return b.fdiv(b.select(negative, power, one), b.fadd(power, one))

    def erf(self, x: Any) -> Any:
        """Return the error function."""
        b, like, fma = self.b, self.like, self.fma
        size, s = self.call("fabs", x.type, x), b.fmul(x, x)
        small = fma(self.poly(s, ERF_SMALL), x, x)
        t = b.select(b.fcmp_ordered(">", size, like(x, 10.0)), like(x, 10.0), size)
        square = b.fmul(t, t)
        r = fma(like(x, -1.72853470e-5), t, like(x, 3.83197126e-4))
        u = fma(like(x, -3.88396438e-3), t, like(x, 2.42546219e-2))
        r = fma(r, square, u)
        for number in (-1.06777877e-1, -6.34846687e-1, -1.28717512e-1):
            r = fma(r, t, like(x, number))
        r = fma(r, t, b.fneg(t))
        large = self.call("copysign", x.type, b.fsub(like(x, 1.0), self.exp(r)), x)
        return b.select(b.fcmp_ordered(">", size, like(x, 0.927734375)), large, small)

    def each_lane(self, name: str, x: Any) -> Any:
        """Call the C function `double name(double)` on every lane."""
        kind = ir.FunctionType(F64, [F64])
        function = declared(self.b.module, name, kind)
        if not isinstance(x.type, ir.VectorType):
            return self.b.call(function, [x])
        result = ir.Constant(x.type, ir.Undefined)
        for k in range(x.type.count):
            lane = ir.Constant(I32, k)
            one = self.b.call(function, [self.b.extract_element(x, lane)])
            result = self.b.insert_element(result, one, lane)
        return result
