"""Who works on jobs: a supervisor (in the API), a keeper (the worker process), its driver.

    API ── supervisor ──▶ keeper ── claims, heartbeats, cancels ──▶ driver ── tunes ──▶ slots

Each watches the one below and ends with the one above. The keeper holds the lease and never does
anything slow; the driver runs the engine, one job after another, and may be killed at any moment.
"""

from ansorpy.server.worker.supervisor import Supervisor

__all__ = ["Supervisor"]
