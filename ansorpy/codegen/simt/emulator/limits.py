"""Limits of emulated blocks, and the faults that end a launch."""

from typing import Final

MOST_THREADS: Final = 1024  # threads of a block at most
WARP: Final = 32
MOST_RECORDS: Final = 1 << 21  # in a log between two barriers, 32 bytes each
MOST_TURNS: Final = 1 << 20  # turns of a loop of one thread in a log
MOST_COPIES: Final = 128  # asynchronous copies under way of a thread, 32 bytes each
PAUSED: Final = -1  # in place of a fault: the block goes on if `simt_resume` is called
FAULTS: Final = {
    1: "threads of a block wait at different barriers; expected one barrier for all of them",
    2: "a shuffle names some threads of a warp; expected all of them",
    3: "some threads wait at a barrier and others at a shuffle; expected all of a warp at one",
    4: "a thread reads or writes outside of a buffer; expected an element of it",
    5: "the place of an access in its buffer is no multiple of its bytes; expected one",
    6: f"a block makes too many accesses between two barriers; expected at most {MOST_RECORDS}",
    7: f"a loop of a thread does not end; expected at most {MOST_TURNS} turns",
    8: "the threads of a warp are not all at one matrix instruction; expected 32 of them at it",
    9: f"a thread starts too many copies before it waits; expected at most {MOST_COPIES}",
    10: "a thread reads or writes the bytes of a copy under way; expected a wait for it before",
}  # 4 to 7 and 10: of kernels with a log only
