"""Workers: a supervisor in the API, the worker loop in a process, and its tuner process.

    API ── supervisor ──▶ worker loop ── lease, heartbeat, cancel ──▶ tuner process ──▶ runners

Each process watches the next one and ends with the previous one. The worker loop holds the lease
and never blocks for long; the tuner process runs the engine, one job after another, and may be
killed at any moment.
"""

from ansorpy.server.worker.supervisor import Supervisor

__all__ = ["Supervisor"]
