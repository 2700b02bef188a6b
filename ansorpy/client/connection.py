"""Requests that are retried where that is safe, and problems as exceptions."""

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import IO, Any, BinaryIO, Final

import httpx
import stamina

from ansorpy.errors import AnsorError, SpecError

DEFAULT_URL: Final = "http://127.0.0.1:8720"
RETRIED: Final = (429, 502, 503, 504)  # the service did nothing, and says or hints: later
MAX_WAIT_S: Final = 60.0  # for one retry; a longer Retry-After is told to the caller
RETRY_S: Final = 120.0  # all retries together


class ServiceError(AnsorError):
    """The service answered with a problem, or not at all.

    `status` is the HTTP status of the reply, 0 without a reply; `code` is one word for programs.
    """

    def __init__(
        self, message: str, status: int = 0, code: str = "", retry_after_s: float | None = None
    ) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.retry_after_s = retry_after_s


@dataclass(frozen=True, slots=True)
class Address:
    """The address of a service, and the API key."""

    url: str
    key: str | None = None

    def __post_init__(self) -> None:
        if not self.url.startswith(("http://", "https://")):
            raise SpecError(f"{self.url}: expected http:// or https://")


def address_of(
    url: str | None = None, key: str | None = None, environment: Mapping[str, str] = os.environ
) -> Address:
    """Return the given address and key; by default, address and key of the environment.

    Variables: ANSORPY_URL; ANSORPY_API_KEY, or ANSORPY_API_KEY_FILE, the path of a file with it.
    """
    key_of = key or environment.get("ANSORPY_API_KEY")
    file = environment.get("ANSORPY_API_KEY_FILE")
    if key_of is None and file:
        try:
            key_of = Path(file).read_text(encoding="ascii").strip()
        except (OSError, UnicodeDecodeError) as error:
            raise SpecError(f"ANSORPY_API_KEY_FILE: {error}") from error
    return Address(url or environment.get("ANSORPY_URL") or DEFAULT_URL, key_of)


