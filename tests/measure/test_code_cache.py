"""Machine code is cached by build request, outcomes by machine code and meaning."""

from ansorpy.measure.code_cache import CodeCache
from ansorpy.measure.outcome import Measured
from ansorpy.measure.protocols import BuildRequest, BuildResult
from ansorpy.target import Target
from tests.measure.fake import BACKEND, FakeBuilt, matmul, program

DAG = matmul()


def request(name: str) -> BuildRequest:
    return BuildRequest(BACKEND, program(name, DAG), Target(cores=1))


def result(name: str, build_s: float = 7.0) -> BuildResult:
    return BuildResult(FakeBuilt(name, ()), build_s)


def test_equal_machine_code_of_equal_meaning_has_one_outcome() -> None:
    cache = CodeCache()
    outcome = Measured((1.0, 2.0), build_s=3.0, check_s=4.0, run_s=5.0, slowdown=2.0)
    cache.put_outcome(None, FakeBuilt("a", ()), outcome)
    assert cache.outcome(None, result("a")) == Measured((1.0, 2.0), build_s=7.0, slowdown=2.0)
    assert cache.outcome(matmul(), result("a")) is None
    assert cache.outcome(None, result("b")) is None


def test_the_least_recently_used_entries_are_evicted() -> None:
    cache = CodeCache(limit=2)
    for name in "ab":
        cache.put_code(request(name), result(name))
        cache.put_outcome(None, FakeBuilt(name, ()), Measured((1.0,)))
    assert cache.code(request("a")) == result("a")
    assert cache.outcome(None, result("a")) is not None
    cache.put_code(request("c"), result("c"))
    cache.put_outcome(None, FakeBuilt("c", ()), Measured((1.0,)))
    assert [cache.code(request(name)) is not None for name in "abc"] == [True, False, True]
    assert [cache.outcome(None, result(name)) is not None for name in "abc"] == [True, False, True]


def test_a_cleared_cache_is_empty() -> None:
    cache = CodeCache()
    cache.put_code(request("a"), result("a"))
    cache.put_outcome(None, FakeBuilt("a", ()), Measured((1.0,)))
    cache.clear()
    assert cache.code(request("a")) is None
    assert cache.outcome(None, result("a")) is None
