"""Moves that use too much, and ways to end badly."""

import contextlib
import ctypes
import os
import signal
import threading
import time
from pathlib import Path

from tests.attack.moves.common import (
    IPC_KEY,
    LIBC,
    MIB,
    NAP_S,
    Aims,
    move,
    tried,
)


@move
def memory_files(aims: Aims) -> None:
    for _ in range(100):
        with tried:
            fd = os.memfd_create("attack")
            for _ in range(15):
                os.write(fd, bytes(MIB))


@move
def shared_memory(aims: Aims) -> None:
    LIBC.shmget(IPC_KEY, MIB, 0o1666)
    LIBC.semget(IPC_KEY, 4, 0o1666)
    LIBC.msgget(IPC_KEY, 0o1666)
    for attempt in (
        lambda: Path("/dev/shm/ansorpy-attack").write_text("x"),
        lambda: LIBC.shm_open(b"/ansorpy-attack", 0o102, 0o666),
        lambda: LIBC.mq_open(b"/ansorpy-attack", 0o102, 0o666, None),
    ):
        with tried:
            attempt()


@move
def all_memory(aims: Aims) -> None:
    kept = []
    with contextlib.suppress(MemoryError):
        while True:
            kept.append(bytearray(64 * MIB))


@move
def many_threads(aims: Aims) -> None:
    with contextlib.suppress(RuntimeError):
        for _ in range(2000):
            threading.Thread(target=time.sleep, args=(NAP_S,), daemon=True).start()


@move
def many_descriptors(aims: Aims) -> None:
    with tried:
        while True:
            os.pipe()


@move
def programs(aims: Aims) -> None:
    script = f"echo run > {aims.outside}/marker; kill -9 {aims.bystander}"
    with tried:
        if os.fork() == 0:
            os.execv("/bin/sh", ["sh", "-c", script])
        os.wait()
    with tried:
        os.system(script)


@move
def namespaces(aims: Aims) -> None:
    for flags in (0x1000_0000, 0x0002_0000, 0x4000_0000, 0x2000_0000):
        LIBC.unshare(flags)
        LIBC.syscall(56, flags | signal.SIGCHLD, 0, 0, 0, 0) == 0 and os._exit(0)
    LIBC.mount(b"none", aims.outside.encode(), b"tmpfs", 0, None)
    LIBC.chroot(aims.outside.encode())
    LIBC.umount2(aims.outside.encode(), 2)


@move
def flood(aims: Aims) -> None:
    with tried:
        for _ in range(200):
            os.write(1, b"flood \0\xff" * 20_000)


@move
def stops_itself(aims: Aims) -> None:
    os.kill(os.getpid(), signal.SIGSTOP)


@move
def stops_the_family(aims: Aims) -> None:
    for pid in (os.getppid(), 0):
        with tried:
            os.kill(pid, signal.SIGSTOP)


@move
def exits_well(aims: Aims) -> None:
    os._exit(0)


@move
def raises_what_nobody_catches(aims: Aims) -> None:
    raise SystemExit(0)


@move
def turned_clock(aims: Aims) -> None:
    """Let the own clock run backwards: times below zero."""
    start = time.monotonic()
    time.perf_counter = lambda: -1e3 * (time.monotonic() - start)


@move
def fault_in_native_code(aims: Aims) -> None:
    ctypes.memset(8, 0, 1)


@move
def hangs(aims: Aims) -> None:
    while True:
        pass
