"""`python -m server`: the `ansorpy` command."""

from server.cli import app

app()
