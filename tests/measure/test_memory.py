"""Addresses of the buffers of a timed kernel."""

import numpy as np

from ansorpy.expr.expr import Const
from ansorpy.loopir.nodes import Buffer, Scope
from ansorpy.measure.timing.workplace import Workplace
from ansorpy.measure.verify.cases import Case
from ansorpy.measure.verify.guard_pages import LINE_BYTES, PAGE_BYTES


def test_written_buffers_start_one_cache_line_after_read_ones() -> None:
    shape = (Const(1000),)
    scopes = {"A": Scope.INPUT, "W": Scope.CONSTANT, "C": Scope.OUTPUT, "tmp": Scope.GLOBAL}
    buffers = tuple(Buffer(name, "float32", shape, scope) for name, scope in scopes.items())
    given = np.arange(1000, dtype=np.float32)
    place = Workplace((Case("x", {"A": given}, ()),), {"W": given})
    memory = place.memory(buffers, place.cases[0])
    starts = [address % PAGE_BYTES for address in memory.addresses]
    assert starts == [0, 0, LINE_BYTES, LINE_BYTES]
    np.testing.assert_array_equal(memory.array("W"), given)
