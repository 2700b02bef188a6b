"""Operators on LLVM values, scalars and vectors alike."""

from typing import Any

from llvmlite import ir

from ansorpy.codegen.simd.kinds import (
    ALONE,
    COMPUTED,
    F32,
    F64,
    FLAGS,
    FLOATS,
    I1,
    I8,
    I16,
    I32,
    I64,
    UNSIGNED,
    constant,
    declared,
    lanes_of,
    lanes_on,
    mangled,
    reshaped,
    supports,
    undefined,
    vector,
    width,
)

# By dtype: the least |y| for which 1 / y needs no scaling, and the factor that scales a smaller y.
INVERSES = {"float32": (2.0**-126, 2.0**64), "float64": (2.0**-1022, 2.0**128)}

# Table of fixupimm, 4 bits per class of numbers: the result for both classes of NaN is a quiet NaN.
NAN_STAYS = 0x22
CLOSED = {
    "v4f32": ("sse.{}.ps", "sse2"),
    "v2f64": ("sse2.{}.pd", "sse2"),
    "v8f32": ("avx.{}.ps.256", "avx2"),
    "v4f64": ("avx.{}.pd.256", "avx2"),
}
FIXED = {F32: ("ps", I32), F64: ("pd", I64)}

# Functions that are an instruction; the thread rounds to the nearest whole number, of two the even.
ROUNDINGS = {"floor": "floor", "ceil": "ceil", "round": "rint", "trunc": "trunc"}
INTRINSICS = {"abs": "fabs", "sqrt": "sqrt", **ROUNDINGS}


