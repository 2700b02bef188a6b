"""Start of a fork server: its orders, its environment, its place in the sandbox."""

import json
import os
import subprocess
import sys
from typing import Final

from ansorpy.measure.sandbox.environment import harmless
from ansorpy.measure.sandbox.isolation import isolation_for
from ansorpy.measure.workers import fork_server
from ansorpy.measure.workers.spec import ResourceLimits, WorkerSpec

SERVE: Final = "ansorpy.measure.workers.worker_main:serve"


def launch(spec: WorkerSpec) -> "subprocess.Popen[bytes]":
    """Start a fork server; it preloads while the caller goes on."""
    isolation = isolation_for(spec.sandbox)
    orders = {
        "cores": sorted(spec.cores), "serve": SERVE,
        "importing": sorted(spec.importing or spec.cores),
        "preload": spec.preload, "warm": spec.warm,
        "sandbox": isolation.orders(
            spec.folder, spec.programs, spec.binds, spec.reads, spec.early, spec.seeds,
            spec.devices,
        ),
        "limits": {name: getattr(spec.limits, name) for name in ResourceLimits.__slots__},
    }  # fmt: skip
    env = {
        **harmless(os.environ), "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
        "TMPDIR": spec.folder, **dict(spec.env),
    }  # fmt: skip
    # -P: the script's own folder must not shadow other modules. A separate session, so that Ctrl-C
    # reaches the parent only, and one kill reaches all processes of the worker.
    command = [sys.executable, "-P", fork_server.__file__, json.dumps(orders)]
    return subprocess.Popen(
        isolation.wrap(
            command, spec.folder, spec.limits.folder_bytes, spec.early, spec.devices
        ),
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        cwd=spec.folder, env=env, start_new_session=True, bufsize=0,
    )  # fmt: skip
