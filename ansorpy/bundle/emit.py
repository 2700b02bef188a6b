"""Pieces of LLVM IR of the driver: addresses of values, sizes of a call, calls of kernels."""

from collections.abc import Iterator, Sequence
from typing import Final

from ansorpy.bundle.memory import Place

SIZE_BYTES: Final = 8  # bytes of a size of a call


def loaded(body: list[str], name: str, sizes: str, number: int) -> str:
    """Append a load of a size of a call; return it."""
    place = offset(body, f"{name}.at", sizes, SIZE_BYTES * number)
    body.append(f"  %{name} = load i64, ptr {place}, align {SIZE_BYTES}")
    return f"%{name}"


def pointers(body: list[str], places: Sequence[Place], mark: str = "") -> Iterator[str]:
    """Append code that computes the addresses of places; yield their names."""
    bases: dict[int, str] = {}
    for number, place in enumerate(places):
        base = bases.get(place.argument)
        if base is None:
            base = bases[place.argument] = f"%b{mark}.{place.argument}"
            slot = f"%q{mark}.{place.argument}"
            body.append(f"  {slot} = getelementptr ptr, ptr %args, i64 {place.argument}")
            body.append(f"  {base} = load ptr, ptr {slot}, align 8")
        yield offset(body, f"a{mark}.{number}", base, place.at)


def offset(body: list[str], name: str, base: str, at: int) -> str:
    """Append the address `at` bytes behind a base; return its name."""
    if not at:
        return base
    body.append(f"  %{name} = getelementptr i8, ptr {base}, i64 {at}")
    return f"%{name}"


def call(symbol: str, pointers: Sequence[str], mark: str, more: str) -> list[str]:
    """Return a call of a kernel's function on an array of pointers."""
    lines = [f"  %call{mark} = alloca [{len(pointers)} x ptr], align 16"]
    for number, pointer in enumerate(pointers):
        slot = f"%t{mark}.{number}"
        lines.append(f"  {slot} = getelementptr ptr, ptr %call{mark}, i64 {number}")
        lines.append(f"  store ptr {pointer}, ptr {slot}, align 8")
    return [*lines, f"  call void @{symbol}(ptr %call{mark}{more})"]