class Arithmetic:
    """LLVM code for the operators and functions of tiles, on scalars and vectors alike."""

    def __init__(self, builder: Any) -> None:
        self.b = builder

    def call(self, name: str, result: Any, *args: Any) -> Any:
        """Call the intrinsic llvm.`name`, overloaded on `result`."""
        full = f"llvm.{name}.{mangled(result)}"
        function = self.b.module.globals.get(full)
        if function is None:
            kind = ir.FunctionType(result, [arg.type for arg in args])
            function = declared(self.b.module, full, kind)
        return self.b.call(function, args)

    def splat(self, value: Any, lanes: int) -> Any:
        """Return a vector of `lanes` times the scalar `value` (a vector stays)."""
        if isinstance(value.type, ir.VectorType) or not lanes:
            return value
        kind = vector(value.type, lanes)
        if isinstance(value, ir.Constant):
            return constant(kind, value.constant)
        empty, first = undefined(kind), constant(I32, 0)
        one = self.b.insert_element(empty, value, first)
        return self.b.shuffle_vector(one, empty, constant(vector(I32, lanes), 0))

    def like(self, value: Any, number: float) -> Any:
        """Return `number` in the type of `value`."""
        return constant(value.type, number)

    def shuffle(self, a: Any, b: Any, picks: list[int]) -> Any:
        """Return the lanes `picks` of `a` followed by `b`."""
        return self.b.shuffle_vector(a, b, lanes_of(I32, tuple(picks)))

    def conjunction(self, a: Any, b: Any) -> Any:
        """Return a and b of i1 scalars or vectors."""
        wide = width(a, b)
        known = [set(lanes_on(each)) for each in (a, b)]
        if all(known):  # a folded constant: a store must see if a single lane is left
            return lanes_of(I1, [k in known[0] & known[1] for k in range(wide)])
        a, b = self.splat(a, wide), self.splat(b, wide)
        if any(known) and not supports(self.b, "avx512f"):
            # LLVM 22 splits a masked load that is wider than a register of AVX2, and loads all of
            # a half whose mask an `and` makes false; a shuffle with false lanes is kept apart.
            (on, value) = (known[0], b) if known[0] else (known[1], a)
            none = lanes_of(I1, (False,) * wide)
            return self.shuffle(value, none, [k if k in on else wide + k for k in range(wide)])
        return self.b.and_(a, b)

    def fma(self, a: Any, b: Any, c: Any) -> Any:
        """Return a * b + c, rounded once."""
        return self.call("fma", a.type, a, b, c)

    def convert(self, value: Any, old: str, new: str) -> Any:
        """Return `value` of dtype `old` as `new`; floats truncate towards zero."""
        b = self.b
        if new in ("float16", "bfloat16"):
            return self.loaded(self.stored(self.convert(value, old, "float32"), new), new)
        if old == new:
            return value
        if new == "bool":
            return self.compare("!=", old, value, self.like(value, 0))
        kind = reshaped(value.type, COMPUTED[new])
        if old in FLOATS and new in FLOATS:
            return (b.fpext if new == "float64" else b.fptrunc)(value, kind)
        if old in FLOATS:
            return self.to_integer(value, new)
        unsigned = old in UNSIGNED
        if new in FLOATS:
            return (b.uitofp if unsigned else b.sitofp)(value, kind)
        size, goal = COMPUTED[old].width, COMPUTED[new].width
        if size >= goal:
            return b.trunc(value, kind) if size > goal else value
        return (b.zext if unsigned else b.sext)(value, kind)

    def to_integer(self, value: Any, new: str) -> Any:
        """Return a float as an integer of the dtype `new`, truncated towards zero."""
        b = self.b
        if new == "uint64":
            half = self.like(value, 2.0**63)
            large = b.fcmp_ordered(">=", value, half)
            low = b.select(large, b.fsub(value, half), value)
            rest = b.fptosi(low, reshaped(value.type, I64))
            return b.select(large, b.xor(rest, self.like(rest, -(2**63))), rest)
        wide = I64 if new in ("int64", "uint32") else I32
        found, kind = b.fptosi(value, reshaped(value.type, wide)), COMPUTED[new]
        return b.trunc(found, reshaped(value.type, kind)) if kind.width < wide.width else found

    def loaded(self, value: Any, dtype: str) -> Any:
        """Return a value as it lies in memory in the form for computing."""
        b = self.b
        if dtype == "bool":
            return b.icmp_signed("!=", value, self.like(value, 0))
        if dtype == "float16":
            return b.fpext(value, reshaped(value.type, F32))
        if dtype == "bfloat16":
            bits = b.zext(value, reshaped(value.type, I32))
            return b.bitcast(b.shl(bits, self.like(bits, 16)), reshaped(value.type, F32))
        return value

    def stored(self, value: Any, dtype: str) -> Any:
        """Return a computed value in the form that memory holds, rounded to nearest even."""
        b = self.b
        if dtype == "bool":
            return b.zext(value, reshaped(value.type, I8))
        if dtype == "float16":
            return b.fptrunc(value, reshaped(value.type, ir.HalfType()))
        if dtype == "bfloat16":
            bits = b.bitcast(value, reshaped(value.type, I32))
            odd = b.and_(b.lshr(bits, self.like(bits, 16)), self.like(bits, 1))
            near = b.add(bits, b.add(odd, self.like(bits, 0x7FFF)))
            quiet = b.or_(bits, self.like(bits, 0x400000))
            near = b.select(b.fcmp_unordered("uno", value, value), quiet, near)
            return b.trunc(b.lshr(near, self.like(bits, 16)), reshaped(value.type, I16))
        return value

    def extreme(self, op: str, dtype: str, x: Any, y: Any) -> Any:
        """Return max or min; a NaN on either side wins, as in NumPy."""
        b, sign = self.b, ">" if op == "max" else "<"
        if dtype not in FLOATS:
            compare = b.icmp_unsigned if dtype in UNSIGNED else b.icmp_signed
            return b.select(compare(sign, x, y), x, y)
        if isinstance(y, ir.Constant):  # a constant first: this form keeps a NaN on the right
            x, y = y, x
        best = self.better_number(op, sign, x, y)
        if isinstance(x, ir.Constant):
            return best
        if self.fixes(x.type):
            return self.fixed(best, x)
        return b.select(b.fcmp_unordered("uno", x, x), x, best)

    def better_number(self, op: str, sign: str, x: Any, y: Any) -> Any:
        """Return max or min of floats, y where either is NaN: an intrinsic where there is one.

        LLVM's optimiser would split a select, and the code that keeps a NaN, into two comparisons.
        """
        name, feature = CLOSED.get(mangled(x.type), ("", ""))
        if not name or isinstance(x, ir.Constant) or not supports(self.b, feature):
            return self.b.select(self.b.fcmp_ordered(sign, x, y), x, y)
        function = ir.FunctionType(x.type, [x.type, y.type])
        full = f"llvm.x86.{name.format(op)}"
        return self.b.call(declared(self.b.module, full, function), [x, y])

    def fixes(self, kind: Any) -> bool:
        """Return True if the machine has an instruction that puts NaN into lanes of this type."""
        if not isinstance(kind, ir.VectorType) or kind.element not in FIXED:
            return False
        size = kind.count * FIXED[kind.element][1].width
        return supports(self.b, {512: "avx512f", 256: "avx512vl", 128: "avx512vl"}.get(size, ""))

    def fixed(self, best: Any, x: Any) -> Any:
        """Return NaN in lanes of `x` that are NaN, else `best`: AVX-512's fixupimm.

        One instruction instead of a comparison and a masked move, and nothing that LLVM's
        optimiser takes for a second comparison.
        """
        short, bits = FIXED[x.type.element]
        size = x.type.count * bits.width
        table = constant(reshaped(x.type, bits), NAN_STAYS)
        every = ir.Constant(ir.IntType(max(8, x.type.count)), -1)
        args = [best, x, table, ir.Constant(I32, 0), every]
        if size == 512:
            args.append(
                ir.Constant(I32, 4)
            )  # rounding mode: the thread's, as in every other operation
        function = ir.FunctionType(x.type, [arg.type for arg in args])
        name = f"llvm.x86.avx512.mask.fixupimm.{short}.{size}"
        return self.b.call(declared(self.b.module, name, function), args)

    def compare(self, op: str, dtype: str, x: Any, y: Any) -> Any:
        """Return the i1 of a comparison."""
        if dtype in FLOATS:
            return (self.b.fcmp_unordered if op == "!=" else self.b.fcmp_ordered)(op, x, y)
        unsigned = dtype in UNSIGNED
        return (self.b.icmp_unsigned if unsigned else self.b.icmp_signed)(op, x, y)

    def divide(self, op: str, dtype: str, x: Any, y: Any) -> Any:
        """Return x // y or x % y, rounded down; never traps: by zero gives 0."""
        b, zero, one = self.b, self.like(x, 0), self.like(x, 1)
        if dtype in UNSIGNED:
            none = b.icmp_signed("==", y, zero)
            safe = b.select(none, one, y)
            return b.select(none, zero, (b.udiv if op == "//" else b.urem)(x, safe))
        odd = b.or_(b.icmp_signed("==", y, zero), b.icmp_signed("==", y, self.like(x, -1)))
        result = self.divide_safely(op, x, b.select(odd, one, y))
        if op == "%":
            return result
        special = b.select(b.icmp_signed("==", y, zero), zero, b.sub(zero, x))
        return b.select(odd, special, result)

    def divide_by(self, op: str, dtype: str, x: Any, number: int) -> Any:
        """Return x // number or x % number, rounded down, by a shift where that does."""
        b = self.b
        if dtype in UNSIGNED or number in (0, -1):
            return self.divide(op, dtype, x, self.like(x, number))
        if number > 0 and number & (number - 1) == 0:
            if op == "//":
                return b.ashr(x, self.like(x, number.bit_length() - 1))
            return b.and_(x, self.like(x, number - 1))
        return self.divide_safely(op, x, self.like(x, number))

    def divide_safely(self, op: str, x: Any, y: Any) -> Any:
        """Return x // y or x % y, rounded down, where y is neither 0 nor -1 (signed)."""
        b, zero = self.b, self.like(x, 0)
        rest = b.srem(x, y)
        unlike = b.xor(b.icmp_signed("<", rest, zero), b.icmp_signed("<", y, zero))
        down = b.and_(b.icmp_signed("!=", rest, zero), unlike)
        if op == "%":
            return b.select(down, b.add(rest, y), rest)
        whole = b.sdiv(x, y)
        return b.select(down, b.sub(whole, self.like(x, 1)), whole)

    def inverse(self, dtype: str, y: Any) -> tuple[Any, Any]:
        """Return s and 1 / (s * y) of a scalar; s = 1 but where 1 / y overflows or loses digits.

        x / y is then (x * s) * (1 / (s * y)): two roundings of 1 / y, and the product, for any y.
        """
        b, (least, factor) = self.b, INVERSES[dtype]
        size, one = self.call("fabs", y.type, y), self.like(y, 1.0)
        scale = b.select(b.fcmp_ordered("<", size, self.like(y, least)), self.like(y, factor), one)
        large = b.fcmp_ordered(">", size, self.like(y, 1 / least))
        scale = b.select(large, self.like(y, 1 / factor), scale)
        return scale, b.fdiv(one, b.fmul(y, scale))

    def power_of_integer(self, x: Any, y: Any) -> Any:
        """Return x ** y by squaring; a negative y counts as its low bits do."""
        b, result, one = self.b, self.like(x, 1), self.like(x, 1)
        for k in range(6):  # larger powers of anything but 0, 1, -1 overflow 64 bits
            bit = b.and_(b.lshr(y, self.like(y, k)), self.like(y, 1))
            result = b.select(b.icmp_signed("==", bit, one), b.mul(result, x), result)
            x = b.mul(x, x)
        return result

    def binary(self, op: str, dtype: str, x: Any, y: Any, fuses: bool = True) -> Any:
        """Return x op y for two values of one dtype and width."""
        b = self.b
        if op in ("max", "min"):
            return self.extreme(op, dtype, x, y)
        if op in ("//", "%"):
            return self.divide(op, dtype, x, y)
        if op == "pow":
            integer = dtype not in FLOATS
            return self.power_of_integer(x, y) if integer else self.call("pow", x.type, x, y)
        if op == "fmod":
            return b.frem(x, y)  # LLVM calls the C library for every lane
        if dtype in FLOATS:
            code = {"+": b.fadd, "-": b.fsub, "*": b.fmul, "/": b.fdiv}[op]
            return code(x, y, flags=FLAGS if fuses else ALONE)
        if op in ("<<", ">>"):
            return self.shift(op, dtype, x, y)
        code = {"+": b.add, "-": b.sub, "*": b.mul, "&": b.and_, "|": b.or_, "^": b.xor}[op]
        return code(x, y)

    def shift(self, op: str, dtype: str, x: Any, y: Any) -> Any:
        """Return x << y or x >> y; a count outside of the width shifts every bit out.

        LLVM's shifts have no result for such counts.
        """
        b, width = self.b, COMPUTED[dtype].width
        fits = b.icmp_unsigned("<", y, self.like(y, width))
        if op == ">>" and dtype not in UNSIGNED:
            return b.ashr(x, b.select(fits, y, self.like(y, width - 1)))
        zero = self.like(x, 0)
        shifted = (b.shl if op == "<<" else b.lshr)(x, b.select(fits, y, zero))
        return b.select(fits, shifted, zero)

    def unary(self, op: str, dtype: str, x: Any) -> Any:
        """Return op(x): negation, rounding, or a function of mathematics."""
        b = self.b
        if dtype not in FLOATS:
            zero = self.like(x, 0)
            if op == "bitnot":
                return b.xor(x, self.like(x, -1))
            if op == "neg":
                return b.sub(zero, x)
            if op == "abs" and dtype not in UNSIGNED:
                return b.select(b.icmp_signed("<", x, zero), b.sub(zero, x), x)
            return x
        if op == "neg":
            return b.fneg(x)
        if op in INTRINSICS:
            return self.call(INTRINSICS[op], x.type, x)
        if op == "rsqrt":
            return b.fdiv(self.like(x, 1.0), self.call("sqrt", x.type, x))
        return self.function(op, dtype, x)

    def function(self, op: str, dtype: str, x: Any) -> Any:
        """Return a function of mathematics, of floats."""
        raise NotImplementedError(op)

    def better(self, op: str, dtypes: list[str], new: list[Any], old: list[Any]) -> Any:
        """Return where the pair `new` beats `old` for argmax, argmin; NaN beats every number."""
        b, (x, k), (y, p) = self.b, new, old
        wins = self.compare(">" if op == "argmax" else "<", dtypes[0], x, y)
        same = self.compare("==", dtypes[0], x, y)
        if dtypes[0] in FLOATS:
            x_nan, y_nan = (b.fcmp_unordered("uno", v, v) for v in (x, y))
            wins = b.or_(wins, b.and_(x_nan, b.not_(y_nan)))
            same = b.or_(same, b.and_(x_nan, y_nan))
        return b.or_(wins, b.and_(same, self.compare("<", dtypes[1], k, p)))

    def combine(self, op: str, dtypes: list[str], old: list[Any], new: list[Any]) -> list[Any]:
        """Return the combination of an accumulator with new values."""
        if op in ("argmax", "argmin"):
            wins = self.better(op, dtypes, new, old)
            return [self.b.select(wins, x, y) for x, y in zip(new, old, strict=True)]
        symbol = {"sum": "+", "prod": "*"}.get(op, op)
        return [self.binary(symbol, dtypes[0], new[0], old[0])]
