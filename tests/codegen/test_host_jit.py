"""LLVM's just-in-time compiler of this process."""

from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

from ansorpy.host_jit import compile_once


def test_threads_that_call_at_once_get_one_engine() -> None:
    threads = 6
    together = Barrier(threads)
    text = "define i64 @of_this_test() { ret i64 6 }"

    def engine(_number: int) -> int:
        together.wait(60)
        return id(compile_once(text))

    with ThreadPoolExecutor(threads) as pool:
        assert len(set(pool.map(engine, range(threads)))) == 1
