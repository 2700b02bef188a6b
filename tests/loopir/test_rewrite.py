import pytest

from ansorpy.errors import LoweringError
from ansorpy.loopir.nodes import Alloc, For, Prefetch, Scope, Stmt, Store, Tile
from ansorpy.loopir.printer import stmt_text
from ansorpy.loopir.rewrite import (
    map_stmt,
    rename_buffers,
    seq,
    stores,
    substitute_stmt,
)
from tests.loopir.build import buffer, c, mul, read, store, v
from tests.loopir.samples import matmul


def test_substitution_stops_at_the_loop_that_binds_the_name() -> None:
    body = seq(
        store("O", (v("i"),), read("A", v("i"))),
        For("i", v("i"), store("O", (v("i"),), read("A", v("i")))),
    )
    answer = substitute_stmt(body, {"i": c(7)})
    assert stmt_text(answer) == "O[7] = A[7]\nfor i in 7:\n  O[i] = A[i]"


def test_substitution_refuses_capture() -> None:
    body = For("i", c(4), store("O", (v("i"), v("j")), read("A", v("j"))))
    with pytest.raises(LoweringError, match=r"j := \(i \* 2\): i is bound inside"):
        substitute_stmt(body, {"j": mul(v("i"), c(2))})


def test_map_stmt_is_bottom_up_and_keeps_unchanged_statements() -> None:
    body = matmul(2, 3, 4).phases[0].body
    assert map_stmt(body, lambda stmt: stmt) is body
    seen: list[Stmt] = []

    def note(stmt: Stmt) -> Stmt:
        seen.append(stmt)
        return stmt

    map_stmt(body, note)
    assert isinstance(seen[0], Store)
    assert seen[-1] is body
    assert len(stores(body)) == 2


def test_buffers_are_renamed_wherever_they_stand() -> None:
    fill = Tile((), (("i", 4),), store("S", (v("i"),), read("A", v("i"))))
    give = store("O", (c(0),), mul(read("S", read("S", c(1))), read("A", c(0))))
    body = Alloc(buffer("S", 4, scope=Scope.LOCAL), seq(Prefetch("A", c(8)), fill, give))
    before = stmt_text(body)
    after = stmt_text(rename_buffers(body, {"S": "T", "A": "B"}))
    assert after == before.replace("S", "T").replace("A", "B")
    assert "T[T[1]] * B[0]" in after
