"""A client of the service, on the standard library: submit, wait, download, verify."""

import json
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from hashlib import sha256
from pathlib import Path
from typing import Any

from ansorpy.errors import AnsorError, RecordError, SpecError

DONE = ("done", "failed")


class ServiceError(AnsorError):
    """The service answered with a problem, or not at all."""


class Client:
    """Talks to one service."""

    def __init__(self, url: str, timeout_s: float = 30.0) -> None:
        if not url.startswith(("http://", "https://")):
            raise SpecError(f"{url}: expected http:// or https://")
        self.url = url.rstrip("/")
        self.timeout_s = timeout_s

    def health(self) -> Mapping[str, Any]:
        """Return what /healthz says."""
        reply: Mapping[str, Any] = json.loads(self._call("/healthz"))
        return reply

    def submit(self, **request: Any) -> str:
        """Queue a job (the fields of `POST /v1/jobs`) and return its id."""
        reply = json.loads(self._call("/v1/jobs", json.dumps(request).encode()))
        return str(reply["id"])

    def job(self, job_id: str) -> Mapping[str, Any]:
        """Return the state of a job."""
        reply: Mapping[str, Any] = json.loads(self._call(f"/v1/jobs/{job_id}"))
        return reply

    def watch(
        self, job_id: str, every_s: float = 1.0, sleep: Callable[[float], object] = time.sleep
    ) -> Iterator[Mapping[str, Any]]:
        """Yield the job until it is done or failed; that state is the last one."""
        while True:
            job = self.job(job_id)
            yield job
            if job["state"] in DONE:
                return
            sleep(every_s)

    def download(self, job_id: str, task: str, folder: Path) -> Path:
        """Write the zip of one task; its digest must be the ETag.

        Raises:
            RecordError: what arrived is not what the service has.
        """
        headers: dict[str, str] = {}
        data = self._call(f"/v1/jobs/{job_id}/kernels/{task}", headers=headers)
        digest = sha256(data).hexdigest()
        if headers.get("etag") != f'"{digest}"':
            raise RecordError(f"kernel {task}: sha256 {digest}, the service says {headers}")
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / f"{task}-{digest[:12]}.zip"
        path.write_bytes(data)
        return path

    def _call(
        self, path: str, body: bytes | None = None, headers: dict[str, str] | None = None
    ) -> bytes:
        request = urllib.request.Request(
            self.url + path, body, {"Content-Type": "application/json"} if body else {}
        )
        try:
            with urllib.request.urlopen(request, timeout=self.timeout_s) as reply:
                if headers is not None:
                    headers.update({k.lower(): v for k, v in reply.headers.items()})
                data: bytes = reply.read()
                return data
        except urllib.error.HTTPError as error:
            with error:
                text = error.read(4096).decode(errors="replace")
            raise ServiceError(f"{path}: {error.code} {text}") from error
        except OSError as error:
            raise ServiceError(f"{self.url}{path}: {error}") from error
