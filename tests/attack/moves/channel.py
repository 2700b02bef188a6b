"""Moves on the link to the fork server and on the black box."""

import ctypes
import json
import os
import pickle
import socket
import threading
import time

from ansorpy.measure.workers import worker_main
from ansorpy.measure.workers.frames import ANSWER
from tests.attack.moves.common import (
    FORGED_S,
    MIB,
    NAP_S,
    Aims,
    Evil,
    answer,
    forged,
    link,
    move,
    number,
    tried,
    write,
)


@move
def crafted_pickle(aims: Aims) -> None:
    answer(pickle.dumps(Evil(f"{aims.outside}/marker")))
    time.sleep(NAP_S)


@move
def crafted_pickle_as_raw_bytes(aims: Aims) -> None:
    answer(b"[1, [1]]", pickle.dumps(Evil(f"{aims.outside}/marker")))
    time.sleep(NAP_S)


@move
def garbage(aims: Aims) -> None:
    answer(os.urandom(200), os.urandom(200))
    time.sleep(NAP_S)


@move
def garbage_without_a_frame(aims: Aims) -> None:
    write(os.urandom(4096))
    time.sleep(NAP_S)


@move
def torn_frame(aims: Aims) -> None:
    write(ANSWER.pack(number(), 1000, 0) + b"[1,")
    time.sleep(NAP_S)


@move
def torn_head_then_end(aims: Aims) -> None:
    write(number()[:7])
    os._exit(0)


@move
def empty_answer(aims: Aims) -> None:
    answer(b"")


@move
def giant_length(aims: Aims) -> None:
    write(ANSWER.pack(number(), 0xFFFF_FFFF, 0xFFFF_FFFF))
    time.sleep(NAP_S)


@move
def giant_answer(aims: Aims) -> None:
    write(ANSWER.pack(number(), 0, 1200 * MIB))
    for _ in range(1200):
        write(bytes(MIB))


@move
def giant_header(aims: Aims) -> None:
    answer(b"[1," + b"[]," * (8 * MIB) + b"0]")


@move
def extra_frame(aims: Aims) -> None:
    answer(forged())
    answer(forged())


@move
def extra_frame_of_another_number(aims: Aims) -> None:
    answer(forged(), call=bytes(16))


@move
def many_extra_frames(aims: Aims) -> None:
    for _ in range(50):
        answer(forged())


@move
def late_thread(aims: Aims) -> None:
    """Answer every request, again and again, with the number of this call."""
    call = number()

    def later() -> None:
        while True:
            time.sleep(0.002)
            answer(forged(), call=call)

    threading.Thread(target=later, daemon=True).start()


@move
def thread_that_steals_requests(aims: Aims) -> None:
    def steal() -> None:
        while True:
            with tried:
                answer(forged(), call=os.read(link(), 1 << 16)[:16])

    threading.Thread(target=steal, daemon=True).start()


@move
def nan_times(aims: Aims) -> None:
    answer(forged().replace(str(FORGED_S).encode(), b"NaN"))


@move
def infinite_times(aims: Aims) -> None:
    answer(forged().replace(str(FORGED_S).encode(), b"1e999"))


@move
def negative_times(aims: Aims) -> None:
    answer(forged((-1.0,)))


@move
def no_times(aims: Aims) -> None:
    answer(forged(()))


@move
def wrong_types(aims: Aims) -> None:
    answer(json.dumps([1, ["fast", None, {}, [], "yes", True, 1]]).encode())


@move
def another_kind_of_answer(aims: Aims) -> None:
    answer(json.dumps([7, {"__class__": "os.system"}]).encode())


@move
def deep_json(aims: Aims) -> None:
    answer(b"[" * 500_000 + b"]" * 500_000)


@move
def huge_number(aims: Aims) -> None:
    answer(b"[1, [[" + b"9" * 900_000 + b"]]]")


@move
def lone_surrogates(aims: Aims) -> None:
    answer(b'[0, ["\\ud800", "\\u0000", "x", "y"]]')


@move
def long_text(aims: Aims) -> None:
    answer(json.dumps([0, ["x" * 900_000, "", "", ""]]).encode())


@move
def closed_link(aims: Aims) -> None:
    os.close(link())
    time.sleep(NAP_S)


@move
def shut_link(aims: Aims) -> None:
    with socket.socket(fileno=os.dup(link())) as one:
        one.shutdown(socket.SHUT_RDWR)
    time.sleep(NAP_S)


@move
def dribble(aims: Aims) -> None:
    for byte in ANSWER.pack(number(), 100_000, 0) + bytes(1000):
        write(bytes([byte]))
        time.sleep(0.1)


@move
def garbage_in_the_black_box(aims: Aims) -> None:
    recorder = worker_main._State.recorder
    assert recorder is not None
    recorder._box[:] = (b"\xff" * 12 + b"[" * len(recorder._box))[: len(recorder._box)]
    os.abort()


@move
def forged_note(aims: Aims) -> None:
    recorder = worker_main._State.recorder
    assert recorder is not None
    text = b'[{"a": 1}, [["C", "x", null, 1e999, -1]]]'
    recorder._box[: 12 + len(text)] = (
        (8).to_bytes(8, "little") + len(text).to_bytes(4, "little") + text
    )
    ctypes.string_at(8)


@move
def hooked_encoder(aims: Aims) -> None:
    """Let this process answer its later calls with bytes that no codec would write."""
    worker_main._answer = lambda request: (b"{}" * 100, b"raw")
