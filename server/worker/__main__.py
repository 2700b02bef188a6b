"""`python -m server.worker`: what a supervisor starts."""

from server.worker.main import embedded

embedded()
