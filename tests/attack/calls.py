"""Calls of a child that answers badly, or leaves processes and files.

A fresh child imports this module: it imports little.
"""

import os
import tempfile
import time
from pathlib import Path

from ansorpy.measure.sandbox import usage
from ansorpy.measure.workers import frames
from tests.attack import moves


def same(text: str) -> str:
    return text


def own_pid(_: object) -> int:
    return os.getpid()


def twice(text: str) -> str:
    moves.answer(b'[1, "forged"]')
    return text


def other_number(text: str) -> str:
    moves.answer(b'[1, "forged"]', call=bytes(16))
    time.sleep(60.0)
    return text


def no_json(text: str) -> str:
    moves.answer(b"\x80\x05N.")
    time.sleep(60.0)
    return text


def too_large(text: str) -> str:
    moves.write(frames.ANSWER.pack(moves.number(), 1 << 30, 0))
    time.sleep(60.0)
    return text


def lingers(text: str) -> str:
    moves.late_thread(None)  # type: ignore[arg-type]
    return text


def forks(seconds: float) -> list[int]:
    found = []
    for _ in range(3):
        pid = os.fork()
        if pid == 0:
            for leave in (os.setsid, lambda: os.setpgid(0, 0)):
                try:
                    leave()
                except OSError:
                    continue
            time.sleep(seconds)
            os._exit(0)
        found.append(pid)
    return found


def fills(_: object) -> int:
    for number in range(40):
        Path(f"{os.environ['TMPDIR']}/{number}").write_bytes(bytes(1 << 20))
    time.sleep(60.0)
    return 0


def fills_without_names(_: object) -> int:
    kept = []
    for _number in range(40):
        kept.append(tempfile.TemporaryFile())  # noqa: SIM115 - all stay open
        kept[-1].write(bytes(1 << 20))
        kept[-1].flush()
    time.sleep(60.0)
    return len(kept)


def crowds(_: object) -> int:
    for _number in range(usage.PROCESSES + 8):
        if os.fork() == 0:
            time.sleep(60.0)
    time.sleep(60.0)
    return 0
