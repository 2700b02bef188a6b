"""Attacks on the connections of a service, with real sockets."""

import resource
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import httpx
import pytest
import uvicorn
from prometheus_client.parser import text_string_to_metric_families
from uvicorn.protocols.http.h11_impl import H11Protocol

from ansorpy.server.app import create_app
from ansorpy.server.http.connections import ConnectionLimits, subnet
from ansorpy.server.http.uvicorn_server import (
    RESERVE,
    QueueingServer,
    connection_limits,
    raise_descriptor_limit,
    server_config,
)
from ansorpy.server.settings import ServiceSettings
from tests.server.process import SOON_S, process, until

HALF = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n"
WHOLE = HALF + b"\r\n"
SLOW_BODY = b"POST /v1/jobs HTTP/1.1\r\nHost: localhost\r\nContent-Length: 99\r\n\r\n{"
UNREAD_BODY = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nContent-Length: 99\r\n\r\n{"
WIDE = ConnectionLimits(most=64, most_of_address=64, head_s=600, body_s=600, unread_s=600)


def protocols() -> dict[str, object]:
    found: dict[str, object] = {"h11": H11Protocol}
    try:
        from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
    except ImportError:
        return found
    return {**found, "httptools": HttpToolsProtocol}


@dataclass(frozen=True)
class Running:
    """A service in a thread of this process."""

    port: int
    closed: Callable[[str], int]  # number of connections closed for a reason
    open: Callable[[], int]
    sockets: ExitStack

    def connect(self, sent: bytes = b"", source: str = "127.0.0.1") -> socket.socket:
        """Open a connection from a loopback address and send something."""
        place = ("127.0.0.1", self.port)
        made = socket.create_connection(place, timeout=SOON_S, source_address=(source, 0))
        self.sockets.enter_context(made)
        made.sendall(sent)
        return made

    def answers(self, source: str = "127.0.0.1") -> int:
        """Return the status of a complete request on a new connection."""
        with self.connect(
            WHOLE.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n"), source
        ) as c:
            return int(received(c).split(b" ", 2)[1])


Serve = Callable[..., AbstractContextManager[Running]]


@pytest.fixture(params=sorted(protocols()))
def serve(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Serve:
    monkeypatch.setattr(
        "ansorpy.server.http.uvicorn_server.AutoHTTPProtocol", protocols()[request.param]
    )

    @contextmanager
    def running(limits: ConnectionLimits, **changes: object) -> Iterator[Running]:
        settings = ServiceSettings(
            database_url=f"sqlite:///{tmp_path / 'a.db'}", embedded_worker=False, port=0
        )
        app = create_app(settings)
        metrics = app.state.dependencies.metrics
        config = server_config(app, settings, limits, metrics)
        for name, value in changes.items():
            setattr(config, name, value)
        with thread(QueueingServer(config)) as port, ExitStack() as sockets:
            yield Running(
                port,
                lambda why: int(metrics.connections_closed.labels(why)._value.get()),
                lambda: int(metrics.connections.collect()[0].samples[0].value),
                sockets,
            )

    return running


@contextmanager
def thread(server: uvicorn.Server) -> Iterator[int]:
    """Run a server in a thread."""
    running = threading.Thread(target=server.run)
    running.start()
    try:
        until(lambda: server.started)
        yield server.servers[0].sockets[0].getsockname()[1]
    finally:
        server.should_exit = True
        running.join(SOON_S)
        assert not running.is_alive()


def received(connection: socket.socket) -> bytes:
    """Return everything until the service closes the connection."""
    parts = []
    while part := part_of(connection):
        parts.append(part)
    return b"".join(parts)


def part_of(connection: socket.socket) -> bytes:
    try:
        return connection.recv(65536)
    except ConnectionResetError:
        return b""


@pytest.mark.parametrize(
    ("sent", "answer"),
    [
        (b"", b""), (b"GET", b"HTTP/1.1 408 "), (HALF, b"HTTP/1.1 408 "), (SLOW_BODY, b""),
        (UNREAD_BODY, b"HTTP/1.1 200 "), (WHOLE + b"GET /he", b"HTTP/1.1 200 "),
    ],
    ids=["nothing", "word", "half", "body", "unread body", "second request"],
)  # fmt: skip
def test_an_incomplete_request_is_closed_after_its_deadline(
    serve: Serve, sent: bytes, answer: bytes
) -> None:
    limits = replace(WIDE, head_s=0.3, body_s=0.6)
    with serve(limits, timeout_keep_alive=600) as running:
        connection = running.connect(sent)
        assert received(connection).startswith(answer)
        until(lambda: running.closed("late") == 1)
        until(lambda: running.open() == 0)


def test_a_slow_request_is_closed_after_its_deadline(serve: Serve) -> None:
    with serve(replace(WIDE, head_s=1.0)) as running:
        connection = running.connect(WHOLE)
        connection.recv(65536)  # after a response, the next request has a deadline, too

        def dripped() -> bool:
            try:
                connection.sendall(b"X")
            except OSError:
                return True
            return running.closed("late") == 1

        until(dripped)


def test_received_bytes_of_a_body_earn_time(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ansorpy.server.http.connections.FILE_BYTES_PER_S", 1 / 600)
    # The byte must come before the deadline of the body, on a busy machine as well.
    with serve(replace(WIDE, body_s=3.0)) as running:
        head = SLOW_BODY.replace(b"99", b"2").removesuffix(b"{")
        sends = running.connect(head.replace(b"\r\n\r\n", b"\r\nExpect: 100-continue\r\n\r\n"))
        assert sends.recv(65536).startswith(b"HTTP/1.1 100 ")  # so the header has been read
        sends.sendall(b"{")  # bytes that come in one piece with the header earn no time
        assert received(running.connect(head)) == b""  # it sends nothing more, and began later
        assert running.closed("late") == 1
        sends.sendall(b"}")
        assert sends.recv(65536).startswith(b"HTTP/1.1 422 ")


def test_an_idle_connection_is_closed(serve: Serve) -> None:
    with serve(WIDE, timeout_keep_alive=0.2) as running:
        assert received(running.connect(WHOLE)).startswith(b"HTTP/1.1 200 ")
        until(lambda: running.open() == 0)
        assert running.closed("late") == 0


def test_timely_requests_are_not_interrupted(serve: Serve) -> None:
    with serve(replace(WIDE, head_s=60.0, body_s=60.0)) as running:
        with httpx.Client(base_url=f"http://127.0.0.1:{running.port}") as client:
            for _ in range(5):
                assert client.get("/healthz").status_code == 200
                assert client.post("/v1/jobs", json={}).status_code == 422
            assert running.open() == 1  # one connection for all of them
        assert received(running.connect(WHOLE * 3 + HALF + b"Connection: close\r\n\r\n")).count(
            b"HTTP/1.1 200 "
        ) == 4  # fmt: skip


def test_a_header_without_an_end_is_cut_off(serve: Serve) -> None:
    with serve(replace(WIDE, head_bytes=20_000)) as running:
        connection = running.connect(HALF)

        def refused() -> bool:
            try:
                connection.sendall(b"X-Long: " + b"x" * 1000 + b"\r\n")
            except OSError:
                return True
            return running.closed("head") == 1

        until(refused)
        assert running.answers() == 200


def test_half_open_connections_are_closed_for_complete_requests(serve: Serve) -> None:
    with serve(replace(WIDE, most=16)) as running:
        for number in range(50):
            running.connect(HALF, f"127.0.0.{number % 7 + 1}")
            if number % 10 == 9:
                assert running.answers("127.0.1.1") == 200
        until(lambda: running.open() <= 16)
        assert running.closed("room") >= 34


def test_one_address_cannot_use_up_the_connections(serve: Serve) -> None:
    with serve(replace(WIDE, most=32, most_of_address=8)) as running:
        patient = running.connect(HALF, "127.0.0.2")
        for _ in range(40):
            running.connect(HALF, "127.0.0.3")
        until(lambda: running.closed("room") == 32)
        assert running.open() == 9
        patient.sendall(b"\r\n")
        assert patient.recv(65536).startswith(b"HTTP/1.1 200 ")


def test_busy_connections_are_not_closed_and_more_of_them_are_refused(serve: Serve) -> None:
    with serve(replace(WIDE, most=16)) as running:
        with httpx.Client(base_url=f"http://127.0.0.1:{running.port}") as client:
            text = "def f(float(4) A) -> (B) { B(i) = A(i) }"
            job_id = client.post("/v1/jobs", json={"text": text}).json()["id"]
        stream = f"GET /v1/jobs/{job_id}/events HTTP/1.1\r\nHost: localhost\r\n\r\n".encode()
        streams = [running.connect(stream) for _ in range(14)]
        assert all(b"event: state" in begun(one) for one in streams)
        late = running.connect(WHOLE.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n"))
        told = received(late)
        assert told.startswith(b"HTTP/1.1 503 ")
        assert b"retry-after: 5" in told.lower()
        assert b'"code":"full"' in told
        for one in streams[:4]:
            one.close()
        until(lambda: running.answers() == 200)
        for _ in range(40):
            running.connect(HALF)
        until(lambda: running.open() <= 16)
        assert running.answers() == 200
        for one in streams[4:]:
            one.settimeout(0.1)
            with pytest.raises(TimeoutError):  # still open and without data
                one.recv(1)


def begun(stream: socket.socket) -> bytes:
    found = b""
    while b"\n\n" not in found and (part := stream.recv(65536)):
        found += part
    return found


def test_a_client_that_reads_nothing_is_disconnected(serve: Serve) -> None:
    with serve(replace(WIDE, unread_s=0.5)) as running:
        deaf = socket.socket()
        running.sockets.enter_context(deaf)
        deaf.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        deaf.connect(("127.0.0.1", running.port))
        deaf.settimeout(0.5)

        def given_up() -> bool:
            try:
                deaf.sendall((HALF.replace(b"healthz", b"openapi.json") + b"\r\n") * 200)
            except TimeoutError:
                pass
            except OSError:
                return True
            return running.closed("unread") == 1

        until(given_up)
        until(lambda: running.open() == 0)


def test_limits_stay_below_the_descriptors() -> None:
    assert connection_limits(ServiceSettings(), 1 << 20).most == ServiceSettings().max_connections
    assert connection_limits(ServiceSettings(), 1024).most == 1024 - RESERVE
    assert connection_limits(ServiceSettings(), 256).most == 64
    few = connection_limits(ServiceSettings(max_connections=32), 1024)
    assert (few.most, few.most_of_address) == (32, 32)


def test_the_soft_limit_is_raised_to_the_hard_limit() -> None:
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (512, before[1]))
        assert raise_descriptor_limit() == resource.getrlimit(resource.RLIMIT_NOFILE)[0] > 512
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


@pytest.mark.parametrize(
    ("host", "counted"),
    [
        ("127.0.0.1", "127.0.0.1"), ("::ffff:10.0.0.1", "10.0.0.1"), ("fe80::1%eth0", "fe80::"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::"), ("testclient", "testclient"),
    ],
)  # fmt: skip
def test_an_ipv6_network_counts_as_one_address(host: str, counted: str) -> None:
    assert subnet(host) == counted


@pytest.mark.slow
def test_a_service_with_few_descriptors_survives_half_open_connections(tmp_path: Path) -> None:
    place = f"sqlite:///{tmp_path}/few.db"
    with process(place, 700) as live, ExitStack() as sockets:
        port = int(live.url.rpartition(":")[2])
        for number in range(1500):
            address = (f"127.0.0.{number % 200 + 1}", 0)
            made = socket.create_connection(("127.0.0.1", port), SOON_S, source_address=address)
            sockets.enter_context(made)
            made.sendall(HALF)
        for _ in range(20):
            assert live.get("/healthz").status_code == 200
        text = live.get("/metrics").text
        (family,) = [
            found
            for found in text_string_to_metric_families(text)
            if found.name == "ansorpy_connections_closed"
        ]
        room = [s.value for s in family.samples if s.labels == {"why": "room"}]
        assert room[0] > 1000
        assert b"out of system resource" not in live.logged()


HIDDEN = b"GET /v1/jobs HTTP/1.1\r\nHost: localhost\r\n\r\n"
BOTH = b"Content-Length: %d\r\nTransfer-Encoding: chunked\r\n" % (5 + len(HIDDEN))


TWO_LENGTHS = (
    BOTH, b"".join(reversed(BOTH.splitlines(keepends=True))), BOTH.lower(), BOTH.upper(),
    b"Content-Length: 0\r\nTransfer-Encoding: chunked\r\n",
    b"Content-Length: 5\r\nTransfer-Encoding: identity\r\n",
    b"Content-Length: 5\r\nTransfer-Encoding: gzip, chunked\r\n",
    b"Content-Length: 5\r\nTransfer-Encoding : chunked\r\n",
    b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n",
    b"Content-Length: 5\r\nContent-Length: 6\r\n", b"Content-Length: 5, 6\r\n",
    b"Content-Length: +5\r\n", b"Content-Length: 0x5\r\n", b"Transfer-Encoding: x\r\n",
)  # fmt: skip


def test_a_body_of_two_lengths_is_refused_and_the_connection_closed(serve: Serve) -> None:
    with serve(WIDE) as running:
        for line in (b"POST /v1/jobs", b"GET /healthz", b"POST /login"):
            for head in TWO_LENGTHS:
                sent = line + b" HTTP/1.1\r\nHost: localhost\r\n" + head + b"\r\n0\r\n\r\n"
                with running.connect(sent + HIDDEN) as connection:
                    told = received(connection)
                assert told[:13] in (b"HTTP/1.1 400 ", b"HTTP/1.1 501 "), (line, head)
                assert told.count(b"HTTP/1.1 ") == 1, (line, head)
                assert b"connection: close" in told.lower(), (line, head)