class Connection:
    """Connections to one service; threads may share it."""

    def __init__(
        self,
        address: Address,
        timeout_s: float = 30.0,
        attempts: int = 6,
        transport: httpx.BaseTransport | None = None,
    ) -> None:
        self.url = address.url.rstrip("/")
        self.attempts = attempts
        headers = {"User-Agent": f"ansorpy/{version('ansorpy')}"}
        if address.key is not None:
            headers["Authorization"] = f"Bearer {address.key}"
        self._http = httpx.Client(
            base_url=self.url, headers=headers, timeout=timeout_s, transport=transport
        )

    def close(self) -> None:
        """Close every connection."""
        self._http.close()

    def get(self, path: str, **query: str | int | bool | None) -> Any:
        """Return the JSON of a GET."""
        return self.send("GET", path, query=query).json()

    def send(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str | int | bool | None] | None = None,
        body: Mapping[str, Any] | str | None = None,
        file: Path | None = None,
        headers: Mapping[str, str] | None = None,
        read_timeout_s: float | None = None,
    ) -> httpx.Response:
        """Return a reply that is no problem; redirects are followed within the service.

        Every request is safe to send twice: POST carries an Idempotency-Key, steers to a state or
        changes nothing.

        Args:
            body: an object, sent as JSON, or a text, whose Content-Type is among the headers.
            file: a file as the body, instead of an object.
            read_timeout_s: time for the reply, if it takes longer than others.

        Raises:
            ServiceError: a problem that retrying does not mend.
            SpecError: the file cannot be read.
        """
        content = body if isinstance(body, str) else None
        if isinstance(body, Mapping):
            content = json.dumps(body, allow_nan=False)
        timeout = self._http.timeout
        if read_timeout_s is not None:
            timeout = httpx.Timeout(timeout.connect, read=read_timeout_s)
        media = "application/json" if file is None else "application/octet-stream"
        for attempt in stamina.retry_context(
            on=_wait_s, attempts=self.attempts, timeout=RETRY_S, wait_initial=0.2, wait_jitter=0.2
        ):
            with attempt, self._told(path), _opened(file) as opened:
                reply = self._http.request(
                    method,
                    path,
                    params={k: v for k, v in (query or {}).items() if v is not None},
                    content=content if opened is None else opened,
                    headers={"Content-Type": media, **(headers or {})},
                    timeout=timeout,
                )
                following = reply.next_request
                if following is not None and _origin(following.url) == _origin(reply.url):
                    reply = self._http.get(following.url)
                if reply.status_code >= 300 and reply.status_code != 304:
                    raise problem_of(path, reply)
                return reply
        raise AssertionError("the last attempt returns or raises")

    def download(self, path: str, file: IO[bytes]) -> None:
        """Write the bytes of a GET to a file, a part at a time.

        Raises:
            ServiceError: a problem, or the connection broke.
        """
        with self._told(path), self._http.stream("GET", path) as reply:
            if reply.status_code != 200:
                reply.read()
                raise problem_of(path, reply)
            for part in reply.iter_bytes():
                file.write(part)

    @contextmanager
    def stream(
        self, path: str, query: Mapping[str, str | int | bool], read_timeout_s: float | None
    ) -> Iterator[Iterator[str]]:
        """Give the lines of a reply as they come.

        Raises:
            ServiceError: a problem, or the connection broke.
        """
        timeout = httpx.Timeout(self._http.timeout.connect, read=read_timeout_s)
        with (
            self._told(path),
            self._http.stream("GET", path, params=dict(query), timeout=timeout) as reply,
        ):
            if reply.status_code != 200:
                reply.read()
                raise problem_of(path, reply)
            yield reply.iter_lines()

    @contextmanager
    def _told(self, path: str) -> Iterator[None]:
        try:
            yield
        except httpx.ConnectError as error:
            raise ServiceError(
                f"cannot reach {self.url} because {error}; expected a service there: start one with"
                " `ansorpy serve`, or set ANSORPY_URL"
            ) from error
        except httpx.HTTPError as error:
            what = str(error) or type(error).__name__
            raise ServiceError(f"{self.url}{path}: {what}") from error


def _origin(url: httpx.URL) -> tuple[str, str, int | None]:
    """Return scheme, host and port (None: default of the scheme); one origin gets the key."""
    return url.scheme, url.host, url.port


@contextmanager
def _opened(file: Path | None) -> Iterator[BinaryIO | None]:
    """Open a file for one attempt to send it."""
    if file is None:
        yield None
        return
    try:
        opened = file.open("rb")
    except OSError as error:
        raise SpecError(
            f"cannot send {file} because of {error.strerror}; expected a readable file"
        ) from error
    with opened:
        yield opened


def problem_of(path: str, reply: httpx.Response) -> ServiceError:
    """Return the exception of a reply with problem details, or with anything else."""
    status = reply.status_code
    wait = reply.headers.get("retry-after", "")
    retry_after_s = float(wait) if wait.isdecimal() else None
    try:
        told = reply.json()
        errors = "; ".join(f"{e['place']}: {e['code']}" for e in told.get("errors", ()))
        parts = (told["title"], told.get("detail", "") or errors)
        code = str(told.get("code", ""))
    except (ValueError, KeyError, TypeError, AttributeError):
        parts, code = (reply.reason_phrase, reply.text[:200]), ""
    text = ": ".join(part for part in parts if part)
    return ServiceError(f"{path}: {status} {text}", status, code, retry_after_s)


def _wait_s(error: Exception) -> bool | float:
    """Return the seconds that a retry waits; True for the default wait, False for no retry."""
    if not isinstance(error, ServiceError):
        return False
    if error.status not in (0, *RETRIED):
        return False
    if error.retry_after_s is None:
        return True
    return error.retry_after_s if error.retry_after_s <= MAX_WAIT_S else False
