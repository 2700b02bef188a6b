"""The check, in LLVM IR for x86-64, that a processor has the features of a library.

The answer comes from CPUID itself (Intel SDM volume 2A; AMD APM volume 3, appendix E), and from
XGETBV: the operating system must save the wide registers too. Linux saves matrix registers only
for a process that asks for it (Documentation/arch/x86/xstate.rst): the library does so when it is
loaded, and says no where that was refused.
"""

from collections.abc import Sequence
from typing import Final

# Feature as LLVM names it -> (leaf, subleaf, register of the answer: 0 eax .. 3 edx, bit).
# These features may be used by LLVM itself, or by our intrinsics; no others reach the code.
BITS: Final[dict[str, tuple[int, int, int, int]]] = {
    "sse3": (1, 0, 2, 0), "pclmul": (1, 0, 2, 1), "ssse3": (1, 0, 2, 9), "fma": (1, 0, 2, 12),
    "cx16": (1, 0, 2, 13), "sse4.1": (1, 0, 2, 19), "sse4.2": (1, 0, 2, 20),
    "movbe": (1, 0, 2, 22), "popcnt": (1, 0, 2, 23), "avx": (1, 0, 2, 28), "f16c": (1, 0, 2, 29),
    "bmi": (7, 0, 1, 3), "avx2": (7, 0, 1, 5), "bmi2": (7, 0, 1, 8), "avx512f": (7, 0, 1, 16),
    "avx512dq": (7, 0, 1, 17), "avx512ifma": (7, 0, 1, 21), "avx512cd": (7, 0, 1, 28),
    "avx512bw": (7, 0, 1, 30), "avx512vl": (7, 0, 1, 31), "avx512vbmi": (7, 0, 2, 1),
    "avx512vbmi2": (7, 0, 2, 6), "gfni": (7, 0, 2, 8), "avx512vnni": (7, 0, 2, 11),
    "avx512bitalg": (7, 0, 2, 12), "avx512vpopcntdq": (7, 0, 2, 14), "amx-bf16": (7, 0, 3, 22),
    "avx512fp16": (7, 0, 3, 23), "amx-tile": (7, 0, 3, 24), "amx-int8": (7, 0, 3, 25),
    "avxvnni": (7, 1, 0, 4), "avx512bf16": (7, 1, 0, 5), "lzcnt": (0x80000001, 0, 2, 5),
}  # fmt: skip
OSXSAVE: Final = (1, 0, 2, 27)
# XCR0: the halves of ymm; opmasks, the halves of zmm, zmm16-31; the tiles.
STATES: Final = {"avx": 0x6, "avx512": 0xE6, "amx": 0x60000}
# The check itself runs on processors without the features of the library.
PLAIN: Final = 'nounwind "target-cpu"="x86-64" "target-features"="+sse2"'
QUESTION: Final = (
    'call {{ i32, i32, i32, i32 }} asm sideeffect "cpuid",'
    ' "={{ax}},={{bx}},={{cx}},={{dx}},0,2,~{{dirflag}},~{{fpsr}},~{{flags}}"'
    "(i32 {leaf}, i32 {subleaf})"
)
# LLVM uses these features only for intrinsics that a program names.
NAMED: Final = {
    "amx-tile": ("llvm.x86.tile",),
    "amx-int8": ("llvm.x86.tdpbs", "llvm.x86.tdpbu"),
    "amx-bf16": ("llvm.x86.tdpbf16ps",),
}
ALLOWED: Final = "allow_matrices"


def required(features: Sequence[str], text: str) -> tuple[str, ...]:
    """Return the features of a processor that its code, LLVM IR, may depend on, sorted."""
    unused = {name for name, words in NAMED.items() if not any(word in text for word in words)}
    return tuple(sorted(set(features) & set(BITS) - unused))


