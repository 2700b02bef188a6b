"""Functions of mathematics on LLVM values."""

import math
from collections.abc import Callable, Sequence
from typing import Any

from llvmlite import ir

from ansorpy.codegen.simd.arithmetic import Arithmetic
from ansorpy.codegen.simd.kinds import F64, I16, I32, declared, reshaped, supports

EXP = (8.289731107652187e-3, 4.189785569906235e-2, 1.6667647659778595e-1, 4.999915063381195e-1,
       9.999997019767761e-1, 1.0)  # fmt: skip
EXPM1 = (1.3870319817215204e-3, 8.366256020963192e-3, 4.166743904352188e-2,
         1.6666546463966370e-1, 4.999999701976776e-1)  # fmt: skip
LOG = (7.0376836292e-2, -1.1514610310e-1, 1.1676998740e-1, -1.2420140846e-1, 1.4249322787e-1,
       -1.6668057665e-1, 2.0000714765e-1, -2.4999993993e-1, 3.3333331174e-1)  # fmt: skip
LEAST_EXPONENT = -103.9720770839918  # log(2**-150): half of the smallest float32
LEAST_NORMAL = -87.3365  # log(2**-126), rounded up
MOST_EXPONENT = 88.72283  # the largest float32 whose exponential is finite
MAGIC = 12582912.0  # 1.5 * 2**23: adding it rounds to an integer in the low bits
SIN = (2.6057839477289235e-6, -1.9809666264336556e-4, 8.33306834101677e-3, -1.6666659712791443e-1)
PI = (
    3.141592502593994,
    1.5099578831723193e-07,
    1.078060505991553e-14,
)  # a sum of positive parts: -0.0 stays -0.0
LARGEST_ANGLE = 2.0**18  # radians: below it three parts of pi suffice; libm reduces larger angles
ATAN = (2.9203598387539387e-3, -1.6366520896553993e-2, 4.320942610502243e-2,
        -7.551993429660797e-2, 1.066589280962944e-1, -1.4211024343967438e-1,
        1.9993768632411957e-1, -3.3333152532577515e-1)  # fmt: skip
HALF_PI = (1.57079637050628662109375, -4.37113900018624283e-8)  # a float32 and the rest
SQRT_HALF = 0x3F3504F3  # bits of sqrt(1/2) as a float32
ERF_SMALL = (-5.96761703e-4, 4.99119423e-3, -2.67681349e-2, 1.12819925e-1, -3.76125336e-1,
             1.28379166e-1)  # fmt: skip


