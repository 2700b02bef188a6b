"""`python -m ansorpy`: the `ansorpy` command."""

from ansorpy.server.cli import app

app()