def _permission_text(features: Sequence[str]) -> str:
    """Return the code that asks Linux for matrix registers when a library is loaded, or ""."""
    if not any(name in NAMED for name in features):
        return ""
    entry = "{ i32, ptr, ptr } { i32 65535, ptr @on_load, ptr null }"
    return (
        f"define i64 @{ALLOWED}() {PLAIN} {{\n"
        '  %r = call i64 asm sideeffect "syscall",'
        ' "={ax},{ax},{di},{si},~{rcx},~{r11},~{memory},~{dirflag},~{fpsr},~{flags}"'
        "(i64 158, i64 4131, i64 18)\n"  # arch_prctl(ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA)
        "  ret i64 %r\n}\n"
        f"define void @on_load() {PLAIN} {{\n"
        f"  %r = call i64 @{ALLOWED}()\n  ret void\n}}\n"
        f"@llvm.global_ctors = appending global [1 x {{ i32, ptr, ptr }}] [{entry}]"
    )


def supported_text(name: str, features: Sequence[str], x86: bool) -> str:
    """Return `int32_t name(void)`: 1 where this processor has every feature, else 0.

    On other processors than x86-64 it asks nothing and says 1.
    """
    lines = _questions(features) if x86 else []
    body = "\n".join(["entry:", *lines, "  ret i32 1"])
    refusal = "\nno:\n  ret i32 0" if lines else ""
    attributes = PLAIN if x86 else "nounwind"
    permission = _permission_text(features) if x86 else ""
    return f"{permission}\ndefine i32 @{name}() {attributes} {{\n{body}{refusal}\n}}"


def _questions(features: Sequence[str]) -> list[str]:
    wanted: dict[tuple[int, int], dict[int, int]] = {}  # by leaf: masks by register
    saved = _states(features)
    asked = [BITS[name] for name in features] + ([OSXSAVE] if saved else [])
    for leaf, subleaf, register, bit in asked:
        masks = wanted.setdefault((leaf, subleaf), {})
        masks[register] = masks.get(register, 0) | 1 << bit
    lines: list[str] = []
    for base in sorted({leaf & 0x80000000 for leaf, _ in wanted}):
        highest = max(leaf for leaf, _ in wanted if leaf & 0x80000000 == base)
        lines += [
            f"  %m{base} = {QUESTION.format(leaf=base, subleaf=0)}",
            f"  %h{base} = extractvalue {{ i32, i32, i32, i32 }} %m{base}, 0",
            f"  %k{base} = icmp uge i32 %h{base}, {highest}",
            *_else_no(f"%k{base}", f"has{base}"),
        ]
    for (leaf, subleaf), masks in sorted(wanted.items()):
        at = f"{leaf}.{subleaf}"
        lines.append(f"  %a{at} = {QUESTION.format(leaf=leaf, subleaf=subleaf)}")
        for register, mask in sorted(masks.items()):
            value = f"{at}.{register}"
            lines += [
                f"  %r{value} = extractvalue {{ i32, i32, i32, i32 }} %a{at}, {register}",
                f"  %b{value} = and i32 %r{value}, {mask}",
                f"  %y{value} = icmp eq i32 %b{value}, {mask}",
                *_else_no(f"%y{value}", f"next{value}"),
            ]
    if saved:
        question = (
            'call { i32, i32 } asm sideeffect "xgetbv",'
            ' "={ax},={dx},{cx},~{dirflag},~{fpsr},~{flags}"(i32 0)'
        )
        lines += [
            f"  %x = {question}",
            "  %x0 = extractvalue { i32, i32 } %x, 0",
            f"  %x1 = and i32 %x0, {saved}",
            f"  %x2 = icmp eq i32 %x1, {saved}",
            *_else_no("%x2", "saves"),
        ]
    if any(name in NAMED for name in features):
        lines += [
            f"  %p = call i64 @{ALLOWED}()",
            "  %p0 = icmp eq i64 %p, 0",
            *_else_no("%p0", "allowed"),
        ]
    return lines


def _states(features: Sequence[str]) -> int:
    """Return the bits of XCR0 that must be set."""
    mask = 0
    for prefix, bits in STATES.items():
        if any(name.startswith(prefix) for name in features):
            mask |= bits
    return mask


def _else_no(condition: str, label: str) -> list[str]:
    return [f"  br i1 {condition}, label %{label}, label %no", f"{label}:"]