class Functions(Arithmetic):
    """Polynomials for float32, within 4 units in the last place; libm, lane by lane, for float64.

    exp, tanh: our own minimax fits (relative error of e**r 0.77, of e**r - 1 0.12 machine
    epsilons for |r| <= log(2) / 2); sin, cos (0.11 for |r| <= pi / 2), atan (0.28 for |r| <= 1);
    log, log1p: the Cephes library (S. Moshier); erf: N. Juffa's two-interval minimax. NaN and
    infinity keep their meaning.
    """

    def function(self, op: str, dtype: str, x: Any) -> Any:
        """Return op(x), op in POLYNOMIALS."""
        if op == "sigmoid":
            return self.sigmoid(x, lambda y: self.function("exp", dtype, y))
        return self.from_libm(op, x) if dtype == "float64" else POLYNOMIALS[op](self, x)

    def from_libm(self, op: str, x: Any) -> Any:
        """Return a float64 function; LLVM calls the C library for every lane."""
        if op in ("exp", "log", "tanh"):
            return self.call(op, x.type, x)
        return self.each_lane(op, x)

    def poly(self, x: Any, coefficients: tuple[float, ...]) -> Any:
        """Return the polynomial in x, highest power first."""
        result = self.like(x, coefficients[0])
        for number in coefficients[1:]:
            result = self.fma(result, x, self.like(x, number))
        return result

    def exp(self, x: Any) -> Any:
        """Return e**x: 2**n * e**r with |r| <= log(2) / 2.

        Without an instruction for y * 2**n, n is added to the exponent of e**r, and results below
        2**-126 are 0: to round them takes a third of the time.
        """
        b, like = self.b, self.like
        if self.scales(x.type):
            most = like(x, 89.5)
            x = b.select(b.fcmp_ordered("<", most, x), most, x)  # NaN stays
            counts = b.fcmp_unordered(">=", x, like(x, LEAST_EXPONENT))
            _, n, r = self.reduced(x)
            return self.scaled(self.poly(r, EXP), n, counts)
        counts = b.fcmp_ordered(">=", x, like(x, LEAST_NORMAL))
        over = b.fcmp_unordered(">", x, like(x, MOST_EXPONENT))
        shifted, _, r = self.reduced(x)
        bits = reshaped(x.type, I32)
        n = b.bitcast(shifted, bits)
        n = b.shl(n, like(n, 23))  # all of MAGIC is shifted out
        y = b.bitcast(b.add(b.bitcast(self.poly(r, EXP), bits), n), x.type)
        y = b.select(counts, y, like(x, 0.0))
        return b.select(over, b.fadd(x, like(x, math.inf)), y)  # NaN stays

    def reduced(self, x: Any) -> tuple[Any, Any, Any]:
        """Return n + MAGIC (its low bits hold n), n = round(x / log(2)) and x - n * log(2)."""
        like, fma = self.like, self.fma
        shifted = fma(x, like(x, 1.44269504088896341), like(x, MAGIC))
        n = self.b.fsub(shifted, like(x, MAGIC))
        r = fma(n, like(x, 2.12194440e-4), fma(n, like(x, -0.693359375), x))
        return shifted, n, r

    def scales(self, kind: Any) -> bool:
        """Return True if the machine has an instruction for y * 2**n in this type."""
        whole = isinstance(kind, ir.VectorType) and kind.count == 16
        return whole and supports(self.b, "avx512f")

    def scaled(self, y: Any, n: Any, counts: Any) -> Any:
        """Return y * 2**n, rounded once: AVX-512's scalef; 0 in lanes that do not count."""
        mask, rounding = self.b.bitcast(counts, I16), ir.Constant(I32, 4)
        args = [y, n, ir.Constant(y.type, None), mask, rounding]
        function = ir.FunctionType(y.type, [arg.type for arg in args])
        name = "llvm.x86.avx512.mask.scalef.ps.512"
        return self.b.call(declared(self.b.module, name, function), args)

    def power(self, n: Any, kind: Any) -> Any:
        """Return 2**n for integers -126 <= n <= 127."""
        biased = self.b.add(n, self.like(n, 127))
        return self.b.bitcast(self.b.shl(biased, self.like(n, 23)), kind)

    def log(self, x: Any) -> Any:
        """Return the natural logarithm; x = m * 2**e with sqrt(1/2) <= m < sqrt(2)."""
        b, like = self.b, self.like
        bits_type = reshaped(x.type, I32)
        tiny = b.fcmp_ordered("<", x, like(x, 1.1754943508222875e-38))
        scaled = b.select(tiny, b.fmul(x, like(x, 8388608.0)), x)
        bits = b.bitcast(scaled, bits_type)
        shifted = b.sub(bits, self.like(bits, SQRT_HALF))
        e = b.sitofp(b.ashr(shifted, self.like(bits, 23)), x.type)
        e = b.fadd(e, b.select(tiny, like(x, -23.0), like(x, 0.0)))
        m = b.add(b.and_(shifted, self.like(bits, 0x7FFFFF)), self.like(bits, SQRT_HALF))
        f = b.fsub(b.bitcast(m, x.type), like(x, 1.0))
        return self.with_ends_of_log(x, self.log_of_parts(f, e), 0.0)

    def log_of_parts(self, f: Any, e: Any) -> Any:
        """Return log((1 + f) * 2**e) with sqrt(1/2) <= 1 + f < sqrt(2)."""
        b, like, fma = self.b, self.like, self.fma
        square = b.fmul(f, f)
        y = b.fmul(b.fmul(self.poly(f, LOG), f), square)
        y = fma(e, like(f, -2.12194440e-4), y)
        y = b.fadd(f, fma(square, like(f, -0.5), y))
        return fma(e, like(f, 0.693359375), y)

    def with_ends_of_log(self, x: Any, y: Any, pole: float) -> Any:
        """Return the logarithm `y` with its meaning at infinity, at NaN, and from the pole down."""
        b, like = self.b, self.like
        y = b.select(b.fcmp_ordered("<", x, like(x, math.inf)), y, x)  # inf, NaN
        y = b.select(b.fcmp_ordered("==", x, like(x, pole)), like(x, -math.inf), y)
        return b.select(b.fcmp_ordered("<", x, like(x, pole)), like(x, math.nan), y)

    def log1p(self, x: Any) -> Any:
        """Return log(1 + x), without the rounding of 1 + x.

        1 + x = (1 + f) * 2**e with the exponent e of the rounded sum; f = x / 2**e + 1 / 2**e - 1.
        """
        b, like, fma = self.b, self.like, self.fma
        kind = reshaped(x.type, I32)
        bits = b.bitcast(b.fadd(x, like(x, 1.0)), kind)
        shifted = b.sub(bits, self.like(bits, SQRT_HALF))
        power = b.and_(shifted, self.like(bits, 0xFF800000 - 2**32))  # e << 23
        four = b.bitcast(b.sub(self.like(bits, 129 << 23), power), x.type)  # 4 / 2**e: normal
        quarter = like(x, 0.25)
        f = fma(b.fmul(x, four), quarter, fma(four, quarter, like(x, -1.0)))
        e = b.sitofp(b.ashr(shifted, self.like(bits, 23)), x.type)
        y = self.call("copysign", x.type, self.log_of_parts(f, e), x)  # -0.0 stays
        return self.with_ends_of_log(x, y, -1.0)

    def atan(self, x: Any) -> Any:
        """Return atan: of r = |x|, or pi / 2 less the arcus tangent of r = 1 / |x|, r <= 1."""
        b, like = self.b, self.like
        size, one = self.call("fabs", x.type, x), like(x, 1.0)
        large = b.fcmp_ordered(">", size, one)
        r = b.fdiv(b.select(large, one, size), b.select(large, size, one))
        square = b.fmul(r, r)
        y = self.fma(b.fmul(self.poly(square, ATAN), square), r, r)
        high, low = (like(x, part) for part in HALF_PI)
        y = b.select(large, b.fadd(b.fsub(high, y), low), y)
        return self.call("copysign", x.type, y, x)

    def tanh(self, x: Any) -> Any:
        """Return tanh: d / (d + 2) with d = e**2|x| - 1 = 2**n * (e**r - 1) + (2**n - 1)."""
        b, like = self.b, self.like
        size = self.call("fabs", x.type, x)
        twice, edge = b.fadd(size, size), like(x, 19.0)
        twice = b.select(b.fcmp_ordered("<", edge, twice), edge, twice)  # NaN stays
        shifted, _, r = self.reduced(twice)
        small = self.fma(b.fmul(r, r), self.poly(r, EXPM1), r)
        bits = b.bitcast(shifted, reshaped(x.type, I32))
        power = self.power(bits, x.type)  # the shift drops all of MAGIC
        d = self.fma(power, small, b.fsub(power, like(x, 1.0)))
        return self.call("copysign", x.type, b.fdiv(d, b.fadd(d, like(x, 2.0))), x)

    def sigmoid(self, x: Any, exp: Callable[[Any], Any]) -> Any:
        """Return 1 / (1 + e**-x); results below 2**-128 are flushed to 0."""
        one = self.like(x, 1.0)
        return self.b.fdiv(one, self.b.fadd(exp(self.b.fneg(x)), one))

    def sin(self, x: Any) -> Any:
        """Return the sine: (-1)**n * sin(r) with r = x - n * pi, |r| <= pi / 2."""
        b, like = self.b, self.like
        shifted = self.fma(x, like(x, 1 / math.pi), like(x, MAGIC))
        n = b.fsub(shifted, like(x, MAGIC))
        return self.unless_large("sin", x, self.sine(x, n, PI, shifted))

    def cos(self, x: Any) -> Any:
        """Return the cosine: (-1)**n * sin(r) with r = x - (n - 1/2) * pi, |r| <= pi / 2."""
        b, like = self.b, self.like
        near = self.fma(x, like(x, 1 / math.pi), like(x, 0.5))
        shifted = b.fadd(near, like(x, MAGIC))
        n = b.fsub(shifted, like(x, MAGIC))
        odd = self.fma(n, like(x, 2.0), like(x, -1.0))
        halves = [part / 2 for part in PI]
        return self.unless_large("cos", x, self.sine(x, odd, halves, shifted))

    def sine(self, x: Any, n: Any, parts: Sequence[float], shifted: Any) -> Any:
        """Return (-1)**n * sin(r), r = x - n * sum(parts); `shifted` has the low bit of n.

        The first difference is exact: it is a multiple of 2**-22 below 4.
        """
        b, r, one = self.b, x, self.like(x, 1.0)
        for part in parts:
            r = self.fma(n, self.like(x, -part), r)
        square = b.fmul(r, r)
        y = self.call("fabs", x.type, self.fma(b.fmul(self.poly(square, SIN), square), r, r))
        y = b.select(b.fcmp_ordered("<", one, y), one, y)  # NaN stays
        bits = reshaped(x.type, I32)
        sign = b.shl(b.bitcast(shifted, bits), self.like(b.bitcast(shifted, bits), 31))
        turned = b.xor(b.bitcast(r, bits), sign)  # gives 0 the sign of r, too
        return self.call("copysign", x.type, y, b.bitcast(turned, x.type))

    def unless_large(self, name: str, x: Any, usual: Any) -> Any:
        """Return `usual`; if an angle is large, the function of the C library of all lanes.

        The branch computes nothing that is remembered: its values are not known after it.
        """
        b = self.b
        large = b.fcmp_ordered(">", self.call("fabs", x.type, x), self.like(x, LARGEST_ANGLE))
        if isinstance(x.type, ir.VectorType):
            mask = b.bitcast(large, ir.IntType(x.type.count))
            some = b.icmp_unsigned("!=", mask, self.like(mask, 0))
        else:
            some = large
        entry = b.block
        with b.if_then(some):
            wide = self.each_lane(name, b.fpext(x, reshaped(x.type, F64)))
            exact, end = b.fptrunc(wide, x.type), b.block
        y = b.phi(x.type)
        y.add_incoming(usual, entry)
        y.add_incoming(exact, end)
        return y

    def erf(self, x: Any) -> Any:
        """Return the error function."""
        b, like, fma = self.b, self.like, self.fma
        size, s = self.call("fabs", x.type, x), b.fmul(x, x)
        small = fma(self.poly(s, ERF_SMALL), x, x)
        most = like(x, 5.0)  # erf is 1 from 4 on; an underflow is slow
        t = b.select(b.fcmp_ordered(">", size, most), most, size)
        square = b.fmul(t, t)
        r = fma(like(x, -1.72853470e-5), t, like(x, 3.83197126e-4))
        u = fma(like(x, -3.88396438e-3), t, like(x, 2.42546219e-2))
        r = fma(r, square, u)
        for number in (-1.06777877e-1, -6.34846687e-1, -1.28717512e-1):
            r = fma(r, t, like(x, number))
        r = fma(r, t, b.fneg(t))
        large = self.call("copysign", x.type, b.fsub(like(x, 1.0), self.exp(r)), x)
        return b.select(b.fcmp_ordered(">", size, like(x, 0.927734375)), large, small)

    def tf32(self, x: Any) -> Any:
        """Return x: only matrix instructions of a GPU need the rounded number."""
        return x

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


POLYNOMIALS: dict[str, Callable[[Functions, Any], Any]] = {  # for float32
    "exp": Functions.exp, "log": Functions.log, "tanh": Functions.tanh, "erf": Functions.erf,
    "log1p": Functions.log1p, "sin": Functions.sin, "cos": Functions.cos, "atan": Functions.atan,
    "tf32": Functions.tf32,
}  # fmt: skip
