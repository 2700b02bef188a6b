"""Asynchronous copies under the emulator: arrival at waits, groups, and refusals."""

from typing import Final

import numpy as np
import pytest

from ansorpy.codegen.simt.emulator.limits import MOST_COPIES
from ansorpy.errors import RunError
from tests.codegen.simt.emulator.fragments import (
    BARRIER,
    BUFFER_WORDS,
    COMMIT,
    Array,
    at,
    copy,
    kernel,
    ran,
    wait,
)
from tests.emulation.log import LoggedKernel

EARLY: Final = (
    "cannot emulate phase0 because a thread reads or writes the bytes of a copy under way; expected"
    " a wait for it before"
)
ALL: Final = "  call void @llvm.nvvm.cp.async.wait.all()\n"
NONE: Final = np.zeros(1, np.uint32)
POISON: Final = 0xFFFFFFFF  # shared memory before the first store


def given() -> Array:
    """Return the words of the first buffer."""
    return np.random.default_rng(5).integers(0, 2**31, BUFFER_WORDS, np.uint32)


def start(name: str, size: int, shift: int = 0) -> str:
    """Return lines that copy `size` bytes of each thread, from `shift` words on to the same."""
    words = size // 4
    return (
        f"  %{name}m = mul i32 %t, {words}\n  %{name}i = add i32 %{name}m, {shift}\n"
        + at(1, "%a", f"%{name}i", f"{name}f")
        + at(3, "@s", f"%{name}i", f"{name}t")
        + copy(f"{name}t", f"{name}f", size)
    )


def dump(index: str, name: str, place: str = "%t") -> str:
    """Return lines that write a word of shared memory to the output."""
    return (
        at(3, "@s", index, f"{name}s")
        + f"  %{name}v = load i32, ptr addrspace(3) %{name}s\n"
        + at(1, "%c", place, f"{name}c")
        + f"  store i32 %{name}v, ptr addrspace(1) %{name}c\n"
    )


@pytest.mark.parametrize("backwards", [False, True])
@pytest.mark.parametrize("logged", [False, True])
@pytest.mark.parametrize("size", [4, 8, 16])
def test_a_copy_has_arrived_after_the_wait(size: int, logged: bool, backwards: bool) -> None:
    words = size // 4
    body = start("x", size) + COMMIT + wait(0)
    for k in range(words):
        body += f"  %i{k} = add i32 %xi, {k}\n" + dump(f"%i{k}", f"d{k}", f"%i{k}")
    found = ran(kernel(body, threads=64), given(), NONE, logged, backwards)
    np.testing.assert_array_equal(found[: 64 * words], given()[: 64 * words])
    assert not found[64 * words :].any()


@pytest.mark.parametrize("backwards", [False, True])
@pytest.mark.parametrize("logged", [False, True])
@pytest.mark.parametrize("size", [4, 8, 16])
def test_bytes_that_a_copy_does_not_read_are_zeros(
    size: int, logged: bool, backwards: bool
) -> None:
    """Odd threads read nothing, from beyond the end of the buffer."""
    words = size // 4
    body = (
        "  %odd = and i32 %t, 1\n  %no = icmp eq i32 %odd, 1\n"
        f"  %some = select i1 %no, i32 0, i32 {size}\n"
        f"  %far = select i1 %no, i32 {1 << 20}, i32 0\n"
        f"  %xi = mul i32 %t, {words}\n  %xg = add i32 %xi, %far\n"
        + at(1, "%a", "%xg", "xf") + at(3, "@s", "%xi", "xt") + copy("xt", "xf", size, "%some")
        + COMMIT + wait(0)
    )  # fmt: skip
    for k in range(words):
        body += f"  %i{k} = add i32 %xi, {k}\n" + dump(f"%i{k}", f"d{k}", f"%i{k}")
    found = ran(kernel(body), given(), NONE, logged, backwards)[: 32 * words].reshape(32, words)
    expected = given()[: 32 * words].reshape(32, words)
    expected[1::2] = 0
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("waits", ["", COMMIT, COMMIT + wait(1), wait(0)])
def test_a_copy_has_not_arrived_before_the_wait(waits: str) -> None:
    """The last case waits for groups, and the copy is in none yet."""
    code = kernel(start("x", 4) + waits + dump("%t", "d"))
    assert (ran(code, given(), NONE)[:32] == POISON).all()
    for backwards in (False, True):
        with pytest.raises(RunError) as refusal:
            ran(code, given(), NONE, logged=True, backwards=backwards)
        assert str(refusal.value) == EARLY


@pytest.mark.parametrize("logged", [False, True])
def test_a_wait_for_all_includes_copies_without_a_group(logged: bool) -> None:
    found = ran(kernel(start("x", 4) + ALL + dump("%t", "d")), given(), NONE, logged)
    np.testing.assert_array_equal(found[:32], given()[:32])


@pytest.mark.parametrize("keep", range(4))
def test_the_oldest_groups_arrive_first(keep: int) -> None:
    """A wait with three groups of one, two and no copies leaves the newest under way."""
    body = start("x", 4) + COMMIT + start("y", 4, 32) + start("z", 4, 64) + COMMIT + COMMIT
    body += wait(keep)
    for name in "xyz":
        body += dump(f"%{name}i", f"d{name}", f"%{name}i")
    found = ran(kernel(body), given(), NONE)[:96].reshape(3, 32)
    first, second = keep < 3, keep < 2
    for k, there in enumerate((first, second, second)):
        expected = given()[32 * k : 32 * k + 32] if there else np.full(32, POISON, np.uint32)
        np.testing.assert_array_equal(found[k], expected)


