"""Seccomp: the kernel refuses system calls that no candidate needs.

A filter is a program of the classic packet filter over `struct seccomp_data` (number,
architecture, instruction pointer, six arguments). Refused calls fail with EPERM, so that
a library that makes one by accident reports an error instead of dying.
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
ARGUMENT_AT: Final = (16, 24)  # offsets of the lower halves of arguments 1 and 2 (little endian)
LOAD: Final = 0x20  # BPF_LD | BPF_W | BPF_ABS
EQUAL: Final = 0x15  # BPF_JMP | BPF_JEQ | BPF_K
AT_LEAST: Final = 0x35  # BPF_JMP | BPF_JGE | BPF_K
ANY_BIT: Final = 0x45  # BPF_JMP | BPF_JSET | BPF_K
RETURN: Final = 0x06  # BPF_RET | BPF_K
X32: Final = 0x4000_0000  # numbers of the other x86-64 interface start here
CLONE_THREAD: Final = 0x0001_0000
CLONE_NAMESPACES: Final = 0x7E02_0000  # every CLONE_NEW* flag that clone takes

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
    # Mounts, the whole machine
    "open_tree": (428, 428), "move_mount": (429, 429), "fsopen": (430, 430),
    "fsconfig": (431, 431), "fsmount": (432, 432), "fspick": (433, 433),
    "mount_setattr": (442, 442), "kexec_file_load": (320, 294), "quotactl": (179, 60),
    "acct": (163, 89), "syslog": (103, 116), "fanotify_init": (300, 262),
    # Sessions and groups: a child is killed with its group
    "setsid": (112, 157), "setpgid": (109, 154),
    # Memory and messages that no limit counts, or that outlive the child
    "memfd_create": (319, 279), "memfd_secret": (447, 447), "socketpair": (53, 199),
    "shmget": (29, 194), "shmat": (30, 196), "shmctl": (31, 195), "semget": (64, 190),
    "semop": (65, 193), "semctl": (66, 191), "semtimedop": (220, 192), "msgget": (68, 186),
    "msgsnd": (69, 189), "msgrcv": (70, 188), "msgctl": (71, 187), "mq_open": (240, 180),
    "mq_unlink": (241, 181),
    # Owner, mode, times and attributes of files, which Landlock leaves to every owner
    "chmod": (90, -1), "fchmod": (91, 52), "fchmodat": (268, 53), "fchmodat2": (452, 452),
    "chown": (92, -1), "lchown": (94, -1), "fchown": (93, 55), "fchownat": (260, 54),
    "utime": (132, -1), "utimes": (235, -1), "futimesat": (261, -1), "utimensat": (280, 88),
    "setxattr": (188, 5), "lsetxattr": (189, 6), "fsetxattr": (190, 7), "removexattr": (197, 14),
    "lremovexattr": (198, 15), "fremovexattr": (199, 16), "setxattrat": (463, 463),
    "removexattrat": (466, 466),
    # Other processes of the same user: their priority, memory, limits
    "setpriority": (141, 140), "ioprio_set": (251, 30), "sched_setscheduler": (144, 119),
    "sched_setparam": (142, 118), "sched_setattr": (314, 274), "move_pages": (279, 239),
    "migrate_pages": (256, 238), "process_madvise": (440, 440), "process_mrelease": (448, 448),
    "kcmp": (312, 272),
    "sched_setaffinity": (203, 122), "prlimit64": (302, 261),
    "fcntl": (72, 25), "ioctl": (16, 29),
    "execve": (59, 221), "execveat": (322, 281), "fork": (57, -1), "vfork": (58, -1),
    "clone": (56, 220), "clone3": (435, 435), "kill": (62, 129), "tgkill": (234, 131),
}  # fmt: skip
PROGRAMS: Final = (
    "execve",
    "execveat",
    "fork",
    "vfork",
)  # calls that only builders need: the linker
BINDS: Final = ("sched_setaffinity",)  # calls that only OpenMP runtimes need, for other threads
OWN_ONLY: Final = ("kill", "tgkill", "prlimit64")  # the first argument is the process itself
# Second arguments that make a file send signals to another process, or lock out its writers:
# F_SETOWN, F_SETSIG, F_SETOWN_EX, F_SETLEASE; FIOSETOWN, SIOCSPGRP, TIOCSTI.
COMMANDS: Final = {"fcntl": (8, 10, 15, 1024), "ioctl": (0x8901, 0x8902, 0x5412)}

Instruction = tuple[int, int, int, int]  # code, jump if true, jump if false, operand


def supported() -> bool:
    """Return whether the kernel takes filters, and we know its numbers."""
    libc = ctypes.CDLL(None, use_errno=True)
    libc.prctl(PR_SET_SECCOMP, MODE_FILTER, None, 0, 0)
    return platform.machine() in ARCHITECTURES and ctypes.get_errno() == errno.EFAULT


def restrict(programs: bool, binds: bool = False) -> bool:
    """Give up the calls above; for good, for all children. Needs no_new_privs.

    Args:
        programs: whether starting other programs and processes stays possible.
        binds: whether choosing cores stays possible.

    Returns:
        Whether it holds now.
    """
    if platform.machine() not in ARCHITECTURES:
        return False
    code = program(platform.machine(), os.getpid(), programs, binds)
    data = b"".join(struct.pack("<HBBI", *instruction) for instruction in code)
    held = ctypes.create_string_buffer(data, len(data))
    # struct sock_fprog: a count, padding, a pointer
    head = ctypes.create_string_buffer(struct.pack("HP", len(code), ctypes.addressof(held)))
    libc = ctypes.CDLL(None, use_errno=True)
    return bool(libc.prctl(PR_SET_SECCOMP, MODE_FILTER, head, 0, 0) == 0)


def program(machine: str, pid: int, programs: bool, binds: bool = False) -> Sequence[Instruction]:
    """Return the filter of a process."""
    column = list(ARCHITECTURES).index(machine)
    number = {name: numbers[column] for name, numbers in NUMBERS.items() if numbers[column] >= 0}
    judged = {*OWN_ONLY, *COMMANDS, "clone", "clone3"}
    allowed = {*(PROGRAMS if programs else ()), *(BINDS if binds else ())}
    code: list[Instruction] = [
        (LOAD, 0, 0, ARCH_AT),
        (EQUAL, 1, 0, ARCHITECTURES[machine]),
        (RETURN, 0, 0, REFUSE | errno.EPERM),
        (LOAD, 0, 0, NUMBER_AT),
    ]
    if machine == "x86_64":
        code += [(AT_LEAST, 0, 1, X32), (RETURN, 0, 0, REFUSE | errno.EPERM)]
    for name, value in number.items():
        if name not in judged and name not in allowed:
            code += [(EQUAL, 0, 1, value), (RETURN, 0, 0, REFUSE | errno.EPERM)]
    for name in OWN_ONLY:
        own = [(EQUAL, one, ALLOW) for one in ((pid,) if name != "prlimit64" else (pid, 0))]
        code += _judged(number[name], 0, own, REFUSE | errno.EPERM)
    for name, commands in COMMANDS.items():
        refused = [(EQUAL, one, REFUSE | errno.EPERM) for one in commands]
        code += _judged(number[name], 1, refused, ALLOW)
    # The flags of clone3 lie in memory, which a filter cannot read: libc falls back to clone.
    code += [(EQUAL, 0, 1, number["clone3"]), (RETURN, 0, 0, REFUSE | errno.ENOSYS)]
    flags = [(ANY_BIT, CLONE_NAMESPACES, REFUSE | errno.EPERM), (ANY_BIT, CLONE_THREAD, ALLOW)]
    code += _judged(number["clone"], 0, flags, ALLOW if programs else REFUSE | errno.EPERM)
    return [*code, (RETURN, 0, 0, ALLOW)]


def _judged(
    value: int, argument: int, tests: Sequence[tuple[int, int, int]], otherwise: int
) -> list[Instruction]:
    """Return code for the verdict of the first test that the argument of a call passes."""
    body: list[Instruction] = [(LOAD, 0, 0, ARGUMENT_AT[argument])]
    for operation, operand, verdict in tests:
        body += [(operation, 0, 1, operand), (RETURN, 0, 0, verdict)]
    body.append((RETURN, 0, 0, otherwise))
    return [(EQUAL, 0, len(body), value), *body]
