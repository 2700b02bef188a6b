"""`python -m tests.kill.uploads --kills 30`: kill -9 during uploads, look for a half served one.

A model is sent while its service is killed at a random moment: while the body arrives, while the
child reads it, between two chunks. After every restart the model is unknown or whole, no folder of
an ended service is left, and sending it again stores it.
"""

import argparse
import hashlib
import http.client
import json
import os
import random
import signal
import sys
import threading
import time
from collections import Counter
from contextlib import ExitStack, suppress
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from onnx import TensorProto, helper, numpy_helper

from tests.kill.processes import processes
from tests.kill.run import database, end_well, say
from tests.kill.service import Service


def large_model(seed: int, size_bytes: int) -> tuple[bytes, str]:
    """Return a valid model with random weights of some `size_bytes`, and its sha256."""
    rows = size_bytes // 4096
    values = np.random.default_rng(seed).random((1024, rows), np.float32)
    given = helper.make_tensor_value_info("x", TensorProto.FLOAT, (1, 1024))
    wanted = helper.make_tensor_value_info("y", TensorProto.FLOAT, (1, rows))
    product = helper.make_node("MatMul", ["x", "w"], ["y"])
    weights = [numpy_helper.from_array(values, "w")]
    graph = helper.make_graph([product], "g", [given], [wanted], weights)
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 23)])
    content = bytes(made.SerializeToString())
    return content, hashlib.sha256(content).hexdigest()


def request(service: Service, method: str, path: str, body: bytes = b"") -> tuple[int, bytes]:
    """Return status and body of a reply; 0 if the service is gone."""
    connection = http.client.HTTPConnection("127.0.0.1", service.port, timeout=120.0)
    try:
        connection.request(method, path, body)
        reply = connection.getresponse()
        return reply.status, reply.read()
    except (OSError, http.client.HTTPException):
        return 0, b""
    finally:
        connection.close()


def interrupt(service: Service, content: bytes, digest: str, wait_s: float) -> int:
    """Send a model, kill the service after a while; return the status that the sender saw."""
    seen = [0]

    def send() -> None:
        seen[0] = request(service, "PUT", f"/v1/models/{digest}", content)[0]

    sender = threading.Thread(target=send)
    sender.start()
    time.sleep(wait_s)
    for one in processes(service.marker):
        with suppress(ProcessLookupError):
            if one.kind == "server":
                os.kill(one.pid, signal.SIGKILL)
    sender.join()
    while service.running:  # the killed process is still ending
        time.sleep(0.01)
    return seen[0]


def complaints_of(service: Service, folder: Path, content: bytes, digest: str) -> list[str]:
    """Return the mistakes after a restart: a half served model, or leftover folders."""
    found = []
    status, told = request(service, "GET", f"/v1/models/{digest}/file")
    if status not in (200, 404) or (status == 200 and told != content):
        found.append(f"{digest[:12]}: {status}, {len(told)} bytes of {len(content)}")
    listed = digest in request(service, "GET", "/v1/models?limit=40")[1].decode()
    if listed != (status == 200):
        found.append(f"{digest[:12]}: listed {listed}, but the file is a {status}")
    left = list(folder.glob("service-*/*"))
    if left:
        found.append(f"{left} were left")
    status, _ = request(service, "PUT", f"/v1/models/{digest}", content)
    if status != (200 if listed else 201):
        found.append(f"{digest[:12]}: sent again, {status}")
    status, told = request(service, "GET", f"/v1/models/{digest}/file")
    if (status, told) != (200, content):
        found.append(f"{digest[:12]}: {status} after it was sent again")
    if request(service, "DELETE", f"/v1/models/{digest}")[0] != 204:
        found.append(f"{digest[:12]}: it cannot be deleted")
    return found


def run(kills: int, kind: str, seed: int, size_bytes: int, window_s: float) -> int:
    """Run all kills; return the exit code."""
    rng, complaints, moments = random.Random(seed), list[str](), Counter[str]()
    with ExitStack() as stack:
        folder = Path(stack.enter_context(TemporaryDirectory(prefix="ansorpy-uploads-")))
        url, _ = stack.enter_context(database(kind, folder))
        service = Service(folder, url, embedded_worker=False)
        stack.callback(service.end)
        for number in range(kills):
            service.start()
            content, digest = large_model(seed + number, size_bytes)
            seen = interrupt(service, content, digest, rng.uniform(0.0, window_s))
            service.start()
            known = request(service, "GET", f"/v1/models/{digest}")[0] == 200
            moments["answered" if seen else "stored, not answered" if known else "before"] += 1
            if seen and not known:
                complaints.append(f"{digest[:12]}: answered with {seen}, but unknown")
            complaints += complaints_of(service, folder, content, digest)
        service.stop()
    told = {"database": kind, "kills": kills, "moments": moments, "complaints": complaints}
    say(json.dumps({**told, "seed": seed}))
    return 1 if complaints else 0


def main() -> int:
    """Read the command line."""
    end_well()
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--database", choices=("sqlite", "postgres"), default="sqlite")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--megabytes", type=int, default=48, help="size of a model")
    parser.add_argument("--window", type=float, default=4.0, help="seconds that a kill may wait")
    given = parser.parse_args()
    return run(given.kills, given.database, given.seed, given.megabytes << 20, given.window)


if __name__ == "__main__":
    sys.exit(main())
