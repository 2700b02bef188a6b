"""Moves on other processes: forks, signals, limits, memory, sockets."""

import array
import ctypes
import fcntl
import os
import resource
import signal
import socket
import time
from pathlib import Path

from tests.attack.moves.common import (
    LIBC,
    NAP_S,
    Aims,
    LeakError,
    answer,
    forged,
    move,
    number,
    tried,
)


@move
def own_environment(aims: Aims) -> None:
    known = {*os.environ.values(), Path("/proc/self/environ").read_text()}
    if any("TOPSECRET" in one for one in known):
        raise LeakError("TOPSECRET in the environment")


@move
def environment_of_others(aims: Aims) -> None:
    for pid in (aims.driver, aims.bystander, os.getppid()):
        for name in ("environ", "mem", "maps", "stack", "syscall"):
            with tried:
                raise LeakError(
                    f"TOPSECRET: {name}" + Path(f"/proc/{pid}/{name}").read_text()[:200]
                )
        for name in ("fd", "map_files"):
            with tried:
                for entry in os.listdir(f"/proc/{pid}/{name}"):  # the names are meaningless
                    raise LeakError(f"TOPSECRET: {os.readlink(f'/proc/{pid}/{name}/{entry}')}")


@move
def forks_that_leave(aims: Aims) -> None:
    with tried:
        for _ in range(20):
            if os.fork() == 0:
                with tried:
                    os.setsid()
                with tried:
                    os.setpgid(0, 0)
                time.sleep(NAP_S)
                os._exit(0)


@move
def forks_and_dies(aims: Aims) -> None:
    forks_that_leave(aims)
    os.kill(os.getpid(), signal.SIGKILL)


@move
def forks_twice(aims: Aims) -> None:
    with tried:
        if os.fork() == 0:
            for _ in range(10):
                if os.fork() == 0:
                    with tried:
                        os.setsid()
                    LIBC.prctl(1, 0, 0, 0, 0)
                    for number_of_signal in range(1, 31):
                        with tried:
                            signal.signal(number_of_signal, signal.SIG_IGN)
                    time.sleep(NAP_S)
            os._exit(0)


@move
def fork_that_keeps_the_link(aims: Aims) -> None:
    """Leave a process that answers later calls."""
    with tried:
        call = number()
        if os.fork() == 0:
            while True:
                answer(forged(), call=call)
                time.sleep(0.01)


@move
def fork_bomb(aims: Aims) -> None:
    with tried:
        for _ in range(8):
            os.fork()
        time.sleep(5.0)


@move
def leaves_its_group(aims: Aims) -> None:
    with tried:
        os.setsid()
    with tried:
        os.setpgid(0, 0)
    with tried:
        os.setpgid(0, os.getpgid(aims.bystander))
    LIBC.prctl(1, 0, 0, 0, 0)  # no signal when the fork server ends


@move
def signals(aims: Aims) -> None:
    for pid in (aims.driver, aims.bystander, os.getppid(), 0, -aims.bystander):
        for one in (signal.SIGTERM, signal.SIGUSR1, signal.SIGKILL):
            with tried:
                if pid != aims.driver or one != signal.SIGKILL:
                    os.kill(pid, one)
    for pid in (aims.bystander,):
        LIBC.syscall(200, pid, 9)  # tkill
        LIBC.syscall(234, pid, pid, 9)  # tgkill
        LIBC.syscall(129, pid, 9, ctypes.create_string_buffer(128))  # rt_sigqueueinfo
        with tried:
            signal.pidfd_send_signal(os.pidfd_open(pid), signal.SIGKILL)


@move
def signals_by_file(aims: Aims) -> None:
    """Have the kernel signal another process when a file becomes ready."""
    read, wrote = os.pipe()
    for command, value in ((8, aims.bystander), (10, int(signal.SIGKILL))):
        with tried:
            fcntl.fcntl(read, command, value)
    with tried:
        fcntl.ioctl(read, 0x8901, array.array("i", [aims.bystander]))
    with tried:
        fcntl.fcntl(read, fcntl.F_SETFL, fcntl.fcntl(read, fcntl.F_GETFL) | os.O_ASYNC)
        os.write(wrote, b"x")


@move
def limits_of_others(aims: Aims) -> None:
    for pid in (aims.bystander, aims.driver):
        for what in (resource.RLIMIT_NOFILE, resource.RLIMIT_CPU, resource.RLIMIT_AS):
            with tried:
                resource.prlimit(pid, what, (1, 1))
        with tried:
            os.setpriority(os.PRIO_PROCESS, pid, 19)
        with tried:
            os.sched_setscheduler(pid, os.SCHED_IDLE, os.sched_param(0))
        with tried:
            os.sched_setaffinity(pid, {max(os.sched_getaffinity(0))})
        LIBC.syscall(251, 1, pid, 3 << 13)  # ioprio_set: idle


@move
def leaves_its_cores(aims: Aims) -> None:
    with tried:
        os.sched_setaffinity(0, range(os.cpu_count() or 1))


@move
def memory_of_others(aims: Aims) -> None:
    buffer = ctypes.create_string_buffer(64)
    for pid in (aims.driver, aims.bystander, os.getppid()):
        LIBC.ptrace(16, pid, 0, 0)  # PTRACE_ATTACH
        LIBC.syscall(310, pid, buffer, 1, buffer, 1, 0)  # process_vm_readv
        with tried, open(f"/proc/{pid}/mem", "r+b", buffering=0) as memory:
            memory.write(b"x")


@move
def sockets(aims: Aims) -> None:
    for attempt in (
        lambda: socket.create_connection(("127.0.0.1", aims.port), timeout=1.0),
        lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b"x", ("127.0.0.1", 9)),
        lambda: socket.socket(socket.AF_UNIX).connect(aims.unix),
        lambda: socket.socket(socket.AF_UNIX).connect("\0" + aims.abstract),
        lambda: socket.socket(socket.AF_NETLINK, socket.SOCK_RAW),
        lambda: socket.socketpair(),
    ):
        with tried:
            attempt()