def test_the_bytes_are_read_when_they_arrive() -> None:
    """A source that changes before the wait is a mistake, and the emulator shows it."""
    body = start("x", 4) + COMMIT + "  store i32 7, ptr addrspace(1) %xf\n" + wait(0)
    assert (ran(kernel(body + dump("%t", "d")), given(), NONE)[:32] == 7).all()


def test_a_thread_that_reads_the_copy_of_another_needs_a_barrier() -> None:
    other = "  %o = xor i32 %t, 33\n" + dump("%o", "d")
    whole = start("x", 4) + COMMIT + wait(0) + BARRIER + other
    arrays = [given(), NONE.repeat(BUFFER_WORDS), NONE.repeat(BUFFER_WORDS)]
    addresses = [array.ctypes.data for array in arrays]
    for backwards in (False, True):
        log = LoggedKernel(kernel(whole, threads=64)).log(addresses, backwards, remove=True)
        assert log.races == ()
        assert [wait.needed for wait in log.launches[0].waits] == [True]
        np.testing.assert_array_equal(arrays[2][:64], given()[np.arange(64) ^ 33])
        racy = LoggedKernel(kernel(whole.replace(BARRIER, ""), threads=64))
        (race, *_) = racy.log(addresses, backwards).races
        assert {race.one.access.store, race.other.access.store} == {True, False}


def test_a_barrier_before_the_wait_orders_nothing() -> None:
    """Threads read a word of another: too early, or at least without an order."""
    body = start("x", 4) + COMMIT + BARRIER + wait(0) + "  %o = and i32 %t, 32\n" + dump("%o", "d")
    late = LoggedKernel(kernel(body, threads=64))
    arrays = [given(), NONE.repeat(BUFFER_WORDS), NONE.repeat(BUFFER_WORDS)]
    addresses = [array.ctypes.data for array in arrays]
    assert late.log(addresses).races
    with pytest.raises(RunError) as refusal:
        late.log(addresses, backwards=True)
    assert str(refusal.value).startswith(EARLY)


def test_a_store_to_a_place_that_a_copy_will_fill_is_an_error() -> None:
    body = start("x", 4) + COMMIT + "  store i32 7, ptr addrspace(3) %xt\n" + wait(0)
    with pytest.raises(RunError) as refusal:
        ran(kernel(body), given(), NONE, logged=True)
    assert str(refusal.value) == EARLY


def test_two_copies_to_one_place_are_an_error() -> None:
    with pytest.raises(RunError) as refusal:
        ran(kernel(start("x", 4) + start("y", 4) + ALL), given(), NONE, logged=True)
    assert str(refusal.value) == EARLY


def test_a_store_to_the_place_of_a_load_before_a_copy_is_a_race() -> None:
    """A copy may arrive at once: the threads that still read its place need a barrier before."""
    fill = at(3, "@s", "%t", "own") + "  store i32 %t, ptr addrspace(3) %own\n" + BARRIER
    read = "  %o = xor i32 %t, 1\n" + dump("%o", "d")
    again = start("x", 4) + ALL
    arrays = [given(), NONE.repeat(BUFFER_WORDS), NONE.repeat(BUFFER_WORDS)]
    addresses = [array.ctypes.data for array in arrays]
    assert LoggedKernel(kernel(fill + read + BARRIER + again)).races(addresses) == ()
    assert LoggedKernel(kernel(fill + read + again)).races(addresses)


def test_traffic_of_a_copy_is_counted_once() -> None:
    arrays = [given(), NONE.repeat(BUFFER_WORDS), NONE.repeat(BUFFER_WORDS)]
    code = kernel(start("x", 16) + ALL, threads=64)
    (launch,) = LoggedKernel(code).log([array.ctypes.data for array in arrays]).launches
    rows = [(row.access.space, row.access.store, row.requests, row.cost) for row in launch.traffic]
    assert rows == [("global", False, 2, 32), ("shared", True, 2, 8)]


@pytest.mark.parametrize("logged", [False, True])
def test_too_many_copies_under_way_are_refused(logged: bool) -> None:
    starts = [start(f"x{k}", 4, 31 * k) for k in range(MOST_COPIES + 1)]
    code = kernel("".join(starts[:-1]) + ALL + starts[-1], threads=31)
    ran(code, given(), NONE, logged)
    with pytest.raises(RunError) as refusal:
        ran(kernel("".join(starts), threads=31), given(), NONE, logged)
    assert f"expected at most {MOST_COPIES}" in str(refusal.value)


def test_copies_of_a_block_that_ended_are_forgotten() -> None:
    """A block may end before its copies arrive; the next one begins without them."""
    code = kernel(dump("%t", "d") + start("x", 4))
    for logged in (False, True):
        assert (ran(code, given(), NONE, logged)[:32] == POISON).all()


def test_a_copy_of_a_place_without_alignment_is_an_error() -> None:
    with pytest.raises(RunError) as refusal:
        ran(kernel(start("x", 8, 1)), given(), NONE, logged=True)
    assert "is no multiple of its bytes" in str(refusal.value)
