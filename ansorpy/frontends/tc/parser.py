"""Tokens to definitions: a recursive descent with bounded nesting.

    file       def+
    def        'def' NAME '(' [param {',' param}] ')' '->' '(' output {',' output} ')' '{' stmt* '}'
    param      ['const'] DTYPE ['(' [extent {',' extent}] ')'] NAME
    extent     term | NAME 'in' term '..' term ['step' term] ['@' weighted {'+' weighted}]
    weighted   term ['..' term] ':' NUMBER
    output     [DTYPE ['(' [term {',' term}] ')']] NAME
    stmt       target ASSIGN term ['where' range {',' range}] ['with' hint {',' hint}] [';']
    target     NAME '(' [NAME {',' NAME}] ')'  |  '(' NAME ',' NAME ')' '(' [NAME {...}] ')'
    range      NAME 'in' term ':' term
    hint       NAME '(' [term {',' term}] ')'
    term       binary ['?' term ':' term]
    binary     '||' < '&&' < comparisons < '|' < '^' < '&' < '<<' '>>' < '+' '-' < '*' '/' '%'
               < '-' '!' '~' < primary
    primary    NUMBER | NAME | NAME '(' [term {',' term}] ')' | '(' term ')'

The '(' of `NAME(...)` stands on the line of its name, so that a line may begin with '('.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Final, TypeVar

from ansorpy.frontends.tc.ast import (
    Apply,
    Cond,
    Declared,
    Def,
    Hint,
    Infix,
    Name,
    Number,
    Parameter,
    Ranged,
    Statement,
    Term,
    Unary,
    WeightedSizes,
    Where,
    parts,
)
from ansorpy.frontends.tc.lexer import ASSIGNMENTS, KEYWORDS, At, Token, tokens
from ansorpy.te.limits import LIMITS

PRECEDENCE: Final = {
    "||": 1, "&&": 2,
    "==": 3, "!=": 3, "<": 4, "<=": 4, ">": 4, ">=": 4,
    "|": 5, "^": 6, "&": 7, "<<": 8, ">>": 8, "+": 9, "-": 9, "*": 10, "/": 10, "%": 10,
}  # fmt: skip
NESTING_LIMIT: Final = 48  # nested parentheses and signs, each about ten Python frames deep

T = TypeVar("T")


def definitions(text: str, source: str) -> tuple[Def, ...]:
    """Return the definitions of a text; names and types are not looked at yet.

    Raises:
        SpecError: the text does not follow the grammar, or is too large.
    """
    # Tokens are read on demand: a text with an early mistake costs little.
    parser = _Parser(tokens(text, source))
    definitions: list[Def] = []
    while parser.token.kind != "end":
        if len(definitions) == LIMITS.definitions:
            raise parser.token.at.error(f"more than {LIMITS.definitions} definitions")
        definitions.append(parser.definition())
    if not definitions:
        raise parser.token.at.error("no definition: write 'def NAME(...) -> (...) { ... }'")
    return tuple(definitions)


@dataclass
class _Parser:
    stream: Iterator[Token]
    position: int = 0
    nesting: int = 0
    terms: int = 0  # terms of the current statement
    heights: dict[int, int] = field(default_factory=dict)  # heights of its terms, by id

    read: list[Token] = field(default_factory=list)

    @property
    def token(self) -> Token:
        while len(self.read) <= self.position:
            self.read.append(next(self.stream))
        return self.read[self.position]

    def definition(self) -> Def:
        self.expect("def", "a definition starts with 'def'")
        name = self.name("the name of the definition")
        parameters = self.listed(self.parameter)
        self.expect("->", "'->' and the outputs follow the parameters")
        outputs = self.listed(self.output)
        self.expect("{", "'{' opens the body")
        statements = []
        while self.token.text != "}":
            if self.token.kind == "end":
                raise self.token.at.error(f"'}}' is missing: def {name.name} is not closed")
            statements.append(self.statement())
            if len(statements) > LIMITS.nodes:
                raise statements[-1].at.error(f"more than {LIMITS.nodes} statements in one def")
        self.position += 1
        return Def(name, parameters, outputs, tuple(statements))

    def parameter(self) -> Parameter:
        constant = self.accept("const")
        dtype = self.name("the dtype of a parameter")
        dims: tuple[Term | Ranged, ...] = ()
        if self.token.text == "(":
            dims = self.listed(self.extent)
        terms = tuple(one.name if isinstance(one, Ranged) else one for one in dims)
        ranges = tuple(one for one in dims if isinstance(one, Ranged))
        return Parameter(self.name("the name of a parameter"), dtype, terms, constant, ranges)

    def extent(self) -> "Term | Ranged":
        term = self.term()
        if not isinstance(term, Name) or not self.accept("in"):
            return term
        low = self.binary(PRECEDENCE["+"])
        self.expect("..", "the range of a size is written 'N in 1..512', both ends included")
        high = self.binary(PRECEDENCE["+"])
        step = self.binary(PRECEDENCE["+"]) if self.accept("step") else Number(1, term.at)
        weights = [self.weighted()] if self.accept("@") else []
        while weights and self.accept("+"):
            weights.append(self.weighted())
        return Ranged(term, low, high, step, tuple(weights))

    def weighted(self) -> WeightedSizes:
        low = self.binary(PRECEDENCE["*"])  # a '+' begins the next sizes
        high = self.binary(PRECEDENCE["*"]) if self.accept("..") else low
        self.expect(":", "weights are written '@ 1..8: 0.9 + 512: 0.1'")
        if self.token.kind != "number":
            raise self.token.at.error(f"{self.token} instead of a weight, a number")
        return WeightedSizes(low, high, float(self.advance().text))

    def output(self) -> Declared:
        first = self.name("an output")
        if self.token.text == "(":
            dims = self.listed(self.term)
        elif self.token.kind == "name":
            dims = ()
        else:
            return Declared(first)
        return Declared(self.name("the name of an output"), first, dims)

    def statement(self) -> Statement:
        self.terms, self.heights = 0, {}
        if self.token.text == "(":
            targets = self.listed(lambda: self.name("a target"))
        else:
            targets = (self.name("the tensor that a statement computes"),)
        indices = self.listed(lambda: self.name("an index: only names stand on the left"))
        op = self.token
        if op.text not in ASSIGNMENTS:
            raise op.at.error(f"{op} instead of an assignment: {', '.join(ASSIGNMENTS)}")
        self.position += 1
        value = self.term()
        wheres = self.clause("where", self.where)
        hints = self.clause("with", self.hint)
        self.accept(";")
        return Statement(targets, indices, op.text, value, wheres, hints)

    def where(self) -> Where:
        name = self.name("an index variable")
        self.expect("in", "a range is written 'where k in 0:K'")
        low = self.binary(PRECEDENCE["+"])
        self.expect(":", "a range is written 'where k in 0:K'")
        return Where(name, low, self.binary(PRECEDENCE["+"]))

    def hint(self) -> Hint:
        kind = self.name("a hint")
        return Hint(kind.name, self.listed(self.term), kind.at)

    def term(self) -> Term:
        self.nesting += 1
        if self.nesting > NESTING_LIMIT:
            raise self.token.at.error(f"terms nest deeper than {NESTING_LIMIT}")
        term = self.binary(1)
        if self.token.text == "?":
            at = self.advance().at
            yes = self.term()
            self.expect(":", "a condition is written 'test ? a : b'")
            term = self.made(Cond(term, yes, self.term(), at), at)
        self.nesting -= 1
        return term

    def binary(self, least: int) -> Term:
        term = self.unary()
        while PRECEDENCE.get(self.token.text, 0) >= least:
            op = self.advance()
            right = self.binary(PRECEDENCE[op.text] + 1)
            term = self.made(Infix(op.text, term, right, op.at), op.at)
        return term

    def unary(self) -> Term:
        if self.token.text not in ("-", "!", "~"):
            return self.primary()
        op = self.advance()
        self.nesting += 1
        if self.nesting > NESTING_LIMIT:
            raise op.at.error(f"terms nest deeper than {NESTING_LIMIT}")
        term = self.made(Unary(op.text, self.unary(), op.at), op.at)
        self.nesting -= 1
        return term

    def primary(self) -> Term:
        token = self.token
        if token.kind == "number":
            self.position += 1
            whole = token.text.isdigit()
            return self.made(Number(int(token.text) if whole else float(token.text), token.at))
        if token.text == "(":
            self.position += 1
            term = self.term()
            self.expect(")", "')' closes the parenthesis")
            return term
        name = self.name("a number, a name or '('")
        if self.token.text == "(" and self.token.at.line == name.at.line:
            return self.made(Apply(name.name, self.listed(self.term), name.at))
        return self.made(name)

    def made(self, term: Term, at: At | None = None) -> Term:
        """Count a term and measure its height, so that nothing later recurses too deep."""
        self.terms += 1
        height = 1 + max((self.heights.get(id(part), 0) for part in parts(term)), default=0)
        self.heights[id(term)] = height
        if self.terms > LIMITS.terms or height > LIMITS.depth:
            raise (at or term.at).error(
                f"the term is too large: limits are {LIMITS.terms} parts, {LIMITS.depth} levels"
            )
        return term

    def clause(self, keyword: str, item: Callable[[], T]) -> tuple[T, ...]:
        if not self.accept(keyword):
            return ()
        found = [item()]
        while self.accept(","):
            found.append(item())
        return tuple(found)

    def listed(self, item: Callable[[], T]) -> tuple[T, ...]:
        self.expect("(", "'(' is missing")
        items: list[T] = []
        while self.token.text != ")":
            if items:
                self.expect(",", "',' or ')' is missing")
            items.append(item())
            if len(items) > LIMITS.nodes:
                raise self.token.at.error(f"more than {LIMITS.nodes} items in one list")
        self.position += 1
        return tuple(items)

    def name(self, what: str) -> Name:
        token = self.token
        if token.kind != "name" or token.text in KEYWORDS:
            raise token.at.error(f"{token} instead of {what}")
        self.position += 1
        return Name(token.text, token.at)

    def expect(self, text: str, otherwise: str) -> None:
        if not self.accept(text):
            raise self.token.at.error(f"{self.token} here: {otherwise}")

    def accept(self, text: str) -> bool:
        found = self.token.text == text
        self.position += found
        return found

    def advance(self) -> Token:
        token = self.token
        self.position += 1
        return token
