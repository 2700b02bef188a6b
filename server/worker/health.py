"""`python -m ansorpy.server.worker.health`: exit code 0 if a worker of this host is alive.

A health check for containers, each of which has a host name of its own.
"""

import sys

from ansorpy.server.db.engine import connect, now, reading
from ansorpy.server.identity import ProcessIdentity
from ansorpy.server.jobs import machines
from ansorpy.server.settings import ServiceSettings


def alive(settings: ServiceSettings, host: str) -> bool:
    """Return whether a worker of the host is alive."""
    engine = connect(settings.url)
    try:
        with reading(engine) as tx:
            return any(row.host == host for row in machines.workers(tx, now(tx)))
    finally:
        engine.dispose()


if __name__ == "__main__":
    sys.exit(0 if alive(ServiceSettings(), ProcessIdentity.current().host) else 1)
