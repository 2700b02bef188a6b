"""Seccomp: the kernel refuses system calls that no candidate needs.

A filter is a program of the classic packet filter over `struct seccomp_data` (number,
architecture, instruction pointer, six arguments). Refused calls fail with EPERM, so that what
asks for them by accident says so instead of dying.
"""

import ctypes
import errno
import os
import platform
import struct
from collections.abc import Mapping, Sequence
from typing import Final

PR_SET_SECCOMP: Final = 22
PR_GET_SECCOMP: Final = 21
MODE_FILTER: Final = 2

ALLOW: Final = 0x7FFF0000
REFUSE: Final = 0x00050000  # | errno
NUMBER_AT: Final = 0
ARCH_AT: Final = 4
ARGUMENT_AT: Final = 16  # of the first one, its lower half (little endian)
LOAD: Final = 0x20  # BPF_LD | BPF_W | BPF_ABS
EQUAL: Final = 0x15  # BPF_JMP | BPF_JEQ | BPF_K
AT_LEAST: Final = 0x35  # BPF_JMP | BPF_JGE | BPF_K
ANY_BIT: Final = 0x45  # BPF_JMP | BPF_JSET | BPF_K
RETURN: Final = 0x06  # BPF_RET | BPF_K
X32: Final = 0x4000_0000  # numbers of the other x86-64 interface start here
CLONE_THREAD: Final = 0x0001_0000

ARCHITECTURES: Final = {"x86_64": 0xC000_003E, "aarch64": 0xC000_00B7}
# Numbers on x86-64 and arm64; -1: there is no such call.
NUMBERS: Final[Mapping[str, tuple[int, int]]] = {
    "socket": (41, 198), "connect": (42, 203), "bind": (49, 200), "listen": (50, 201),
    "accept": (43, 202), "accept4": (288, 242),
    "ptrace": (101, 117), "process_vm_readv": (310, 270), "process_vm_writev": (311, 271),
    "pidfd_open": (434, 434), "pidfd_getfd": (438, 438), "pidfd_send_signal": (424, 424),
    "rt_sigqueueinfo": (129, 138), "rt_tgsigqueueinfo": (297, 240), "tkill": (200, 130),
    "mount": (165, 40), "umount2": (166, 39), "pivot_root": (155, 41), "chroot": (161, 51),
    "unshare": (272, 97), "setns": (308, 268), "open_by_handle_at": (304, 265),
    "bpf": (321, 280), "perf_event_open": (298, 241), "userfaultfd": (323, 282),
    "io_uring_setup": (425, 425), "keyctl": (250, 219), "add_key": (248, 217),
    "request_key": (249, 218), "kexec_load": (246, 104), "init_module": (175, 105),
    "finit_module": (313, 273), "delete_module": (176, 106), "reboot": (169, 142),
    "swapon": (167, 224), "settimeofday": (164, 170), "clock_settime": (227, 112),
    "sethostname": (170, 161), "personality": (135, 92),
    "execve": (59, 221), "execveat": (322, 281), "fork": (57, -1), "vfork": (58, -1),
    "clone": (56, 220), "clone3": (435, 435), "kill": (62, 129), "tgkill": (234, 131),
}  # fmt: skip
PROGRAMS: Final = ("execve", "execveat", "fork", "vfork")  # what only builders need: the linker
OWN_ONLY: Final = ("kill", "tgkill")  # allowed where the first argument is the process itself

Instruction = tuple[int, int, int, int]  # code, jump if true, jump if false, operand


def supported() -> bool:
    """Return whether the kernel takes filters, and we know its numbers."""
    libc = ctypes.CDLL(None, use_errno=True)
    libc.prctl(PR_SET_SECCOMP, MODE_FILTER, None, 0, 0)
    return platform.machine() in ARCHITECTURES and ctypes.get_errno() == errno.EFAULT


def restrict(programs: bool) -> bool:
    """Give up the calls above; for good, for all children. Needs no_new_privs.

    Args:
        programs: whether starting other programs and processes stays possible.

    Returns:
        Whether it holds now.
    """
    if platform.machine() not in ARCHITECTURES:
        return False
    code = program(platform.machine(), os.getpid(), programs)
    data = b"".join(struct.pack("<HBBI", *instruction) for instruction in code)
    held = ctypes.create_string_buffer(data, len(data))
    # struct sock_fprog: a count, padding, a pointer
    head = ctypes.create_string_buffer(struct.pack("HP", len(code), ctypes.addressof(held)))
    libc = ctypes.CDLL(None, use_errno=True)
    return bool(libc.prctl(PR_SET_SECCOMP, MODE_FILTER, head, 0, 0) == 0)


def program(machine: str, pid: int, programs: bool) -> Sequence[Instruction]:
    """Return the filter of a process."""
    column = list(ARCHITECTURES).index(machine)
    number = {name: numbers[column] for name, numbers in NUMBERS.items() if numbers[column] >= 0}
    special = {*OWN_ONLY, "clone", "clone3"}
    allowed = {*PROGRAMS} if programs else set()
    code: list[Instruction] = [
        (LOAD, 0, 0, ARCH_AT),
        (EQUAL, 1, 0, ARCHITECTURES[machine]),
        (RETURN, 0, 0, REFUSE | errno.EPERM),
        (LOAD, 0, 0, NUMBER_AT),
    ]
    if machine == "x86_64":
        code += [(AT_LEAST, 0, 1, X32), (RETURN, 0, 0, REFUSE | errno.EPERM)]
    for name, value in number.items():
        if name not in special and name not in allowed:
            code += [(EQUAL, 0, 1, value), (RETURN, 0, 0, REFUSE | errno.EPERM)]
    for name in OWN_ONLY:
        code += _if_called(number[name], (EQUAL, 1, 0, pid))
    if not programs:
        # Its flags lie in memory, which a filter cannot read: libc then falls back to clone.
        code += [(EQUAL, 0, 1, number["clone3"]), (RETURN, 0, 0, REFUSE | errno.ENOSYS)]
        code += _if_called(number["clone"], (ANY_BIT, 1, 0, CLONE_THREAD))
    return [*code, (RETURN, 0, 0, ALLOW)]


def _if_called(value: int, test: Instruction) -> list[Instruction]:
    """Refuse a call whose first argument fails the test."""
    return [
        (EQUAL, 0, 4, value),
        (LOAD, 0, 0, ARGUMENT_AT),
        test,
        (RETURN, 0, 0, REFUSE | errno.EPERM),
        (RETURN, 0, 0, ALLOW),
    ]
