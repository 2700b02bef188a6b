"""Writes LLVM IR as text, with the part of llvmlite's IRBuilder that the SIMD compiler uses.

llvmlite keeps a tree of objects and prints it later, through caches and name tables, which took
most of the time of a search. Constants, types and declarations are still llvmlite's.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final

from llvmlite import ir

from ansorpy.codegen.simd.kinds import I1, POINTER, reshaped, vector, width

SIGNED: Final = {"<": "slt", "<=": "sle", ">": "sgt", ">=": "sge", "==": "eq", "!=": "ne"}
UNSIGNED: Final = {"<": "ult", "<=": "ule", ">": "ugt", ">=": "uge", "==": "eq", "!=": "ne"}
ORDERED: Final = {"<": "lt", "<=": "le", ">": "gt", ">=": "ge", "==": "eq", "!=": "ne"}
PLAIN: Final[dict[type, str]] = {
    ir.FloatType: "float", ir.DoubleType: "double", ir.HalfType: "half", ir.VoidType: "void",
}  # fmt: skip


class Value:
    """A named result of an instruction, or an argument; `typed` has its type in front."""

    __slots__ = ("name", "type", "typed")

    def __init__(self, kind: Any, name: str) -> None:
        self.type, self.name = kind, name
        self.typed = f"{type_text(kind)} {name}"


class Phi(Value):
    """A phi: its value depends on the predecessor of its block."""

    __slots__ = ("incoming",)

    def __init__(self, kind: Any, name: str) -> None:
        super().__init__(kind, name)
        self.incoming: list[tuple[Any, Block]] = []

    def add_incoming(self, value: Any, block: "Block") -> None:
        """Add the value on entry from a block."""
        self.incoming.append((value, block))

    def __str__(self) -> str:
        sides = ", ".join(f"[ {name_of(v)}, %{block.name} ]" for v, block in self.incoming)
        return f"{self.name} = phi {type_text(self.type)} {sides}"


class Line:
    """An instruction without a result."""

    __slots__ = ("text",)

    def __init__(self, text: str) -> None:
        self.text = text

    def set_metadata(self, name: str, node: Any) -> None:
        """Attach metadata to the instruction."""
        self.text += f", !{name} {node.get_reference()}"

    def __str__(self) -> str:
        return self.text


class StackSlot(Value):
    """Memory on the stack."""

    __slots__ = ("align", "size_bytes")

    def __init__(self, size_bytes: int, name: str) -> None:
        super().__init__(POINTER, name)
        self.size_bytes, self.align = size_bytes, 1

    def __str__(self) -> str:
        return f"{self.name} = alloca [{self.size_bytes} x i8], align {self.align}"


class Block:
    """A basic block; the last line of a `closed` one is its terminator."""

    __slots__ = ("closed", "lines", "name")

    def __init__(self, name: str) -> None:
        self.name, self.closed = name, False
        self.lines: list[object] = []


def name_of(value: Any) -> str:
    """Return the text of an operand."""
    return value.name if isinstance(value, Value) else str(value.get_reference())


def type_text(kind: Any) -> str:
    """Return the text of a type, which is cached on the type."""
    text: str | None = getattr(kind, "written", None)
    if text is None:
        text = kind.written = _written(kind)
    return text


def _written(kind: Any) -> str:
    plain = PLAIN.get(type(kind))
    if plain is not None:
        return plain
    if isinstance(kind, ir.VectorType):
        return f"<{kind.count} x {type_text(kind.element)}>"
    if isinstance(kind, ir.LiteralStructType):
        return f"{{ {', '.join(map(type_text, kind.elements))} }}"
    if isinstance(kind, ir.PointerType):
        return f"ptr addrspace({kind.addrspace})" if kind.addrspace else "ptr"
    return f"i{kind.width}"


def typed(value: Any) -> str:
    """Return an operand with its type in front."""
    if isinstance(value, Value):
        return value.typed
    return f"{type_text(value.type)} {value.get_reference()}"


def _two(code: str) -> Callable[..., Value]:
    def method(self: "TextBuilder", a: Any, b: Any, flags: Sequence[str] = ()) -> Value:
        words = " ".join((code, *flags)) if flags else code
        return self.result(a.type, f"{words} {typed(a)}, {name_of(b)}")

    return method


def _cast(code: str) -> Callable[..., Value]:
    def method(self: "TextBuilder", a: Any, kind: Any) -> Value:
        return self.result(kind, f"{code} {typed(a)} to {type_text(kind)}")

    return method


def _compare(code: str, words: dict[str, str], prefix: str = "") -> Callable[..., Value]:
    def method(self: "TextBuilder", op: str, a: Any, b: Any) -> Value:
        word = prefix + words[op] if op in words else op
        return self.result(reshaped(a.type, I1), f"{code} {word} {typed(a)}, {name_of(b)}")

    return method


class TextBuilder:
    """One function `result name(parameters)`; `module` holds only its declarations.

    `features` are the target's, by LLVM's names; None: this machine.
    """

    def __init__(
        self,
        module: Any,
        name: str,
        parameters: Sequence[Any],
        features: frozenset[str] | None = None,
        result: str = "void",
    ) -> None:
        self.module, self.count, self.features = module, 0, features
        self.args = [Value(kind, self.fresh()) for kind in parameters]
        self.head = f"define {result} @{name}({', '.join(map(typed, self.args))})"
        self.blocks: list[Block] = []
        self.slots: list[object] = []
        self.block = self.append_basic_block()

    def text(self, attributes: str) -> str:
        """Return the whole definition."""
        self.blocks[0].lines[:0], self.slots = self.slots, []
        lines = [f"{self.head} {attributes} {{"]
        for block in self.blocks:
            lines.append(f"{block.name}:")
            lines += [f"  {line}" for line in block.lines]
        return "\n".join([*lines, "}"])

    def fresh(self) -> str:
        """Return a new name."""
        self.count += 1
        return f"%v{self.count}"

    def emit(self, line: object) -> None:
        """Append an instruction without a result."""
        self.block.lines.append(line)

    def result(self, kind: Any, code: str) -> Value:
        """Append an instruction and return its result."""
        value = Value(kind, self.fresh())
        self.block.lines.append(f"{value.name} = {code}")
        return value

    # Methods of llvmlite's IRBuilder from here on.
    add, sub, mul = _two("add"), _two("sub"), _two("mul")
    sdiv, udiv, srem, urem = _two("sdiv"), _two("udiv"), _two("srem"), _two("urem")
    and_, or_, xor = _two("and"), _two("or"), _two("xor")
    shl, lshr, ashr = _two("shl"), _two("lshr"), _two("ashr")
    fadd, fsub, fmul, fdiv = _two("fadd"), _two("fsub"), _two("fmul"), _two("fdiv")
    frem = _two("frem")
    zext, sext, trunc = _cast("zext"), _cast("sext"), _cast("trunc")
    fpext, fptrunc, fptosi = _cast("fpext"), _cast("fptrunc"), _cast("fptosi")
    sitofp, uitofp, bitcast = _cast("sitofp"), _cast("uitofp"), _cast("bitcast")
    ptrtoint = _cast("ptrtoint")
    icmp_signed, icmp_unsigned = _compare("icmp", SIGNED), _compare("icmp", UNSIGNED)
    fcmp_ordered, fcmp_unordered = _compare("fcmp", ORDERED, "o"), _compare("fcmp", ORDERED, "u")

    def neg(self, a: Any) -> Value:
        """Return -a of an integer."""
        return self.result(a.type, f"sub {type_text(a.type)} 0, {name_of(a)}")

    def fneg(self, a: Any) -> Value:
        """Return -a of a float."""
        return self.result(a.type, f"fneg {typed(a)}")

    def not_(self, a: Any) -> Value:
        """Return the negation of an i1, or of a vector of them."""
        true = "splat (i1 true)" if width(a) else "true"
        return self.result(a.type, f"xor {typed(a)}, {true}")

    def select(self, cond: Any, a: Any, b: Any) -> Value:
        """Return a if cond holds, else b."""
        return self.result(a.type, f"select {typed(cond)}, {typed(a)}, {typed(b)}")

    def gep(self, base: Any, indices: Sequence[Any], source_etype: Any) -> Value:
        """Return the address of an element."""
        code = f"getelementptr {type_text(source_etype)}, {typed(base)}, {typed(indices[0])}"
        lanes = width(indices[0])
        return self.result(vector(base.type, lanes) if lanes else base.type, code)

    def load(self, place: Any, typ: Any, align: int = 8) -> Value:
        """Load from memory."""
        return self.result(typ, f"load {type_text(typ)}, {typed(place)}, align {align}")

    def store(self, value: Any, place: Any, align: int) -> Line:
        """Store to memory."""
        line = Line(f"store {typed(value)}, {typed(place)}, align {align}")
        self.emit(line)
        return line

    def call(self, function: Any, args: Sequence[Any]) -> Value | None:
        """Call a function."""
        kind = function.function_type.return_type
        listed = ", ".join(map(typed, args))
        code = f'call {type_text(kind)} @"{function.name}"({listed})'
        if isinstance(kind, ir.VoidType):
            self.emit(code)
            return None
        return self.result(kind, code)

    def asm(
        self, kind: Any, text: str, constraint: str, args: Sequence[Any], side_effect: bool
    ) -> Value:
        """Run inline assembly with a result."""
        effect = "sideeffect " if side_effect else ""
        listed = ", ".join(map(typed, args))
        answer = kind.return_type
        code = f'call {type_text(answer)} asm {effect}"{text}", "{constraint}"({listed})'
        return self.result(answer, code)

    def extract_element(self, vector: Any, lane: Any) -> Value:
        """Return one lane."""
        return self.result(vector.type.element, f"extractelement {typed(vector)}, {typed(lane)}")

    def extract_value(self, values: Any, place: int) -> Value:
        """Return one of several values."""
        return self.result(values.type.elements[place], f"extractvalue {typed(values)}, {place}")

    def insert_element(self, vector: Any, value: Any, lane: Any) -> Value:
        """Return a vector with one lane replaced."""
        code = f"insertelement {typed(vector)}, {typed(value)}, {typed(lane)}"
        return self.result(vector.type, code)

    def shuffle_vector(self, a: Any, b: Any, picks: Any) -> Value:
        """Return the picked lanes of a followed by b."""
        kind = vector(a.type.element, picks.type.count)
        return self.result(kind, f"shufflevector {typed(a)}, {typed(b)}, {typed(picks)}")

    def phi(self, kind: Any) -> Phi:
        """Return a phi, whose incoming values are added later."""
        value = Phi(kind, self.fresh())
        self.emit(value)
        return value

    def alloca(self, kind: Any) -> StackSlot:
        """Reserve an array of bytes on the stack, at the entry of the function."""
        slot = StackSlot(kind.count, self.fresh())
        self.slots.append(slot)
        return slot

    @contextmanager
    def goto_entry_block(self) -> Iterator[None]:
        """Do nothing: `alloca` always writes to the entry block."""
        yield

    def append_basic_block(self) -> Block:
        """Return a new block at the end."""
        block = Block(f"b{len(self.blocks)}")
        self.blocks.append(block)
        return block

    def position_at_end(self, block: Block) -> None:
        """Continue in a block."""
        self.block = block

    @contextmanager
    def inside(self, block: Block) -> Iterator[None]:
        """Write at the end of a block, which may be closed."""
        before, self.block = self.block, block
        end = [block.lines.pop()] if block.closed else []
        yield
        block.lines += end
        self.block = before

    def branch(self, block: Block) -> None:
        """Go to a block."""
        self.emit(f"br label %{block.name}")
        self.block.closed = True

    def cbranch(self, cond: Any, then: Block, other: Block) -> None:
        """Go to one of two blocks."""
        self.emit(f"br {typed(cond)}, label %{then.name}, label %{other.name}")
        self.block.closed = True

    @contextmanager
    def if_then(self, cond: Any) -> Iterator[None]:
        """Write a block that runs if cond holds."""
        inside, after = self.append_basic_block(), self.append_basic_block()
        self.cbranch(cond, inside, after)
        self.block = inside
        yield
        self.branch(after)
        self.block = after

    def ret(self, value: Any) -> None:
        """Return a value."""
        self.emit(f"ret {typed(value)}")

    def ret_void(self) -> None:
        """Return."""
        self.emit("ret void")
