"""Frames on a socket: a length, then a value of the compiler."""

import socket
from typing import Any

from ansorpy.measure.values import LENGTH, decode, encode


def send(connection: socket.socket, value: object) -> None:
    data = encode(value)
    connection.sendall(len(data).to_bytes(LENGTH, "little") + data)


def receive(connection: socket.socket) -> Any:
    """Return the next value; None after the last."""
    head = _exactly(connection, LENGTH)
    return decode(_exactly(connection, int.from_bytes(head, "little"))) if head else None


def _exactly(connection: socket.socket, count: int) -> bytes:
    data = bytearray()
    while len(data) < count:
        part = connection.recv(min(1 << 20, count - len(data)))
        if not part:
            return b""
        data += part
    return bytes(data)
